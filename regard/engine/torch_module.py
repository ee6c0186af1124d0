"""A torch model as the source of another engine's weights: does it compute what its config says?

A module of another class, a replaced method, a hook, a changed setting and an open watch all change what the
model computes. `obstacle` names the first of them. Weights may change as well; `checksum` tells.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from regard.model.transformer import Transformer, build_model
from regard.model.watch import UNWATCHED, watching

PASS_METHODS = (
    "forward", "encode", "decode", "forward_with_memory", "finish", "query", "key_value", "rotation",
)  # fmt: skip
HOOKS = ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")
INERT = ("training", "config", "dropout")  # attributes of a module that do not matter in evaluation mode


def obstacle(model: Transformer, settings: Settings) -> str | None:
    """Why only torch computes what this model computes now, or None; `settings` are those of its config."""
    weight = next(model.parameters())
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return f"the weights are {str(weight.dtype).removeprefix('torch.')} on {weight.device.type}"
    if model.training:
        return "the model is in training mode"
    if any(getattr(torch_module, f"_global_{kind}") for kind in HOOKS):
        return "a hook is registered for all modules"
    for module in model.modules():
        if any(getattr(module, f"_{kind}") for kind in HOOKS):
            return f"a hook is registered on {type(module).__name__}"
        if watching(module) is not UNWATCHED:
            return "a watch is open"
    return _difference(settings_of(model), settings)


Settings = dict[str, tuple[type, dict[str, Any]]]


def settings_of(model: nn.Module) -> Settings:
    """The class of each module by its path, and its attributes other than tensors and modules."""
    return {path: (type(module), dict(_attributes(module))) for path, module in model.named_modules()}


def configured_settings(model: Transformer) -> Settings:
    """The settings of a new model with the same config."""
    return settings_of(build_model(model.config, device="meta"))


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if not name.startswith("_") and name not in INERT:
            yield name, value


def _difference(own: Settings, expected: Settings) -> str | None:
    for path, (kind, attributes) in own.items():
        if path not in expected or expected[path][0] is not kind:
            return f"{path or 'the model'} is a {kind.__name__}, which its config does not have there"
        if not _has_original_methods(kind):
            return f"a method of {kind.__name__} is replaced"
        if not _are_equal(attributes, expected[path][1]):
            return f"{path or 'the model'} has other attributes than its config gives it"
    missing = expected.keys() - own.keys()
    return f"{min(missing)} is missing" if missing else None


def _are_equal(own: dict[str, Any], expected: dict[str, Any]) -> bool:
    return own.keys() == expected.keys() and all(
        type(value) is type(expected[name]) and value == expected[name] for name, value in own.items()
    )


def _has_original_methods(kind: type) -> bool:
    return all(has_original_method(kind, name) for name in PASS_METHODS)


def has_original_method(kind: type, name: str) -> bool:
    """Whether a class defines no such method, or the one written in its body."""
    method = vars(kind).get(name)
    if method is None:
        return True
    namespace = vars(sys.modules[kind.__module__])
    is_local = getattr(method, "__globals__", None) is namespace
    return is_local and method.__code__.co_qualname == f"{kind.__qualname__}.{name}"


def weights_of(model: nn.Module) -> dict[str, np.ndarray]:
    """The weights of a model in float32 as arrays by name, without a copy."""
    return {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}


@torch.inference_mode()
def checksum(model: nn.Module) -> Tensor:
    """Numbers that differ if a weight has changed: vectors as they are, matrices times a random vector."""
    parameters = [parameter.detach() for parameter in model.parameters()]
    return torch.cat(
        [p.flatten() if p.dim() < 2 else p.flatten(1) @ _probe(p[0].numel()) for p in parameters]
    )


@cache
def _probe(width: int) -> Tensor:
    return torch.randn(width, generator=torch.Generator().manual_seed(width), device="cpu")
