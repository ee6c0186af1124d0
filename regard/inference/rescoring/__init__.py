"""Plug-ins of translation: noisy-channel reranking (a Rescorer) and kNN-MT (a Blend)."""
