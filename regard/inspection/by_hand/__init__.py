"""Attention by hand: small matrices solved with every step as numbers."""
