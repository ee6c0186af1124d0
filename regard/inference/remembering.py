"""Known translations remembered as a model met them; at every step the nearest of them have a say.

Wherever the model stands in a known translation, the vector that its head reads there is a key, and the
token that follows is its value. While it translates, the vector h of a step is the query (Khandelwal et al.
2021), and with weight w, temperature T and the nearest few keys k:

    p(y) = (1 - w) p_model(y) + w sum of a_k over the keys whose value is y,   a = softmax(-|h - k|^2 / (T u))

It is attention once more, over all of a text instead of a sentence. The unit u is the mean squared distance
of the keys from their centre, so that a temperature means the same to every model. R rows, N remembered
tokens, D width, V vocabulary, K neighbours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.checkpoints.reading import MappedWeights, check_manifest, read_json
from regard.checkpoints.writing import new_folder, write_json, write_tensors
from regard.errors import CheckpointError, DataError, SettingError
from regard.inference.nearest import nearest
from regard.inference.passes import forced, last_vectors
from regard.inference.recall import Evidence, Nearest, Recall, choose, shares
from regard.inference.windows import BUDGET, WINDOW, batches
from regard.text.pair import Tokenizers

if TYPE_CHECKING:
    from regard.model.transformer import EncoderDecoder

FORMAT = 1
ABOUT, STORED = "remembered.json", "remembered.safetensors"
MOST = 1 << 24  # tokens; all of them are compared with at every step
JUDGED = 1 << 15  # tokens at most by which a recall is chosen


@dataclass(frozen=True, eq=False)
class Remembered:
    """Where a model stood in known translations, and what followed there. It blends into each step."""

    keys: Tensor  # N D
    ids: Tensor  # N
    model: str  # whose vectors these are
    recall: Recall = field(default_factory=Recall)

    def __len__(self) -> int:
        return len(self.ids)

    def __call__(self, hidden: Tensor, chances: Tensor) -> Tensor:
        """Last vectors R D and the model's log-probabilities R V to those of both, R V."""
        weight = self.recall.weight
        if not weight:
            return chances
        near = self.nearest(hidden)
        found = torch.zeros_like(chances)
        found.scatter_add_(1, near.ids, shares(near.distances, self.recall.temperature))
        return torch.logaddexp(chances + log(1 - weight), found.log() + log(weight))

    def nearest(self, hidden: Tensor, count: int | None = None) -> Nearest:
        """The remembered tokens nearest to each row, the nearest first."""
        wanted = min(count or self.recall.neighbours, len(self))
        distances, places = nearest(hidden.float(), self.keys, self._halves, wanted)
        return Nearest(distances / self._unit, self.ids[places])

    def changed(self, **recall: Any) -> Remembered:
        """The same with other weight, neighbours or temperature."""
        return replace(self, recall=self.recall.changed(**recall))

    def check(self, model: EncoderDecoder) -> None:
        """Refuse to speak for a model whose vectors these are not."""
        vocabulary = model.config.target_vocabulary or model.config.vocabulary
        fits = self.keys.shape[1] == model.config.width and self._lowest >= 0 and self._highest < vocabulary
        if self.model != fingerprint(model) or not fits:
            raise SettingError("what is remembered was met by another model; remember it anew with this one")

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write a folder that appears whole; numbers have two bytes there, to which `remember` rounds."""
        with new_folder(Path(folder), overwrite) as making:
            told = {"format": FORMAT, "model": self.model, "recall": self.recall.model_dump()}
            write_json(making / ABOUT, told)
            keys = self.keys.cpu().numpy().astype(np.float16)
            write_tensors(making / STORED, {"keys": keys, "ids": self.ids.cpu().numpy().astype(np.int32)})
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> Remembered:
        """Read such a folder, every file checked."""
        folder = Path(folder)
        if {ABOUT, STORED} - set(check_manifest(folder)):
            raise CheckpointError(f"{folder} holds nothing remembered; regard remember makes such a folder")
        told, arrays = read_json(folder / ABOUT), MappedWeights(folder / STORED)
        if told.get("format") != FORMAT or not isinstance(told.get("model"), str):
            raise CheckpointError(f"{folder / ABOUT} is of another format; remember it anew")
        if not _are_pairs(arrays):
            raise CheckpointError(f"{folder / STORED} has not a sound key for every id; remember it anew")
        try:
            recall = Recall.read(told.get("recall"))
        except SettingError as error:
            raise CheckpointError(f"{folder / ABOUT}: {error}") from None
        keys, ids = arrays["keys"].astype(np.float32), arrays["ids"].astype(np.int64)
        return cls(torch.from_numpy(keys).to(device), torch.from_numpy(ids).to(device), told["model"], recall)

    @cached_property
    def _lowest(self) -> int:
        return int(self.ids.min())

    @cached_property
    def _highest(self) -> int:
        return int(self.ids.max())

    @cached_property
    def _halves(self) -> Tensor:
        return self.keys.square().sum(1) / 2  # N

    @cached_property
    def _unit(self) -> float:
        return max(float((self.keys - self.keys.mean(0)).square().sum(1).mean()), 1e-12)


def _are_pairs(arrays: MappedWeights) -> bool:
    """Whether there are sound keys, and an id for each."""
    if set(arrays) != {"keys", "ids"}:
        return False
    keys, ids = arrays["keys"], arrays["ids"]
    kinds = keys.dtype.kind + ids.dtype.kind
    match = kinds == "fi" and keys.ndim == 2 and keys.size > 0 and ids.shape == keys.shape[:1]
    return match and bool(np.isfinite(keys).all())


Pairs = Iterable[tuple[str, str]]


def remember(model: EncoderDecoder, tokenizers: Tokenizers, pairs: Pairs) -> Remembered:
    """Read known translations, pairs of source and target, and remember where the model stood in them.

    A pair with a side that is blank, or too long for the model, is passed over.
    """
    keys, ids, count = [], [], 0
    for known in _in_batches(model, tokenizers, pairs):
        keys.append(last_vectors(model, known.inputs, known.sources).half())
        ids.append(np.concatenate(known.targets))
        count += len(ids[-1])
        if count > MOST:
            raise DataError(
                f"there are more than {MOST:,} tokens, all of which a step is compared with; give fewer lines"
            )
    if not count:
        raise DataError(
            "there is nothing to remember: no pair has text on both sides that this model can read"
        )
    kept = torch.cat(keys).float()
    if not kept.isfinite().all():
        raise CheckpointError("the model answers NaN or infinity, so its weights are damaged; load another")
    return Remembered(kept, torch.from_numpy(np.concatenate(ids)).to(kept.device), fingerprint(model))


def tuned(remembered: Remembered, model: EncoderDecoder, tokenizers: Tokenizers, pairs: Pairs) -> Remembered:
    """The same with the recall under which other known translations, given as pairs, are likeliest."""
    remembered.check(model)
    found, count = [], 0
    for known in _in_batches(model, tokenizers, pairs):
        near = remembered.nearest(last_vectors(model, known.inputs, known.sources), Evidence.most)
        chances = np.concatenate(forced(model, known.inputs, known.targets, known.sources, ()))
        found.append(Evidence.of(near, np.concatenate(known.targets), chances))
        count += len(chances)
        if count >= JUDGED:
            break
    if not found:
        raise DataError(
            "there is nothing to judge by: no pair has text on both sides that this model can read"
        )
    return replace(remembered, recall=choose(found))


def fingerprint(model: EncoderDecoder) -> str:
    """What tells a trained model from another: its norms and biases, which every step of training moves."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            digest.update(name.encode())
            digest.update(parameter.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Known:
    """Some pairs as ids: what the encoder reads, what the decoder reads, and what follows each of that."""

    sources: list[list[int]]
    inputs: list[list[int]]
    targets: list[list[int]]


def _in_batches(model: EncoderDecoder, tokenizers: Tokenizers, pairs: Pairs) -> Iterator[_Known]:
    """Pairs of about one length together, a window of them at a time."""
    waiting, start = iter(pairs), tokenizers.target.start
    while window := list(islice(waiting, WINDOW)):
        read = list(_readable(model.config.context, tokenizers, window))
        for places in batches([max(map(len, pair)) for pair in read], BUDGET):
            sources, targets = ([read[place][side] for place in places] for side in (0, 1))
            yield _Known(sources, [[start, *ids[:-1]] for ids in targets], targets)


def _readable(
    context: int, tokenizers: Tokenizers, pairs: Sequence[tuple[str, str]]
) -> Iterator[tuple[list[int], list[int]]]:
    """The ids of pairs, each side with its end, without those that the model could not have read."""
    sources = tokenizers.source.encode_batch([source for source, _ in pairs])
    targets = tokenizers.target.encode_batch([target for _, target in pairs])
    for source, target in zip(sources, targets, strict=True):
        if source and target and max(len(source), len(target)) < context:
            yield [*source, tokenizers.source.end], [*target, tokenizers.target.end]
