"""A record as text in the terminal, a figure, a web page or a file."""
