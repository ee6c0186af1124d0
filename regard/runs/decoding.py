"""Text out of a model that is being trained or judged: translations and continued text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.inference.beam import BeamSettings
from regard.inference.request import Request
from regard.inference.sampling import SamplingSettings
from regard.inference.search import beam_search, sample
from regard.model.stepper import TorchStepper
from regard.runs.trained import Trained

TOGETHER = 64  # sentences translated at a time, of about one length


def translate(
    trained: Trained, sentences: Sequence[str], beams: int = 1, length_penalty: float = 0.6
) -> list[str]:
    """A translation of each sentence, in the order of sentences."""
    source, target = trained.words.tokenizers.source, trained.words.tokenizers.target
    encoded = source.encode_batch(sentences)
    requests = [_request(trained, ids, beams, length_penalty) for ids in encoded]
    order = sorted(range(len(requests)), key=lambda place: len(encoded[place]))
    found: dict[int, str] = {}
    for first in range(0, len(order), TOGETHER):
        places = order[first : first + TOGETHER]
        stepper = TorchStepper(trained.module)  # pyright: ignore[reportArgumentType]
        answers = beam_search(stepper, [requests[place] for place in places])
        found |= {p: target.decode(a.best.content) for p, a in zip(places, answers, strict=True)}
    return [found[place] for place in range(len(sentences))]


def continue_text(trained: Trained, prompt: str, tokens: int, temperature: float, seed: int) -> str:
    """The prompt and what the model adds to it."""
    tokenizer = trained.words.tokenizers.target
    prefix = tokenizer.encode(prompt)[-trained.context // 2 :] or [tokenizer.end]
    room = max(1, min(tokens, trained.context - len(prefix)))
    settings = SamplingSettings(max_length=room, temperature=temperature, seed=seed)
    stepper = TorchStepper(trained.module)  # pyright: ignore[reportArgumentType]
    answer = sample(stepper, [Request(np.array(prefix), settings)])[0]
    return tokenizer.decode([*prefix, *answer.best.ids])


def _request(trained: Trained, ids: list[int], beams: int, length_penalty: float) -> Request:
    tokenizers = trained.words.tokenizers
    kept = ids[: trained.context - 1]
    longest = min(trained.context - 1, 2 * len(kept) + 20)
    settings = BeamSettings(
        beams=beams, length_penalty=length_penalty, max_length=longest, end=(tokenizers.target.end,)
    )
    source = np.array([*kept, tokenizers.source.end])
    return Request(np.array([tokenizers.target.start]), settings, source)
