"""`regard inspect`: a saved model's attention on the screen, as JSON and in files; a mistake is one line."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

from regard.checkpoints.folder import save_model
from regard.cli.app import run
from regard.inference.loading import load
from regard.inspection.inspection import inspect
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.text.tokenizer import Tokenizer, Tokenizers

TIRED = "The animal was too tired because it ran."
WIDE = "The animal was too wide because it ran."
FAMILIES = {
    "encoder-decoder": "translation",
    "decoder-only": "language-modeling",
    "encoder-only": "masked-language-modeling",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A small model folder of each family."""
    tokenizer = Tokenizer.train([TIRED, WIDE, "il elle"], kind="word")
    made = {}
    for family, task in FAMILIES.items():
        torch.manual_seed(1)
        output = "masked" if family == "encoder-only" else "words"
        size = dict(vocabulary=tokenizer.vocabulary, width=16, layers=2, heads=4, feed_forward_width=16)
        model = build_model(ModelConfig(family=family, output=output, **size)).eval()
        made[family] = tmp_path_factory.mktemp("models") / family
        save_model(made[family], model, Tokenizers.joint(tokenizer), task)
    return made


@pytest.fixture
def inspected(capsys, folders):
    """Run the command on the model of a family and give what it printed."""

    def call(*arguments: str, text: str = TIRED, family: str = "encoder-decoder") -> str:
        code = run(["inspect", str(folders[family]), text, *arguments])
        printed = capsys.readouterr()
        assert (code, printed.err) == (0, "")
        return printed.out

    return call


def test_all_heads_of_the_last_layer(inspected):
    text = inspected()
    assert f"source  {TIRED}" in text
    assert "Cross attention, layer 1, 4 heads" in text
    assert all(f"head {head}" in text for head in range(4))
    assert "Kinds of attention: encoder (layers 0 to 1), decoder" in text
    assert "\x1b" not in text  # no colours where there is no terminal


def test_what_is_worth_a_first_look(inspected):
    text = inspected()
    said = " ".join(text.split())
    assert re.search(
        r"The step that writes .+ looks at “.+”: 0\.\d\d\. --kind cross --layer 1 --head \d", said
    )
    first = json.loads(inspected("--json"))["first"]
    assert (first["kind"], first["layer"]) == ("cross", 1)
    assert first["caption"] in said
    assert "first" not in json.loads(inspected("--json", "--kind", "cross"))


def test_one_head_large(inspected):
    text = inspected("--kind", "encoder", "--layer", "0", "--head", "3")
    assert "Encoder attention, layer 0, head 3" in text
    assert "Percent of each row" in text


def test_one_word(inspected):
    assert "head by head" in inspected("--query", "it")
    text = inspected("--query", "it", "--layer", "1", "--head", "2", "--words")
    assert "Encoder attention, layer 1, head 2" in text
    assert "What “it” looks at" in text
    assert "layer 0 head 0" not in inspected("--query", "7", "--layer", "1")
    assert "What “il” looks at" in inspected("--query", "il", "--head", "0", "--target", "il elle")


def test_what_is_printed_is_what_python_sees(inspected, folders):
    told = json.loads(inspected("--json", "--kind", "cross", "--layer", "0"))
    seen = inspect(load(folders["encoder-decoder"]), TIRED)
    assert np.array_equal(np.array(told["attention"], np.float32), seen.attention("cross", 0))
    assert (told["kind"], told["layer"], told["head"]) == ("cross", 0, None)
    assert told["queries"] == seen.target.labels()
    assert told["source"]["tokens"][1] == {
        "id": int(seen.source.ids[1]),
        "text": "animal",
        "word": 1,
        "start": 4,
        "end": 10,
        "special": None,
    }
    one = json.loads(inspected("--json", "--kind", "encoder", "--head", "2", "--words"))
    assert np.array(one["attention"]).shape == (10, 10)


def test_two_sentences(inspected):
    text = inspected("--query", "it", "--compare", WIDE)
    assert "tired/wide" in text
    assert "Encoder attention: how the attention of “it” changes" in text
    told = json.loads(inspected("--query", "it", "--compare", WIDE, "--json"))
    assert "tired/wide" in told["pairs"]["source"]
    assert len(told["changes"]) == 8


def test_the_heads_that_link_two_words(inspected):
    text = inspected("--rank", "it", "animal")
    assert "Which heads let “it” look at “animal”" in text
    assert "times the even share" in text
    ranking = json.loads(inspected("--rank", "it", "animal", "--json"))["ranking"]
    assert len(ranking) == 8
    assert ranking[0]["weight"] >= ranking[-1]["weight"]
    assert f"{ranking[0]['kind']} {ranking[0]['layer']}.{ranking[0]['head']}" in text


