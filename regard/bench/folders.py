"""The same random weights as a folder of Regard, of transformers and of CTranslate2.

The tables in checkpoints/ convert the names. Inputs are ids, so no tokenizer is needed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.checkpoints.atomic_folders import write_tensors
from regard.checkpoints.folder import save_model
from regard.checkpoints.formats import FORMATS
from regard.errors import RegardError
from regard.model.config import ModelConfig
from regard.model.transformer import Transformer, build_model

END = 0  # the end id of a translation
NEVER = -1e4  # a bias that excludes an id from the output


@dataclass(frozen=True)
class Shape:
    """A model of a family that all libraries support, named by its `model_type` in FORMATS."""

    name: str
    family: str
    config: ModelConfig

    @property
    def kind(self) -> str:
        """The kind of task."""
        return {"marian": "translation", "gpt2": "generation", "bert": "encoding"}[self.family]

    @property
    def last(self) -> int:
        """The last id: Marian's padding and start id, GPT-2's end id."""
        return self.config.vocabulary - 1

    @property
    def end(self) -> int:
        """The end id, which is banned until the output has its length."""
        return END if self.kind == "translation" else self.last


def random_model(shape: Shape, seed: int = 0) -> Transformer:
    """A model with random weights; Marian's start id has a zero vector and is never output."""
    torch.manual_seed(seed)
    model = build_model(shape.config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):  # with weights of 1 the output would repeat one id
                parameter.normal_()
        if shape.kind == "translation":
            model.get_parameter("target.weight")[shape.last] = 0.0
            model.get_parameter("head.bias")[shape.last] = NEVER
    return model


def write_all(shape: Shape, folder: Path, converted: bool) -> dict[str, Path]:
    """Write the folder of each library and return them by name."""
    folders = {name: folder / f"{shape.name}-{name}" for name in ("regard", "transformers", "ctranslate2")}
    model = random_model(shape)
    save_model(folders["regard"], model)
    _write_transformers(shape, model, folders["transformers"])
    if converted:
        _convert(folders["transformers"], folders["ctranslate2"])
    return folders


def _write_transformers(shape: Shape, model: Transformer, folder: Path) -> None:
    folder.mkdir()
    form = FORMATS.find(shape.family)
    weights = form.theirs(model.state_dict(), shape.config)
    arrays = {name: weight.contiguous().numpy() for name, weight in weights.items()}
    write_tensors(folder / "model.safetensors", arrays)
    settings = form.from_config(shape.config) | _special_ids(shape)
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")


def _special_ids(shape: Shape) -> dict[str, Any]:
    if shape.kind == "translation":
        pad = {"pad_token_id": shape.last, "decoder_start_token_id": shape.last}
        return pad | {"eos_token_id": shape.end, "bos_token_id": None, "forced_eos_token_id": None}
    if shape.kind == "generation":
        return {"bos_token_id": shape.end, "eos_token_id": shape.end, "pad_token_id": shape.end}
    return {"position_embedding_type": "absolute"}  # required by CTranslate2


def _convert(theirs: Path, converted: Path) -> None:
    """Convert in a separate process, because torch computes there."""
    command = [sys.executable, "-m", "regard.bench.conversion", str(theirs), str(converted)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        raise RegardError(f"CTranslate2 cannot convert {theirs.name}: {reason}")
