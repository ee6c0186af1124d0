"""A run: train a model from a recipe and files, and resume it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard import ranks
from regard.checkpoints.atomic_folders import readable_folder, remove_leftovers
from regard.checkpoints.folder import copy_model, stored_weights
from regard.engine.device import find_device
from regard.errors import UsageError
from regard.inference.loading import load
from regard.inference.reader import Reader
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.model.config import ModelConfig
from regard.model.transformer import build_model, count_parameters
from regard.runs.budget import Budget, expected_time
from regard.runs.corpora import check_files, data_files, with_absolute_paths
from regard.runs.display import Display, make_display
from regard.runs.identity import Digests, Identity, TextIdentity, file_digests, recipe_changes
from regard.runs.machine import facts, settle, with_precision
from regard.runs.metrics import MetricsFile, read_metrics
from regard.runs.prepared_data import (
    PreparedData,
    gather,
    gather_again,
    make_model,
    read_start,
    training_batches,
    training_objective,
)
from regard.runs.recipe import Recipe, find_task
from regard.runs.report import write_report
from regard.runs.run_folder import RunFolder, claimed, disk_full_message, find_run, free_name
from regard.runs.tensorboard import TensorBoardEvents, check_tensorboard
from regard.runs.text_folder import key_of
from regard.runs.timing import with_measured_precision
from regard.runs.toml import merged
from regard.runs.validation import build_validate
from regard.text.lines import Paths
from regard.training.checkpoint_manager import CheckpointManager, megabytes
from regard.training.events import Event, Observer, Resumed, Saved
from regard.training.state import COPIES, Changes, progress_in, read_config, seed_everything
from regard.training.trainer import Outcome, Trainer

log = logging.getLogger("regard.runs")


@dataclass(frozen=True)
class Run:
    """The result of a run: its folder, its model and its metrics."""

    model: Translator | Writer | Reader
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
    minutes: float | None = None,
    settings: dict[str, Any] | None = None,
    show: bool = True,
    tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Train a model with a recipe, by name or as a TOML file, on these files.

    `settings` replaces what the recipe says, table by table: {"training": {"steps": 200}}. Without `out`
    the run's folder is runs/NAME in the current one, or runs/NAME-2 and so on. With `minutes`, the size of
    the model and the length of training are chosen so that the run ends in that time.

    Processes that torchrun started train one model together, and `out` is a folder that all of them see. If
    torchrun restarts them, they resume the run in it.
    """
    files = {
        "source": source, "target": target, "tsv": tsv, "text": text, "labelled": labelled,
        "valid_source": valid_source, "valid_target": valid_target, "valid": valid,
        "test_source": test_source, "test_target": test_target, "test": test,
    }  # fmt: skip
    given = as_settings(files, {"threads": threads, "device": device, "seed": seed, "minutes": minutes})
    wanted = Recipe.load(recipe, merged(given, settings or {}))
    if out is None and ranks.world().size > 1:
        raise UsageError("the processes of torchrun need one folder for the run; give it with --out DIR")
    place = free_name(Path("runs"), Path(recipe).stem) if out is None else Path(out)
    with _joined(wanted):
        if _was_restarted(place):
            return resume(place, None, show, tensorboard, observers)
        return start(wanted, place, show, tensorboard, observers)


def _was_restarted(out: Path) -> bool:
    """Whether torchrun has restarted a process of this job after the run began."""
    is_begun = ranks.from_first(RunFolder(out).recipe_file.is_file)
    return is_begun and any(ranks.gathered(ranks.world().restarts))


def as_settings(files: Mapping[str, Paths | None], machine: Mapping[str, Any]) -> dict[str, Any]:
    """The given files, and settings of [training] such as threads and seed, as settings of a recipe."""
    return {
        "data": {name: _plain(paths) for name, paths in files.items() if paths is not None},
        "training": {name: value for name, value in machine.items() if value is not None},
    }


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to train: its settings, text, folder and Trainer."""

    recipe: Recipe
    material: PreparedData
    folder: RunFolder
    trainer: Trainer
    goes_on: bool = False  # in a folder that was there before
    checkpoint: Path | None = None  # what it goes on from
    changes: Changes | None = None  # since that checkpoint
    notes: tuple[str, ...] = ()  # what was chosen for a time budget, and the time that is expected


def start(
    recipe: Recipe,
    out: Path,
    show: bool = True,
    tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Start a run in a new folder and train it to the end."""
    if tensorboard:
        check_tensorboard()
    with _joined(recipe):
        return finish(prepare(recipe, out, is_timed=show), show, tensorboard, observers)


