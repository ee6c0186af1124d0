"""The lectures' claims as experiments, one module for each claim."""
