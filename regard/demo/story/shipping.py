"""`python -m regard.demo.story.shipping [NAME ...]`: make the trained models that come with the package.

A model of the present grammar and recipe in the user's cache is used; otherwise one is trained. The weights
are stored in float16. A model that misses a promise of the demo in float16, or is too large, is not stored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.checkpoints.atomic_folders import new_folder
from regard.checkpoints.folder import load_model, read_folder, stored_weights, write_model
from regard.demo.story.model_store import RECIPES, SHIPPED, DemoFolder, find_demo_folder, write_facts
from regard.demo.story.promises import PROMISES, Verdict
from regard.demo.story.training import measured, obtain, sentences_for
from regard.errors import RegardError, UsageError
from regard.inference.loading import load_for

LARGEST = 1_500_000  # bytes of a shipped model


def ship(demo_folder: DemoFolder, shipped: Path = SHIPPED) -> Path:
    """Store the model of a demo folder under its name in `shipped`, in float16, with its facts."""
    demo, target = obtain(demo_folder), shipped / demo_folder.name
    with DemoFolder(demo_folder.name, target).created() as work:
        run = work / "run"
        save_half(demo.folder / "model", run / "model")
        facts = dict(demo.facts)
        if demo_folder.name in PROMISES:
            facts |= measured(load_for("translate", run), sentences_for(demo_folder))
            check_promises(demo_folder.name, facts)
        write_facts(run, facts)
        size = folder_size(run)
        if size > LARGEST:
            raise UsageError(f"{demo_folder.name} has {size:,} bytes; at most {LARGEST:,} are shipped")
    return target


def save_half(model: Path, target: Path) -> None:
    """Copy a model folder with its weights in float16."""
    folder = read_folder(model)
    weights = {name: weight.half() for name, weight in stored_weights(load_model(folder)).items()}
    with new_folder(target) as temporary:
        write_model(temporary, folder.config, weights, folder.tokenizers(), folder.task, folder.extra)


def check_promises(name: str, facts: dict[str, Any]) -> None:
    """Raise if the facts of a model miss a promise of the demo."""
    missed = Verdict.of(facts, seconds=0.0).missed(PROMISES[name])
    if missed:
        raise UsageError(f"{name} is not shipped: {'; '.join(missed)}")


def folder_size(folder: Path) -> int:
    """The bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(names: Iterable[str]) -> int:
    """Make the named models, or all; return the exit code."""
    try:
        for name in names or RECIPES:
            if name not in RECIPES:
                raise UsageError(f"{name} is not a built-in model; there are {', '.join(RECIPES)}")
            folder = ship(find_demo_folder(name))
            print(f"{folder}: {folder_size(folder):,} bytes")
    except RegardError as error:
        print("error:", error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
