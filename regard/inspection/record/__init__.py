"""What a model computed for one sentence, captured by one watched pass."""
