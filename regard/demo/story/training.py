"""The training of a demo model: corpus, run, evaluation and the facts that are stored with it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.demo.corpus import PAIRS, Corpus, built_in, corpus
from regard.demo.story.corpus_files import write_english, write_pairs
from regard.demo.story.links import links_of
from regard.demo.story.model_store import COMMANDS, RECIPES, DemoFolder, forget, read_facts, write_facts
from regard.demo.story.promises import judge
from regard.demo.story.referents import MEASURED, find_switch, resolve
from regard.errors import Interrupted, UsageError
from regard.inference.loading import load, load_for
from regard.inference.translator import Translator
from regard.runs.display import Display, make_display
from regard.runs.recipe import Recipe
from regard.runs.run import Prepared, finish, prepare
from regard.runs.run_folder import RunFolder
from regard.training.events import Event, Saved


@dataclass(frozen=True)
class Demo:
    """A trained demo model: its folder, the loaded model and its facts."""

    folder: Path
    model: Any  # a Translator or a Writer
    facts: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Demo:
        """The model of a folder, even if it is out of date."""
        facts = read_facts(folder)
        if facts is None:
            raise UsageError(f"{folder} is not a demo folder; create one with regard demo --out DIR")
        return cls(folder, load(folder), facts)

    @property
    def snapshots(self) -> list[Path]:
        """The snapshots of the training in order."""
        return sorted((self.folder / "weights").glob("step-*"))


def obtain(demo_folder: DemoFolder, fresh: bool = False, show: bool = True) -> Demo:
    """The model of a demo folder, trained now if it is missing or `fresh`."""
    if fresh or demo_folder.facts() is None:
        _train(demo_folder, show)
    return Demo.open(demo_folder.path)


def sentences_for(demo_folder: DemoFolder) -> Corpus:
    """The training corpus of a demo model."""
    reverse = demo_folder.name == "demo-reverse"
    is_default = not (demo_folder.pairs or reverse)
    return built_in() if is_default else corpus(pairs=demo_folder.pairs or PAIRS, reverse=reverse)


def _train(demo_folder: DemoFolder, show: bool) -> None:
    if show:
        print("Making English-French sentences ...", file=sys.stderr, flush=True)
    with demo_folder.created() as work:
        started, run, sentences = time.perf_counter(), work / "run", sentences_for(demo_folder)
        recipe = Recipe.load(RECIPES[demo_folder.name], dict(demo_folder.settings))
        (work / "text").mkdir()
        write = write_english if recipe.task == "language-modeling" else write_pairs
        files = write(sentences, work / "text")
        prepared = prepare(recipe.changed({"data": _named(files, work / "text")}), run)
        _finish(prepared, demo_folder, show)
        known: dict[str, Any] = {"name": demo_folder.name, "fingerprint": demo_folder.fingerprint}
        known |= {"steps": recipe.training.steps, "pairs": len(sentences.train)}
        known |= {"seconds": time.perf_counter() - started, "words": sorted(_source_words(sentences))}
        if recipe.task == "translation":
            known |= measured(load_for("translate", run), sentences)
        write_facts(run, known)
        _settle(run, prepared.recipe, files, demo_folder.path.absolute())


def measured(translator: Translator, sentences: Corpus) -> dict[str, Any]:
    """The facts of a translator that are measured on sentences which are not in the training text."""
    facts: dict[str, Any] = asdict(judge(translator, sentences))
    facts["links"] = list(map(asdict, links_of(sentences)))
    if not sentences.reverse:
        facts["referents"] = [asdict(resolve(translator, sentences, word)) for word in MEASURED]
        facts["switch"] = asdict(find_switch(translator, sentences))
    return facts


def _finish(prepared: Prepared, demo_folder: DemoFolder, show: bool) -> None:
    """Train to the end with a display; an interrupted run leaves nothing behind."""
    display = _TrainingDisplay(prepared) if show else None
    try:
        finish(prepared, show=False, observers=[display] if display else [], report=False)
    except Interrupted as stopped:
        code = stopped.exit_code - 128
        raise Interrupted(
            f"stopped before the model was ready; {COMMANDS[demo_folder.name]} begins anew", code
        ) from None
    finally:
        if display is not None:
            display.close()


class _TrainingDisplay:
    """The display of a run without the paths of its temporary folder."""

    def __init__(self, prepared: Prepared):
        self.display: Display = make_display(prepared.recipe.training.steps)
        lines, shape = prepared.material.train.report.kept, prepared.trainer.module
        size = sum(weight.numel() for weight in shape.parameters())
        self.display.say(
            [f"Training a model of {size:,} numbers on {lines:,} lines that Regard made itself."]
        )

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Saved):
            self.display(event)

    def close(self) -> None:
        """Close the display; its last state remains visible."""
        self.display.close()


def _settle(run: Path, recipe: Recipe, files: Mapping[str, str], final: Path) -> None:
    """Move the text into the folder of a finished run, and set the paths in its recipe."""
    (run.parent / "text").rename(run / "corpus")
    RunFolder(run).write_recipe(recipe.changed({"data": _named(files, final / "corpus")}))
    forget(run, "checkpoints")


def _named(files: Mapping[str, str], folder: Path) -> dict[str, str]:
    return {name: str(folder / file) for name, file in files.items()}


def _source_words(sentences: Corpus) -> frozenset[str]:
    """The words of the source language in the training text, in lower case."""
    return sentences.words("fr" if sentences.reverse else "en")
