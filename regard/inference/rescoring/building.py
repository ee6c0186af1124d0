"""Build a kNN-MT datastore from known translations, and tune its parameters on others.

A context is a source with the beginning of its target. Each context is held once, with the tokens that
followed it. Two pairs with the same source share the contexts in which their targets agree. Pairs are counted
and sorted before the model reads them, so that the result does not depend on the order of lines. R rows, K
neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import TYPE_CHECKING, ClassVar
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from regard.errors import CheckpointError, DataError
from regard.inference.rescoring.datastore import (
    MAX_KEYS,
    Datastore,
    KnnParameters,
    Neighbours,
    fingerprint,
    is_finite,
    neighbour_weights,
)
from regard.inference.scoring import forced, last_vectors
from regard.inference.windows import BUDGET, WINDOW, batches
from regard.text.tokenizer import Tokenizers

if TYPE_CHECKING:
    from regard.inference.translator import Translator
    from regard.model.transformer import EncoderDecoder

Pairs = Iterable[tuple[str, str]]

ROWS = 1 << 10  # keys compared or moved at once
TUNING_TOKENS = 1 << 15  # at most so many tokens are used for tuning
LAMBDAS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
TEMPERATURES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
KS = (4, 8, 16, 32, 64)
_BIG_ENDIAN = ">u4"  # bytes sort as ids do


def build_datastore(translator: Translator, pairs: Pairs) -> Datastore:
    """Build a datastore from known translations, pairs of source and target.

    A pair is skipped if a side is blank or too long for the model. The order of pairs does not matter.
    """
    model, tokenizers = translator.model, translator.tokenizers
    counts = count_pairs(tokenizers, model.config.context, pairs)
    if not counts:
        raise DataError("no pair has text on both sides that fits this model; give other files")
    paths = list(context_paths(in_order(counts)))
    keys = _keys(model, tokenizers.target.start, paths)
    contexts = np.concatenate([path.contexts for path in paths])
    ids = np.concatenate([path.pair.target_ids for path in paths])
    times = np.concatenate([np.full(len(path.contexts), counts[path.pair]) for path in paths])
    keys, numbers = merge_equal(keys)
    merged = count_followers(numbers[contexts], ids, times)
    followers, ids, times = (
        torch.from_numpy(array).to(keys.device) for array in (merged.lengths, merged.ids, merged.counts)
    )
    return Datastore(keys, followers, ids, times, fingerprint(model))


def tune_datastore(datastore: Datastore, translator: Translator, pairs: Pairs) -> Datastore:
    """Choose the parameters under which other known translations have the highest likelihood."""
    model, tokenizers = translator.model, translator.tokenizers
    datastore.check(model)
    counts = count_pairs(tokenizers, model.config.context, pairs)
    if not counts:
        raise DataError("no validation pair has text on both sides that fits this model; give other files")
    evidence = []
    for batch in _in_batches(_tuning_pairs(counts), tokenizers.target.start):
        near = datastore.nearest(last_vectors(model, batch.inputs, batch.sources), Evidence.max_k)
        log_probabilities = np.concatenate(forced(model, batch.inputs, batch.targets, batch.sources, ()))
        shares = datastore.share_of(near, np.concatenate(batch.targets))
        evidence.append(Evidence.of(near, shares, log_probabilities))
    return replace(datastore, parameters=best_parameters(evidence))


@dataclass(frozen=True)
class EncodedPair:
    """A source and a target as ids, each with its end token, in four bytes per id."""

    source: bytes
    target: bytes

    @property
    def source_ids(self) -> list[int]:
        """The ids that the encoder reads."""
        return np.frombuffer(self.source, _BIG_ENDIAN).tolist()

    @property
    def target_ids(self) -> np.ndarray:
        """The ids after the start token."""
        return np.frombuffer(self.target, _BIG_ENDIAN).astype(np.int32)

    @property
    def size(self) -> int:
        """The number of tokens of the longer side."""
        return max(len(self.source), len(self.target)) // 4


def count_pairs(tokenizers: Tokenizers, context: int, pairs: Pairs) -> Counter[EncodedPair]:
    """Count each pair, without those that have a blank side or are too long for the model."""
    counts: Counter[EncodedPair] = Counter()
    remaining = iter(pairs)
    while window := list(islice(remaining, WINDOW)):
        readable = [(source, target) for source, target in window if source.strip() and target.strip()]
        sources = tokenizers.source.encode_batch([source for source, _ in readable])
        targets = tokenizers.target.encode_batch([target for _, target in readable])
        for source, target in zip(sources, targets, strict=True):
            if source and target and max(len(source), len(target)) < context:
                source_bytes = _packed(source, tokenizers.source.end)
                counts[EncodedPair(source_bytes, _packed(target, tokenizers.target.end))] += 1
    return counts


def _packed(ids: list[int], end: int) -> bytes:
    return np.array([*ids, end], _BIG_ENDIAN).tobytes()


def in_order(counts: Counter[EncodedPair]) -> list[EncodedPair]:
    """The different pairs, sorted by their ids."""
    return sorted(counts, key=lambda pair: (pair.source, pair.target))


@dataclass(frozen=True)
class ContextPath:
    """The numbers of a pair's contexts, one per target id; the previous pair has the first `shared` too."""

    pair: EncodedPair
    contexts: np.ndarray
    shared: int


