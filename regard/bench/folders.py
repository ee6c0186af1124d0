"""The same random weights as a folder of Regard and of every peer.

The tables in checkpoints/ convert the names. Inputs are ids, so no tokenizer is needed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.background import module_command
from regard.checkpoints.atomic_folders import write_tensors
from regard.checkpoints.folder import save_model
from regard.checkpoints.formats import FORMATS
from regard.errors import RegardError
from regard.exchange.onnx import write_graph
from regard.exchange.onnx_graphs import Graph, graphs
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.transformer import EncoderOnly, Transformer, build_model

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


def write_all(shape: Shape, folder: Path, peers: Collection[str]) -> dict[str, Path]:
    """Write the folder of each library that has this family, and return them by name."""
    model = random_model(shape)
    folders = {name: folder / f"{shape.name}-{name}" for name in ("regard", "transformers")}
    save_model(folders["regard"], model)
    _write_transformers(shape, model, folders["transformers"])
    if "ctranslate2" in peers:
        folders["ctranslate2"] = folder / f"{shape.name}-ctranslate2"
        _convert(folders["transformers"], folders["ctranslate2"])
    if "onnxruntime" in peers and isinstance(model, EncoderOnly):
        folders["onnxruntime"] = folder / f"{shape.name}-onnxruntime"
        _write_onnx(model, folders["onnxruntime"])
    if "llama.cpp" in peers and shape.family == "gpt2":
        folders["llama.cpp"] = folder / f"{shape.name}-llama.cpp"
        _write_gguf(shape, model, folders["llama.cpp"])
    return folders


def _write_transformers(shape: Shape, model: Transformer, folder: Path) -> None:
    folder.mkdir()
    form = FORMATS.find(shape.family)
    weights = form.theirs(model.state_dict(), shape.config)
    arrays = {name: weight.contiguous().numpy() for name, weight in weights.items()}
    write_tensors(folder / "model.safetensors", arrays)
    settings = form.from_config(shape.config) | _special_ids(shape)
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")


class _Vectors(nn.Module):
    """source B S and its mask B S to the contextual vectors B S D, without a head."""

    def __init__(self, model: EncoderOnly):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_mask: Tensor) -> Tensor:
        return self.model.encode(source, Mask(keys=source_mask))


def _write_onnx(model: EncoderOnly, folder: Path) -> None:
    """The encoder as float32.onnx, and as int8.onnx with onnxruntime's dynamic quantisation."""
    from onnxruntime.quantization import quantize_dynamic  # pyright: ignore[reportMissingImports]

    folder.mkdir()
    graph = Graph(_Vectors(model), graphs(model)["encoder"].inputs, ["vectors"])
    write_graph(folder / "float32.onnx", graph)
    quantize_dynamic(folder / "float32.onnx", folder / "int8.onnx", per_channel=True)


def _write_gguf(shape: Shape, model: Transformer, folder: Path) -> None:
    """GPT-2 as float32.gguf, and as int8.gguf with matrices in Q8_0; without a vocabulary."""
    from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFWriter, get_tensor_name_map
    from gguf.quants import quantize

    folder.mkdir()
    config, weights = shape.config, FORMATS.find(shape.family).theirs(model.state_dict(), shape.config)
    names = get_tensor_name_map(MODEL_ARCH.GPT2, config.layers)
    for compute, kind in (("float32", "F32"), ("int8", "Q8_0")):
        writer = GGUFWriter(folder / f"{compute}.gguf", "gpt2")
        writer.add_context_length(config.context)
        writer.add_embedding_length(config.width)
        writer.add_block_count(config.layers)
        writer.add_feed_forward_length(config.feed_forward_width)
        writer.add_head_count(config.heads)
        writer.add_layer_norm_eps(config.norm_epsilon)
        writer.add_vocab_size(config.vocabulary)
        writer.add_tokenizer_model("no_vocab")
        for name, weight in weights.items():
            is_matrix = weight.ndim == 2 and ".wpe." not in name
            array = (weight.T if is_matrix and ".h." in name else weight).contiguous().numpy()
            stored = GGMLQuantizationType[kind if is_matrix else "F32"]
            title = names.get_name(name, try_suffixes=(".weight", ".bias"))
            writer.add_tensor(title or name, quantize(array, stored), raw_dtype=stored)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _special_ids(shape: Shape) -> dict[str, Any]:
    if shape.kind == "translation":
        pad = {"pad_token_id": shape.last, "decoder_start_token_id": shape.last}
        return pad | {"eos_token_id": shape.end, "bos_token_id": None, "forced_eos_token_id": None}
    if shape.kind == "generation":
        return {"bos_token_id": shape.end, "eos_token_id": shape.end, "pad_token_id": shape.end}
    return {"position_embedding_type": "absolute"}  # required by CTranslate2


def _convert(theirs: Path, converted: Path) -> None:
    """Convert in a separate process, because torch computes there."""
    command = [*module_command("regard.bench.conversion"), str(theirs), str(converted)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        raise RegardError(f"CTranslate2 cannot convert {theirs.name}: {reason}")
