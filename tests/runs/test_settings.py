"""Every setting of a run file's [data], [tokenizer] and [validation] changes what it says, in a run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from regard.errors import DataError, SettingError
from regard.inference.writer import Writer
from regard.runs.prepared_data import PreparedData, gather
from regard.runs.recipe import Recipe
from regard.runs.run import prepare
from regard.runs.tables import DataTable, TokenizerTable, ValidationTable
from regard.runs.tasks import language_modeling, translation
from regard.runs.tasks.registry import TASKS, load_trained
from regard.runs.tasks.task import EvaluationData
from regard.runs.toml import merged
from regard.runs.toys import builtin_data, small_settings
from regard.training.settings import ValidationSchedule

from .conftest import RECIPES

LETTERS = "abcdefgh"
PAIRS = [(f"{one} {two}", f"{two} {one}") for one in LETTERS for two in LETTERS]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path) -> dict[str, str]:
    """Sixty-four pairs."""
    sides = {"source": [source for source, _ in PAIRS], "target": [target for _, target in PAIRS]}
    return {name: write(tmp_path / name, lines) for name, lines in sides.items()}


def read(task: str, data: dict[str, Any], **changes: Any) -> PreparedData:
    """The text of a recipe as a run takes it, with some settings."""
    small = merged(small_settings(), {"data": data})
    return gather(Recipe.load(RECIPES[task], merged(small, changes)))


def skipped(material: PreparedData) -> dict[str, int]:
    return {reason: found.count for reason, found in material.train.report.skipped.items()}


def test_every_setting_of_these_tables_is_tried_here_or_named():
    """A setting that nobody tries may be parsed and ignored: add it to a test, and here."""
    tried = {
        "source", "target", "tsv", "text", "labelled", "valid_source", "valid_target", "valid", "format",
        "columns", "text_column", "label_column", "header", "lines", "validation_split",
        "max_validation_examples", "filters",
        "kind", "vocabulary", "joint", "normalisation", "lowercase", "min_count",
        "sentences", "beams", "length_penalty", "channel_weight", "samples", "sample_tokens", "prompt",
        "temperature",
    }  # fmt: skip
    elsewhere = {
        "test_source",
        "test_target",
        "test",
        "monitor",
        "init_from",
        "weights",
        *ValidationSchedule.model_fields,
    }  # test_evaluation.py, test_run.py, test_practice.py, test_corpora.py
    known = {name for table in (DataTable, TokenizerTable, ValidationTable) for name in table.model_fields}
    assert tried | elsewhere == known


@pytest.mark.parametrize(("share", "most", "held"), [(0.25, 100, 16), (0.25, 5, 5), (0.5, 100, 32)])
def test_the_validation_split_has_its_share_and_limit(files, share, most, held):
    found = read("translation", {**files, "validation_split": share, "max_validation_examples": most})
    assert abs(found.valid.data.report.kept - held) <= (0 if most < held else held / 2)
    assert found.valid.data.report.kept <= most
    assert found.train.report.kept + found.valid.data.report.kept == len(PAIRS)


def test_validation_files_take_the_place_of_a_part(files, tmp_path):
    own = {
        f"valid_{side}": write(tmp_path / f"valid.{side}", ["a b", "c d"]) for side in ("source", "target")
    }
    found = read("translation", {**files, **own})
    assert (found.train.report.kept, found.valid.data.report.kept) == (len(PAIRS), 2)
    assert [pair.source for pair in found.valid.examples] == ["a b", "c d"]
    text = {"text": files["source"], "valid": write(tmp_path / "other", ["a b", "c d", "e"])}
    assert read("masked-language-modeling", text).valid.data.report.kept == 3


def test_a_table_has_columns_by_number_and_by_name(files, tmp_path):
    rows = [f"x\t{source}\t{target}" for source, target in PAIRS]
    plain = read("translation", {"tsv": write(tmp_path / "plain.tsv", rows), "columns": [1, 2]})
    expected = read("translation", files)
    assert plain.train["source"].ids.tolist() == expected.train["source"].ids.tolist()
    headed = write(tmp_path / "headed.tsv", ["n\ten\tfr", *rows])
    named = read("translation", {"tsv": headed, "columns": ["en", "fr"]})
    numbered = read("translation", {"tsv": headed, "columns": [1, 2], "header": True})
    unknown = read("translation", {"tsv": headed, "columns": [1, 2]})
    counts = [found.train.report.kept + found.valid.data.report.kept for found in (named, numbered, unknown)]
    assert counts == [64, 64, 65]


def as_table(kind: str, pairs: list[tuple[str, str]]) -> list[str]:
    """Lines of a table with a column that nobody asks for and the columns en and fr."""
    if kind == "jsonl":
        return [json.dumps({"fr": target, "n": 1, "en": source}) for source, target in pairs]
    mark, quote = {"csv": (",", '"'), "tsv": ("\t", "")}[kind]
    rows = [("1", f"{quote}{source}{quote}", target) for source, target in pairs]
    return [mark.join(row) for row in [("n", "en", "fr"), *rows]]


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
def test_pairs_come_from_a_table_of_each_format(files, tmp_path, kind):
    expected = read("translation", files)
    table = write(tmp_path / f"pairs.{kind}", as_table(kind, PAIRS))
    valid = write(tmp_path / "valid.jsonl", as_table("jsonl", PAIRS[:3]))
    found = read("translation", {"tsv": table, "columns": ["en", "fr"]})
    assert found.train["source"].ids.tolist() == expected.train["source"].ids.tolist()
    assert found.train["target"].ids.tolist() == expected.train["target"].ids.tolist()
    own = read("translation", {"tsv": table, "valid": valid, "columns": ["en", "fr"]})
    assert own.valid.examples == PAIRS[:3]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_table_under_any_name_has_the_format_that_is_set(tmp_path, kind):
    table = write(tmp_path / "pairs.txt", as_table(kind, PAIRS))
    found = read("translation", {"tsv": table, "columns": ["en", "fr"], "format": kind})
    assert found.train.report.kept + found.valid.data.report.kept == len(PAIRS)
    labelled = {"labelled": table, "valid": table, "text_column": "en", "label_column": "fr"}
    assert len(read("classification", {**labelled, "format": kind}).words.labels) == len(PAIRS)
    with pytest.raises(SettingError, match=r"data\.format"):
        read("classification", labelled)
    with pytest.raises(SettingError, match="format"):
        read("classification", {**labelled, "format": "xlsx"})


@pytest.mark.parametrize("kind", ["character", "bpe"])
def test_a_text_of_one_line_is_learned_from_whole(tmp_path, kind):
    line = "".join(f"{source} " for source, _ in PAIRS) * 5000
    data = {"text": write(tmp_path / "text8", [line]), "validation_split": 0.1}
    found = read("language-modeling", data, tokenizer={"kind": kind, "vocabulary": 300})
    assert found.valid.characters == len(line) + 1 - int(0.9 * (len(line) + 1))
    if kind == "character":
        assert len(found.valid.data["text"].ids) == found.valid.characters
        assert len(found.train["text"].ids) == len(line) + 1 - found.valid.characters
    assert not skipped(found)


def test_a_labelled_table_has_columns_too(tmp_path):
    rows = [f"{'yes' if 'a' in source else 'no'},{source}" for source, _ in PAIRS]
    table = write(tmp_path / "table.csv", ["stars,review", *rows])
    found = read("classification", {"labelled": table, "text_column": "review", "label_column": "stars"})
    assert found.words.labels == ("no", "yes")
    numbered = {"labelled": table, "text_column": 1, "label_column": 0, "header": True}
    assert read("classification", numbered).words.labels == ("no", "yes")


def test_gzip_and_patterns_are_files_too(tmp_path):
    for number, part in enumerate((PAIRS[:40], PAIRS[40:])):
        for side, name in enumerate(("en", "fr")):
            text = "".join(f"{pair[side]}\n" for pair in part)
            (tmp_path / f"news.{number}.{name}.gz").write_bytes(gzip.compress(text.encode()))
    patterns = {"source": f"{tmp_path}/news.*.en.gz", "target": f"{tmp_path}/news.*.fr.gz"}
    assert read("translation", patterns).train.report.read == len(PAIRS)


@pytest.mark.parametrize(
    ("filters", "reason", "count"),
    [
        ({"min_length": 2}, "too short", 1),
        ({"max_length": 3}, "too long", 1),
        ({"max_ratio": 3.0}, "length ratio", 1),
        ({"drop_duplicates": True}, "duplicate", 2),
        ({"longest_line": 12}, "over-long line", 1),
        ({"unit": "characters", "max_length": 4}, "too long", 1),
    ],
)
def test_each_filter_takes_effect_and_is_counted(files, tmp_path, filters, reason, count):
    odd = [("a", "b c"), ("a b c d e f g", "a b c d e f"), ("a b c d", "a"), ("a b", "b a"), ("a b", "b a")]
    for side, name in enumerate(("source", "target")):
        with Path(files[name]).open("a", encoding="utf-8") as file:
            file.writelines(f"{pair[side]}\n" for pair in odd)
    ablate = {"max_length": 99, "max_ratio": 99.0, "drop_duplicates": False}
    found = read("translation", {**files, "filters": {**ablate, **filters}})
    assert reason in skipped(found)
    assert skipped(found)[reason] >= count
    none = read("translation", {**files, "filters": ablate})
    assert reason not in skipped(none)


def test_bad_lines_are_skipped_or_stop_the_run(files):
    with Path(files["source"]).open("ab") as file:
        file.write(b"\xff\xfe\n")
    with Path(files["target"]).open("ab") as file:
        file.write(b"a b\n")
    assert skipped(read("translation", files))["not UTF-8"] == 1
    with pytest.raises(DataError, match="not UTF-8"):
        read("translation", {**files, "filters": {"bad": "error"}})


def test_lines_are_texts_or_run_on(files):
    whole = {"text": files["source"]}
    apart, together = (read("masked-language-modeling", {**whole, "lines": lines}) for lines in (True, False))
    assert apart.train.report.kept > 50
    assert max(map(len, together.train["text"])) > max(map(len, apart.train["text"]))


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"kind": "character"}, lambda words: len(words.source.encode("a b")) == 3),
        (
            {"kind": "bpe", "vocabulary": 300},
            lambda words: words.source.decode(words.source.encode("z")) == "z",
        ),
        ({"vocabulary": 9}, lambda words: words.source.vocabulary == 9),
        ({"joint": False}, lambda words: not words.are_joint),
        ({"lowercase": True}, lambda words: words.source.encode("A") == words.source.encode("a")),
        ({"normalisation": "nfkc"}, lambda words: words.source.encode("ａ") == words.source.encode("a")),
        ({"min_count": 1000}, lambda words: words.source.vocabulary < 10),
    ],
)
def test_the_tokenizer_is_as_it_was_asked_for(files, changes, check):
    usual = {"kind": "word", "vocabulary": 32}
    asked = read("translation", files, tokenizer={**usual, **changes}).words.tokenizers
    assert check(asked)
    assert not check(read("translation", files, tokenizer=usual).words.tokenizers)


class Heard(Exception):
    """Carries what a validation asked for."""


def judge(run: Any, module: Any, function: str, monkeypatch, **settings: Any) -> tuple[Any, ...]:
    """What a task asks of decoding when it judges a run's model with these settings."""

    def listen(trained, *asked):
        raise Heard(*asked)

    monkeypatch.setattr(module, function, listen)
    trained = load_trained(run.folder)
    held = EvaluationData(data=None, examples=[type("Pair", (), {"source": "a b", "target": "b a"})])  # pyright: ignore
    with pytest.raises(Heard) as heard:
        TASKS.find(trained.task).measure(trained, held, ValidationTable(**settings))
    return heard.value.args


