"""Strings to ids to batches, and the scores of what comes back."""
