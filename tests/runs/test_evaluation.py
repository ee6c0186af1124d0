"""Scores of a model: on files, on its own test part, beside another model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
import torch
from torch.nn import functional as F

from regard.errors import DataError, SettingError, UsageError
from regard.runs.evaluation import ScoringOptions, evaluate, write_outputs
from regard.runs.toys import write_toy


def scores_of(judgement, place=0):
    return {score.name: score.value for score in judgement.evaluations[place].scores}


def test_bleu_and_chrf_are_sacrebleus_on_what_the_model_says(copied, tmp_path):
    files = write_toy(tmp_path, "sort", pairs=30, seed=5)
    judgement = evaluate(copied.folder, files=files, options=ScoringOptions(beams=2))
    sources, references = (
        Path(files[side]).read_text(encoding="utf-8").splitlines() for side in ("source", "target")
    )
    outputs = [found.text for found in copied.model.translate(sources, beams=2)]
    assert judgement.evaluations[0].outputs == outputs
    scores = scores_of(judgement)
    assert scores["BLEU"] == sacrebleu.corpus_bleu(outputs, [references]).score
    assert scores["BLEU lower-cased"] == sacrebleu.corpus_bleu(outputs, [references], lowercase=True).score
    assert scores["chrF2"] == sacrebleu.corpus_chrf(outputs, [references]).score
    signatures = [
        score.signature for score in judgement.evaluations[0].scores if score.name.startswith("BLEU")
    ]
    assert ["case:mixed" in signatures[0], "case:lc" in signatures[1]] == [True, True]
    write_outputs(judgement, tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="utf-8").splitlines() == outputs


def test_the_search_settings_take_effect(copied, tmp_path, monkeypatch):
    asked = []

    class Fake:
        def __init__(self, model, tokenizers):
            self.tokenizers = tokenizers

        def translate(self, sentences, **settings):
            asked.append(settings)
            return [SimpleNamespace(text=sentence.upper()) for sentence in sentences]

    monkeypatch.setattr("regard.runs.tasks.translation.Translator", Fake)
    files = write_toy(tmp_path, pairs=20, seed=5)
    scores = scores_of(
        evaluate(copied.folder, files=files, options=ScoringOptions(7, 0.9, channel_weight=0.3))
    )
    assert (asked[0]["beams"], asked[0]["length_penalty"], asked[0]["rescorer"].weight) == (7, 0.9, 0.3)
    assert scores["BLEU lower-cased"] == pytest.approx(100)
    assert scores["BLEU"] < 1


def test_a_run_knows_its_test_part(copied):
    for folder in (copied.folder, copied.folder / "model"):
        found = evaluate(folder).evaluations[0]
        assert (found.part, found.examples) == ("the run's test part", 100)


def test_without_a_test_part_it_is_the_validation_part(each):
    options = ScoringOptions(beams=1) if each.recipe.task == "translation" else None
    found = evaluate(each.folder, options=options).evaluations[0]
    assert found.part == "the run's validation part (held out)"
    scores = {score.name: score.value for score in found.scores}
    assert scores["loss"] == pytest.approx(each.metrics["loss"], rel=1e-5)


def test_every_token_of_a_text_is_scored_once_in_windows_of_the_context(small, tmp_path):
    run = small["language-modeling"]
    text = "a b c d e f g h i j " * 20 + "\n"
    (tmp_path / "text").write_text(text, encoding="utf-8")
    judgement = evaluate(run.folder, files={"text": str(tmp_path / "text")})
    model, tokenizer, context = run.model.model, run.model.tokenizer, run.model.config.context
    ids = tokenizer.encode(text)
    whole = [(tokenizer.encode("\n") or [tokenizer.end])[-1], *ids]
    total = 0.0
    for start in range(0, len(ids), context):
        window = torch.tensor([whole[start : start + context + 1]])
        with torch.no_grad():
            total += F.cross_entropy(model(window[:, :-1])[0], window[0, 1:], reduction="sum").item()
    scores = scores_of(judgement)
    assert judgement.evaluations[0].examples == len(ids)
    assert scores["perplexity"] == pytest.approx(math.exp(total / len(ids)), rel=1e-5)
    assert scores["bits per character"] == pytest.approx(total / math.log(2) / len(text), rel=1e-5)


def test_perplexity_of_several_files_is_that_of_their_text(small, tmp_path):
    run = small["language-modeling"]
    texts = ["a b c d e f g h i j " * 3 + "\n", "c d e\n", "j i h g f e " * 5 + "\n"]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    judgement = evaluate(run.folder, files={"text": f"{tmp_path}/*.txt"})
    model, tokenizer, context = run.model.model, run.model.tokenizer, run.model.config.context
    first, second, third = map(tokenizer.encode, texts)
    ids = [*first, tokenizer.end, *second, tokenizer.end, *third]
    whole = [(tokenizer.encode("\n") or [tokenizer.end])[-1], *ids]
    total = 0.0
    for start in range(0, len(ids), context):
        window = torch.tensor([whole[start : start + context + 1]])
        with torch.no_grad():
            losses = F.cross_entropy(model(window[:, :-1])[0], window[0, 1:], reduction="none")
        total += losses[window[0, 1:] != tokenizer.end].sum().item()
    scores, tokens = scores_of(judgement), len(ids) - 2
    assert judgement.evaluations[0].examples == tokens
    assert scores["perplexity"] == pytest.approx(math.exp(total / tokens), rel=1e-5)
    assert scores["bits per character"] == pytest.approx(total / math.log(2) / len("".join(texts)), rel=1e-5)


def test_accuracy_agrees_with_the_confusion(small, tmp_path):
    run = small["classification"]
    table = tmp_path / "test.tsv"
    table.write_text("label\ttext\na\ta b c\nb\tb c d\nb\tb b b\n", encoding="utf-8")
    found = evaluate(run.folder, files={"labelled": str(table)}).evaluations[0]
    assert found.confusion is not None
    counts = found.confusion.counts
    assert counts.sum() == 3
    guesses = [run.model.classify(text).label for text in ("a b c", "b c d", "b b b")]
    assert counts.sum(0).tolist() == [guesses.count(label) for label in found.confusion.labels]
    assert counts.sum(1).tolist() == [1, 2, *[0] * 8]
    right = 100 * np.trace(counts) / 3
    assert {score.name: score.value for score in found.scores}["accuracy"] == pytest.approx(right)
    assert found.as_dict()["confusion"]["counts"] == counts.tolist()
    assert "columns: the model's" in str(found)
    assert (found.shortened, "shortened" in str(found)) == (0, False)
    table.write_text(f"label\ttext\na\t{'a ' * 500}\nb\tb\n", encoding="utf-8")
    cut = evaluate(run.folder, files={"labelled": str(table)}).evaluations[0]
    assert (cut.shortened, cut.as_dict()["shortened"]) == (1, 1)
    assert "shortened 1 texts" in str(cut)


@pytest.mark.parametrize("name", ["test.csv", "test.jsonl", "test.txt"])
def test_pairs_to_score_come_from_tables_too(copied, tmp_path, name):
    table = tmp_path / name
    json_lines = '{"a": "a b c d", "b": "a b"}\n{"a": "b c d e", "b": "c"}\n'
    table.write_text(
        json_lines if name != "test.csv" else 'a,b\n"a b c d",a b\nb c d e,c\n', encoding="utf-8"
    )
    reading = {"columns": ["a", "b"]} | ({"format": "jsonl"} if name == "test.txt" else {})
    found = evaluate(
        copied.folder, files={"tsv": str(table), **reading}, options=ScoringOptions(beams=1)
    ).evaluations[0]
    assert (found.examples, found.skipped, found.part) == (2, {}, str(table))


def written(folder: Path, **sides: list[str | bytes]) -> dict[str, str]:
    """Files of these lines, as evaluate takes them."""
    for name, lines in sides.items():
        raw = (line if isinstance(line, bytes) else line.encode() for line in lines)
        (folder / name).write_bytes(b"".join(line + b"\n" for line in raw))
    return {name: str(folder / name) for name in sides}


def test_lines_that_cannot_be_scored_are_counted_and_no_others(copied, tmp_path):
    lines: list[str | bytes] = ["a b c d", "", "b c d e", "a " * 500]
    files = written(tmp_path, source=lines, target=lines)
    found = evaluate(copied.folder, files=files, options=ScoringOptions(beams=1)).evaluations[0]
    assert (found.examples, found.skipped, found.too_long_for_loss) == (3, {"empty": 1}, 1)
    assert found.as_dict()["too_long_for_loss"] == 1
    assert "skipped 1 lines: empty" in str(found)
    assert "1 lines are too long for the loss" in str(found)
    translated = [found.outputs[number] for number in (0, 2, 3)]
    expected = sacrebleu.corpus_bleu(translated, [["a b c d", "b c d e", "a " * 500]])
    assert {score.name: score.value for score in found.scores}["BLEU"] == expected.score


def test_there_is_an_output_line_for_each_line_given(copied, small, tmp_path):
    source: list[str | bytes] = ["", "a b c d", "b c", "  ", b"\xff", "c d", "d\0e", "e f g h", "\r", ""]
    target: list[str | bytes] = ["x", "a b c d", "", "y", "z", b"\xff", "v", "e f g h", "w", ""]
    files = written(tmp_path, source=source, target=target)
    judgement = evaluate(
        copied.folder, small["translation"].folder, files, ScoringOptions(beams=1, bootstrap=20)
    )
    found = judgement.evaluations[0]
    assert (found.examples, found.skipped) == (2, {"empty": 5, "not UTF-8": 2, "NUL character": 1})
    write_outputs(judgement, tmp_path / "out")
    lines = (tmp_path / "out").read_bytes().decode().split("\n")
    assert len(lines) == len(source) + 1
    usable = {1: "a b c d", 2: "b c", 5: "c d", 7: "e f g h"}  # a source is translated whatever its target is
    expected = [
        copied.model.translate(usable[number], beams=1).text if number in usable else ""
        for number in range(10)
    ]
    assert lines == [*expected, ""]
    assert judgement.comparisons[0].baseline.value == scores_of(judgement)["BLEU"]


def test_there_is_an_output_line_for_each_row_of_a_table(copied, tmp_path):
    rows: list[str | bytes] = ["a b\ta b", "only one", "\tb c", "c d\tc d", "", "d e\t"]
    found = evaluate(
        copied.folder, files=written(tmp_path, tsv=rows), options=ScoringOptions(beams=1)
    ).evaluations[0]
    assert (found.examples, [bool(output) for output in found.outputs]) == (
        2,
        [True, False, False, True, False, True],
    )


def test_outputs_are_one_line_each(copied, tmp_path, monkeypatch):
    said = iter(["a\nb", "c\r\nd", "e\rf", "g"])

    class Fake:
        def __init__(self, model, tokenizers):
            self.tokenizers = tokenizers

        def translate(self, sentences, **settings):
            return [SimpleNamespace(text=next(said)) for _ in sentences]

    monkeypatch.setattr("regard.runs.tasks.translation.Translator", Fake)
    lines: list[str | bytes] = ["a b"] * 4
    write_outputs(
        evaluate(copied.folder, files=written(tmp_path, source=lines, target=lines)), tmp_path / "out"
    )
    assert (tmp_path / "out").read_bytes() == b"a b\nc d\ne f\ng\n"


def test_filters_of_a_file_to_score_leave_its_output_lines(copied, tmp_path):
    lines: list[str | bytes] = ["a b c", "a b", "a b c", "c d e"]
    files = {**written(tmp_path, source=lines, target=lines), "filters": {"drop_duplicates": True}}
    found = evaluate(copied.folder, files=files, options=ScoringOptions(beams=1)).evaluations[0]
    assert (found.examples, len(found.outputs), found.skipped) == (3, 4, {"duplicate": 1})


def test_two_models_are_compared_on_the_same_lines(copied, small, tmp_path):
    files = write_toy(tmp_path, "copy", pairs=40, seed=9)
    judgement = evaluate(
        copied.folder, small["translation"].folder, files, ScoringOptions(beams=1, bootstrap=100)
    )
    assert [comparison.baseline.name for comparison in judgement.comparisons] == ["BLEU", "chrF2"] * 2
    bleu = judgement.comparisons[0]
    assert bleu.baseline.value == scores_of(judgement, 0)["BLEU"]
    assert bleu.other.value == scores_of(judgement, 1)["BLEU"]
    assert bleu.p_value < 0.05
    shown = json.loads(json.dumps(judgement.as_dict()))
    assert shown["against"][0]["model"] == str(small["translation"].folder)
    assert "difference" in str(judgement)


def test_what_cannot_be_scored_is_told(copied, small, tmp_path):
    with pytest.raises(UsageError, match="compare two of one kind"):
        evaluate(copied.folder, small["language-modeling"].folder)
    with pytest.raises(SettingError, match="classification learns from --labelled, and was given --text"):
        evaluate(small["classification"].folder, files={"text": "x"})
    with pytest.raises(
        UsageError, match="is for language-modeling, and beams, length penalty, channel weight, datastore"
    ):
        evaluate(small["language-modeling"].folder, options=ScoringOptions(beams=2))
    with pytest.raises(DataError, match="only a translation model"):
        write_outputs(evaluate(small["classification"].folder), tmp_path / "out")
    lone = tmp_path / "alone"
    lone.mkdir()
    for file in (copied.folder / "model").iterdir():
        (lone / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UsageError, match="belongs to no run"):
        evaluate(lone)
