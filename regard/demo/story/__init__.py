"""The demo's run, what it promises, and what is told with its model."""
