"""A model learns from batches."""
