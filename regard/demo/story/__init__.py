"""The demo command: training, promises and the story."""