def test_why_one_word_and_not_another(inspected):
    text = inspected("--why", "il", "elle", "--target", "The il ran")
    assert "Why “il” and not “elle”" in text
    found = json.loads(inspected("--why", "il", "elle", "--target", "The il ran", "--json"))["attribution"]
    assert found["position"] == 1
    assert found["total"] == pytest.approx(found["score"] - found["start"] + found["gap"])
    largest = max((abs(share), share) for shares in found["tokens"].values() for share in shares)[1]
    assert f"{largest:+.2f}" in text
    masked = json.loads(
        inspected("--why", "il", "elle", "--json", text="The [MASK] ran.", family="encoder-only")
    )
    assert masked["attribution"]["position"] == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_what_each_layer_would_write(inspected, folders, family):
    assert "what each of 2 layers would write" in inspected("--lens", family=family)
    lens = json.loads(inspected("--lens", "--json", family=family))["lens"]
    seen = inspect(load(folders[family]), TIRED)
    assert [len(layer) for layer in lens["layers"]] == [len(lens["positions"])] * 2
    assert lens["layers"][-1][1]["id"] == seen.next(1, top=1)[0].id


def test_a_head_parts_named(inspected):
    text = inspected("--ablate", "encoder.1.2", "--ablate", "cross.0.0", "--kind", "encoder")
    assert "Without encoder.1.2, cross.0.0" in text
    assert "times as likely" in text
    ablation = json.loads(inspected("--ablate", "encoder.1.2", "--json"))["ablation"]
    assert ablation["ablated"] == ["encoder.1.2"]
    assert ablation["change"] == pytest.approx(ablation["without"] - ablation["log_probability"])


def test_models_that_write_and_models_that_read(inspected):
    assert "Decoder attention, layer 1, 4 heads" in inspected(family="decoder-only")
    assert "ran. it was" in inspected("--target", " it was", family="decoder-only")
    assert "<mask>" in inspected("--head", "0", text="The [MASK] ran.", family="encoder-only")
    assert "Encoder attention" in inspected("--ablate", "scaling", "--query", "it", family="encoder-only")


@pytest.mark.parametrize("name", ["a.svg", "a.png", "a.csv", "a.npz", "a.html"])
def test_files(inspected, tmp_path, name):
    assert inspected("--save", str(tmp_path / name)).strip() == str(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layer", "7"], "no layer 7 of cross attention; there are 2, counted from 0"),
        (["--head", "7"], "no head 7; there are 4, counted from 0"),
        (["--kind", "crss"], "unknown kind of attention 'crss'; did you mean cross?"),
        (["--query", "anmal"], "no word 'anmal' in the source; did you mean animal?"),
        (["--compare", WIDE], "--compare needs one word; name it with --query"),
        (["--rank", "it", "xyz"], "no attention goes from 'it' to 'xyz'"),
        (["--ablate", "encoder.9.9"], "no encoder attention in layer 9; there are 2, counted from 0"),
        (["--ablate", "scalding"], "unknown name 'scalding' in this model"),
        (["--save", "a.html", "--query", "anmal"], "no word 'anmal'"),
        (["--save", "a.txt"], "cannot save 'a.txt'"),
        (["--save", "a.svg", "--rank", "it", "ran"], "--rank has no effect beside --save; leave one"),
        (["--save", "a.svg", "--json"], "--json has no effect beside --save"),
        (["--rank", "it", "ran", "--layer", "0"], "--layer has no effect beside --rank"),
        (["--rank", "it", "ran", "--words"], "--words has no effect beside --rank"),
        (["--query", "it", "--compare", WIDE, "--head", "0"], "--head has no effect beside --compare"),
        (["--why", "il", "elle"], "neither 'il' nor 'elle' is in"),
        (["--why", "il", "elle", "--query", "it"], "--query has no effect beside --why"),
        (["--why", "il", "elle", "--lens"], "--lens has no effect beside --why"),
        (["--lens", "--layer", "0"], "--layer has no effect beside --lens"),
        (["--save", "a.svg", "--lens"], "--lens has no effect beside --save"),
        (["--query", "it", "--compare", WIDE, "--words"], "--words has no effect beside --compare"),
    ],
)
def test_a_mistake_is_one_line(capsys, folders, arguments, message):
    assert run(["inspect", str(folders["encoder-decoder"]), TIRED, *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {message}") or message in printed.err
    assert printed.err.count("\n") == 1


def test_a_folder_that_is_none(capsys, tmp_path):
    assert run(["inspect", str(tmp_path / "nowhere"), TIRED]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_a_file_that_cannot_be_written(capsys, folders, tmp_path):
    assert (
        run(["inspect", str(folders["encoder-decoder"]), TIRED, "--save", str(tmp_path / "no" / "a.csv")])
        == 1
    )
    assert "No such file or directory" in capsys.readouterr().err