def context_paths(pairs: Iterable[EncodedPair]) -> Iterator[ContextPath]:
    """Number the contexts of sorted pairs; a pair shares contexts with the pair before it."""
    count, before = 0, ContextPath(EncodedPair(b"", b""), np.zeros(0, np.int32), 0)
    for pair in pairs:
        shared = _shared(before.pair, pair) if pair.source == before.pair.source else 0
        new = np.arange(count, count + len(pair.target) // 4 - shared, dtype=np.int32)
        count += len(new)
        if count > MAX_KEYS:
            raise DataError(f"a datastore holds at most {MAX_KEYS:,} tokens; give fewer lines")
        before = ContextPath(pair, np.concatenate([before.contexts[:shared], new]), shared)
        yield before


def _shared(one: EncodedPair, other: EncodedPair) -> int:
    """In how many contexts two targets agree: one more than their common ids."""
    first, second = one.target_ids, other.target_ids
    length = min(len(first), len(second))
    differ = np.flatnonzero(first[:length] != second[:length])
    return min(int(differ[0]) + 1 if len(differ) else length, length)


def _keys(model: EncoderDecoder, start: int, paths: Sequence[ContextPath]) -> Tensor:
    """The hidden state of each context, N D, in one allocation."""
    count = 1 + max(int(path.contexts[-1]) for path in paths)
    device = next(model.parameters()).device
    keys = torch.empty(count, model.config.width, dtype=torch.float16, device=device)
    new = [path for path in paths if path.shared < len(path.contexts)]
    for batch in _in_batches([path.pair for path in new], start):
        vectors = last_vectors(model, batch.inputs, batch.sources).half()
        parts = vectors.split([len(ids) for ids in batch.targets])
        for path, part in zip((new[index] for index in batch.indices), parts, strict=True):
            first = int(path.contexts[path.shared])
            keys[first : first + len(part) - path.shared] = part[path.shared :] + 0.0  # no negative zero
    if not is_finite(keys):
        raise CheckpointError("the model gives NaN or infinity, so its weights are damaged; load another")
    return keys


def merge_equal(keys: Tensor) -> tuple[Tensor, np.ndarray]:
    """The different keys in the order of their first occurrence, and the new index of each old key.

    The given tensor is overwritten.
    """
    firsts = _first_of_each(keys)
    is_first = firsts == np.arange(len(firsts))
    numbers = (np.cumsum(is_first) - 1)[firsts]
    kept = torch.from_numpy(np.flatnonzero(is_first)).to(keys.device)
    if len(kept) < len(keys):
        for start, indices in zip(range(0, len(kept), ROWS), kept.split(ROWS), strict=True):
            keys[start : start + len(indices)] = keys[indices]  # rows move to the front only
    return keys[: len(kept)], numbers


def _first_of_each(keys: Tensor) -> np.ndarray:
    """For each key, the index of the first equal key, N."""
    hashes = _hashes(keys)
    order = np.argsort(hashes, kind="stable")
    is_new = np.ones(len(order), bool)
    is_new[1:] = hashes[order[1:]] != hashes[order[:-1]]
    leaders = order[np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))]
    same_hash = np.flatnonzero(~is_new)
    for part in np.array_split(same_hash, -(-len(same_hash) // ROWS) or 1):
        left, right = (torch.from_numpy(array[part]).to(keys.device) for array in (order, leaders))
        differ = (keys[left] != keys[right]).any(1).cpu().numpy()
        leaders[part[differ]] = order[part[differ]]  # different keys with the same hash stay apart
    firsts = np.empty_like(order)
    firsts[order] = leaders
    return firsts


def _hashes(keys: Tensor) -> np.ndarray:
    """A 64-bit hash of each row."""
    factors = torch.from_numpy(np.random.default_rng(0).integers(-(1 << 62), 1 << 62, keys.shape[1]) | 1)
    hashes = np.empty(len(keys), np.int64)  # filled in place: small results between large ones keep memory
    for start, part in zip(range(0, len(keys), ROWS), keys.split(ROWS), strict=True):
        hashes[start : start + ROWS] = (part.cpu().view(torch.int16).long() * factors).sum(1).numpy()
    return hashes


@dataclass(frozen=True)
class Followers:
    """The tokens that followed keys: how many different ones per key, the tokens, and how often each did."""

    lengths: np.ndarray
    ids: np.ndarray
    counts: np.ndarray


def count_followers(keys: np.ndarray, ids: np.ndarray, times: np.ndarray) -> Followers:
    """Add up how often each id followed each key."""
    order = np.lexsort((ids, keys))
    keys, ids, times = keys[order], ids[order], times[order]
    is_new = np.ones(len(ids), bool)
    is_new[1:] = (keys[1:] != keys[:-1]) | (ids[1:] != ids[:-1])
    counts = np.add.reduceat(times, np.flatnonzero(is_new))
    return Followers(np.bincount(keys[is_new]), ids[is_new].astype(np.int64), counts.astype(np.int64))


@dataclass(frozen=True)
class Evidence:
    """What tuning needs of some tokens: the model's probability of each, and its neighbours."""

    max_k: ClassVar[int] = max(KS)

    probabilities: Tensor  # R, of the model
    distances: Tensor  # R K
    counts: Tensor  # R K
    shares: Tensor  # R K, the fraction of a neighbour's followers that equal the token

    @classmethod
    def of(cls, near: Neighbours, shares: Tensor, log_probabilities: np.ndarray) -> Evidence:
        """Collect the evidence in double precision."""
        probabilities = torch.from_numpy(log_probabilities.astype(np.float64)).exp()
        tensors = (near.distances, near.counts, shares)
        return cls(probabilities, *(tensor.cpu().double() for tensor in tensors))

    def retrieved(self, k: int, temperature: float) -> Tensor:
        """The probability that the datastore alone gives each token, R."""
        weights = neighbour_weights(self.distances[:, :k], self.counts[:, :k], temperature)
        return (weights * self.shares[:, :k]).sum(1)


def best_parameters(evidence: Sequence[Evidence]) -> KnnParameters:
    """The parameters with the highest likelihood; lambda is 0 if none improves on the model alone."""
    probabilities = torch.cat([batch.probabilities for batch in evidence])
    best, parameters = float(probabilities.log().mean()), KnnParameters(lambda_=0.0)
    for k, temperature in product(KS, TEMPERATURES):
        retrieved = torch.cat([batch.retrieved(k, temperature) for batch in evidence])
        for weight in LAMBDAS:
            likelihood = float(torch.lerp(probabilities, retrieved, weight).log().mean())
            if likelihood > best:
                best, parameters = likelihood, KnnParameters(lambda_=weight, k=k, temperature=temperature)
    return parameters


def _tuning_pairs(counts: Counter[EncodedPair]) -> list[EncodedPair]:
    """Pairs with their repetitions, chosen by hash, so that the order of lines does not matter."""
    drawn = sorted(
        counts.elements(), key=lambda pair: (crc32(pair.source + pair.target), pair.source, pair.target)
    )
    ends = np.cumsum([len(pair.target) // 4 for pair in drawn])
    return drawn[: int(np.searchsorted(ends, TUNING_TOKENS)) + 1]


@dataclass(frozen=True)
class _Batch:
    """Pairs as ids: what the encoder reads, what the decoder reads, and what follows each decoder input."""

    indices: list[int]
    sources: list[list[int]]
    inputs: list[np.ndarray]
    targets: list[np.ndarray]


def _in_batches(pairs: Sequence[EncodedPair], start: int) -> Iterator[_Batch]:
    """Batches of pairs of similar length."""
    for indices in batches([pair.size for pair in pairs], BUDGET):
        targets = [pairs[index].target_ids for index in indices]
        inputs = [np.concatenate([[start], ids[:-1]]) for ids in targets]
        yield _Batch(indices, [pairs[index].source_ids for index in indices], inputs, targets)
