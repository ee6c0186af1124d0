"""Toy data with known answers: copy a sequence, or sort it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from regard.registry import Registry
from regard.runs.recipe import find_task

SIGNS = [chr(ord("a") + number) for number in range(10)]

TOYS: Registry[Callable[[list[str]], list[str]]] = Registry("toy", {"copy": list, "sort": sorted})


def write_toy(
    folder: Path, name: str = "copy", pairs: int = 2000, longest: int = 8, seed: int = 1
) -> dict[str, str]:
    """Write source and target files of a toy task and return their paths as arguments of train."""
    answer, random = TOYS.find(name), Random(seed)
    sources = [random.choices(SIGNS, k=random.randint(4, longest)) for _ in range(pairs)]
    files = {"source": folder / f"{name}.source", "target": folder / f"{name}.target"}
    folder.mkdir(parents=True, exist_ok=True)
    for side, rows in (("source", sources), ("target", [answer(row) for row in sources])):
        files[side].write_text("\n".join(map(" ".join, rows)) + "\n", encoding="utf-8")
    return {side: str(path) for side, path in files.items()}


def builtin_data(task: str, folder: Path) -> dict[str, str]:
    """Files for this task, by their names in [data]."""
    files, sources = write_toy(folder), find_task(task).sources
    if ("source", "target") in sources:
        return files
    if ("text",) in sources:
        return {"text": files["source"]}
    rows = Path(files["source"]).read_text(encoding="utf-8").split("\n")[:-1]
    table = folder / "first.tsv"
    table.write_text("\n".join(["text\tlabel", *(f"{row}\t{row[0]}" for row in rows)]), encoding="utf-8")
    return {"labelled": str(table)}


def small_settings() -> dict[str, Any]:
    """Settings that make any recipe small; dropout stays on."""
    model = {"layers": 2, "width": 64, "heads": 4, "feed_forward_width": 128, "context": 32, "dropout": 0.1}
    data = {"validation_split": 0.05, "max_validation_examples": 100}
    return {
        "data": data,
        "tokenizer": {"kind": "word", "vocabulary": 32},
        "model": model,
        "training": {"batch_tokens": 256, "gradient_accumulation": 2},
        "validation": {"sentences": 20, "samples": 1, "sample_tokens": 16},
    }


def toy_settings(steps: int = 200) -> dict[str, Any]:
    """Settings that learn a toy in seconds on one core."""
    return {
        "data": {
            "validation_split": 0.05,
            "max_validation_examples": 100,
            "filters": {"drop_duplicates": True},
        },
        "tokenizer": {"kind": "word", "vocabulary": 32},
        "model": {
            "layers": 1,
            "width": 64,
            "heads": 4,
            "feed_forward_width": 128,
            "context": 32,
            "dropout": 0,
        },
        "training": {"steps": steps, "batch_tokens": 512, "label_smoothing": 0.0},
        "optimizer": {"learning_rate": 0.01},
        "schedule": {"warmup_steps": steps // 10},
        "averaging": {"name": "none"},
        "checkpoints": {"save_every": steps},
        "validation": {"validate_every": steps, "sentences": 100},
    }