def test_a_translation_is_searched_for_as_asked(small, monkeypatch):
    settings = dict(beams=3, length_penalty=1.5, channel_weight=0.2)
    asked = judge(small["translation"], translation, "translate", monkeypatch, **settings)
    assert asked == (["a b"], 3, 1.5, 0.2)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"validation": {"channel_weight": 0.2, "beams": 1}}, "needs beams of 2 or more"),
        (
            {"validation": {"channel_weight": 0.2, "beams": 2}, "tokenizer": {"joint": False}},
            "needs one vocabulary for both languages",
        ),
    ],
)
def test_a_channel_weight_that_cannot_work_is_refused_before_training(tmp_path, changes, line):
    small = merged(small_settings(), {"data": builtin_data("translation", tmp_path)})
    with pytest.raises(SettingError, match=line):
        prepare(Recipe.load("translation", merged(small, changes)), tmp_path / "run")


def test_a_text_is_continued_as_asked(small, monkeypatch):
    settings = dict(prompt="a b", sample_tokens=7, temperature=0.5, samples=2)
    asked = judge(small["language-modeling"], language_modeling, "continue_text", monkeypatch, **settings)
    assert asked == ("a b", 7, 0.5, 0)


def test_as_many_samples_as_were_asked_for(small_run, tmp_path):
    run = small_run(
        "language-modeling",
        tmp_path,
        validation={"samples": 2, "prompt": "a b", "sample_tokens": 3, "temperature": 0},
    )
    trained = load_trained(run.folder)
    held = EvaluationData(data=None)  # pyright: ignore[reportArgumentType]
    found = TASKS.find("language-modeling").measure(trained, held, run.recipe.validation)
    assert len(found.samples) == 2
    assert isinstance(run.model, Writer)
    greedy = run.model.complete("a b", temperature=0, max_tokens=3).text
    assert [sample.output for sample in found.samples] == [greedy] * 2


