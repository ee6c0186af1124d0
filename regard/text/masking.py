"""Hiding tokens for a masked model to guess, as BERT does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.text.collate import MaskedBatch, existing, pad
from regard.text.tokenizer import Tokenizer

CHOSEN_SHARE = 0.15
MASKED_SHARE = 0.8
RANDOM_SHARE = 0.1


def collate_masked(
    texts: Sequence[np.ndarray], tokenizer: Tokenizer, random: np.random.Generator
) -> MaskedBatch:
    """Texts between start and end, a share of their tokens chosen to be guessed.

    Of the chosen, eight in ten become the mask, one in ten another token, and one in ten stay as they are.
    Start, end and padding are never chosen, nor is an end between two documents, and something always is.
    """
    output = pad(texts, tokenizer.pad, first=tokenizer.start, last=tokenizer.end)
    chosen = _choose(_text_places(texts, output.shape) & (output != tokenizer.end), random)
    fate = random.random(output.shape)
    others = random.choice(_ordinary(tokenizer), output.shape)
    changed = np.where(fate < MASKED_SHARE, tokenizer.mask, others)
    stays = fate >= MASKED_SHARE + RANDOM_SHARE
    return MaskedBatch(np.where(chosen & ~stays, changed, output), output, chosen, existing(texts, extra=2))


def _text_places(texts: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    lengths = np.array([len(text) for text in texts])[:, None]
    column = np.arange(shape[1])
    return (column >= 1) & (column <= lengths)


def _choose(allowed: np.ndarray, random: np.random.Generator) -> np.ndarray:
    draws = np.where(allowed, random.random(allowed.shape), 2.0)
    chosen = draws < CHOSEN_SHARE
    if not chosen.any() and allowed.any():
        chosen.flat[draws.argmin()] = True
    return chosen


def _ordinary(tokenizer: Tokenizer) -> np.ndarray:
    """All ids but the special ones."""
    return np.setdiff1d(np.arange(tokenizer.vocabulary), list(tokenizer.specials.values()))
