"""A run: from a recipe and some files to a trained model in a folder, and on from where it stood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.checkpoints.folder import save_model
from regard.model.transformer import count_parameters
from regard.runs.corpora import check_files, with_absolute_paths
from regard.runs.display import Display, make_display
from regard.runs.machine import facts, settle
from regard.runs.material import Material, gather, make_model, read_start
from regard.runs.metrics import MetricsFile, read_metrics
from regard.runs.place import RunFolder, claimed, free_name
from regard.runs.recipe import Recipe, check_resumable
from regard.runs.report import write_report
from regard.runs.tasks.measuring import TASKS
from regard.runs.tensorboard import TensorBoardEvents
from regard.runs.toml import merged
from regard.runs.trained import Trained
from regard.runs.validating import build_validate, check_watched
from regard.text.reading import Paths
from regard.training.events import Event, Observer
from regard.training.objectives import build_objective
from regard.training.randomness import seed_everything
from regard.training.trainer import Outcome, Trainer


@dataclass(frozen=True)
class Run:
    """What came of a run: the model, where everything about it is kept, and how good it is."""

    model: Trained
    folder: Path
    recipe: Recipe
    metrics: dict[str, float]  # of the validation that made this model the best
    step: int
    reason: str  # "steps" or "patience"


def train(
    recipe: str | Path,
    *,
    source: Paths | None = None,
    target: Paths | None = None,
    tsv: Paths | None = None,
    text: Paths | None = None,
    labelled: Paths | None = None,
    valid_source: Paths | None = None,
    valid_target: Paths | None = None,
    valid: Paths | None = None,
    test_source: Paths | None = None,
    test_target: Paths | None = None,
    test: Paths | None = None,
    out: str | Path | None = None,
    threads: int | None = None,
    device: str | None = None,
    seed: int | None = None,
    settings: dict[str, Any] | None = None,
    show: bool = True,
    tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Train a model by a recipe's name or TOML file, on these files.

    `settings` replaces what the recipe says, table by table: {"training": {"steps": 200}}. Without `out`
    the run's folder is runs/NAME in the current one, or runs/NAME-2 and so on.
    """
    files = {
        "source": source, "target": target, "tsv": tsv, "text": text, "labelled": labelled,
        "valid_source": valid_source, "valid_target": valid_target, "valid": valid,
        "test_source": test_source, "test_target": test_target, "test": test,
    }  # fmt: skip
    machine = {"threads": threads, "device": device, "seed": seed}
    given = {
        "data": {name: _plain(paths) for name, paths in files.items() if paths is not None},
        "training": {name: value for name, value in machine.items() if value is not None},
    }
    wanted = Recipe.load(recipe, merged(given, settings or {}))
    place = free_name(Path("runs"), Path(recipe).stem) if out is None else Path(out)
    return start(wanted, place, show, tensorboard, observers)


