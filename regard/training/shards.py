"""Tensors of which a process has only some rows: torch's DTensor, as FSDP2 makes them.

A plain tensor is whole on every process, and these functions return it as it is. torch.distributed.tensor is
imported only where a tensor is sharded.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard import ranks
from regard.errors import CheckpointError

SHARD = "shard-"  # the names of the files that write_shards makes begin with it


def is_sharded(tensor: Tensor) -> bool:
    """Whether this process has only a share of a tensor."""
    return hasattr(tensor, "to_local")


def local(tensor: Tensor) -> Tensor:
    """The share of this process, without a copy."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor  # type: ignore[attr-defined]


def full(tensor: Tensor) -> Tensor:
    """The whole tensor; every process must call it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor  # type: ignore[attr-defined]


def like(sharded: Tensor, share: Tensor) -> Tensor:
    """A tensor that is sharded as another one, from the share of this process."""
    if not is_sharded(sharded):
        return share
    from torch.distributed.tensor import DTensor

    assert isinstance(sharded, DTensor)
    mesh, placements = sharded.device_mesh, sharded.placements
    return DTensor.from_local(
        share, mesh, placements, run_check=False, shape=sharded.shape, stride=sharded.stride()
    )


def share_of(sharded: Tensor, whole: np.ndarray | Tensor) -> Tensor:
    """The rows of a whole array or tensor that this process has of a tensor that is sharded so."""
    if is_sharded(sharded):
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

        mesh, placements = sharded.device_mesh, sharded.placements  # type: ignore[attr-defined]
        shape, offset = compute_local_shape_and_global_offset(sharded.shape, mesh, placements)
        whole = whole[tuple(slice(start, start + size) for start, size in zip(offset, shape, strict=True))]
    return whole if isinstance(whole, Tensor) else torch.from_numpy(np.array(whole, order="C"))


def write_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write sharded tensors, each rank its shares, with torch.distributed.checkpoint as safetensors files."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    save(dict(tensors), storage_writer=writer, process_group=ranks.patient_group())


def has_shards(files: Collection[str]) -> bool:
    """Whether a checkpoint of these files has sharded tensors."""
    return any(name.startswith(SHARD) for name in files)


def read_shards(folder: Path, parameters: Mapping[str, Tensor], whole: Collection[str]) -> dict[str, Tensor]:
    """The tensors that `write_shards` wrote, for any number of ranks; `whole` are the names of the others.

    A tensor is sharded as the parameter whose name is in its own, in `weights/NAME` or `optimizer/NAME/slot`.
    """
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(folder))
    try:
        stored = reader.read_metadata().state_dict_metadata
        tensors = {
            name: _destination(parameters[owner], stored[name].size)  # type: ignore[union-attr]
            for name in stored
            if name not in whole and (owner := parameter_in(name, parameters)) is not None
        }
        group = ranks.patient_group()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # of no_dist, which is wanted
            load(tensors, storage_reader=reader, process_group=group, no_dist=group is None)
    except (CheckpointException, KeyError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(
            f"the shards in {folder} cannot be read: {reason}; resume from another checkpoint"
        ) from None
    return tensors


def parameter_in(name: str, parameters: Collection[str]) -> str | None:
    """The parameter that a stored tensor belongs to: `NAME` in `weights/NAME` or `average/3/NAME`."""
    return next((part for part in name.split("/") if part in parameters), None)


def _destination(parameter: Tensor, shape: torch.Size) -> Tensor:
    if parameter.shape != shape:
        raise ValueError(f"a tensor has shape {tuple(shape)}, and the parameter {tuple(parameter.shape)}")
    return torch.empty_like(parameter.detach())
