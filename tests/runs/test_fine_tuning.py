"""Starting from a model folder: another head on the same weights, some of them frozen."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch

from regard.errors import CheckpointError, SettingError
from regard.runs.prepared_data import make_model
from regard.runs.recipe import Recipe
from regard.runs.run import resume, train
from regard.runs.tasks.registry import load_trained
from regard.runs.toys import builtin_data


def tuned(small, folder, steps=2, backbone_lr_scale=1.0, **training):
    """A classifier that starts from the masked model."""
    settings = {
        "model": {"init_from": str(small["masked-language-modeling"].folder)},
        "training": {"steps": steps, "batch_tokens": 256, "threads": 1, **training},
        "optimizer": {"weight_decay": 0.0, "backbone_lr_scale": backbone_lr_scale},
    }
    files = builtin_data("classification", folder)
    return train("classification", **files, out=folder / "run", settings=settings, show=False)  # pyright: ignore[reportArgumentType]


def test_another_task_gets_a_new_head_on_the_same_backbone(small, tmp_path):
    recipe = Recipe.load(
        "classification", {"model": {"init_from": str(small["masked-language-modeling"].folder)}}
    )
    model = make_model(recipe, load_trained(small["classification"].folder).words)
    before = small["masked-language-modeling"].model.model.state_dict()
    assert (model.config.output, model.config.classes) == ("classes", 10)
    after = model.state_dict()
    body = [name for name in before if not name.startswith("head.")]
    assert all(torch.equal(before[name], after[name]) for name in body)
    assert len(body) > 20


def test_frozen_parameters_stay_and_the_rest_learns(small, tmp_path):
    run = tuned(small, tmp_path, freeze=["source.*", "encoder.blocks.0.*"])
    before, after = small["masked-language-modeling"].model.model.state_dict(), run.model.model.state_dict()
    changed = {name for name in before if name in after and not torch.equal(before[name], after[name])}
    assert changed
    assert all(name.startswith(("encoder.blocks.1.", "head.")) for name in changed)
    assert run.model.tokenizer.fingerprint == small["masked-language-modeling"].model.tokenizer.fingerprint
    assert run.recipe.model["init_from"] == str(small["masked-language-modeling"].folder)


def test_a_lower_backbone_lr_scale_moves_the_backbone_less(small, tmp_path):
    before = small["masked-language-modeling"].model.model.state_dict()[
        "encoder.blocks.0.feed_forward.expand.weight"
    ]
    moved = []
    for place, rate in enumerate((1.0, 0.01)):
        (tmp_path / str(place)).mkdir()
        run = tuned(small, tmp_path / str(place), backbone_lr_scale=rate)
        now = run.model.model.state_dict()["encoder.blocks.0.feed_forward.expand.weight"]
        moved.append(float((now - before).norm()))
    assert 0 < moved[1] < 0.1 * moved[0]


def test_the_same_task_and_labels_keep_the_head(small):
    run = small["classification"]
    recipe = Recipe.load("classification", {"model": {"init_from": str(run.folder / "model")}})
    model = make_model(recipe, load_trained(run.folder).words)
    assert torch.equal(model.head.classify.weight, run.model.model.head.classify.weight)


def test_another_family_or_a_lost_folder_is_refused(small, tmp_path):
    files = builtin_data("classification", tmp_path)
    for start, kind, match in (
        (
            small["language-modeling"].folder,
            SettingError,
            "family decoder-only, and classification needs encoder-only",
        ),
        (tmp_path / "gone", CheckpointError, "is not a folder"),
    ):
        settings = {"model": {"init_from": str(start)}}
        with pytest.raises(kind, match=match):
            train("classification", **files, out=tmp_path / "run", settings=settings, show=False)
        assert not (tmp_path / "run").exists()


def test_a_run_goes_on_after_the_model_it_started_from_has_moved(small_run, tmp_path):
    base = small_run("masked-language-modeling", tmp_path, "base", steps=1)
    run = tuned(
        {"masked-language-modeling": base}, tmp_path, steps=2, backbone_lr_scale=0.5, freeze=["source.*"]
    )
    shutil.copytree(run.folder, tmp_path / "same")
    whole = resume(run.folder, {"training": {"steps": 4}}, show=False)
    base.folder.rename(tmp_path / "elsewhere")
    again = resume(tmp_path / "same", {"training": {"steps": 4}}, show=False)
    assert again.step == 4
    for name, weight in whole.model.model.state_dict().items():
        assert torch.equal(weight, again.model.model.state_dict()[name])


def test_labels_of_other_names_get_another_head(small):
    run = small["classification"]
    recipe = Recipe.load("classification", {"model": {"init_from": str(run.folder / "model")}})
    words = load_trained(run.folder).words
    renamed = replace(words, labels=tuple(f"other {label}" for label in words.labels))
    reordered = replace(words, labels=words.labels[::-1])
    for other in (renamed, reordered):
        model = make_model(recipe, other)
        assert model.config.classes == len(words.labels)
        assert not torch.equal(model.head.classify.weight, run.model.model.head.classify.weight)
        assert torch.equal(model.source.weight, run.model.model.source.weight)
