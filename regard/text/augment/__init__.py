"""Augmentations of training text: word dropout, BPE dropout, bidirectional pairs."""
