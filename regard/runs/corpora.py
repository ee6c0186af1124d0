"""The files of the [data] table as corpora: train, valid and, if given, test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import DataError, SettingError
from regard.opener import read_regular
from regard.runs.tables import DataTable, Files
from regard.text.corpus import Filters, LabelledText, ParallelText, PlainText, Report
from regard.text.lines import find_files
from regard.text.running_text import RunningText
from regard.text.splitting import Corpus, SplitPart, ValidationSplit

_GIVEN = ("source", "target", "tsv", "text", "labelled")
_PARTS = tuple(f"{part}{side}" for part in ("valid", "test") for side in ("", "_source", "_target"))
# Files of a run's text folder: the labels in their order, which every run has, and the validation split.
LABELS = "labels.json"
HELD_OUT = "held_out.json"
LARGEST = 1 << 31  # bytes of a file there
_HELD_OUT_SEED = 1  # the same part whatever the run's seed, so that runs can be compared


@dataclass(frozen=True)
class Corpora:
    """The training, validation and test text of a run."""

    train: Any
    valid: Any
    test: Any | None = None
    valid_is_held_out: bool = False
    split: ValidationSplit | None = None  # how, where examples are held out one by one


class TextsOf:
    """The texts of a labelled corpus without their labels."""

    def __init__(self, corpus: LabelledText):
        self.corpus = corpus

    @property
    def report(self) -> Report:
        """The report of the latest pass."""
        return self.corpus.report

    def __iter__(self) -> Iterator[str]:
        return (example.text for example in self.corpus)

    def identity(self) -> str:
        """The identity of the labelled corpus, marked as without labels."""
        return f"texts of {self.corpus.identity()}"


def check_files(task: str, sources: tuple[tuple[str, ...], ...], data: DataTable) -> None:
    """Raise if files are missing or belong to another task."""
    given = [name for name in _GIVEN if getattr(data, name) is not None]
    if tuple(given) not in sources:
        wanted = ", or ".join(" and ".join(f"--{name}" for name in choice) for choice in sources)
        shown = " and ".join(f"--{name}" for name in given) or "nothing"
        raise SettingError(f"{task} learns from {wanted}, and was given {shown}; name those files")
    _check_weights(data, given[0])
    for part in ("valid", "test"):
        pair = [getattr(data, f"{part}_{side}") for side in ("source", "target")]
        if (pair[0] is None) != (pair[1] is None):
            raise SettingError(f"{part}_source and {part}_target go together; give both")
        if pair[0] is not None and (("source", "target") not in sources or getattr(data, part) is not None):
            raise SettingError(f"{part} is one file for {task}, or for translation two; give one kind")
    for name in (*_GIVEN, *_PARTS):
        if getattr(data, name) is not None:
            find_files(getattr(data, name))


def _check_weights(data: DataTable, name: str) -> None:
    files = getattr(data, name)
    entries = 1 if isinstance(files, str) else len(files)
    if data.weights is not None and len(data.weights) != entries:
        raise SettingError(
            f"weights ({', '.join(f'{weight:g}' for weight in data.weights)}) must be a number for each of "
            f"the {entries} entries of {name}; add or remove some"
        )


def parallel(data: DataTable, folder: Path | None = None) -> Corpora:
    """Pairs of sentences. The text folder of a run keeps its validation split."""
    parts = {part: parallel_part(data, part) for part in ("train", "valid", "test")}
    return _with_held_out(parts, data, folder)


def labelled(data: DataTable, folder: Path | None = None) -> Corpora:
    """Texts with labels."""
    return _with_held_out(
        {part: labelled_part(data, part) for part in ("train", "valid", "test")}, data, folder
    )


def plain(data: DataTable, folder: Path | None = None) -> Corpora:
    """Lines of text, or the texts of a labelled table."""
    return _with_held_out({part: plain_part(data, part) for part in ("train", "valid", "test")}, data, folder)


def running(data: DataTable) -> Corpora:
    """Running text. Without validation text, its end is the validation split."""
    assert data.text is not None
    test = None if data.test is None else RunningText(data.test, filters=data.filters)
    if data.valid is not None:
        whole = RunningText(data.text, filters=data.filters)
        return Corpora(whole, RunningText(data.valid, filters=data.filters), test)
    border = 1 - data.validation_split
    train = RunningText(data.text, stop=border, filters=data.filters)
    return Corpora(train, RunningText(data.text, start=border, filters=data.filters), test, True)


def plain_part(data: DataTable, part: str = "train") -> Corpus | None:
    """Lines of text, or the texts of a labelled table."""
    if data.labelled is None:
        return _lines(data, part)
    table = labelled_part(data, part)
    return table and TextsOf(table)


def absolute(files: Files) -> Files:
    """The files as absolute paths."""
    if files is None:
        return None
    return str(Path(files).absolute()) if isinstance(files, str) else [str(Path(f).absolute()) for f in files]


def data_files(data: DataTable) -> list[Path]:
    """Every file that the table names."""
    return _files(data, (*_GIVEN, *_PARTS))


def training_files(data: DataTable) -> list[Path]:
    """The files of the training text."""
    return _files(data, _GIVEN)


def _files(data: DataTable, names: Iterable[str]) -> list[Path]:
    named = (getattr(data, name) for name in names)
    return [path for files in named if files is not None for path in find_files(files)]


def with_absolute_paths(data: DataTable) -> DataTable:
    """The table with absolute paths."""
    paths = {name: absolute(getattr(data, name)) for name in (*_GIVEN, *_PARTS)}
    return data.changed(**{name: files for name, files in paths.items() if files is not None})


def parallel_part(data: DataTable, part: str) -> ParallelText | None:
    if part == "train":
        source, target, table = data.source, data.target, data.tsv
    else:
        source, target = getattr(data, f"{part}_source"), getattr(data, f"{part}_target")
        table = getattr(data, part)
    filters = _filters(data, part)
    if source is not None:
        return ParallelText(source, target, filters)
    if table is None:
        return None
    return ParallelText(table, None, filters, data.columns, data.header, data.format)


def labelled_part(data: DataTable, part: str) -> LabelledText | None:
    files = data.labelled if part == "train" else getattr(data, part)
    if files is None:
        return None
    filters = _filters(data, part)
    return LabelledText(files, data.text_column, data.label_column, data.header, data.format, filters)


def _lines(data: DataTable, part: str) -> PlainText | None:
    files = data.text if part == "train" else getattr(data, part)
    if files is None:
        return None
    return PlainText(files, _filters(data, part))


def _filters(data: DataTable, part: str) -> Filters:
    """Validation and test text is not filtered by the filters of the training text."""
    if part == "train":
        return data.filters
    return Filters(bad=data.filters.bad, longest_line=data.filters.longest_line)


def _with_held_out(parts: Mapping[str, Corpus | None], data: DataTable, folder: Path | None) -> Corpora:
    train, valid, test = parts["train"], parts["valid"], parts["test"]
    assert train is not None
    if valid is not None:
        return Corpora(train, valid, test)
    chosen = _split(train, data, folder)
    return Corpora(
        SplitPart(train, chosen, held=False), SplitPart(train, chosen, held=True), test, True, chosen
    )


def _split(corpus: Corpus, data: DataTable, folder: Path | None) -> ValidationSplit:
    """The split stored in a run, the rule of older runs without a stored split, or a new split."""
    if folder is not None and (folder / HELD_OUT).exists():
        return _read_split(folder / HELD_OUT)
    is_earlier = folder is not None and (folder / LABELS).is_file()
    choose = ValidationSplit.choose_format_1 if is_earlier else ValidationSplit.choose
    return choose(corpus, data.validation_split, data.max_validation_examples, _HELD_OUT_SEED)


def _read_split(path: Path) -> ValidationSplit:
    try:
        return ValidationSplit.from_dict(json.loads(read_regular(path, LARGEST)))
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        raise DataError(f"{path} is damaged; restore it, or begin a new run") from None


def first_examples(corpus: Corpus, most: int | None = None) -> list[Any]:
    """At most `most` examples at equal distances over the corpus; all without a limit."""
    every = list(corpus)
    if not every:
        raise DataError(f"nothing is left to score: {' '.join(str(corpus.report).split())}")
    return every if most is None else evenly(every, most)


def evenly(examples: list[Any], most: int) -> list[Any]:
    """At most `most` items, at equal distances."""
    if len(examples) <= most:
        return examples
    return [examples[place * len(examples) // most] for place in range(most)]