def start(
    recipe: Recipe,
    out: Path,
    show: bool = True,
    tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Begin a run in a new folder and bring it to its end."""
    check_files(recipe.objective, recipe.data)
    check_watched(recipe)
    read_start(recipe)
    recipe = _settled(recipe)
    display = make_display(recipe.training.steps) if show else None
    with claimed(out) as folder:
        material = gather(recipe, folder.text)
        folder.write_recipe(recipe)
        trainer = _trainer(recipe, material, folder)
        folder.write_facts(_facts(recipe, material, trainer))
        _say(display, [*material.summary(), f"{_parameters(trainer):,} parameters; the run is in {out}"])
        events = TensorBoardEvents(out / "tensorboard") if tensorboard else None
    return _finish(recipe, material, folder, trainer, display, [*observers, *([events] if events else [])])


def _settled(recipe: Recipe) -> Recipe:
    """The recipe with whole paths, and with threads and device as they are."""
    model = (
        {**recipe.model, "from": str(recipe.starts_from.absolute())} if recipe.starts_from else recipe.model
    )
    data = with_absolute_paths(recipe.data)
    return replace(recipe, data=data, model=model, training=settle(recipe.training))


def resume(
    out: str | Path,
    settings: dict[str, Any] | None = None,
    show: bool = True,
    tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Go on with the run in a folder, from its newest checkpoint without damage."""
    folder = RunFolder(Path(out))
    before = folder.recipe()
    recipe = before.changed(settings or {})
    check_resumable(before, recipe)
    recipe = replace(recipe, training=settle(recipe.training))
    display = make_display(recipe.training.steps) if show else None
    material = gather(recipe, folder.text)
    trainer = _trainer(recipe, material, folder)
    trainer.observers += [display] if display else []
    metrics = MetricsFile(folder.metrics)
    trainer.observers.append(metrics)
    trainer.resume()
    trainer.observers = []
    keep = _Once(lambda: folder.write_recipe(recipe))
    events = [TensorBoardEvents(folder.path / "tensorboard")] if tensorboard else []
    return _finish(recipe, material, folder, trainer, display, [keep, *observers, *events], metrics)


class _Once:
    """An observer that does one thing at the first event, when the run's folder is surely ours."""

    def __init__(self, act: Callable[[], None]):
        self.act, self.done = act, False

    def __call__(self, event: Event) -> None:
        if not self.done:
            self.done = True
            self.act()


def _trainer(recipe: Recipe, material: Material, folder: RunFolder) -> Trainer:
    training, words = recipe.training, material.words
    seed_everything(training.seed)
    model = make_model(recipe, words).to(training.device)
    batches = TASKS.find(recipe.objective).batches(
        material.train, words, material.context, training.tokens, training.seed
    )
    return Trainer(
        build_objective(recipe.objective, model, training.smoothing),
        batches,
        training,
        out=folder.path,
        validate=build_validate(recipe, material),
        tokenizers=words.tokenizers,
        purpose=recipe.objective,
        extra=words.to_json(),
    )


def _finish(
    recipe: Recipe,
    material: Material,
    folder: RunFolder,
    trainer: Trainer,
    display: Display | None,
    observers: Sequence[Observer],
    metrics: MetricsFile | None = None,
) -> Run:
    """Train to the end, keep the best model and write the report, whatever ends the training."""
    metrics = metrics or MetricsFile(folder.metrics)
    with ExitStack() as closing:
        for one in (metrics, *observers, *([display] if display else [])):
            closing.callback(getattr(one, "close", lambda: None))
        trainer.observers += [metrics, *observers, *([display] if display else [])]
        closing.callback(write_report, folder)
        outcome = trainer.train()
        trained = _keep(outcome, recipe, material, folder, trainer)
    return Run(trained, folder.path, recipe, _best_scores(folder, outcome), outcome.step, outcome.reason)


def _keep(
    outcome: Outcome, recipe: Recipe, material: Material, folder: RunFolder, trainer: Trainer
) -> Trained:
    """The best checkpoint as the run's model folder, or the last weights where none was best."""
    words = material.words
    if outcome.best_folder is not None:
        model = Trained.load(outcome.best_folder).module
        save_model(folder.model, model, words.tokenizers, recipe.objective, words.to_json(), replace=True)
    else:
        with trainer.averaged():
            model: Any = trainer.module.model
            save_model(folder.model, model, words.tokenizers, recipe.objective, words.to_json(), replace=True)
    return Trained.load(folder.model)


def _best_scores(folder: RunFolder, outcome: Outcome) -> dict[str, float]:
    found = [event for event in read_metrics(folder.metrics) if event["event"] == "validation"]
    best = [event for event in found if outcome.best is not None and event["step"] == outcome.best.step]
    return (best or found or [{"scores": {}}])[-1]["scores"]


def _facts(recipe: Recipe, material: Material, trainer: Trainer) -> dict[str, Any]:
    return {
        **facts(recipe.training),
        "parameters": _parameters(trainer),
        "train": material.train.report.to_json(),
        "valid": material.valid.data.report.to_json(),
    }


def _parameters(trainer: Trainer) -> int:
    return count_parameters(trainer.module)


def _say(display: Display | None, lines: Sequence[str]) -> None:
    if display is not None:
        display.say(lines)


def _plain(paths: Paths) -> str | list[str]:
    return str(paths) if isinstance(paths, str | Path) else [str(path) for path in paths]
