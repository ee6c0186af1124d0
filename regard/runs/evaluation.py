"""Evaluation: all scores of one model or two, on files or on the test part of the model's run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.errors import DataError, SettingError, UsageError
from regard.inference.rescoring.datastore import Datastore
from regard.runs.corpora import check_files
from regard.runs.run_folder import READING, data_as_read_by, run_of
from regard.runs.tables import ValidationTable
from regard.runs.tasks.registry import TASKS, load_trained, measure
from regard.runs.tasks.task import Trained
from regard.runs.tasks.translation import translate
from regard.text.corpus import Pair, ParallelText, Report
from regard.text.encoding import TOO_MANY_TOKENS
from regard.text.lines import one_line
from regard.text.scores import Comparison, Confusion, Score, bleu, compare_translations, translation_scores
from regard.text.splitting import Corpus


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model on a text."""

    model: str
    part: str
    examples: int
    scores: list[Score]
    confusion: Confusion | None = None
    outputs: list[str] = field(default_factory=list)  # one translation per input line; "" for an empty line
    unit: str = "examples"
    skipped: dict[str, int] = field(default_factory=dict)  # number of lines without a score, by reason
    shortened: int = 0  # number of texts that were truncated
    too_long_for_loss: int = 0  # pairs beyond the model's context: in BLEU and chrF, but not in the loss

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        table = None
        if self.confusion is not None:
            table = {"labels": list(self.confusion.labels), "counts": self.confusion.counts.tolist()}
        about = {"model": self.model, "part": self.part, self.unit: self.examples}
        return {
            **about,
            "skipped": self.skipped,
            "shortened": self.shortened,
            "too_long_for_loss": self.too_long_for_loss,
            "scores": [asdict(score) for score in self.scores],
            "confusion": table,
        }

    def __str__(self) -> str:
        lines = [f"{self.model} on {self.part}, {self.examples:,} {self.unit}"]
        lines += [f"skipped {count:,} lines: {reason}" for reason, count in self.skipped.items()]
        lines += [f"shortened {self.shortened:,} texts"] if self.shortened else []
        if self.too_long_for_loss:
            lines += [f"{self.too_long_for_loss:,} lines are too long for the loss; BLEU and chrF have them"]
        lines += [f"loss {s.value:.4f}" if s.name == "loss" else str(s) for s in self.scores]
        if self.confusion is not None:
            lines += ["rows: the right label, columns: the model's", str(self.confusion)]
        return "\n".join(lines)


