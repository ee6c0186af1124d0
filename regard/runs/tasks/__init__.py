"""The tasks of recipes: the data, batches, loss and metrics of each."""
