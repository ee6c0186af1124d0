"""Known translations remembered as a model met them; at every step the nearest of them have a say.

Wherever the model stands in a known translation, the vector that its head reads there is a key, and the
token that follows is its value. While it translates, the vector h of a step is the query (Khandelwal et al.
2021), and with weight w, temperature T and the nearest few keys k:

    p(y) = (1 - w) p_model(y) + w sum of a_k c_k(y) / c_k,   a = softmax(log c_k - |h - k|^2 / (T u))

A key that was met several times is held once: c_k tokens followed it, of which c_k(y) were y. It is attention
once more, over all of a text instead of a sentence. The unit u is the mean squared distance of the tokens'
keys from their centre, so that a temperature means the same to every model. R rows, N keys, D width, E pairs
of a key and a token that followed it, V vocabulary, K neighbours.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from regard.checkpoints.atomic_folders import new_folder, write_json, write_tensors
from regard.checkpoints.untrusted_files import FolderFiles, MappedWeights
from regard.errors import CheckpointError, DataError, SettingError
from regard.inference.rescoring.contexts import MOST, Known, Pairs, Walk, count_pairs, in_order, walks
from regard.inference.rescoring.nearest import followed, merge_equal, nearest
from regard.inference.rescoring.tuning import Evidence, Nearest, Recall, choose, shares
from regard.inference.scoring import forced, last_vectors
from regard.inference.windows import BUDGET, batches
from regard.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from regard.model.transformer import EncoderDecoder


FORMAT = 2
ABOUT, STORED = "remembered.json", "remembered.safetensors"
JUDGED = 1 << 15  # tokens at most by which a recall is chosen
ROWS = 1 << 10  # keys that are converted at once


@dataclass(frozen=True, eq=False)
class Datastore:
    """Where a model stood in known translations, and what followed there. It blends into each step."""

    keys: Tensor  # N D, no two alike, in two bytes a number
    followers: Tensor  # N, how many different tokens followed each key
    ids: Tensor  # E, these tokens, key after key
    counts: Tensor  # E, how often each of them followed
    model: str  # whose vectors these are
    recall: Recall = field(default_factory=Recall)

    def __len__(self) -> int:
        """How many tokens are remembered."""
        return int(self.counts.sum())

    def __call__(self, hidden: Tensor, chances: Tensor) -> Tensor:
        """Last vectors R D and the model's log-probabilities R V to those of both, R V."""
        weight = self.recall.weight
        if not weight:
            return chances
        near = self.nearest(hidden)
        slots, entries = self._entries(near.places)
        each = shares(near.distances, near.counts, self.recall.temperature).flatten()[slots]
        found = torch.zeros_like(chances)
        columns = slots // near.places.shape[1] * chances.shape[1] + self.ids[entries]
        found.view(-1).scatter_add_(0, columns, (each * self._share(near, slots, entries)).to(found.dtype))
        return torch.logaddexp(chances + log(1 - weight), found.log() + log(weight))

    def nearest(self, hidden: Tensor, count: int | None = None) -> Nearest:
        """The keys nearest to each row, the nearest first."""
        wanted = min(count or self.recall.neighbours, len(self.keys))
        distances, places = nearest(hidden.float(), self.keys, self._halves, wanted)
        return Nearest((distances / self._unit).float(), places, self._totals[places].float())

    def share_of(self, near: Nearest, ids: np.ndarray) -> Tensor:
        """The share of each neighbour's tokens that are the token of its row, R K."""
        slots, entries = self._entries(near.places)
        wanted = torch.from_numpy(ids.astype(np.int64)).to(self.ids.device)[slots // near.places.shape[1]]
        right = torch.where(self.ids[entries] == wanted, self._share(near, slots, entries), 0.0)
        found = torch.zeros_like(near.counts)
        return found.view(-1).scatter_add_(0, slots, right).view_as(found)

    def changed(self, **recall: Any) -> Datastore:
        """The same with other weight, neighbours or temperature."""
        return replace(self, recall=self.recall.changed(**recall))

    def check(self, model: EncoderDecoder) -> None:
        """Refuse to speak for a model whose vectors these are not."""
        vocabulary = model.config.target_vocabulary or model.config.vocabulary
        fits = self.keys.shape[1] == model.config.width and self._lowest >= 0 and self._highest < vocabulary
        if not fits or self.model != fingerprint(model):
            raise SettingError("what is remembered was met by another model; remember it anew with this one")

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write a folder that appears whole."""
        with new_folder(Path(folder), overwrite) as making:
            told = {"format": FORMAT, "model": self.model, "recall": self.recall.model_dump()}
            write_json(making / ABOUT, told)
            numbers = {"followers": self.followers, "ids": self.ids, "counts": self.counts}
            whole = {name: tensor.cpu().numpy().astype(np.int32) for name, tensor in numbers.items()}
            write_tensors(making / STORED, {"keys": self.keys.cpu().numpy(), **whole})
        return Path(folder)

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> Datastore:
        """Read such a folder, every file checked."""
        files = FolderFiles.sealed(Path(folder))
        if ABOUT not in files or STORED not in files:
            raise CheckpointError(f"{folder} holds nothing remembered; regard remember makes such a folder")
        files.verify([ABOUT])
        model, recall = _told(files)
        stored = files.weights(STORED)
        if not _fit(stored):
            raise _unsound(files)
        values = {name: torch.from_numpy(stored.read(name)).long() for name in stored if name != "keys"}
        if not _are_sound(**values):
            raise _unsound(files)
        files.verify([STORED])
        keys = torch.from_numpy(stored.read("keys"))
        if not _is_finite(keys):
            raise _unsound(files)
        followers, ids, counts = (values[name].to(device) for name in ("followers", "ids", "counts"))
        return cls(keys.to(device), followers, ids, counts, model, recall)

    def _entries(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """For keys R K, every token that followed one: its slot in R K, and its place among all such."""
        lengths = self.followers[places].flatten()
        slots = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        within = torch.arange(len(slots), device=lengths.device) - (lengths.cumsum(0) - lengths)[slots]
        return slots, self._starts[places].flatten()[slots] + within

    def _share(self, near: Nearest, slots: Tensor, entries: Tensor) -> Tensor:
        return self.counts[entries] / near.counts.flatten()[slots]

    @cached_property
    def _starts(self) -> Tensor:
        return self.followers.cumsum(0) - self.followers  # N

    @cached_property
    def _totals(self) -> Tensor:
        """How many tokens followed each key, N."""
        sums = torch.cat([self.counts.new_zeros(1), self.counts.cumsum(0)])
        return sums[self._starts + self.followers] - sums[self._starts]

    @cached_property
    def _lowest(self) -> int:
        return int(self.ids.min())

    @cached_property
    def _highest(self) -> int:
        return int(self.ids.max())

    @cached_property
    def _halves(self) -> Tensor:
        halves = torch.empty(len(self.keys), device=self.keys.device)  # N
        for part, found in zip(self.keys.split(ROWS), halves.split(ROWS), strict=True):
            found.copy_(part.float().square().sum(1) / 2)
        return halves

    @cached_property
    def _unit(self) -> float:
        total, squares = np.zeros(self.keys.shape[1]), 0.0
        for part, counts in zip(self.keys.split(ROWS), self._totals.split(ROWS), strict=True):
            some, weights = part.cpu().double().numpy(), counts.cpu().double().numpy()
            total += weights @ some
            squares += float(weights @ (some**2).sum(1))
        return max(squares / len(self) - float(((total / len(self)) ** 2).sum()), 1e-12)


def _told(files: FolderFiles) -> tuple[str, Recall]:
    """Whose vectors a folder holds, and how much they count."""
    told, path = files.json(ABOUT), files.path(ABOUT)
    if told.get("format") == 1:
        raise CheckpointError(f"{path} is of an earlier version of regard; build it again: regard remember")
    if told.get("format") != FORMAT or not isinstance(told.get("model"), str):
        raise CheckpointError(f"{path} is of another format; build it again: regard remember")
    try:
        return told["model"], Recall.read(told.get("recall"))
    except SettingError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _unsound(files: FolderFiles) -> CheckpointError:
    return CheckpointError(f"{files.path(STORED)} has not a sound key for every id; remember it anew")


def _fit(stored: MappedWeights) -> bool:
    """Whether shapes and types are those of keys and of what followed them; nothing is read for it."""
    if set(stored) != {"keys", "followers", "ids", "counts"}:
        return False
    shapes, types = stored.shapes, stored.dtypes
    if len(shapes["keys"]) != 2 or 0 in shapes["keys"] or shapes["keys"][0] > MOST:
        return False
    if types.pop("keys") != "F16" or set(types.values()) != {"I32"}:
        return False
    rows_fit = shapes["followers"] == shapes["keys"][:1]
    return rows_fit and len(shapes["ids"]) == 1 and shapes["ids"] == shapes["counts"]


def _are_sound(followers: Tensor, ids: Tensor, counts: Tensor) -> bool:
    """Whether every key was followed by something, and all of that is there."""
    return int(followers.min()) > 0 and int(followers.sum()) == len(ids) and int(counts.min()) > 0


def _is_finite(keys: Tensor) -> bool:
    return all(bool(part.isfinite().all()) for part in keys.split(ROWS))


def remember(model: EncoderDecoder, tokenizers: Tokenizers, pairs: Pairs) -> Datastore:
    """Read known translations, pairs of source and target, and remember where the model stood in them.

    A pair with a side that is blank, or too long for the model, is passed over. The order of pairs does not
    matter.
    """
    counts = count_pairs(tokenizers, model.config.context, pairs)
    if not counts:
        raise DataError(
            "there is nothing to remember: no pair has text on both sides that this model can read"
        )
    walked = list(walks(in_order(counts)))
    keys = _keys(model, tokenizers.target.start, walked)
    places = np.concatenate([walk.places for walk in walked])
    ids = np.concatenate([walk.known.target_ids for walk in walked])
    times = np.concatenate([np.full(len(walk.places), counts[walk.known]) for walk in walked])
    keys, numbers = merge_equal(keys)
    found = followed(numbers[places], ids, times)
    followers, ids, times = (
        torch.from_numpy(x).to(keys.device) for x in (found.lengths, found.ids, found.counts)
    )
    return Datastore(keys, followers, ids, times, fingerprint(model))


def _keys(model: EncoderDecoder, start: int, walked: Sequence[Walk]) -> Tensor:
    """The vector of each context, N D; all room is taken once."""
    count = 1 + max(int(walk.places[-1]) for walk in walked)
    device = next(model.parameters()).device
    keys = torch.empty(count, model.config.width, dtype=torch.float16, device=device)
    new = [walk for walk in walked if walk.shared < len(walk.places)]
    for some in _in_batches([walk.known for walk in new], start):
        vectors = last_vectors(model, some.inputs, some.sources).half()
        parts = vectors.split([len(ids) for ids in some.targets])
        for walk, part in zip((new[place] for place in some.places), parts, strict=True):
            first = int(walk.places[walk.shared])
            keys[first : first + len(part) - walk.shared] = part[walk.shared :] + 0.0  # no negative zero
    if not _is_finite(keys):
        raise CheckpointError("the model answers NaN or infinity, so its weights are damaged; load another")
    return keys


def tuned(remembered: Datastore, model: EncoderDecoder, tokenizers: Tokenizers, pairs: Pairs) -> Datastore:
    """The same with the recall under which other known translations, given as pairs, are likeliest."""
    remembered.check(model)
    counts = count_pairs(tokenizers, model.config.context, pairs)
    if not counts:
        raise DataError(
            "there is nothing to judge by: no pair has text on both sides that this model can read"
        )
    found = []
    for some in _in_batches(_judges(counts), tokenizers.target.start):
        near = remembered.nearest(last_vectors(model, some.inputs, some.sources), Evidence.most)
        chances = np.concatenate(forced(model, some.inputs, some.targets, some.sources, ()))
        found.append(Evidence.of(near, remembered.share_of(near, np.concatenate(some.targets)), chances))
    return replace(remembered, recall=choose(found))


def _judges(counts: Counter[Known]) -> list[Known]:
    """Pairs to judge by, with their repetitions: by a hash, so that lines in any order give the same ones."""
    drawn = sorted(
        counts.elements(), key=lambda pair: (crc32(pair.source + pair.target), pair.source, pair.target)
    )
    ends = np.cumsum([len(pair.target) // 4 for pair in drawn])
    return drawn[: int(np.searchsorted(ends, JUDGED)) + 1]


def fingerprint(model: EncoderDecoder) -> str:
    """What tells a trained model from another: sha256 of its configuration and of every weight."""
    told = json.dumps(model.config.model_dump(exclude_defaults=True), sort_keys=True)
    digest = hashlib.sha256(told.encode())
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        digest.update(parameter.detach().float().cpu().contiguous().numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True)
class _Batch:
    """Some pairs as ids: what the encoder reads, what the decoder reads, and what follows each of that."""

    places: list[int]
    sources: list[list[int]]
    inputs: list[np.ndarray]
    targets: list[np.ndarray]


def _in_batches(pairs: Sequence[Known], start: int) -> Iterator[_Batch]:
    """Pairs of about one length together."""
    for places in batches([pair.size for pair in pairs], BUDGET):
        targets = [pairs[place].target_ids for place in places]
        inputs = [np.concatenate([[start], ids[:-1]]) for ids in targets]
        yield _Batch(places, [pairs[place].source_ids for place in places], inputs, targets)
