"""Scores: equal to the sacrebleu command, and to figures worked out by hand."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from regard.errors import DataError, SettingError
from regard.text.scores import (
    accuracy,
    bits_per_character,
    bleu,
    chrf,
    compare_translations,
    confusion,
    perplexity,
    translation_scores,
)

REFERENCES = [
    "Der Hund läuft über die Straße, weil er müde ist.",
    "Zwei Männer sitzen auf einer Bank am Fluss.",
    "Das Tier überquerte die Straße nicht.",
    'Sie sagte: "Ich bin eine Studentin" (zweimal).',
    "Ein Kind spielt im Park ...  ",
] * 6
GOOD = [line.replace("Straße", "straße").replace("auf einer Bank", "an einer Bank") for line in REFERENCES]
BAD = [" ".join(reversed(line.split())) for line in REFERENCES]


@pytest.fixture
def command(tmp_path):
    """Run the sacrebleu command on files of these lines."""

    def run(translations: list[str], references: list[str], *options: str) -> list[dict]:
        for name, lines in (("out", translations), ("ref", references)):
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        call = [
            sys.executable,
            "-m",
            "sacrebleu",
            "ref",
            "-i",
            "out",
            "-m",
            "bleu",
            "chrf",
            "-w",
            "10",
            *options,
        ]
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, check=True, timeout=300)
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("translations", [GOOD, BAD, [line + " " for line in REFERENCES]])
def test_bleu_and_chrf_equal_the_command(command, translations, lowercase):
    options = ["--lowercase", "--chrf-lowercase"] if lowercase else []
    expected = command(translations, REFERENCES, *options)
    ours = [score(translations, REFERENCES, lowercase) for score in (bleu, chrf)]
    assert [score.value for score in ours] == pytest.approx(
        [result["score"] for result in expected], abs=1e-9
    )
    for score, result in zip(ours, expected, strict=True):
        assert score.signature == result["signature"]
        assert score.name.removesuffix(" lower-cased") == result["name"]


def test_real_text_scores_as_the_command_says(command, shared_data):
    import gzip

    source, target = (
        gzip.decompress((shared_data / f"multi30k/val.{side}.gz").read_bytes()).decode().split("\n")[:-1]
        for side in ("de", "fr")
    )
    expected = command(source, target)
    assert bleu(source, target).value == pytest.approx(expected[0]["score"], abs=1e-9)
    assert chrf(source, target).value == pytest.approx(expected[1]["score"], abs=1e-9)


def test_case_counts_unless_lowered():
    lines = [line.replace("ß", "s") for line in REFERENCES]
    cased, lowered, cased_f, lowered_f = translation_scores([line.swapcase() for line in lines], lines)
    assert lowered.value == pytest.approx(100)
    assert cased.value < 50 < lowered_f.value
    assert [score.name for score in (cased, lowered, cased_f, lowered_f)] == [
        "BLEU",
        "BLEU lower-cased",
        "chrF2",
        "chrF2 lower-cased",
    ]
    assert "case:lc" in lowered.signature
    assert str(lowered).startswith("BLEU lower-cased 100.00 (nrefs:1|")


def test_the_tokenisation_can_be_chosen():
    assert bleu(GOOD, REFERENCES, tokenize="none").value != bleu(GOOD, REFERENCES).value
    with pytest.raises(SettingError, match="known"):
        bleu(GOOD, REFERENCES, tokenize="13b")


def test_the_paired_bootstrap_tells_systems_apart():
    by_bleu, by_chrf = compare_translations(BAD, GOOD, REFERENCES, samples=200)
    assert by_bleu.p_value < 0.05
    assert by_bleu.other.value == bleu(GOOD, REFERENCES).value
    assert by_chrf.baseline.value == chrf(BAD, REFERENCES).value
    assert "bs:200" in by_bleu.other.signature
    same, _ = compare_translations(GOOD, GOOD, REFERENCES, samples=200)
    assert same.p_value == 1
    assert "difference +0.00" in str(same)


@pytest.mark.parametrize(("left", "right"), [(["a"], ["a", "b"]), ([], [])])
def test_each_translation_needs_its_reference(left, right):
    for score in (bleu, chrf):
        with pytest.raises(DataError, match="references"):
            score(left, right)


def test_perplexity_and_bits_per_character():
    assert perplexity(10 * math.log(7), 10).value == pytest.approx(7)
    assert perplexity(1e6, 1).value == math.inf
    assert bits_per_character(80 * math.log(2), 40).value == pytest.approx(2)
    for score in (perplexity, bits_per_character):
        with pytest.raises(DataError):
            score(1.0, 0)


def test_accuracy_and_confusion():
    predicted, expected = [0, 1, 1, 2, 2, 2], [0, 1, 2, 2, 2, 0]
    assert accuracy(predicted, expected).value == pytest.approx(400 / 6)
    table = confusion(np.array(predicted), np.array(expected), ["bad", "fair", "good"])
    assert table.counts.tolist() == [[1, 0, 1], [0, 1, 0], [0, 1, 2]]
    assert str(table).splitlines() == [
        "      bad  fair  good",
        " bad    1     0     1",
        "fair    0     1     0",
        "good    0     1     2",
    ]
    with pytest.raises(DataError):
        accuracy([1], [])
