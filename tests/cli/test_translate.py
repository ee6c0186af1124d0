"""The commands that use a model: text in, text out, a line for a line, one line for a mistake."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from regard.cli import lines as room
from regard.cli.app import run
from regard.inference.loading import load
from regard.inference.rescoring.noisy_channel import NoisyChannel
from regard.text.lines import one_line

pytestmark = pytest.mark.xdist_group("toy-models")

TEXTS = ["the cat sees the dog.", "", "  ", "the red king hears", "a\x00\x1bb", "le chien âgé 🙂"]


@pytest.fixture
def say(capsys, monkeypatch):
    """Run a command in this process, with something on stdin."""

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        monkeypatch.setattr(room, "REPORT_EVERY", math.inf)  # however slow this machine is
        code = run(list(map(str, arguments)))
        return SimpleNamespace(code=code, **dict(zip(("out", "err"), capsys.readouterr(), strict=True)))

    return call


def as_lines(texts, end="\n"):
    return "".join(text + end for text in texts).encode()


def test_a_text_is_translated(say, model_folders, guesser):
    found = say("translate", model_folders["translate"], TEXTS[0])
    assert (found.code, found.err) == (0, "")
    assert found.out == guesser.translate(TEXTS[0]).text + "\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_line_has_one_line(say, model_folders, guesser, end):
    expected = [one_line(each.text) for each in guesser.translate(TEXTS, beams=1)]
    lines, call = as_lines(TEXTS, end), ("translate", model_folders["translate"], "-", "--beams", 1)
    found = say(*call, stdin=lines)
    assert found.out == as_lines(expected).decode()
    assert say(*call, stdin=lines.removesuffix(end.encode())).out == found.out
    assert say(*call, "--window", 1, stdin=lines).out == found.out
    assert say(*call, stdin=b"").out == ""


def test_files_in_and_out(say, model_folders, guesser, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(b"\xef\xbb\xbf" + as_lines(TEXTS))
    found = say("translate", model_folders["translate"], "--file", source, "--out", out, "--max-length", 5)
    assert (found.code, found.out, found.err) == (0, "", "")
    expected = [one_line(each.text) for each in guesser.translate(TEXTS, max_length=5)]
    assert out.read_bytes() == as_lines(expected)
    same = say("translate", model_folders["translate"], "--file", source, "--out", source)
    assert (same.code, same.err.count("\n")) == (2, 1)
    assert source.stat().st_size > 10  # and it is still there


def test_options_reach_the_translator(say, model_folders, guesser):
    given = {
        ("--beams", 8, "--n-best", 3): dict(beams=8, n_best=3),
        ("--length-penalty", 3.0, "--max-length", 9): dict(length_penalty=3.0, max_length=9),
        ("--min-length", 7, "--no-repeat-ngram-size", 1): dict(min_length=7, no_repeat_ngram_size=1),
        ("--channel-weight", 2.5, "--beams", 6, "--n-best", 2): dict(
            rescorer=NoisyChannel(guesser, 2.5), beams=6, n_best=2
        ),
        ("--patience", 0.25, "--length-penalty", 3.0): dict(patience=0.25, length_penalty=3.0),
        ("--prefix", "le chat", "--forbid", "le", "--forbid", "roi"): dict(
            prefix="le chat", forbidden=["le", "roi"]
        ),
        ("--ablate", "cross.0.1", "--ablate", "encoder.1.2"): dict(
            ablate=[("cross", 0, 1), ("encoder", 1, 2)]
        ),
        ("--ablate", "positions", "--align"): dict(ablate=["positions"], alignment=True),
    }
    for arguments, options in given.items():
        found = say("translate", model_folders["translate"], TEXTS[0], "--json", *arguments)
        assert json.loads(found.out) == json.loads(
            json.dumps(guesser.translate(TEXTS[0], **options).as_dict())
        )
    long = "the cat sees. " * 30
    split = say("translate", model_folders["translate"], long, "--split", "sentences", "--max-length", 2)
    assert split.out == guesser.translate(long, split="sentences", max_length=2).text + "\n"


def test_columns_are_lines_for_a_text_and_tabs_for_lines(say, model_folders):
    arguments = ("--n-best", 2, "--align", "--max-length", 6)
    alone = say("translate", model_folders["translate"], TEXTS[0], *arguments)
    assert len(alone.out.rstrip("\n").split("\n")) >= 3
    many = say("translate", model_folders["translate"], "-", *arguments, stdin=as_lines(TEXTS[:1] * 3))
    rows = many.out.splitlines()
    assert len(rows) == 3
    assert rows[0].split("\t")[-1] == alone.out.splitlines()[-1]
    assert rows[0].split("\t")[-1].split()[0].startswith("0-")


def test_every_line_has_as_many_columns_whatever_it_holds(say, model_folders):
    long = "the cat sees. " * 30  # which is split, and has neither others nor an alignment of its own
    arguments = ("--n-best", 3, "--align", "--max-length", 4, "--split", "sentences")
    found = say("translate", model_folders["translate"], "-", *arguments, stdin=as_lines([*TEXTS, long]))
    rows = found.out.split("\n")[:-1]
    assert [row.count("\t") for row in rows] == [3] * 7
    assert [rows[1], rows[6].split("\t")[1:]] == ["\t\t\t", ["", "", ""]]
    assert room._one_row(["a\tb\n", "c"]) == "a b \tc"
    assert room._one_row(["a\tb\n"]) == "a\tb "


def test_a_completion_is_shown_as_it_is_written(say, model_folders, writer):
    options = dict(max_tokens=9, seed=3, top_k=20)
    expected = writer.complete("the cat", **options)
    arguments = ("--max-tokens", 9, "--seed", 3, "--top-k", 20)
    assert say("complete", model_folders["complete"], "the cat", *arguments).out == expected.text + "\n"
    echoed = say("complete", model_folders["complete"], "the cat", *arguments, "--echo")
    assert echoed.out == "the cat" + expected.text + "\n"
    told = json.loads(say("complete", model_folders["complete"], "the cat", *arguments, "--json").out)
    assert (told["text"], told["reason"], told["prompt"]) == (expected.text, "length", "the cat")
    several = say("complete", model_folders["complete"], "-", *arguments, stdin=b"the cat\nthe dog\n")
    assert several.out.split("\n")[:-1] == [
        one_line(each.text) for each in writer.complete(["the cat", "the dog"], **options)
    ]


def test_options_reach_the_writer(say, model_folders, writer):
    given = {
        ("--temperature", 0.5, "--top-p", 0.9): dict(temperature=0.5, top_p=0.9),
        ("--min-p", 0.1, "--repetition-penalty", 2.0): dict(min_p=0.1, repetition_penalty=2.0),
        ("--stop", "e", "--stop", "a"): dict(stop=["e", "a"]),
        ("--forbid", "cat", "--no-repeat-ngram-size", 2): dict(forbidden=["cat"], no_repeat_ngram_size=2),
        ("--ablate", "decoder.0.1",): dict(ablate=[("decoder", 0, 1)]),
    }  # fmt: skip
    for arguments, options in given.items():
        found = say("complete", model_folders["complete"], "the cat", *arguments)
        assert found.out == writer.complete("the cat", **options).text + "\n"
    least = say("complete", model_folders["complete"], "the cat", "--min-tokens", 9, "--max-tokens", 5)
    assert least.err.startswith("error: min_tokens (9) must not be above max_tokens (5)")


def test_masks_labels_and_vectors(say, model_folders, filler, classifier, tmp_path):
    text = "the [MASK] sees the[MASK]."
    filled = filler.fill(text, top=2)
    found = say("fill", model_folders["fill"], text, "--top", 2)
    assert found.out.startswith(filled.text + "\n")
    assert f"{filled.masks[1][0].probability:.4f}" in found.out
    assert json.loads(say("fill", model_folders["fill"], text, "--json").out)["text"] == filled.text
    label = classifier.classify("the cat")
    assert (
        say("classify", model_folders["classify"], "the cat").out
        == f"{label.label}\t{label.probability:.4f}\n"
    )
    rows = say("classify", model_folders["classify"], "-", "--json", stdin=b"the cat\n\n").out.splitlines()
    assert json.loads(rows[0])["probabilities"] == pytest.approx(label.probabilities, abs=1e-6)
    assert len(rows) == 2
    vector = json.loads(say("embed", model_folders["classify"], "the cat", "--json").out)["vector"]
    assert vector == pytest.approx(classifier.embed("the cat").tolist(), abs=1e-6)
    numbers = say("embed", model_folders["fill"], "a", "--pooling", "first", "--no-normalise").out.split()
    assert list(map(float, numbers)) == pytest.approx(
        filler.embed("a", pooling="first", normalise=False), rel=1e-4
    )
    out = tmp_path / "vectors.npy"
    assert say("embed", model_folders["fill"], "-", "--out", out, stdin=b"a\nthe cat\n").code == 0
    assert np.load(out) == pytest.approx(filler.embed(["a", "the cat"]), abs=1e-6)
    assert say("embed", model_folders["fill"], "-", "--out", out, stdin=b"").code == 0
    assert np.load(out).shape == (0, filler.config.width)
    both = say("embed", model_folders["fill"], "a", "--out", out, "--json")
    assert (both.code, both.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "line"),
    [
        (["translate", "MODEL"], b"", 2, "give one thing to read"),
        (["translate", "MODEL", "x", "--file", "y"], b"", 2, "give one thing to read"),
        (["complete", "MODEL", "x"], b"", 2, "holds a model that translates (encoder-decoder)"),
        (["translate", "nowhere", "x"], b"", 1, "nowhere is not a folder"),
        (["translate", "MODEL", "x " * 100_000], b"", 2, "tokens and this model reads 47"),
        (["translate", "MODEL", "-"], b"a\n" + b"x " * 500_000 + b"\n", 2, "text number 2 has"),
        (["translate", "MODEL", "-"], b"a\n\xff\xfe\n", 1, "line 2 of stdin: not UTF-8"),
        (["translate", "MODEL", "--file", "nothing.txt"], b"", 1, "nothing.txt"),
        (["translate", "MODEL", "x", "--beams", "0"], b"", 2, "beams (0)"),
        (["translate", "MODEL", "x", "--patience", "0"], b"", 2, "patience (0.0)"),
        (["translate", "MODEL", "x", "--ablate", "cross.0.99"], b"", 2, "no head 99"),
        (["translate", "MODEL", "x", "--split", "word"], b"", 2, "unknown split 'word'"),
        (["translate", "MODEL", "x", "--dtype", "bfloat16"], b"", 2, "for accelerators"),
    ],
)
def test_a_mistake_is_one_line(say, model_folders, arguments, stdin, code, line):
    arguments = [model_folders["translate"] if each == "MODEL" else each for each in arguments]
    found = say(*arguments, stdin=stdin)
    assert found.code == code
    assert found.err.startswith("error: ")
    assert found.err.count("\n") == 1
    assert line in found.err
    assert len(found.err) < 400
    assert found.out.count("\n") == (1 if stdin else 0)  # what came before the bad line is answered


ODD = {
    "empty": "",
    "white space": " \t ",
    "control characters": "a\x07b\x1b[31mc\x7f\x00 d",
    "line ends of others": "a\u2028b\x0bc\x85d",
    "marks that turn text around": "\u202ea\ufeff",
    "a megabyte": "word " * 220_000,
}
LONG = {
    "translate": "set split to sentences",
    "complete": "prompt and completion share",
    "fill": "shorten it\n",
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("command", ["translate", "complete", "fill", "classify", "embed"])
def test_odd_text_is_answered_or_refused_in_one_clear_line(say, model_folders, command, odd):
    text = ODD[odd] + (" [MASK]" if command == "fill" and ODD[odd].strip() else "")
    folder = model_folders["classify" if command == "embed" else command]
    found = say(command, folder, text, *(["--max-tokens", 5] if command == "complete" else []))
    if odd == "a megabyte":
        assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
        assert LONG.get(command, "set truncate") in found.err
        assert len(found.err) < 200
    elif command == "fill" and not text.strip():
        assert (found.code, found.err.count("\n")) == (2, 1)
        assert "has no mask; write [MASK]" in found.err
    else:
        assert (found.code, found.err) == (0, "")
    if command == "translate" and not text.strip():
        assert found.out == "\n"


def test_progress_is_a_bar_for_people_and_lines_elsewhere(monkeypatch, capsys):
    with room._progress(True) as advance:
        advance(3)
    assert capsys.readouterr().err == ""  # short work says nothing
    monkeypatch.setattr(room, "REPORT_EVERY", 0.0)
    with room._progress(True) as advance:
        advance(3)
        advance(4)
    with room._progress(False) as advance:
        advance(5)
    plain = capsys.readouterr().err.splitlines()
    assert [line.rpartition(", ")[0] for line in plain] == ["1 lines, 3 words", "2 lines, 7 words"]
    assert all(line.endswith(" words/s") for line in plain)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with room._progress(True) as advance:
        advance(3)
        advance(4)
    assert "2 lines, 7 words" in capsys.readouterr().err


def test_answers_are_utf8_whatever_the_locale(model_folders, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    lines = io.TextIOWrapper(io.BytesIO("le chien âgé 🙂\n".encode()), encoding="ascii")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stdin", lines)
        assert run(["complete", str(model_folders["complete"]), "-", "--echo", "--max-tokens", "1"]) == 0
    assert out.buffer.getvalue().decode("utf-8").startswith("le chien âgé 🙂")


def test_a_closed_stdin_is_told(model_folders, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert run(["embed", str(model_folders["fill"]), "-"]) == 2
    assert capsys.readouterr().err.startswith("error: stdin is closed")
    assert run(["embed", str(model_folders["fill"]), "the cat"]) == 0


def test_a_person_who_types_gets_each_answer_at_once(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    assert room.Lines("-", None, None).window == 1
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    assert room.Lines("-", None, None).window > 100


def test_the_command_streams_in_a_process_of_its_own(model_folders):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", "translate", model_folders["translate"], "-", "--window", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        translator = load(model_folders["translate"])
        for text in (TEXTS[0], TEXTS[3]):  # the second is sent when the first has been answered
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            expected = one_line(translator.translate(text).text)
            assert process.stdout.readline().decode() == expected + "\n"
        rest, errors = process.communicate(timeout=300)
    assert (process.returncode, rest, errors) == (0, b"", b"")


def test_a_line_without_room_is_named_and_those_before_it_are_answered(say, model_folders, writer):
    long = "the cat sees the dog. " * 2
    call = ("complete", model_folders["complete"], "-", "--min-tokens", 40, "--max-tokens", 60)
    found = say(*call, stdin=as_lines(["the cat", "a", long, "the"]))
    expected = writer.complete(["the cat", "a"], min_tokens=40, max_tokens=60)
    assert found.out == as_lines([one_line(each.text) for each in expected]).decode()
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "text number 3 has" in found.err
    assert "min_tokens (40)" in found.err
    wrong = say("complete", model_folders["complete"], "a", "--min-tokens", 20, "--max-tokens", 9)
    assert "min_tokens (20) must not be above max_tokens (9)" in wrong.err


def test_the_name_of_a_built_in_model_is_enough(capsys):
    assert run(["translate", "demo", "I am a student"]) == 0
    assert capsys.readouterr().out.strip()
    assert run(["translate", "./demo", "I am a student"]) == 1
