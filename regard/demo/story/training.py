"""The demo's run: its corpus handed to a recipe, a model trained, judged and put in its place."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.demo.corpus import PAIRS, Corpus, Language, built_in, corpus
from regard.demo.story.judging import judge, links_of
from regard.demo.story.place import COMMANDS, RECIPES, Place, forget, write_facts
from regard.demo.things import quick_brown_fox
from regard.errors import Interrupted
from regard.inference.loading import load
from regard.runs.display import Display, make_display
from regard.runs.place import RunFolder
from regard.runs.recipe import Recipe
from regard.runs.run import Prepared, finish, prepare
from regard.text.corpus import Pair
from regard.training.events import Event, Saved

# The writing model is told the typists' sentence so often, one line in a few hundred.
FOXES = 100


@dataclass(frozen=True)
class Demo:
    """A trained model of the demo: its folder, what uses it, and what is known of it."""

    folder: Path
    model: Any  # a Translator or a Writer
    facts: Mapping[str, Any]

    @property
    def snapshots(self) -> list[Path]:
        """The model as it was on the way, first to last."""
        return sorted((self.folder / "weights").glob("step-*"))


def obtain(
    place: Place,
    settings: Mapping[str, Any] | None = None,
    fresh: bool = False,
    show: bool = True,
    pairs: int = 0,
) -> Demo:
    """The model of a place: the one that is there, or one trained now. `pairs` 0 takes the usual many."""
    facts = None if fresh else place.facts()
    if facts is None:
        facts = _train(place, dict(settings or {}), show, _sentences(place, pairs))
    return Demo(place.path, load(place.path), facts)


def _sentences(place: Place, pairs: int) -> Corpus:
    reverse = place.name == "demo-reverse"
    return corpus(pairs=pairs or PAIRS, reverse=reverse) if pairs or reverse else built_in()


def _train(place: Place, settings: dict[str, Any], show: bool, sentences: Corpus) -> dict[str, Any]:
    with place.made() as work:
        begun, run = time.perf_counter(), work / "run"
        (work / "text").mkdir()
        recipe = Recipe.load(RECIPES[place.name], settings)
        files = _write_corpus(sentences, work / "text", recipe.objective)
        prepared = prepare(recipe.changed({"data": _named(files, work / "text")}), run)
        _finish(prepared, place, show)
        known: dict[str, Any] = {"fingerprint": place.fingerprint, "name": place.name}
        known |= {"steps": prepared.recipe.training.steps, "training": time.perf_counter() - begun}
        if recipe.objective == "translation":
            known |= judge(load(run), sentences).as_dict() | {"links": links_of(sentences)}
        known |= {"words": sorted(_read_words(sentences))}
        write_facts(run, known)
        _settle(run, prepared.recipe, files, place.path.absolute())
    return known


def _finish(prepared: Prepared, place: Place, show: bool) -> None:
    """Train to the end, watched; a run that is stopped leaves nothing behind."""
    display = _Watched(prepared) if show else None
    try:
        finish(prepared, show=False, observers=[display] if display else [], report=False)
    except Interrupted as stopped:
        code = stopped.exit_code - 128
        raise Interrupted(f"stopped before the model was ready; {COMMANDS[place.name]} begins anew", code) from None
    finally:
        if display is not None:
            display.close()


class _Watched:
    """The display of a run, without the places of a folder that is about to move."""

    def __init__(self, prepared: Prepared):
        self.display: Display = make_display(prepared.recipe.training.steps)
        lines, shape = prepared.material.train.report.kept, prepared.trainer.module
        size = sum(weight.numel() for weight in shape.parameters())
        self.display.say([f"Training a model of {size:,} numbers on {lines:,} lines that Regard made itself."])

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Saved):
            self.display(event)

    def close(self) -> None:
        """Leave the last figures standing."""
        self.display.close()


def _settle(run: Path, recipe: Recipe, files: Mapping[str, str], final: Path) -> None:
    """Make a finished run's folder ready to move: its text inside, its paths those that will be."""
    (run.parent / "text").rename(run / "corpus")
    RunFolder(run).write_recipe(recipe.changed({"data": _named(files, final / "corpus")}))
    forget(run, "checkpoints")


def _named(files: Mapping[str, str], folder: Path) -> dict[str, str]:
    return {name: str(folder / file) for name, file in files.items()}


def _write_corpus(sentences: Corpus, folder: Path, objective: str) -> dict[str, str]:
    """The files that a recipe reads, by the name of each in [data]."""
    if objective == "writing":
        fox = quick_brown_fox().pair("leaping", "written").source
        told = [pair.source for pair in sentences.train]
        spread = max(1, len(told) // FOXES)
        for at in range(0, len(told) + FOXES, spread + 1):
            told.insert(at, fox)
        _write(folder / "train.en", told)
        _write(folder / "valid.en", (pair.source for pair in sentences.valid))
        return {"text": "train.en", "valid": "valid.en"}
    files: dict[str, str] = {}
    languages: tuple[Language, Language] = ("fr", "en") if sentences.reverse else ("en", "fr")
    for part in ("train", "valid", "test"):
        for side, language in zip(("source", "target"), languages, strict=True):
            name = side if part == "train" else f"{part}_{side}"
            files[name] = f"{part}.{language}"
            _write(folder / files[name], (getattr(pair, side) for pair in getattr(sentences, part)))
    return files


def _write(file: Path, lines: Iterable[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def _read_words(sentences: Corpus) -> frozenset[str]:
    """The words that the model may read, in lower case."""
    return sentences.words("fr" if sentences.reverse else "en")
