"""The README.md of an exported folder: what the model is, its sizes, and the figures of its run."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from regard.checkpoints.folder import ModelFolder
from regard.checkpoints.locations import METRICS, locate_model
from regard.checkpoints.untrusted_files import FolderFiles
from regard.exchange.report import Report
from regard.inference.loading import holds
from regard.opener import read_regular

FACTS = "demo.json"  # of regard.demo
LARGEST_METRICS = 1 << 26
LIBRARIES = {"huggingface": "transformers", "gguf": "llama.cpp"}  # other formats are named for their library


def model_card(path: str | Path, read: ModelFolder, report: Report) -> str:
    """A model card in Markdown."""
    config = read.config
    parameters = sum(prod(shape) for shape in read.weights.shapes.values())
    figures = _figures(Path(path))
    sizes = {
        "parameters": f"{parameters:,}",
        "layers": str(config.layers),
        "decoder layers": str(config.decoder_layers or "") if config.family == "encoder-decoder" else "",
        "width": str(config.width),
        "heads": str(config.heads),
        "context": f"{config.context:,} tokens",
        "vocabulary": f"{config.vocabulary:,} tokens",
    }
    rows = [f"| {name} | {value:.4g} |" for name, value in figures.items()]
    measured = ["## Measured", "", "| figure | |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(
        [
            "---", f"library_name: {LIBRARIES.get(report.format, report.format)}", "---", "",
            f"# {Path(path).name}", "",
            f"This folder holds {holds(config)}. Its format is {report.format} ({report.model_type}).", "",
            "| size | |", "|---|---|",
            *(f"| {name} | {value} |" for name, value in sizes.items() if value), "",
            *measured,
            "## Verified", "", "```", *report.lines(), "```", "",
        ]
    )  # fmt: skip


def _figures(path: Path) -> dict[str, float]:
    """The figures of the model's validation in its run, if it belongs to one: the best, or else the last."""
    location = locate_model(path)
    if location is None or location.run is None:
        return {}
    return _best_validation(location.run) or _of_demo(location.run)


def _of_demo(run: Path) -> dict[str, float]:
    """The figure of a built-in model, which comes without the metrics of its run."""
    files = FolderFiles(run)
    share = files.json(FACTS).get("exact_match") if FACTS in files else None
    return {"exact translations of the test set": share} if isinstance(share, float) else {}


def _best_validation(run: Path) -> dict[str, float]:
    try:
        lines = read_regular(run / METRICS, LARGEST_METRICS).decode().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    validations = [event for line in lines if (event := _validation(line))]
    best = [event for event in validations if event.get("is_best")]  # of these, the last became the model
    scores = (best or validations or [{}])[-1].get("scores") or {}
    return {name: value for name, value in scores.items() if isinstance(value, int | float)}


def _validation(line: str) -> dict[str, Any] | None:
    """The event in a line of the metrics, if it is a validation."""
    try:
        event: Any = json.loads(line)
    except ValueError:
        return None
    is_validation = isinstance(event, dict) and event.get("event") == "validation"
    return event if is_validation and isinstance(event.get("scores", {}), dict | None) else None
