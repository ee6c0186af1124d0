"""Tiny random models of transformers beside ours, the weights carried over by our tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.checkpoints.formats import FORMATS
from regard.checkpoints.naming import Format
from regard.model.config import ModelConfig
from regard.model.transformer import build_model


@dataclass(frozen=True)
class Twins:
    """One model twice: theirs, and ours with the same weights."""

    theirs: Any
    ours: Any
    format: Format
    config: ModelConfig


Make = Callable[..., Twins]


@pytest.fixture(scope="session")
def transformers() -> Any:
    """The reference; it takes seconds to import."""
    found = pytest.importorskip("transformers")
    found.logging.set_verbosity_error()  # it remarks on special tokens beyond a tiny vocabulary
    return found


@pytest.fixture
def twins(transformers: Any) -> Make:
    """Makes a tiny random model of a class of theirs, and its twin."""

    def make(architecture: str, config_class: str, values: dict[str, Any], kernel: str = "sdpa") -> Twins:
        torch.manual_seed(7)
        config = getattr(transformers, config_class)(**values, attn_implementation=kernel)
        theirs = getattr(transformers, architecture)(config).eval()
        randomise(theirs)
        if "Roberta" in architecture:  # positions that are never used, and are not carried over
            theirs.base_model.embeddings.position_embeddings.weight.data[:2] = 0.0
        written = json.loads(config.to_json_string()) | {"architectures": [architecture]}
        form = FORMATS.find(written["model_type"])
        our_config = form.to_config(written)
        ours = build_model(our_config).eval()
        ours.load_state_dict(form.ours(theirs.state_dict(), our_config))
        return Twins(theirs, ours, form, our_config)

    return make


def randomise(model: nn.Module) -> None:
    """No weight stays at zero or one, or a wrong place for it would go unnoticed."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.1 * torch.randn_like(parameter)
    for name, buffer in model.named_buffers():
        if name == "final_logits_bias":
            buffer += torch.randn_like(buffer)


@pytest.fixture
def deviations() -> Callable[[Twins, Tensor, Tensor, Tensor], tuple[float, float]]:
    """Measures how far two answers, and the gradients of all weights behind them, are apart."""

    def measure(twins: Twins, theirs: Tensor, ours: Tensor, counts: Tensor) -> tuple[float, float]:
        weights = torch.randn_like(ours) * counts
        for answer in (theirs, ours):
            (answer * weights).sum().backward()
        apart = ((theirs - ours) * counts).abs().max() / (theirs * counts).abs().max()
        return apart.item(), gradient_deviation(twins)

    return measure


def gradient_deviation(twins: Twins) -> float:
    """The largest difference, each relative to the largest gradient in its tensor."""
    gradients = {name: p.grad for name, p in twins.ours.named_parameters(remove_duplicate=False)}
    if twins.format.title == "Qwen2":  # a bias that is zero here and does not exist there
        gradients = {n: g * 0 if n.endswith("attention.output.bias") else g for n, g in gradients.items()}
    back = twins.format.theirs(gradients, twins.config, repeat_tied=True)
    theirs = {name: p.grad for name, p in twins.theirs.named_parameters() if p.grad is not None}
    assert theirs.keys() <= back.keys()
    return max(
        float((back[name] - gradient).abs().max() / scale(name, theirs)) for name, gradient in theirs.items()
    )


def scale(name: str, gradients: dict[str, Tensor]) -> Tensor:
    """The largest magnitude, of the queries' bias where the keys' is meant.

    A bias of all keys moves all scores of a query alike, which softmax does not feel: its gradient is
    zero but for rounding, and has no size of its own.
    """
    sibling = name.replace("k_proj.bias", "q_proj.bias").replace("key.bias", "query.bias")
    sibling = sibling.replace("k_lin.bias", "q_lin.bias")
    return torch.maximum(gradients[name].abs().max(), gradients[sibling].abs().max())