@dataclass(frozen=True)
class EvaluationReport:
    """One model's evaluation, or two and their comparison by sacreBLEU's paired bootstrap."""

    evaluations: list[Evaluation]
    comparisons: list[Comparison] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The first evaluation as JSON values, with the second one and the comparison."""
        first, *others = [evaluation.as_dict() for evaluation in self.evaluations]
        return {
            **first,
            "against": others,
            "comparison": [asdict(comparison) for comparison in self.comparisons],
        }

    def __str__(self) -> str:
        return "\n\n".join(map(str, [*self.evaluations, *self.comparisons]))


@dataclass(frozen=True)
class ScoringOptions:
    """Search settings, the tokenizer of sacreBLEU, the number of bootstrap samples and the device.

    `channel_weight` is the weight of noisy-channel reranking. `datastore` is a folder of `regard datastore`
    for the first model; the loss is measured without it.
    """

    beams: int = 4
    length_penalty: float = 0.6
    tokenize: str = "13a"
    bootstrap: int = 1000
    device: str = "cpu"
    channel_weight: float = 0.0
    datastore: str | None = None


def evaluate(
    model: str | Path,
    against: str | Path | None = None,
    files: dict[str, Any] | None = None,
    options: ScoringOptions | None = None,
) -> EvaluationReport:
    """Score a model on these files (as train names them), or on the test part of its own run.

    Without a test part it is the validation part. `against` is a second model for the same text.
    """
    options = options or ScoringOptions()
    first = load_trained(model, options.device)
    is_translation = TASKS.find(first.task).is_translation
    if not is_translation and replace(options, device=ScoringOptions.device) != ScoringOptions():
        raise UsageError(
            f"{model} is for {first.task}, and beams, length penalty, channel weight, datastore and "
            "tokenize are for translations; leave them out"
        )
    part, corpus = _text(Path(model), first, files or {})
    examples = _Text(part, corpus)
    evaluations = [_evaluate(str(model), first, examples, options)]
    if against is None:
        return EvaluationReport(evaluations)
    second = load_trained(against, options.device)
    if second.task != first.task:
        raise UsageError(
            f"{model} is for {first.task} and {against} for {second.task}; compare two of one kind"
        )
    evaluations.append(_evaluate(str(against), second, examples, replace(options, datastore=None)))
    if not is_translation:
        return EvaluationReport(evaluations)
    return EvaluationReport(evaluations, _compare(evaluations, examples.lines, options))


def reading_settings(changes: dict[str, Any]) -> dict[str, Any]:
    """The [data] settings of --set; a trained model has no others to change."""
    for table in changes:
        if table != "data":
            raise UsageError(f"--set {table}. means nothing to a trained model; only data. settings are read")
    return changes.get("data", {})


@dataclass(frozen=True)
class _Text:
    """A text to score on, and its name in the output."""

    part: str
    corpus: Any

    @cached_property
    def lines(self) -> _Lines:
        return _Lines.read(self.corpus)


@dataclass(frozen=True)
class _Lines:
    """The source of every line, and the references of the scored lines by line number."""

    sources: list[str]
    references: dict[int, str]

    @classmethod
    def read(cls, corpus: Corpus[Pair]) -> _Lines:
        """The lines of files as they are; the examples of a validation split."""
        if not isinstance(corpus, ParallelText):
            pairs = list(corpus)
            return cls([pair.source for pair in pairs], dict(enumerate(pair.target for pair in pairs)))
        references: dict[int, str] = {}
        for pair in corpus:  # the report has counted the lines up to this pair
            references[corpus.report.read - 1] = pair.target
        return cls(list(corpus.sources()), references)

    def scored(self, outputs: list[str]) -> list[str]:
        """The outputs of the scored lines, from one output per line."""
        return [outputs[number] for number in self.references]


def _evaluate(name: str, trained: Trained, text: _Text, options: ScoringOptions) -> Evaluation:
    task, context = TASKS.find(trained.task), trained.context
    data = task.encode(text.corpus, trained.words, context, None)
    held = task.hold(text.corpus, data, 0)
    objective = task.objective(trained.module).eval()
    settings = ValidationTable(samples=0)
    measurement = measure(objective, trained, held, settings)
    skipped = _skipped(data.report)
    evaluation = Evaluation(
        name,
        text.part,
        task.count(data, trained.words),
        measurement.scores,
        measurement.confusion,
        too_long_for_loss=skipped.pop(TOO_MANY_TOKENS, 0),
        skipped=skipped,
        shortened=data.report.shortened.count,
        unit=task.unit,
    )
    return _translated(evaluation, trained, text, options) if task.is_translation else evaluation


def _skipped(report: Report) -> dict[str, int]:
    """Counts by reason, without the examples of the other part of a split."""
    reasons = report.skipped.items()
    return {reason: mentions.count for reason, mentions in reasons if not reason.endswith("held out")}


def _translated(evaluation: Evaluation, trained: Trained, text: _Text, options: ScoringOptions) -> Evaluation:
    """The evaluation with a translation of each line, and BLEU and chrF of all pairs, long ones included."""
    lines = text.lines
    datastore = None if options.datastore is None else Datastore.load(options.datastore, options.device)
    outputs = translate(
        trained, lines.sources, options.beams, options.length_penalty, options.channel_weight, datastore
    )
    scored, references = lines.scored(outputs), [*lines.references.values()]
    scores = translation_scores(scored, references)
    if options.tokenize != "13a":
        scores += [bleu(scored, references, lowercase, options.tokenize) for lowercase in (False, True)]
    return replace(
        evaluation, examples=len(references), scores=[*evaluation.scores, *scores], outputs=outputs
    )


def _compare(evaluations: Sequence[Evaluation], lines: _Lines, options: ScoringOptions) -> list[Comparison]:
    baseline, other = (lines.scored(evaluation.outputs) for evaluation in evaluations)
    references = [*lines.references.values()]
    return [
        comparison
        for lowercase in (False, True)
        for comparison in compare_translations(baseline, other, references, options.bootstrap, lowercase)
    ]


def _text(model: Path, trained: Trained, files: dict[str, Any]) -> tuple[str, Any]:
    """The given files, or the test or validation part of the model's run."""
    run = run_of(model)
    if files:
        data, task = data_as_read_by(run, files), TASKS.find(trained.task)
        check_files(trained.task, task.sources, data)
        return _named(files), task.corpus(data)
    if run is None:
        raise UsageError(f"{model} belongs to no run, so it has no test part; name the files to score")
    recipe = run.recipe()
    if recipe.task != trained.task:
        raise SettingError(f"{run.path} is a run of {recipe.task}; name the files to score")
    corpora = TASKS.find(recipe.task).corpora(recipe.data, run.text)
    if corpora.test is not None:
        return "the run's test part", corpora.test
    return f"the run's validation part{' (held out)' if corpora.valid_is_held_out else ''}", corpora.valid


def _named(files: dict[str, Any]) -> str:
    """The file names, with commas between them."""
    values = [value for name, value in files.items() if name not in READING]
    return ", ".join(
        str(path) for value in values for path in (value if isinstance(value, list) else [value])
    )


def write_outputs(report: EvaluationReport, path: Path) -> None:
    """Write the translations of the first model, one line per input line."""
    outputs = report.evaluations[0].outputs
    if not outputs:
        raise DataError("only a translation model has outputs to write")
    path.write_text("".join(f"{one_line(output)}\n" for output in outputs), encoding="utf-8", newline="\n")
