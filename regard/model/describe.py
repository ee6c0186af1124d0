"""Descriptions of a model: the parts with shapes and parameter counts, and the sizes that views show."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from rich.table import Table as RichTable
from torch import nn

from regard.model.transformer import Stack, Transformer, count_parameters


@dataclass(frozen=True)
class Row:
    """One part: its name, how often it occurs, its shapes, and the total of its parameters."""

    part: str
    times: int
    shape: str
    parameters: int


def rows(model: Transformer) -> list[Row]:
    """The parts in the order of the forward pass; equal blocks share one row."""
    parts: list[Row] = []
    counted: set[int] = set()
    for name, child in model.named_children():
        if isinstance(child, Stack):
            parts += _stack_rows(name, child, counted)
        else:
            parts.append(_row(name, [child], counted))
    return parts


def describe(model: Transformer) -> RichTable:
    """The parts as a table for the terminal: `rich.print(describe(model))`."""
    config = model.config
    table = RichTable(title=f"{config.family}, {count_parameters(model):,} parameters", title_justify="left")
    table.add_column("part")
    table.add_column("times", justify="right")
    table.add_column("shape")
    table.add_column("parameters", justify="right")
    for row in rows(model):
        table.add_row(row.part, f"{row.times}" if row.times > 1 else "", row.shape, f"{row.parameters:,}")
    table.add_section()
    table.add_row(
        "all",
        "",
        f"N x {config.width} in, N x {config.width} out, at every block",
        f"{count_parameters(model):,}",
    )
    return table


def _stack_rows(name: str, stack: Stack, counted: set[int]) -> list[Row]:
    parts: list[Row] = []
    equal_blocks = groupby(
        stack.blocks, key=lambda block: [(n, tuple(p.shape)) for n, p in block.named_parameters()]
    )
    for _, group in equal_blocks:
        blocks = list(group)
        for part, _ in blocks[0].named_children():
            parts.append(_row(f"{name} {part}", [getattr(block, part) for block in blocks], counted))
    if stack.norm is not None:
        parts.append(_row(f"{name} norm", [stack.norm], counted))
    return parts


def _row(part: str, modules: list[nn.Module], counted: set[int]) -> Row:
    fresh = {id(p): p.numel() for module in modules for p in module.parameters() if id(p) not in counted}
    counted.update(fresh)
    shape = ", ".join(_shapes(modules[0]))
    shared = " (shared)" if shape and not fresh else ""
    return Row(part.replace("_", " "), len(modules), shape + shared, sum(fresh.values()))


def _shapes(module: nn.Module) -> list[str]:
    """Each weight with its shape, followed by its bias: "expand 256 x 128 + 256"."""
    shapes: list[str] = []
    for name, parameter in module.named_parameters():
        size = " x ".join(f"{n:,}" for n in parameter.shape)
        if name.endswith("bias") and shapes:
            shapes[-1] += f" + {size}"
        else:
            shapes.append(f"{name.removesuffix('weight').rstrip('.')} {size}".strip())
    return shapes
