"""export_onnx: a model as ONNX graphs, executed with onnxruntime before the folder appears.

encoder.onnx, decoder.onnx   see onnx_graphs.py; a language model has no encoder, a reader no decoder
config.json                  the family, sizes, and the ids of start and end
tokenizer.json               or tokenizer.source.json and tokenizer.target.json
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from regard.checkpoints.atomic_folders import new_folder, write_json
from regard.checkpoints.folder import ModelFolder
from regard.checkpoints.reading import read_model
from regard.errors import CheckpointError, MissingPackage
from regard.exchange.huggingface import check_new, finish_export, write_tokenizer
from regard.exchange.onnx_graphs import Graph, graphs
from regard.exchange.onnx_runtime import SETTINGS, OnnxModel
from regard.exchange.report import Report
from regard.exchange.verification import Reference, TextModel, compare_outputs, written_tokenizer
from regard.inference.loading import load, model_folder
from regard.inference.translator import Translator
from regard.text.tokenizer import JOINT

LARGEST_FILE = 1 << 30  # bytes of weights in a graph; above, they are in a file beside it (ONNX ends at 2 GB)
PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def export_onnx(path: str | Path, out: str | Path) -> Report:
    """Write a model as ONNX graphs; raise and write nothing if a setting prevents it."""
    _check_packages()
    check_new(out)
    read = read_model(model_folder(path))
    if read.config.input_width is not None:
        name = "patches" if read.config.patches else "vectors"
        raise CheckpointError(f"{name} cannot be written as ONNX here; only models of text can")
    model = load(path)
    with new_folder(Path(out), manifest=False) as temporary:
        for name, graph in graphs(model.model).items():
            write_graph(temporary / f"{name}.onnx", graph)
        _write_settings(temporary, read, model)
        report = compare_outputs("export", read.config.family, model, reference(temporary))
        finish_export(temporary, path, read, report)
    return report


def reference(folder: Path) -> Reference:
    """A written folder in onnxruntime."""
    model = OnnxModel(folder)
    encode = written_tokenizer(folder) if (folder / JOINT).exists() else None
    name = f"onnxruntime {version('onnxruntime')}"
    return Reference(name, model.logits, encode, "two tokenizers", greedy=model.greedy, format="onnx")


def _check_packages() -> None:
    for name in PACKAGES:
        try:
            version(name)
        except PackageNotFoundError:
            raise MissingPackage(
                f"export to ONNX needs the package {name}: pip install 'regard[exchange]'"
            ) from None


def write_graph(path: Path, graph: Graph) -> None:
    """Write a graph with its weights; raise a CheckpointError if torch cannot export it."""
    axes = [axes for _, axes in graph.inputs.values()]
    is_decoder = "ids" in graph.inputs  # its further inputs are one variable number of arguments
    size = sum(parameter.nbytes for parameter in graph.module.parameters())
    try:
        with _quiet(), torch.no_grad():
            torch.onnx.export(
                graph.module.eval(),
                graph.example,
                path,
                input_names=list(graph.inputs),
                output_names=graph.outputs,
                dynamic_shapes=(axes[0], tuple(axes[1:])) if is_decoder else tuple(axes),
                external_data=size > LARGEST_FILE,
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # the exporter has errors of many kinds
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"torch.onnx cannot export this model: {line[:200]}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's warnings about axes of equal names and packages that it does not need."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _write_settings(folder: Path, read: ModelFolder, model: TextModel) -> None:
    """The settings that a caller of the graphs needs, and the tokenizer."""
    config = read.config
    tokenizer = model.tokenizers.target if isinstance(model, Translator) else model.tokenizer
    special = tokenizer.specials
    write_json(
        folder / SETTINGS,
        {
            "family": config.family,
            "output": config.output,
            "vocabulary": config.output_vocabulary,
            "context": config.context,
            "start": special.get("start"),
            "end": special.get("end", -1),
            "labels": list(read.labels),
        },
    )
    if isinstance(model, Translator) and not model.tokenizers.are_joint:
        model.tokenizers.save(folder)
    else:
        write_tokenizer(folder, config, tokenizer)
