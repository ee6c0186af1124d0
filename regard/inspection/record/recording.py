"""Recording: the values of one watched pass by name, held all at once or computed a block at a time.

A pass gives the same values each time, so what does not fit in memory is computed again on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from regard.errors import UnknownName
from regard.model.parts import Part, parts_of
from regard.model.transformer import DecoderOnly, EncoderDecoder, EncoderOnly, Transformer
from regard.model.watch import Replacement, Seen, watch, watchable

BUDGET = 1 << 28  # bytes that a recording may hold
TENSOR_OVERHEAD = 512  # bytes of a tensor beside its numbers, with Python's and torch's objects
# Endings of the values of every layer that views ask for at once: attention maps, and the logit lens.
MAPS = (".weights", ".mask", ".around_feed_forward.after")


class Recording:
    """The values of a model over one sequence or one pair. The model must not change meanwhile."""

    def __init__(
        self,
        model: Transformer,
        ids: Iterable[np.ndarray],
        ablate: Iterable[Part] = (),
        patch: Mapping[str, Replacement] | None = None,
        budget: int = BUDGET,
    ):
        device = next(model.parameters()).device
        self.model, self.budget = model, budget
        self.ablated, self.patch = parts_of(ablate), dict(patch or {})
        self._ids = [torch.as_tensor(row, device=device)[None] for row in ids]
        self._names = watchable(model)
        self._parts: dict[str, dict[str, Tensor]] = {}
        # The weights, masks and output vectors of every layer, if they fit and the rest does not.
        self._weights: dict[str, Tensor] = {}
        self._held_bytes: int | None = None  # not counted yet
        self._lock = Lock()
        size = self._size_of_weights()
        self.holds_weights = size <= budget  # of every layer, from the first pass on
        self.holds_everything = self._rough_size(size) <= budget
        self.output = self._begin()[0]  # Q V, or what the head gives

    def _begin(self) -> Tensor:
        """The first pass. It records what fits: everything, the attention weights, or nothing."""
        if self.holds_everything:
            output, values = self.run(None)
            self._keep(values)
            return output
        names = [name for name in self._names if self.holds_weights and name.endswith(MAPS)]
        output, self._weights = self.run(names)
        return output

    def __getitem__(self, name: str) -> Tensor:
        if name in self._weights:
            return self._weights[name]
        part = _part(name)
        with self._lock:  # several threads may share a recording
            if part not in self._parts:
                self._record(part)
            values = self._parts[part]
        if name not in values:
            raise UnknownName(
                f"no value {name!r} was recorded; there are {', '.join(values) or 'none of that part'}"
            )
        return values[name]

    def __contains__(self, name: str) -> bool:
        try:
            return self[name] is not None
        except UnknownName:
            return False

    @property
    def names(self) -> list[str]:
        """The names of all values."""
        return list(self._names)

    @property
    def held_bytes(self) -> int:
        """The memory of everything that is held now; values that share their storage count once."""
        if self._held_bytes is None:
            # Copies, because another thread may record a part meanwhile.
            held = [value for part in [self._weights, *self._parts.values()] for value in [*part.values()]]
            storages = {each.data_ptr(): each.nbytes() for each in map(Tensor.untyped_storage, held)}
            self._held_bytes = sum(storages.values()) + len(held) * TENSOR_OVERHEAD
        return self._held_bytes

    @contextmanager
    def parts_off(self) -> Iterator[None]:
        """Switch the same parts off as in the pass, without recording or replacing values."""
        with (
            torch.no_grad(),
            evaluation_mode(self.model),
            Seen(self.model, only=(), ablate=self.ablated).active(),
        ):
            yield

    def _record(self, part: str) -> None:
        wanted = [name for name in self._names if _part(name) == part]
        wanted = [part] if "." in part and wanted else wanted  # one pattern matches faster than many names
        while self._parts and self.held_bytes > self.budget:
            del self._parts[next(iter(self._parts))]
            self._held_bytes = None
        self._parts[part] = {}
        if wanted:
            self._keep(self.run(wanted)[1])

    def run(self, only: Sequence[str] | None) -> tuple[Tensor, dict[str, Tensor]]:
        """Run the pass and give its output and the named values, or all of them."""
        with (
            torch.no_grad(),
            evaluation_mode(self.model),
            watch(self.model, only, self.ablated, self.patch) as seen,
        ):
            output = self.model(*self._ids)
        return output, dict(seen.items())

    def differentiate(
        self, score: Callable[[Tensor], Tensor], inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Run B passes at once, each with other values at the named points (B ..).

        Gives the score of each output (B) and its gradient by each of the values (B ..).
        """
        rows = len(next(iter(inputs.values())))
        patch = {name: _for_each_row(name, replacement) for name, replacement in self.patch.items()}
        with (
            torch.enable_grad(),
            evaluation_mode(self.model),
            watch(self.model, (), self.ablated, {**patch, **inputs}, list(inputs)) as seen,
        ):
            scores = score(self.model(*(ids.expand(rows, -1) for ids in self._ids)))
            return scores.detach(), seen.gradients(scores.sum())

    def _keep(self, values: dict[str, Tensor]) -> None:
        for name, value in values.items():
            self._parts.setdefault(_part(name), {})[name] = value
        self._held_bytes = None

    def _size_of_weights(self) -> int:
        """Bytes of the attention weights and of the output vectors of every layer."""
        sides = {"source": self._ids[0].shape[1], "target": self._ids[-1].shape[1]}
        config = self.model.config
        layers = {"encoder": config.layers, "decoder": config.decoder_layers or config.layers}
        return sum(
            4
            * layers.get(kind, layers["decoder"])
            * sides[queries]
            * (config.heads * sides[keys] + (config.width if kind in layers else 0))
            for kind, (queries, keys) in kinds_of(self.model).items()
        )

    def _rough_size(self, weights: int) -> int:
        """An estimate of the bytes of all values."""
        config, longest = self.model.config, max(row.shape[1] for row in self._ids)
        layers = config.layers + 2 * (config.decoder_layers or config.layers)
        inside = layers * longest * (12 * config.width + 3 * config.feed_forward_width)
        return 3 * weights + 4 * inside


@contextmanager
def evaluation_mode(model: Transformer) -> Iterator[None]:
    """Turn dropout off in this block."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        yield
    finally:
        if was_training:
            model.train()


def _for_each_row(name: str, patch: Replacement) -> Replacement:
    """A patch that was made for one row of the batch, applied to each row; positions have no batch."""
    if not callable(patch) or name.endswith(".positions"):
        return patch
    return lambda value: torch.cat([torch.as_tensor(patch(row[None])) for row in value])


def kinds_of(model: Transformer) -> dict[str, tuple[str, str]]:
    """The kinds of attention of a model, with the sides of their queries and keys."""
    families: dict[type, dict[str, tuple[str, str]]] = {
        EncoderDecoder: {
            "encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source"),
        },
        DecoderOnly: {"decoder": ("target", "target")},
        EncoderOnly: {"encoder": ("source", "source")},
    }  # fmt: skip
    return next(kinds for family, kinds in families.items() if isinstance(model, family))


def _part(name: str) -> str:
    """The block of a name ("encoder.2"), or its module outside the blocks ("source", "encoder", "head")."""
    first, _, rest = name.partition(".")
    layer = rest.partition(".")[0]
    return f"{first}.{layer}" if layer.isdigit() else first
