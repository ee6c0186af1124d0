"""A trained model is used: search on ids, and what translates, writes and reads with it."""
