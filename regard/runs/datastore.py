"""What a model remembers: the training text of its run, or other files, and how much that counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UsageError
from regard.inference.rescoring.datastore import ABOUT, Datastore
from regard.inference.rescoring.tuning import Recall
from regard.inference.translator import Translator
from regard.runs.corpora import Corpora, check_files, parallel
from regard.runs.run_folder import data_as_read_by, run_of
from regard.runs.trained import Trained


@dataclass(frozen=True)
class Keepsake:
    """Where something remembered was saved, and from how many pairs."""

    folder: Path
    pairs: int
    remembered: Datastore

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        about = {"remembered": str(self.folder), "pairs": self.pairs, "tokens": len(self.remembered)}
        return {**about, **self.remembered.recall.model_dump()}

    def __str__(self) -> str:
        recall = self.remembered.recall
        how = f"weight {recall.weight:g}, {recall.neighbours} neighbours, temperature {recall.temperature:g}"
        if not recall.weight:
            how = "weight 0, for the validation part is no likelier with it"
        return f"{self.folder}: {len(self.remembered):,} tokens of {self.pairs:,} pairs; {how}"


def remember(
    model: str | Path,
    files: dict[str, Any] | None = None,
    recall: dict[str, Any] | None = None,
    out: str | Path | None = None,
    device: str = "cpu",
    tell: Callable[[str], None] = lambda line: None,
) -> Keepsake:
    """Save what a translation model remembers of the training part of its own run, or of these files.

    The recall is the one under which the validation part is likeliest, but for what `recall` says. Where
    files come without a validation part, one is held out of them, as in training. `tell` hears how far it is.
    """
    Recall(**recall or {})  # a wrong one is refused before the work
    trained = Trained.load(model, device)
    if trained.objective != "translation":
        raise UsageError(f"{model} is for {trained.objective}, and only a model that translates can remember")
    folder = _free(_folder(Path(model), out))
    corpora = _corpora(Path(model), files or {})
    module: Any = trained.module
    translator = Translator(module, trained.words.tokenizers)
    pairs = list(corpora.train)
    tell(f"reading {len(pairs):,} pairs")
    remembered = translator.remember(pairs)
    tell(f"{len(remembered):,} tokens; choosing on validation text how much they count")
    found = translator.tuned(remembered, corpora.valid).changed(**recall or {})
    found.save(folder, overwrite=True)
    return Keepsake(folder, len(pairs), found)


def _folder(model: Path, out: str | Path | None) -> Path:
    """Where it is saved: with the run, if nothing is said."""
    if out is not None:
        return Path(out)
    run = run_of(model)
    if run is None:
        raise UsageError(f"{model} belongs to no run, so there is no place for it; name a folder with --out")
    return run.remembered


def _free(folder: Path) -> Path:
    """A folder that may be written: a new one, or one of an earlier time."""
    if folder.exists() and not (folder / ABOUT).is_file():
        raise UsageError(f"{folder} exists already and holds something else; choose another folder")
    return folder


def _corpora(model: Path, files: dict[str, Any]) -> Corpora:
    """The files given, or those that the model's run has learned from, split as it split them."""
    run = run_of(model)
    if run is None and not files:
        raise UsageError(f"{model} belongs to no run; name the files to remember, --source and --target")
    data = data_as_read_by(run, files) if files or run is None else run.recipe().data
    check_files("translation", data)
    return parallel(data, run.text if run and not files else None)
