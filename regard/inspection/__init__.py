"""What attention did, as data and as something to look at."""
