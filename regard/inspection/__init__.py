"""Inspect a model on a sentence: record its values, analyse them, render them."""
