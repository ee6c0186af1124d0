"""The HTTP interface: OpenAI-compatible routes and routes for translation, masks, labels and attention."""
