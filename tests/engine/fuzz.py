"""Random models, batches and orders on the native engine and on torch.

    python -m tests.engine.fuzz --minutes 10 --seed 1

A trial draws a model of any family, a processor level, threads, rows, prefixes and sources. Both engines
admit, step, reorder, drop and admit again. float32 must give the logits and hidden vectors of torch, and int8
must stay close. A row alone must have the bits that it has in the batch, and the best ids those of all.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.engine.native_stepper import NativeModel, NativeStepper, processor_level
from regard.engine.stepper import Banned
from regard.engine.torch_stepper import TorchStepper
from regard.model.config import ModelConfig
from regard.model.transformer import build_model

LEVELS = ("portable", "avx2", "avxvnni", "avx512", "avx512vnni")
SCALINGS = (
    dict(kind="linear", factor=2.0),
    dict(kind="llama3", factor=4.0, original_context=16),
)
TOLERANCE = {"float32": 1e-4, "float16": 1e-4, "int8": 0.06}  # of the largest size of a logit


@dataclass(frozen=True)
class Trial:
    """A drawn model and how it is run."""

    config: ModelConfig
    level: str
    threads: int
    dtype: str
    rows: int
    seed: int


def levels() -> list[str]:
    """The processor levels of this machine."""
    return [level for level in LEVELS if processor_level(level)]


def draw(seed: int) -> Trial:
    """The trial of a seed."""
    choice = random.Random(seed)
    return Trial(
        ModelConfig(**_settings(choice)),
        level=levels()[seed % len(levels())],
        threads=choice.randint(1, 3),
        dtype=choice.choice(["float32", "float16", "int8"]),
        rows=choice.choice([1, 2, 4, 5, 6, 7, 13, 20]),
        seed=seed,
    )


def _settings(choice: random.Random) -> dict[str, Any]:
    """A shape whose sizes are rarely multiples of a register or a panel."""
    groups = choice.choice([1, 2, 3])
    heads = groups * choice.choice([1, 2, 3])
    family = choice.choice(["encoder-decoder", "decoder-only", "encoder-only"])
    positions = choice.choice(["none", "sinusoidal", "sinusoidal-halves", "learned", "rotary"])
    return dict(
        family=family,
        vocabulary=choice.choice([2, 17, 97, 2100]),
        width=choice.randint(1, 35) * (2 if positions == "sinusoidal-halves" else choice.randint(1, 2)),
        layers=choice.randint(1, 3),
        heads=heads,
        key_value_heads=groups,
        key_width=choice.choice([2, 6, 16, 18, 40]),
        feed_forward_width=choice.randint(1, 90),
        feed_forward=choice.choice(["relu", "gelu", "gelu-tanh", "silu", "reglu", "geglu", "swiglu"]),
        norm=choice.choice(["layer", "rms"]),
        residual=choice.choice(["pre", "post"]),
        final_norm=choice.choice([None, False, True]),
        positions=positions,
        rotary_scaling=choice.choice([None, *SCALINGS]) if positions == "rotary" else None,
        embedding_norm=choice.random() < 0.3,
        attention_bias=choice.random() < 0.7,
        feed_forward_bias=choice.random() < 0.7,
        context=96,
        dropout=0.0,
        **_family_settings(choice, family),
    )


def _family_settings(choice: random.Random, family: str) -> dict[str, Any]:
    """What only some families have."""
    if family == "encoder-only":
        return dict(output="vectors")
    settings: dict[str, Any] = dict(tie_head=choice.random() < 0.5, head_bias=choice.random() < 0.5)
    if family == "encoder-decoder":
        target = choice.choice([None, 5, 61])
        settings |= dict(target_vocabulary=target, decoder_layers=choice.choice([None, 1, 3]))
        settings |= dict(share_embeddings=target is None and choice.random() < 0.5)
    return settings


def run(trial: Trial) -> float:
    """The largest difference of the two engines, relative to the largest size of a result."""
    torch.manual_seed(trial.seed)
    model = build_model(trial.config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.05)
            if trial.dtype == "float16":  # the native engine then has the same weights
                weight.copy_(weight.half())
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    native = NativeModel(trial.config, weights, trial.threads, trial.dtype, trial.level)
    choice = np.random.default_rng(trial.seed)
    if trial.config.family == "encoder-only":
        return _encode(trial, model, native, choice)
    return _Decoding(trial, model, native, choice).run()


def _drawn(choice: np.random.Generator, vocabulary: int, rows: int, longest: int) -> list[np.ndarray]:
    return [choice.integers(0, vocabulary, choice.integers(1, longest)) for _ in range(rows)]


def _encode(trial: Trial, model: Any, native: NativeModel, choice: np.random.Generator) -> float:
    sources = [source.tolist() for source in _drawn(choice, trial.config.vocabulary, trial.rows, 90)]
    found = native.encode(sources)
    assert (native.encode(sources[-1:])[0] == found[-1]).all(), f"a row depends on the others: {trial}"
    with torch.no_grad():
        expected = [model.encode(torch.tensor([source]))[0].numpy() for source in sources]
    return _difference(np.concatenate(expected), np.concatenate(found))


class _Decoding:
    """Both engines with the same rows, and the last row alone on the native one."""

    def __init__(self, trial: Trial, model: Any, native: NativeModel, choice: np.random.Generator):
        self.trial, self.choice = trial, choice
        self.hidden: list[np.ndarray] = []  # of torch, by step
        self.torch = TorchStepper(model, blend=self._keep)
        self.native, self.alone = NativeStepper(native), NativeStepper(native)

    def run(self) -> float:
        """Admit, step, reorder and admit again: the largest difference."""
        prefixes, sources = self._admit(self.trial.rows)
        self.alone.admit(prefixes[-1:], sources and sources[-1:])
        differences = [self._step(is_first=True)]
        for turn in range(5):
            rows = self.native.rows
            order = self.choice.integers(0, rows, max(1, rows - turn % 2))
            for stepper in (self.torch, self.native):
                stepper.reorder(order)
            if turn == 2:
                self._admit(2)
            differences.append(self._step())
        return max(differences)

    def _keep(self, hidden: torch.Tensor, log_probabilities: torch.Tensor) -> torch.Tensor:
        self.hidden.append(hidden.numpy())
        return log_probabilities

    def _admit(self, rows: int) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
        config = self.trial.config
        prefixes = _drawn(self.choice, self.native.vocabulary, rows, 40)
        has_sources = config.family == "encoder-decoder"
        sources = _drawn(self.choice, config.vocabulary, rows, 50) if has_sources else None
        for stepper in (self.torch, self.native):
            stepper.admit(prefixes, sources)
        return prefixes, sources

    def _step(self, is_first: bool = False) -> float:
        rows, vocabulary = self.native.rows, self.native.vocabulary
        ids = self.choice.integers(0, vocabulary, rows)
        banned = Banned(*(self.choice.integers(0, most, 2 * rows) for most in (rows, vocabulary)))
        hidden = np.empty((rows, self.trial.config.width), np.float32)
        self.native.advance(ids, hidden)
        expected, found = self.torch.step(ids, banned=banned), self.native.all(banned)
        self._check_best(found.log_probabilities, banned)
        if is_first:
            assert (self.alone.step(ids[-1:]).logits[0] == found.logits[-1]).all(), self.trial
        values = expected.log_probabilities, found.log_probabilities
        possible = np.isfinite(values[0])
        assert (possible == np.isfinite(values[1])).all(), self.trial
        return max(
            _difference(self.hidden[-1], hidden), _difference(*(np.where(possible, x, 0) for x in values))
        )

    def _check_best(self, log_probabilities: np.ndarray, banned: Banned) -> None:
        """The best ids are those of the largest log-probabilities, and no id is twice among them."""
        count = min(self.native.vocabulary, int(self.choice.choice([1, 3, 60])))
        best = self.native.best(count, banned)
        assert best.ids is not None
        expected = -np.sort(-log_probabilities)[:, :count]
        assert (np.take_along_axis(log_probabilities, best.ids, 1) == expected).all(), self.trial
        assert (best.log_probabilities == expected).all(), self.trial
        assert all(len({*row}) == count for row in best.ids.tolist()), self.trial


def _difference(expected: np.ndarray, found: np.ndarray) -> float:
    return float(np.abs(expected - found).max() / max(1.0, np.abs(expected).max()))


def main() -> None:
    """Run trials for some minutes, and end with 1 at the first that differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    end, seed = time.monotonic() + options.minutes * 60, options.seed
    while time.monotonic() < end:
        trial = draw(seed)
        difference = run(trial)
        if not difference <= TOLERANCE[trial.dtype]:
            raise SystemExit(f"seed {seed}: the engines differ by {difference:.2g}: {trial}")
        seed += 1
    print(f"{seed - options.seed} trials agree, from seed {options.seed} on, levels {', '.join(levels())}")


if __name__ == "__main__":
    main()