def resume(
    path: str | Path,
    settings: dict[str, Any] | None = None,
    show: bool = True,
    tensorboard: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Resume a run. `path` is its folder or one of its checkpoints.

    With the folder it is the newest checkpoint without damage. One that is named must be without damage, and
    later ones are then abandoned. `settings` replaces what the run's recipe says, table by table.
    """
    if tensorboard:
        check_tensorboard()
    folder, named = find_run(Path(path))
    if named is not None and ranks.world().restarts:  # the job has come further since it was started
        path = folder.path
    with _joined(folder.recipe().changed(settings or {})):
        return finish(prepare_again(path, settings, is_timed=show), show, tensorboard, observers)


def _joined(recipe: Recipe) -> AbstractContextManager[None]:
    """Connect the processes that torchrun started, if it did."""
    return ranks.joined(find_device(recipe.training.device), recipe.distributed.timeout)


def prepare(recipe: Recipe, out: Path, is_timed: bool = False) -> Prepared:
    """Read the text, train the tokenizer and build the model of a new run; invalid settings are refused.

    `is_timed` measures some steps first, to say how long the run will take.
    """
    check_files(recipe.task, find_task(recipe.task).sources, recipe.data)
    read_start(recipe)
    recipe = _settled(recipe)
    training, about_precision = with_precision(recipe.training, recipe.is_given("training.precision"))
    recipe = replace(recipe, training=training)
    with (
        disk_full_message(out, lambda: _room_needed(recipe)),
        ranks.opened_by_first(lambda: claimed(out)) as folder,
    ):
        budget = Budget(recipe) if recipe.training.minutes is not None else None
        recipe = recipe if budget is None else budget.examined(recipe)
        material = _gathered(recipe, folder, lambda: gather(recipe, folder.text))
        if budget is not None:
            recipe, notes = budget.sized(recipe, material)
        else:
            recipe, notes = with_measured_precision(recipe, material)
            notes += expected_time(recipe, material) if is_timed else []
        trainer = _trainer(recipe, material, folder, file_digests(recipe.data))
        if ranks.is_first():
            folder.write_facts({**_facts(recipe, material, trainer), **({"sizing": notes} if budget else {})})
            folder.write_recipe(recipe)
    return Prepared(recipe, material, folder, trainer, notes=(*about_precision, *notes))


def _gathered(recipe: Recipe, folder: RunFolder, read: Callable[[], PreparedData]) -> PreparedData:
    """The data that `read` gives to the first rank; the others open the files that it has written."""
    material = ranks.from_first_only(read)
    context, train, valid = ranks.share((0, "", "") if material is None else material.keys())
    return gather_again(recipe, folder.text, context, train, valid) if material is None else material


def prepare_again(
    path: str | Path, settings: dict[str, Any] | None = None, is_timed: bool = False
) -> Prepared:
    """Prepare a run that exists, with changed settings unless they make it another run.

    `is_timed` measures some steps first, to say how long the rest will take.
    """
    folder, named = find_run(Path(path))
    before = folder.recipe()
    recipe = before.changed(settings or {})
    recipe = replace(recipe, data=with_absolute_paths(recipe.data), training=settle(recipe.training))
    checkpoint = CheckpointManager(folder.path).newest_good() if named is None else readable_folder(named)
    if checkpoint is None:
        recipe_changes(before, recipe)
        material = _gathered(recipe, folder, lambda: gather(recipe, folder.text))
        notes = expected_time(recipe, material) if is_timed else []
        trainer = _trainer(recipe, material, folder, file_digests(recipe.data))
        return Prepared(recipe, material, folder, trainer, goes_on=True, notes=(*notes,))
    saved, files = Identity.read(checkpoint, folder), file_digests(recipe.data)
    comparison = saved.compare(recipe, files)
    config = read_config(checkpoint)
    keys = config.context, saved.text.train, comparison.valid
    material = _gathered(recipe, folder, lambda: gather_again(recipe, folder.text, *keys))
    done = progress_in(checkpoint).step
    notes = expected_time(recipe, material, done, config) if is_timed else []
    trainer = _trainer(recipe, material, folder, saved.text.with_files(files).files, config)
    return Prepared(recipe, material, folder, trainer, True, checkpoint, comparison.changes, (*notes,))


def finish(
    run: Prepared,
    show: bool = True,
    tensorboard: bool = False,
    observers: Sequence[Observer] = (),
    report: bool = True,
) -> Run:
    """Train to the end. model/ holds the best model so far, and the report is written in every case."""
    folder, trainer = run.folder, run.trainer
    with ExitStack() as closing:
        if ranks.is_first():
            if report:
                closing.callback(_report, folder)
            trainer.observers += [*_observers(run, show, tensorboard, closing), *observers]
        if run.checkpoint is not None:
            trainer.resume(run.checkpoint, run.changes)
        outcome = trainer.train()
    ranks.barrier()  # the first rank has written the metrics
    return Run(
        load(folder.model),
        folder.path,
        run.recipe,
        _best_scores(folder, outcome),
        outcome.step,
        outcome.reason,
    )


def _observers(run: Prepared, show: bool, tensorboard: bool, closing: ExitStack) -> list[Observer]:
    """What writes the files of the run and shows its progress; each is closed by `closing`."""
    metrics = MetricsFile(run.folder.metrics)
    if run.goes_on and run.checkpoint is None:
        metrics.begin_anew()
    observing: list[Observer] = [_Upkeep(run), metrics]
    observing += [TensorBoardEvents(run.folder.path / "tensorboard")] if tensorboard else []
    observing += [_introduced(run)] if show else []
    for observer in observing:
        closing.callback(getattr(observer, "close", _nothing))
    return observing


def _introduced(run: Prepared) -> Display:
    """A display that has printed the summary of the run."""
    display = make_display(run.recipe.training.steps)
    size = count_parameters(run.trainer.module)
    parameters = f"{size:,} parameters; the run is in {run.folder.path}"
    display.say([*run.material.summary(), parameters, *run.notes])
    return display


def _report(folder: RunFolder) -> None:
    """Write the report; a full disk must not hide the error that ended the run."""
    try:
        write_report(folder)
    except OSError as error:
        log.warning("cannot write %s: %s", folder.report, error.strerror or error)


def _nothing() -> None:
    """Close nothing."""


def _room_needed(recipe: Recipe) -> str:
    """An upper bound of what a run writes up to its first checkpoint, in bytes."""
    start = read_start(recipe)
    sizes = {**find_task(recipe.task).placeholder_sizes(), "vocabulary": recipe.tokenizer.vocabulary}
    model = build_model(start.config if start else recipe.model_config(**sizes), device="meta")
    checkpoint = COPIES * sum(weight.nbytes for weight in stored_weights(model).values())
    text = sum(path.stat().st_size for path in data_files(recipe.data))
    return f"encoded text needs about {megabytes(text)} and a checkpoint up to {megabytes(checkpoint)}"


def _settled(recipe: Recipe) -> Recipe:
    """The recipe with absolute paths and the resolved threads and device."""
    begins = {"init_from": str(recipe.starts_from.absolute())} if recipe.starts_from else {}
    data, training, words = with_absolute_paths(recipe.data), settle(recipe.training), recipe.tokenizer
    if words.init_from is not None:
        words = words.changed(init_from=str(Path(words.init_from).absolute()))
    return replace(recipe, data=data, tokenizer=words, model={**recipe.model, **begins}, training=training)


class _Upkeep:
    """An observer that updates recipe.toml and model/ of a run.

    model/ is the model of the best checkpoint, and while no validation has found a best, of the newest one.
    """

    def __init__(self, run: Prepared):
        self.run, self._begun = run, False

    def __call__(self, event: Event) -> None:
        """Update after a saved checkpoint, and at the first event, when the folder is locked."""
        if isinstance(event, Resumed):
            return
        if not self._begun:
            self._begun = True
            self._begin()
        if isinstance(event, Saved):
            self._keep_model(event.step, event.path)

    def _begin(self) -> None:
        folder, progress = self.run.folder, self.run.trainer.progress
        folder.write_recipe(self.run.recipe)
        remove_leftovers(folder.model.parent, folder.model.name)
        if self.run.checkpoint is not None:  # the model there may be of later steps, now abandoned
            step = progress.best.step if progress.best is not None else progress.step
            self._keep_model(step, self._checkpoint(step))

    def _keep_model(self, step: int, path: Path) -> None:
        best = self.run.trainer.progress.best
        if path == self._checkpoint(step) and (best is None or best.step == step):
            copy_model(path, self.run.folder.model)

    def _checkpoint(self, step: int) -> Path:
        return CheckpointManager(self.run.folder.path).path(step)


def _trainer(
    recipe: Recipe,
    material: PreparedData,
    folder: RunFolder,
    files: Digests,
    config: ModelConfig | None = None,
) -> Trainer:
    """A Trainer with a new model, or with a model of this config for the weights of a checkpoint."""
    training, words = recipe.training, material.words
    seed_everything(training.seed)
    model = make_model(recipe, words, config).to(training.device)
    train, valid = (key_of(data.identity) for data in (material.train, material.valid.data))
    identity = Identity(recipe, TextIdentity(train, valid, files))
    return Trainer(
        training_objective(recipe, material, model),
        training_batches(recipe, material),
        recipe.trainer_settings(),
        out=folder.path,
        validate=build_validate(recipe, material),
        tokenizers=words.tokenizers,
        task=recipe.task,
        extra=words.as_dict(),
        run=identity.as_dict(),
    )


def _best_scores(folder: RunFolder, outcome: Outcome) -> dict[str, float]:
    validations = [event for event in read_metrics(folder.metrics) if event["event"] == "validation"]
    best = [event for event in validations if outcome.best is not None and event["step"] == outcome.best.step]
    return (best or validations or [{"scores": {}}])[-1]["scores"]


def _facts(recipe: Recipe, material: PreparedData, trainer: Trainer) -> dict[str, Any]:
    return {
        **facts(recipe.training),
        "parameters": count_parameters(trainer.module),
        "train": material.train.report.as_dict(),
        "valid": material.valid.data.report.as_dict(),
    }


def _plain(paths: Paths) -> str | list[str]:
    return str(paths) if isinstance(paths, str | Path) else [str(path) for path in paths]
