"""Models on disk: weights by name, ours and other projects'."""
