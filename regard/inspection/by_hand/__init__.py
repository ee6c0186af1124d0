"""Attention by hand: matrices small enough to check with a pencil, every step of them a number."""
