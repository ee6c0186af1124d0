"""Datastores from the training text of a run or from other files, and their folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from regard.cli.app import run
from regard.errors import DataError, SettingError, UsageError
from regard.inference.rescoring.datastore import Datastore
from regard.runs.corpora import parallel
from regard.runs.datastore import make_datastore
from regard.runs.evaluation import ScoringOptions, evaluate
from regard.runs.run_folder import RunFolder
from regard.runs.toys import write_toy


def scores_of(judgement, place=0):
    return {score.name: score.value for score in judgement.evaluations[place].scores}


@pytest.fixture(scope="module")
def kept(small):
    """A datastore of a hardly trained model from its own run."""
    return make_datastore(small["translation"].folder)


def test_the_datastore_is_of_the_training_split_and_in_the_run_folder(small, kept):
    folder = small["translation"].folder
    assert kept.folder == folder / "datastore"
    corpora = parallel(small["translation"].recipe.data)
    known, held_out = list(corpora.train), list(corpora.valid)
    assert kept.pairs == len(known) == len({*known, *held_out}) - len(held_out)
    assert len(Datastore.load(kept.folder)) == len(kept.datastore) > kept.pairs
    assert f"{kept.pairs:,} pairs" in str(kept)
    again = make_datastore(folder / "model")  # over the one of before
    assert again.as_dict() == kept.as_dict()


def test_an_undertrained_model_translates_better_with_a_datastore(small, kept):
    """The datastore holds whole translations."""
    folder = small["translation"].folder
    options = ScoringOptions(beams=2, datastore=str(kept.folder))
    judgement = evaluate(folder, against=folder, options=options)
    with_it, without = scores_of(judgement), scores_of(judgement, 1)
    assert kept.datastore.parameters.lambda_ > 0
    assert with_it["loss"] == without["loss"]
    assert with_it["chrF2"] > without["chrF2"] + 2


def test_other_files_and_parameters(copied, tmp_path):
    files = write_toy(tmp_path, pairs=50, seed=9)
    found = make_datastore(copied.folder, files, {"lambda": 0.11, "k": 3}, tmp_path / "mine")
    assert found.folder == tmp_path / "mine"
    assert (found.datastore.parameters.lambda_, found.datastore.parameters.k) == (0.11, 3)
    assert found.pairs + 2 <= 50  # some are held out to choose by
    valid = write_toy(tmp_path / "valid", pairs=20, seed=10)
    given = {**files, "valid_source": valid["source"], "valid_target": valid["target"]}
    assert make_datastore(copied.folder, given, out=tmp_path / "all").pairs == 50


def test_a_table_is_read_as_the_run_reads_its_own(copied, tmp_path):
    mine = RunFolder(tmp_path / "run")
    shutil.copytree(copied.folder, mine.path)
    mine.write_recipe(copied.recipe.changed({"data": {"columns": [1, 0]}}))
    files = write_toy(tmp_path, "sort", pairs=50, seed=9)
    sides = [Path(files[side]).read_text(encoding="utf-8").splitlines() for side in ("source", "target")]
    rows = (f"{target}\t{source}\n" for source, target in zip(*sides, strict=True))
    (tmp_path / "turned.tsv").write_text("".join(rows), encoding="utf-8")
    by_table = make_datastore(mine.path, {"tsv": str(tmp_path / "turned.tsv")}, out=tmp_path / "table")
    by_files = make_datastore(mine.path, files, out=tmp_path / "files")
    assert torch.equal(by_table.datastore.keys, by_files.datastore.keys)
    assert torch.equal(by_table.datastore.ids, by_files.datastore.ids)


def test_a_datastore_that_does_not_help_is_reported(copied, tmp_path):
    """Sorted sentences are no help to a model that copies."""
    files = {**write_toy(tmp_path / "sort", "sort", pairs=50, seed=3)}
    valid = write_toy(tmp_path / "copy", "copy", pairs=30, seed=4)
    given = {**files, "valid_source": valid["source"], "valid_target": valid["target"]}
    found = make_datastore(copied.folder, given, out=tmp_path / "mine")
    assert found.datastore.parameters.lambda_ == 0
    assert "lambda 0, because it does not make the validation text likelier" in str(found)


def test_what_cannot_be_is_refused(small, copied, tmp_path, toy_model, toy_tokenizer):
    from regard.checkpoints.folder import save_model
    from regard.text.tokenizer import Tokenizers

    with pytest.raises(UsageError, match="a datastore needs a model that translates"):
        make_datastore(small["language-modeling"].folder)
    alone = save_model(tmp_path / "alone", toy_model(1), Tokenizers.joint(toy_tokenizer), "translation")
    with pytest.raises(UsageError, match="name a folder for the datastore with --out"):
        make_datastore(alone)
    with pytest.raises(UsageError, match="name the files with --source"):
        make_datastore(alone, out=tmp_path / "mine")
    with pytest.raises(SettingError, match="lambda"):
        make_datastore(tmp_path / "nowhere", parameters={"lambda": 2.0}, out=tmp_path / "mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(UsageError, match="holds something else; choose another folder"):
        make_datastore(copied.folder, out=tmp_path / "full")
    files = write_toy(tmp_path / "one", pairs=30, seed=3)
    with pytest.raises((UsageError, DataError), match="source"):
        make_datastore(copied.folder, {"source": files["source"]}, out=tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_the_command_line_does_the_same(copied, tmp_path, capsys):
    files = write_toy(tmp_path, pairs=40, seed=6)
    out = tmp_path / "mine"
    call = ["datastore", str(copied.folder), "--source", files["source"], "--target", files["target"]]
    assert run([*call, "--out", str(out), "--temperature", "0.3", "--lambda", "0.2", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("reading 39 pairs\n")
    told = json.loads(printed.out)
    assert (told["lambda"], told["temperature"], told["datastore"]) == (0.2, 0.3, str(out))
    assert run([*call, "--out", str(out), "--k", "5", "--lambda", "0.3"]) == 0
    assert ", k 5, temperature" in capsys.readouterr().out
    assert run(["translate", str(copied.folder), "b a c", "--datastore", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    datastore = Datastore.load(out)
    assert found["score"] == pytest.approx(copied.model.translate("b a c", blend=datastore).score, abs=1e-4)
    assert run(["translate", str(copied.folder), "b a c", "--datastore", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert run(["evaluate", str(copied.folder), "--datastore", str(out), "--json"]) == 0
    assert "BLEU" in capsys.readouterr().out


def test_only_translations_are_evaluated_with_it(small, kept):
    with pytest.raises(UsageError, match="channel weight, datastore and tokenize are for translations"):
        evaluate(small["language-modeling"].folder, options=ScoringOptions(datastore=str(kept.folder)))
