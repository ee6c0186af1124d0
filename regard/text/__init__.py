"""Text: corpora, tokenizers, encoding, batches, augmentation and metrics."""
