"""Optimizers by name, their parameter groups, freezing, and gradient clipping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import torch
from torch import Tensor, _foreach_mul_, nn  # pyright: ignore[reportPrivateImportUsage]
from torch.optim.optimizer import Optimizer

from regard.errors import SettingError, TrainingError, nearest
from regard.model.attention import SeparateProjections
from regard.model.blocks import GatedFeedForward
from regard.model.embedding import Embedding
from regard.model.positions import Learned
from regard.registry import Registry
from regard.training.adamw import AdamW
from regard.training.muon import Muon
from regard.training.settings import OptimizerSettings, TrainingSettings
from regard.training.shards import local

Role = Literal["matrix", "weight", "table", "plain"]


@dataclass(frozen=True)
class Part:
    """One parameter: its first name, its role, and the row counts of the matrices stacked in it.

    matrix  linear layers and projections outside the head
    weight  other weights of two or more dimensions, such as the head's
    table   embeddings and learned positions
    plain   norms and biases, which have no weight decay
    """

    name: str
    parameter: nn.Parameter
    role: Role
    sections: tuple[int, ...]
    in_head: bool


def parts_of(module: nn.Module) -> list[Part]:
    """Every trainable parameter once, in the order of the module."""
    sections = dict(_matrices(module))
    looked_up = {id(parameter) for parameter in _looked_up(module)}
    parts = []
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        in_head = "head" in name.split(".")
        role: Role = "weight"
        if parameter.ndim < 2:
            role = "plain"
        elif id(parameter) in looked_up:
            role = "table"
        elif id(parameter) in sections and not in_head:
            role = "matrix"
        rows = sections.get(id(parameter), (parameter.shape[0],) if parameter.ndim else ())
        parts.append(Part(name, parameter, role, rows, in_head))
    return parts


def freeze(module: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Freeze the parameters that match patterns such as `encoder.*`; their names."""
    names = {
        name.removeprefix("model."): parameter
        for name, parameter in module.named_parameters(remove_duplicate=False)
    }
    frozen: list[str] = []
    for pattern in patterns:
        matches = [name for name in names if fnmatchcase(name, pattern)]
        if not matches:
            known = {f"{name.partition('.')[0]}.*" for name in names}
            raise SettingError(f"freeze ({pattern!r}) matches no parameter; {nearest(pattern, known)}")
        frozen += matches
    for name in frozen:
        names[name].requires_grad_(False)
    return sorted(set(frozen))


def _matrices(module: nn.Module) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The ids of matrix parameters, with the row counts of the matrices stacked in each."""
    halved = {id(child.expand) for child in module.modules() if isinstance(child, GatedFeedForward)}
    for child in module.modules():
        if isinstance(child, SeparateProjections):
            yield id(child.weight), tuple(child.sections)
        elif isinstance(child, nn.Linear):
            rows = child.out_features
            yield id(child.weight), (rows // 2, rows // 2) if id(child) in halved else (rows,)


def _looked_up(module: nn.Module) -> Iterator[nn.Parameter]:
    """Embeddings and learned positions, whose rows are looked up by index."""
    for child in module.modules():
        if isinstance(child, Embedding | nn.Embedding | Learned):
            for name in ("weight", "segments"):
                if isinstance(parameter := getattr(child, name, None), nn.Parameter):
                    yield parameter


_FUSED_ON = ("cpu", "cuda", "mps", "xpu")


def build_optimizer(module: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Freeze the parameters of `settings.freeze` and build the optimizer for the others.

    `set_learning_rate` multiplies the learning rate by the `factor` of each group.
    """
    freeze(module, settings.freeze)
    parts = parts_of(module)
    if not parts:
        raise TrainingError("all parameters are frozen; give fewer patterns in freeze")
    return OPTIMIZERS.find(settings.optimizer.name)(parts, settings.optimizer)


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    """Set the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["factor"]


def _adamw(parts: list[Part], settings: OptimizerSettings) -> Optimizer:
    """AdamW for all parameters."""
    groups = [*_groups(parts, settings, "matrix", "weight"), *_groups(parts, settings, "table", "plain")]
    return AdamW(groups, lr=0.0, betas=settings.betas, eps=settings.epsilon, fused=_can_fuse(parts))


def _muon(parts: list[Part], settings: OptimizerSettings) -> Optimizer:
    """Muon for matrices, AdamW for the rest."""
    matrices = _groups(parts, settings, "matrix")
    by_id = {id(part.parameter): part for part in parts}
    for group in matrices:
        group["factor"] *= settings.muon_lr_scale
        group["sections"] = [list(by_id[id(parameter)].sections) for parameter in group["params"]]
    groups = [
        *matrices,
        *_groups(parts, settings, "weight"),
        *_groups(parts, settings, "table", "plain"),
    ]
    return Muon(
        groups,
        lr=0.0,
        momentum=settings.momentum,
        betas=settings.betas,
        eps=settings.epsilon,
        fused=_can_fuse(parts),
    )


OPTIMIZERS: Registry[Callable[[list[Part], OptimizerSettings], Optimizer]] = Registry(
    "optimizer", {"adamw": _adamw, "muon": _muon}
)


def _groups(parts: Iterable[Part], settings: OptimizerSettings, *roles: Role) -> list[dict[str, Any]]:
    """The parameters of these roles, grouped by learning rate factor and weight decay."""
    factors = {False: settings.backbone_lr_scale, True: settings.head_lr_scale}
    decays: dict[Role, float] = {
        "matrix": settings.weight_decay,
        "weight": settings.weight_decay,
        "table": settings.embedding_decay,
        "plain": 0.0,
    }
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for part in parts:
        if part.role in roles:
            kind = factors[part.in_head], decays[part.role]
            groups.setdefault(kind, []).append(part.parameter)
    return [
        {"params": parameters, "factor": factor, "weight_decay": decay}
        for (factor, decay), parameters in groups.items()
    ]


def _can_fuse(parts: list[Part]) -> bool:
    return all(
        part.parameter.device.type in _FUSED_ON and part.parameter.is_floating_point() for part in parts
    )


def gradients_of(optimizer: Optimizer) -> list[Tensor]:
    """The gradients of all parameters that have one; of sharded ones the share of this process."""
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    return [local(parameter.grad) for parameter in parameters if parameter.grad is not None]


def scale_and_clip(
    gradients: list[Tensor],
    count: int,
    limit: float | None,
    total: Callable[[Tensor], Tensor] = lambda norm: norm,
) -> Tensor:
    """Divide summed gradients by a count and clip their global norm to `limit`; their norm before clipping.

    Both factors are applied in one pass. `total` gives the norm of whole gradients from that of their shares.
    """
    norm = total(torch.nn.utils.get_total_norm(gradients)) / count
    factor = torch.full_like(norm, 1 / count)
    if limit is not None:
        factor = factor * (limit / norm.clamp_min(1e-30)).clamp_max(1.0)
    _foreach_mul_(gradients, factor)
    return norm
