"""torch.compile for the blocks of a model, where a compiler is present."""

from __future__ import annotations

import logging

import torch
from torch import nn

from regard.model.transformer import Stack

log = logging.getLogger("regard.training")


def compile_blocks(module: nn.Module) -> bool:
    """Let torch compile every block, or the module where it has none; False, and a line, where it cannot.

    Blocks alone, since they are alike and see tensors only: one compilation serves them all, and batches
    of other lengths need no new one.
    """
    try:
        torch.compile(_try_me, dynamic=True)(torch.ones(2))
    except Exception as error:  # whatever a compiler, or its absence, may raise
        reason = str(error).strip().partition("\n")[0]
        log.warning(
            "training without torch.compile, which does not work here: %s", reason or type(error).__name__
        )
        return False
    stacks = [child for child in module.modules() if isinstance(child, Stack)]
    for part in [block for stack in stacks for block in stack.blocks] or [module]:
        part.compile(dynamic=True)
    return True


def _try_me(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1