@pytest.mark.parametrize(
    "task", ["translation", "language-modeling", "masked-language-modeling", "classification"]
)
def test_what_a_run_decides_of_training_reaches_the_trainer(task, tmp_path):
    training = {
        "label_smoothing": 0.3, "batch_tokens": 32, "gradient_accumulation": 3, "seed": 5, "steps": 7
    }  # fmt: skip
    changes = {"training": training, "optimizer": {"backbone_lr_scale": 0.5}}
    small = merged(small_settings(), {"data": builtin_data(task, tmp_path)})
    trainer = prepare(Recipe.load(RECIPES[task], merged(small, changes)), tmp_path / "run").trainer
    assert trainer.module.loss.label_smoothing == 0.3
    source = trainer.source.state()
    assert (source["tokens"], source["seed"]) == (96, 5)
    assert (trainer.settings.steps, trainer.settings.optimizer.backbone_lr_scale) == (7, 0.5)


@pytest.mark.parametrize("task", ["translation", "language-modeling", "classification"])
def test_word_dropout_masks_tokens_of_the_training_text(task, tmp_path):
    small = merged(small_settings(), {"data": builtin_data(task, tmp_path)})
    recipe = Recipe.load(RECIPES[task], merged(small, {"augment": {"word_dropout": 0.5}}))
    run = prepare(recipe, tmp_path / "run")
    mask = run.material.words.tokenizers.source.mask
    batch = run.trainer.source.next()
    read = batch.source if task == "translation" else batch.input
    assert (read == mask).any()


