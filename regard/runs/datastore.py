"""A kNN-MT datastore from the training text of a run or from other files, with tuned parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UsageError
from regard.inference.rescoring.building import build_datastore, tune_datastore
from regard.inference.rescoring.datastore import CONFIG, Datastore, KnnParameters
from regard.inference.translator import Translator
from regard.runs.corpora import Corpora, check_files
from regard.runs.run_folder import data_as_read_by, run_of
from regard.runs.tasks.registry import TASKS, load_trained


@dataclass(frozen=True)
class SavedDatastore:
    """A datastore, its folder, and the number of pairs that it was built from."""

    folder: Path
    pairs: int
    datastore: Datastore

    def as_dict(self) -> dict[str, Any]:
        """The numbers and parameters as JSON values."""
        values = {"datastore": str(self.folder), "pairs": self.pairs, "tokens": len(self.datastore)}
        return {**values, **self.datastore.parameters.as_dict()}

    def __str__(self) -> str:
        parameters = self.datastore.parameters
        line = f"lambda {parameters.lambda_:g}, k {parameters.k}, temperature {parameters.temperature:g}"
        if not parameters.lambda_:
            line = "lambda 0, because it does not make the validation text likelier"
        return f"{self.folder}: {len(self.datastore):,} tokens of {self.pairs:,} pairs; {line}"


def make_datastore(
    model: str | Path,
    files: dict[str, Any] | None = None,
    parameters: dict[str, Any] | None = None,
    out: str | Path | None = None,
    device: str = "cpu",
    report: Callable[[str], None] = lambda line: None,
) -> SavedDatastore:
    """Build and save a datastore from the training text of a model's run, or from these files.

    The parameters are tuned on the validation part, except those given. If files come without a validation
    part, one is split off as in training. `report` receives a line before each stage.
    """
    KnnParameters.read(parameters or {})  # raises before the work
    trained = load_trained(model, device)
    if not TASKS.find(trained.task).is_translation:
        raise UsageError(f"{model} is for {trained.task}; a datastore needs a model that translates")
    folder = _check_free(_folder(Path(model), out))
    corpora = _corpora(Path(model), trained.task, files or {})
    module: Any = trained.module
    translator = Translator(module, trained.words.tokenizers)
    pairs = list(corpora.train)
    report(f"reading {len(pairs):,} pairs")
    datastore = build_datastore(translator, pairs)
    report(f"tuning the parameters of {len(datastore):,} tokens on the validation part")
    datastore = tune_datastore(datastore, translator, corpora.valid).changed(**parameters or {})
    datastore.save(folder, overwrite=True)
    return SavedDatastore(folder, len(pairs), datastore)


def _folder(model: Path, out: str | Path | None) -> Path:
    """The folder given, or `datastore` in the model's run."""
    if out is not None:
        return Path(out)
    run = run_of(model)
    if run is None:
        raise UsageError(f"{model} belongs to no run; name a folder for the datastore with --out")
    return run.datastore


def _check_free(folder: Path) -> Path:
    """Raise if the folder exists and holds something else than a datastore."""
    if folder.exists() and not (folder / CONFIG).is_file():
        raise UsageError(f"{folder} exists already and holds something else; choose another folder")
    return folder


def _corpora(model: Path, task: str, files: dict[str, Any]) -> Corpora:
    """The files given, or those of the model's run with its split."""
    run = run_of(model)
    if run is None and not files:
        raise UsageError(f"{model} belongs to no run; name the files with --source and --target")
    data = data_as_read_by(run, files) if files or run is None else run.recipe().data
    check_files(task, TASKS.find(task).sources, data)
    return TASKS.find(task).corpora(data, run.text if run and not files else None)
