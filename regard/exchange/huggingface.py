"""export_huggingface: a model of regard as a folder that transformers loads, verified before it appears.

    post-norm encoder-decoder    MarianMT
    pre-norm encoder-decoder     Pegasus
    decoder-only                 Llama with rotary positions, otherwise GPT-2
    encoder-only                 BERT

An imported model of another family is written in its own format.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import processors
from torch import Tensor

from regard.checkpoints.atomic_folders import new_folder, write_file, write_json, write_tensors
from regard.checkpoints.chat_templates import GENERATION, chat_template, end_ids
from regard.checkpoints.folder import WEIGHTS, ModelFolder, as_arrays, stored_weights
from regard.checkpoints.foreign import label_tables
from regard.checkpoints.formats import FORMATS
from regard.checkpoints.huggingface import read_huggingface
from regard.checkpoints.huggingface_tokenizers import IDS, NAMES, READING
from regard.checkpoints.huggingface_tokenizers import SETTINGS as TOKENIZER_SETTINGS
from regard.checkpoints.locations import CONFIG
from regard.checkpoints.reading import read_model
from regard.checkpoints.sentence_transformers import write_embedding
from regard.errors import CheckpointError
from regard.exchange.model_card import model_card
from regard.exchange.report import REPORT, Report, digests
from regard.exchange.verification import TextModel, verify
from regard.inference.loading import load, model_folder
from regard.inference.reader import EmbeddingSettings
from regard.inference.translator import Translator
from regard.model.config import ModelConfig
from regard.text.chat_template import ChatTemplate
from regard.text.tokenizer import JOINT, Tokenizer
from regard.text.tokenizer_file import as_data_error, parse_tokenizer

TEMPLATES = {"encoder-decoder": "$A {end}", "encoder-only": "{start} $A {end}"}


@dataclass(frozen=True)
class ExportSource:
    """A model to export: its files, the model, and the family of Hugging Face that expresses it.

    config and values   with sinusoids in halves, as the other formats have them: our config and theirs
    """

    path: str | Path
    read: ModelFolder
    model: TextModel
    kind: str
    config: ModelConfig
    values: dict[str, Any]
    tokenizer: Tokenizer

    @classmethod
    def open(cls, path: str | Path, out: str | Path) -> ExportSource:
        """Load a model; raise if `out` exists, or if a setting prevents its export."""
        check_new(out)
        read = read_model(model_folder(path))
        config, _ = halved_sinusoids(read.config, {})
        kind = format_for(config, read)
        values = FORMATS[kind].from_config(config)
        model = load(path)
        return cls(path, read, model, kind, config, values, _tokenizer(model, path))


def export_huggingface(path: str | Path, out: str | Path) -> Report:
    """Write a model as a Hugging Face folder; raise and write nothing if a setting prevents it."""
    source = ExportSource.open(path, out)
    with new_folder(Path(out), manifest=False) as temporary:
        write_huggingface(temporary, source)
        report = verify("export", source.model, read_huggingface(temporary))
        finish_export(temporary, source.path, source.read, report)
    return report


def write_huggingface(folder: Path, source: ExportSource) -> None:
    """Write weights, settings and tokenizer into a folder."""
    config, weights = halved_sinusoids(source.read.config, stored_weights(source.model.model))
    _write_weights(folder, source.kind, config, weights)
    _write_settings(folder, source.values, source.read, source.tokenizer)


def check_new(out: str | Path) -> None:
    """Raise if a folder exists."""
    if Path(out).exists():
        raise CheckpointError(f"{out} already exists; choose another folder")


def finish_export(folder: Path, path: str | Path, read: ModelFolder, report: Report) -> None:
    """Add the sha256 of all files to the report, and write the model card and the report."""
    report.files.update(digests(folder))
    write_file(folder / "README.md", [model_card(path, read, report).encode()])
    write_json(folder / REPORT, report.as_dict())


def format_for(config: ModelConfig, read: ModelFolder) -> str:
    """The model_type in which a model is written."""
    imported = read.extra.get("imported")
    if isinstance(imported, str) and imported in FORMATS:
        return imported
    if config.family == "encoder-decoder":
        return "marian" if config.residual == "post" else "pegasus"
    if config.family == "decoder-only":
        return "llama" if config.positions == "rotary" else "gpt2"
    return "bert"


def halved_sinusoids(
    config: ModelConfig, weights: dict[str, Tensor]
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """The same model with all sines before all cosines: the width is permuted in every weight.

    The paper interleaves sines and cosines. A permutation of the width changes no output, because every
    weight that reads or writes the vectors of tokens is permuted alike.
    """
    if config.positions != "sinusoidal":
        return config, weights
    order = torch.cat([torch.arange(0, config.width, 2), torch.arange(1, config.width, 2)])
    permuted = {name: _permuted(name, weight, order) for name, weight in weights.items()}
    return config.changed(positions="sinusoidal-halves"), permuted


# Weights whose first axis is the width; of all others except INNER it is the second.
_WRITES = ("output.weight", "output.bias", "contract.weight", "contract.bias", "norm.weight", "norm.bias")
_INNER = ("projections.bias", "expand.bias", "head.bias", "words.bias", "classify.bias")


def _permuted(name: str, weight: Tensor, order: Tensor) -> Tensor:
    if name.endswith(_INNER):
        return weight
    if name.endswith(("transform.weight", "dense.weight")):
        return weight[order][:, order]
    is_first = name.endswith(_WRITES) or weight.dim() == 1
    return weight[order] if is_first else weight[:, order]


def _write_weights(folder: Path, kind: str, config: ModelConfig, weights: dict[str, Tensor]) -> None:
    theirs = FORMATS[kind].theirs(weights, config)
    arrays = as_arrays({name: weight.contiguous() for name, weight in theirs.items()})
    write_tensors(folder / WEIGHTS, arrays, {"format": "pt"})


def _tokenizer(model: TextModel, path: str | Path) -> Tokenizer:
    if not isinstance(model, Translator):
        return model.tokenizer
    if not model.tokenizers.are_joint:
        raise CheckpointError(
            f"{path} has one tokenizer for the source and one for the target, and transformers reads one; "
            "train it with tokenizer.joint = true"
        )
    return model.tokenizers.source


def _write_settings(folder: Path, values: dict[str, Any], read: ModelFolder, tokenizer: Tokenizer) -> None:
    """config.json, generation_config.json and the tokenizer, with the ids of special tokens."""
    config, special = read.config, tokenizer.specials
    ids: dict[str, Any] = {name: special.get(role) for role, name in IDS.items()}
    if config.family == "encoder-decoder":
        ids |= {"bos_token_id": None, "decoder_start_token_id": special["start"], "forced_eos_token_id": None}
    labels = label_tables(config.classes, read.labels)
    write_json(folder / CONFIG, values | labels | ids | {"dtype": "float32"})
    chat = read.extra.get("chat")
    if config.family != "encoder-only":
        generation = {name: number for name, number in ids.items() if number is not None}
        generation |= {"eos_token_id": list(end_ids(chat))} if chat and end_ids(chat) else {}
        write_json(folder / GENERATION, generation | {"max_length": config.context})
    write_tokenizer(folder, config, tokenizer, chat_template(chat) if chat else None)
    if "embedding" in read.extra:
        embedding = EmbeddingSettings.read(read.extra["embedding"])
        write_embedding(folder, embedding.pooling, embedding.normalise, embedding.limit, config)


def write_tokenizer(
    folder: Path, config: ModelConfig, tokenizer: Tokenizer, chat: ChatTemplate | None = None
) -> None:
    """tokenizer.json with a template that adds start and end; the special tokens, and the chat template."""
    texts = tokenizer.spellings()
    inner = parse_tokenizer(json.loads(tokenizer.to_json()), "the tokenizer")
    template = TEMPLATES.get(config.family)
    if template is not None:
        used = [
            (texts[role], tokenizer.specials[role]) for role in ("start", "end") if f"{{{role}}}" in template
        ]
        with as_data_error("the tokenizer cannot have a template"):
            inner.post_processor = processors.TemplateProcessing(
                single=template.format(**texts), special_tokens=used
            )
    write_file(folder / JOINT, [inner.to_str(pretty=True).encode()])
    names = READING if config.family == "encoder-only" else NAMES
    settings = {name: texts[role] for role, name in names.items() if role in texts}
    if config.family == "encoder-decoder":
        settings.pop("bos_token", None)
    settings |= {**chat.tokens, "chat_template": chat.source} if chat else {}
    settings |= {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.context,
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / TOKENIZER_SETTINGS, settings)