def test_word_dropout_is_refused_for_masked_language_models():
    with pytest.raises(SettingError, match="word_dropout is not for masked-language-modeling"):
        Recipe.load("masked-language-model", {"augment": {"word_dropout": 0.1}})


@pytest.mark.parametrize("task", ["translation", "classification"])
def test_bpe_dropout_splits_tokens_of_the_training_text(task, tmp_path):
    small = merged(small_settings(), {"data": builtin_data(task, tmp_path)})

    def tokens_of_a_text(share, name):
        changes = {"augment": {"bpe_dropout": share}, "tokenizer": {"kind": "bpe", "vocabulary": 300}}
        recipe = Recipe.load(RECIPES[task], merged(small, changes))
        side = "source_keys" if task == "translation" else "keys"
        batches = list(prepare(recipe, tmp_path / name).trainer.source)
        return sum(getattr(batch, side).sum() for batch in batches) / sum(batch.rows for batch in batches)

    assert tokens_of_a_text(0.5, "broken") > tokens_of_a_text(0.0, "whole")


def test_bpe_dropout_ends_after_its_epochs(tmp_path):
    small = merged(small_settings(), {"data": builtin_data("translation", tmp_path)})
    changes = {
        "augment": {"bpe_dropout": 0.5, "bpe_dropout_epochs": 1},
        "tokenizer": {"kind": "bpe", "vocabulary": 300},
    }
    source = prepare(Recipe.load("translation", merged(small, changes)), tmp_path / "run").trainer.source
    broken, whole, again = (sum(int(batch.source_keys.sum()) for batch in source) for _ in range(3))
    assert broken > whole == again


