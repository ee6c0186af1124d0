"""Plug-ins of translation: noisy-channel reranking, and a kNN-MT datastore."""
