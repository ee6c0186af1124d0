"""A training run, from its file to its report."""
