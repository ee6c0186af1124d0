"""Regard beside its peers: taking turns in one run, on the same work."""
