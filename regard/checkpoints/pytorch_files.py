"""pytorch_model.bin: a pickle of tensors, read without running code.

Only the zip layout of torch 1.6 or newer is read. Its entries must be stored, not compressed, so that no
entry is larger than the file. `torch.load` then reads tensors and plain containers only (`weights_only`).
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import CheckpointError
from regard.opener import open_regular

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LARGEST_PICKLE = 1 << 25  # bytes of the names and shapes, without the numbers
MOST_ENTRIES = 100_000
TYPES = ("bfloat16", "float16", "float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")


class PickledWeights(dict[str, np.ndarray]):
    """Arrays by name."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array."""
        return {name: array.shape for name, array in self.items()}

    @property
    def dtypes(self) -> dict[str, str]:
        """The type of each array; bfloat16 has become float32."""
        return {name: "F16" if array.dtype == np.float16 else "F32" for name, array in self.items()}

    def read(self, name: str) -> np.ndarray:
        """An array."""
        return self[name]


def read_pickled(path: Path) -> PickledWeights:
    """The tensors of a file by name, memory-mapped."""
    try:
        with open_regular(path) as file:
            _check_archive(path, file)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a strange pickle, which loads or not
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # pickle and torch raise errors of many kinds
        raise CheckpointError(
            f"{path} is damaged or holds more than weights: {_reason(error)}; convert it to safetensors"
        ) from None
    return _arrays(path, loaded)


def _reason(error: Exception) -> str:
    """What torch found, without its advice on how to run the code of the file."""
    found = error.__context__ if isinstance(error, pickle.UnpicklingError) else None
    line = (str(found or error).splitlines() or [type(error).__name__])[0].partition(". Please")[0]
    return "".join(sign if sign.isprintable() else "?" for sign in line[:200].rstrip("."))


def _check_archive(path: Path, file: BufferedReader) -> None:
    """Raise unless the declared sizes are the stored ones."""
    try:
        entries = zipfile.ZipFile(file).infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):
        raise CheckpointError(
            f"{path} is not a weight file of torch 1.6 or newer; convert it to safetensors"
        ) from None
    size = file.seek(0, 2)
    packed = [entry for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    names = [entry for entry in entries if entry.filename.endswith(".pkl")]
    if packed or any(entry.file_size != entry.compress_size for entry in entries):
        raise CheckpointError(f"{path} has compressed entries; convert it to safetensors")
    if sum(entry.file_size for entry in entries) > size or len(entries) > MOST_ENTRIES:
        raise CheckpointError(f"{path} is damaged: its entries are larger than the file of {size:,} bytes")
    if len(names) != 1 or names[0].file_size > LARGEST_PICKLE:
        raise CheckpointError(f"{path} is damaged: it has no list of weights of a plausible size")


def _arrays(path: Path, loaded: Any) -> PickledWeights:
    """The tensors as arrays; names of one tensor have one array."""
    import torch

    if not isinstance(loaded, dict) or not all(isinstance(name, str) for name in loaded):
        raise CheckpointError(f"{path} holds no table of weights; convert it to safetensors")
    others = [name for name, value in loaded.items() if type(value) not in (torch.Tensor, torch.nn.Parameter)]
    if others:
        raise CheckpointError(f"{path} holds {others[0][:60]!r}, which is no tensor; save the weights alone")
    for name, tensor in loaded.items():
        if not _is_plain(tensor):
            raise CheckpointError(f"{path}: {name[:60]!r} is not a dense tensor of real numbers")
    views = {_view(tensor): tensor.detach() for tensor in loaded.values()}
    storages = {view[0]: tensor.untyped_storage().nbytes() for view, tensor in views.items()}
    if sum(tensor.nbytes for tensor in views.values()) > sum(storages.values()):
        raise CheckpointError(f"{path} is damaged: its tensors are larger than the numbers in the file")
    wide = {
        view: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        for view, tensor in views.items()
    }
    return PickledWeights({name: wide[_view(tensor)] for name, tensor in loaded.items()})


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is an array in memory: not on another device, nor a view that is computed."""
    is_array = tensor.device.type == "cpu" and str(tensor.layout) == "torch.strided"
    is_stored = not (tensor.is_quantized or tensor.is_neg() or tensor.is_conj())
    return is_array and is_stored and str(tensor.dtype).removeprefix("torch.") in TYPES


def _view(tensor: Tensor) -> tuple[int, int, torch.dtype, torch.Size, tuple[int, ...]]:
    """What distinguishes a tensor from others: its storage, and its place there."""
    storage = tensor.untyped_storage().data_ptr()
    return storage, int(tensor.storage_offset()), tensor.dtype, tensor.shape, tensor.stride()
