"""The stack as a table: what each part is, its shape, and how many parameters it has."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from rich.table import Table as RichTable
from torch import nn

from regard.model.transformer import Stack, Transformer, count_parameters


@dataclass(frozen=True)
class Row:
    """One part: its name, how often it stands there, its shapes, and the parameters of all of them."""

    part: str
    times: int
    shape: str
    parameters: int


def rows(model: Transformer) -> list[Row]:
    """The parts in the order in which a token meets them; equal blocks stand in one row."""
    found: list[Row] = []
    counted: set[int] = set()
    for name, child in model.named_children():
        if isinstance(child, Stack):
            found += _stack_rows(name, child, counted)
        else:
            found.append(_row(name, [child], counted))
    return found


def describe(model: Transformer) -> RichTable:
    """A table to print: `rich.print(describe(model))`."""
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
    found: list[Row] = []
    alike = groupby(
        stack.blocks, key=lambda block: [(n, tuple(p.shape)) for n, p in block.named_parameters()]
    )
    for _, group in alike:
        blocks = list(group)
        for part, _ in blocks[0].named_children():
            found.append(_row(f"{name} {part}", [getattr(block, part) for block in blocks], counted))
    if stack.norm is not None:
        found.append(_row(f"{name} norm", [stack.norm], counted))
    return found


def _row(part: str, modules: list[nn.Module], counted: set[int]) -> Row:
    fresh = {id(p): p.numel() for module in modules for p in module.parameters() if id(p) not in counted}
    counted.update(fresh)
    shape = ", ".join(_shapes(modules[0]))
    shared = " (shared)" if shape and not fresh else ""
    return Row(part.replace("_", " "), len(modules), shape + shared, sum(fresh.values()))


def _shapes(module: nn.Module) -> list[str]:
    """Each weight with its shape, its bias behind it: "expand 256 x 128 + 256"."""
    found: list[str] = []
    for name, parameter in module.named_parameters():
        size = " x ".join(f"{n:,}" for n in parameter.shape)
        if name.endswith("bias") and found:
            found[-1] += f" + {size}"
        else:
            found.append(f"{name.removesuffix('weight').rstrip('.')} {size}".strip())
    return found
