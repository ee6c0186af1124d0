"""What each objective asks of a run: its text, its batches, and how its results are measured."""
