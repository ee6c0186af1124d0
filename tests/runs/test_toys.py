"""Copying and sorting are learned in seconds, measured on decoded output that training never saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import SettingError
from regard.runs.evaluation import evaluate
from regard.runs.toys import write_toy


@pytest.mark.parametrize(("toy", "perplexity", "bleu"), [("copy", 1.02, 98), ("sort", 1.03, 96)])
def test_a_toy_is_learned(toy, perplexity, bleu, tmp_path, copied, toy_run):
    run = copied if toy == "copy" else toy_run(tmp_path, toy)
    assert run.metrics["perplexity"] <= perplexity
    assert run.metrics["bleu"] >= bleu
    scores = {score.name: score.value for score in evaluate(run.folder).evaluations[0].scores}
    assert scores["perplexity"] <= perplexity
    assert scores["BLEU"] >= bleu


def test_the_files_say_what_the_task_is(tmp_path):
    for name, answer in (("copy", list), ("sort", sorted)):
        files = write_toy(tmp_path, name, pairs=20)
        rows = [Path(files[side]).read_text(encoding="utf-8").splitlines() for side in ("source", "target")]
        assert [answer(row.split()) for row in rows[0]] == [row.split() for row in rows[1]]
    with pytest.raises(SettingError, match="did you mean sort"):
        write_toy(tmp_path, "srt")