def test_bpe_dropout_epochs_need_bpe_dropout():
    with pytest.raises(SettingError, match="bpe_dropout_epochs needs bpe_dropout above 0"):
        Recipe.load("translation", {"augment": {"bpe_dropout_epochs": 3}})


@pytest.mark.parametrize("task", ["masked-language-modeling", "language-modeling"])
def test_bpe_dropout_is_refused_for_other_tasks(task):
    with pytest.raises(SettingError, match=f"bpe_dropout is not for {task}"):
        Recipe.load(RECIPES[task], {"augment": {"bpe_dropout": 0.1}})


def test_bidirectional_epochs_add_the_exchanged_pairs(tmp_path):
    small = merged(small_settings(), {"data": builtin_data("translation", tmp_path)})
    recipe = Recipe.load("translation", merged(small, {"augment": {"bidirectional_epochs": 1}}))
    run = prepare(recipe, tmp_path / "run")
    counts = [sum(batch.rows for batch in run.trainer.source) for _ in range(2)]
    assert counts == [2 * len(run.material.train), len(run.material.train)]
    recipe = Recipe.load("translation", merged(small, {"augment": {"bidirectional_epochs": "all"}}))
    run = prepare(recipe, tmp_path / "always")
    counts = [sum(batch.rows for batch in run.trainer.source) for _ in range(3)]
    assert counts == [2 * len(run.material.train)] * 3


@pytest.mark.parametrize("task", ["masked-language-modeling", "language-modeling", "classification"])
def test_bidirectional_training_is_refused_for_other_tasks(task):
    with pytest.raises(SettingError, match=f"bidirectional_epochs is not for {task}"):
        Recipe.load(RECIPES[task], {"augment": {"bidirectional_epochs": 1}})
    with pytest.raises(SettingError, match=f"channel_weight is not for {task}"):
        Recipe.load(RECIPES[task], {"validation": {"channel_weight": 0.1}})


@pytest.mark.parametrize("epochs", ["allways", -1, 2.5, True])
def test_bidirectional_epochs_are_a_number_or_all(epochs):
    with pytest.raises(
        SettingError, match=r"bidirectional_epochs \(.*\) must be a number of first epochs, or all"
    ):
        Recipe.load("translation", {"augment": {"bidirectional_epochs": epochs}})


def test_r_drop_reaches_the_loss(tmp_path):
    small = merged(small_settings(), {"data": builtin_data("translation", tmp_path)})
    changes = {"training": {"r_drop": 2.5}, "model": {"dropout": 0.1}}
    run = prepare(Recipe.load("translation", merged(small, changes)), tmp_path / "run")
    assert run.trainer.module.loss.r_drop == 2.5
    without = Recipe.load("translation", merged(small, merged(changes, {"model": {"dropout": 0.0}})))
    with pytest.raises(SettingError, match="needs dropout"):
        prepare(without, tmp_path / "other")


def test_only_so_many_sentences_are_translated(files):
    material = read("translation", {**files, "validation_split": 0.5}, validation={"sentences": 3})
    assert len(material.valid.examples) == 3
    assert read("translation", files, validation={"sentences": 0}).valid.examples == []
