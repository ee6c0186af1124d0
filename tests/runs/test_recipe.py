"""Recipes: those that ship, the files of users, and what --set makes of them."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.checkpoints.formats import FORMATS
from regard.errors import CheckpointError, SettingError
from regard.model.config import ModelConfig
from regard.model.transformer import build_model, count_parameters
from regard.runs.recipe import Recipe
from regard.runs.recipe_files import FOLDER, recipes
from regard.runs.toml import merged, read_overrides, write_toml

NAMES = sorted(recipes())
FORMS = {
    "translation": ("pegasus", "marian"),
    "language-modeling": ("gpt2", "llama"),
    "masked-language-modeling": ("bert",),
    "classification": ("bert",),
}


def read_recipe(name: str, pairs: list[str]) -> Recipe:
    """A recipe with what --set says."""
    return Recipe.load(name, read_overrides(pairs))


def config_of(recipe: Recipe) -> ModelConfig:
    decided = {"vocabulary": recipe.tokenizer.vocabulary}
    return recipe.model_config(**decided, **({"classes": 2} if recipe.task == "classification" else {}))


def fits(config: ModelConfig, form: str) -> bool:
    try:
        return bool(FORMATS.find(form).from_config(config))
    except CheckpointError:
        return False


def test_the_promised_recipes_are_there():
    promised = "translation language-model language-model-characters classification paper-base paper-big"
    assert {
        *promised.split(),
        "masked-language-model",
        "multi30k-tiny",
        "multi30k",
        "shakespeare",
        "sst2",
    } <= set(NAMES)
    assert all(len(line) > 20 for line in recipes().values())


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_can_be_written_for_transformers(name):
    recipe = Recipe.load(name)
    config = config_of(recipe)
    assert any(fits(config, form) for form in FORMS[recipe.task])
    assert not any(fits(config.changed(norm="rms", positions="none"), form) for form in FORMS[recipe.task])


@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_a_recipe_is_explained_on_its_line(name):
    lines = (FOLDER / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if " = " in line and "  # " not in line and not line.startswith("#")] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_resolved_file_gives_the_same_settings(name):
    recipe = Recipe.load(name)
    again = Recipe.read(tomllib.loads(recipe.to_toml()))
    assert again.values() == recipe.values()
    assert again.trainer_settings() == recipe.trainer_settings()
    assert config_of(again) == config_of(recipe)


def test_the_papers_models_are_the_papers():
    for name, width, millions in (("paper-base", 512, 63), ("paper-big", 1024, 214)):
        recipe = Recipe.load(name)
        assert recipe.optimizer.learning_rate == pytest.approx((width * 4000) ** -0.5)
        assert recipe.training.max_grad_norm is None
        assert count_parameters(build_model(config_of(recipe), "meta")) / 1e6 == pytest.approx(
            millions, abs=1
        )


def test_set_replaces_a_setting_and_bare_words_are_strings():
    pairs = ["training.steps=200", "model.dropout=0", "tokenizer.kind=word", "data.columns=['en', 'de']"]
    recipe = read_recipe("translation", [*pairs, "training.max_grad_norm=none", "data.filters.max_ratio=2.5"])
    assert recipe.training.steps == 200
    assert recipe.training.max_grad_norm is None
    assert recipe.model["dropout"] == 0
    assert recipe.tokenizer.kind == "word"
    assert recipe.data.columns == ("en", "de")
    assert (recipe.data.filters.max_ratio, recipe.data.filters.drop_duplicates) == (2.5, True)


@pytest.mark.parametrize(
    ("pair", "complaint"),
    [
        ("training.stps=1", r"\[training\] unknown setting 'stps'; did you mean steps\?"),
        ("trainng.steps=1", r"unknown table \[trainng\]; did you mean training\?"),
        ("model.widht=1", r"\[model\] unknown setting 'widht'; did you mean width\?"),
        ("model.heads=7", r"\[model\] heads \(7\) must divide width \(256\); try 8"),
        ("model.vocabulary=7", r"\[model\] vocabulary follows from"),
        ("architecture.feed_forward=reluu", r"\[model\] unknown feed_forward 'reluu'; did you mean relu\?"),
        ("model.size=5", r"\[model\] size \(5\)"),
        ("model.size=tinny", r"unknown size 'tinny'; did you mean tiny\?"),
        ("model.init_from=5", r"\[model\] init_from \(5\)"),
        ("training.steps=many", r"\[training\] steps \('many'\)"),
        ("optimizer.name=adm", "unknown optimizer 'adm'"),
        (
            "optimizer.learning_rat=1",
            r"\[optimizer\] unknown setting 'learning_rat'; did you mean learning_rate",
        ),
        ("training.learning_rate=1", r"\[training\] learning_rate belongs to \[optimizer\]"),
        ("model.residual=pre", r"\[model\] residual belongs to \[architecture\]"),
        ("training.name=adamw", r"name belongs to \[optimizer\] or \[schedule\] or \[averaging\]"),
        ("training.rate=1", r"\[training\] unknown setting 'rate'"),
        ("task=translate", r"unknown task 'translate'; did you mean translation\?"),
        ("training=3", r"\[training\] must be a table"),
        ("model=3", r"\[model\] must be a table"),
        ("data.columns=[1]", r"columns \(\[1\]\) must be two"),
        ("training", r"must look like training.steps=200"),
        ("=3", r"must look like"),
    ],
)
def test_a_wrong_setting_is_one_line_that_helps(pair, complaint):
    with pytest.raises(SettingError, match=complaint) as error:
        read_recipe("translation", [pair])
    assert "\n" not in str(error.value)


def test_an_unknown_recipe_and_a_broken_file_are_told(tmp_path):
    with pytest.raises(SettingError, match="did you mean translation"):
        Recipe.load("translatio")
    with pytest.raises(SettingError, match="cannot read"):
        Recipe.load(tmp_path / "none.toml")
    (tmp_path / "broken.toml").write_bytes(b"task = \xff")
    with pytest.raises(SettingError, match="is not TOML"):
        Recipe.load(tmp_path / "broken.toml")


def test_a_model_to_start_from_takes_the_place_of_the_shape():
    recipe = read_recipe("classification", ["model.init_from=a/folder", "optimizer.backbone_lr_scale=0.1"])
    assert recipe.model == {
        "init_from": "a/folder",
        "pooling": "bert",
        "dropout": 0.3,
        "attention_dropout": 0.0,
    }
    assert Recipe.read(tomllib.loads(recipe.to_toml())).values() == recipe.values()
    with pytest.raises(
        SettingError, match=r"\[model\] layers is that of the model in init_from; only dropout"
    ):
        read_recipe("classification", ["model.init_from=a/folder", "model.layers=3"])


def test_a_model_to_start_from_takes_the_place_of_the_shape_in_a_file_of_ones_own(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('task = "translation"\n[model]\nlayers = 1\nwidth = 16\nheads = 2\ndropout = 0.2\n')
    recipe = Recipe.load(file, {"model": {"init_from": "a/folder"}})
    assert recipe.model == {"init_from": "a/folder", "dropout": 0.2}
    with pytest.raises(SettingError, match=r"\[model\] must be a table"):
        Recipe.load(file, {"model": 3})


def test_a_run_made_shorter_than_its_warm_up_warms_up_sooner():
    assert read_recipe("translation", ["training.steps=200"]).schedule.warmup_steps == 20
    assert read_recipe("translation", ["training.steps=2000"]).schedule.warmup_steps == 400
    with pytest.raises(SettingError, match="warmup"):
        read_recipe("translation", ["training.steps=200", "schedule.warmup_steps=300"])


def test_two_sets_cannot_make_a_value_a_table():
    with pytest.raises(SettingError, match="puts a table"):
        read_overrides(["training=1", "training.steps=2"])


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(st.dictionaries(words.filter(bool), values | st.dictionaries(words.filter(bool), values, max_size=3)))
def test_what_is_written_as_toml_reads_back(tables):
    kept = {key: value for key, value in tables.items() if value != {}}
    assert tomllib.loads(write_toml(kept)) == kept


def test_merging_leaves_both_as_they_were():
    below = {"a": {"x": 1, "y": 2}}
    assert merged(below, {"a": {"x": 3}, "b": 4}) == {"a": {"x": 3, "y": 2}, "b": 4}
    assert below == {"a": {"x": 1, "y": 2}}


def test_a_tokenizer_beside_a_model_that_has_one_is_refused(tmp_path):
    changes = {"model": {"init_from": str(tmp_path)}, "tokenizer": {"vocabulary": 300}}
    with pytest.raises(SettingError, match=r"\[tokenizer\] vocabulary: .* has its tokenizer; leave"):
        Recipe.load("classification", changes)
    file = tmp_path / "own.toml"
    file.write_text(
        'task = "masked-language-modeling"\n[tokenizer]\nkind = "word"\n[model]\ninit_from = "there"\n'
    )
    with pytest.raises(SettingError, match=r"\[tokenizer\] kind: a model that starts from there"):
        Recipe.load(file)
    recipe = Recipe.load(
        "classification", {"model": {"init_from": str(tmp_path)}}
    )  # the recipe's own is not meant
    assert "tokenizer" not in recipe.values()
    assert Recipe.read(recipe.values()) == recipe


def test_a_recipe_starts_with_what_a_beginner_needs():
    for name in NAMES:
        lines = (FOLDER / f"{name}.toml").read_text(encoding="utf-8").splitlines()
        first = [line.split(" = ")[0] for line in lines if line and not line.startswith("#")][:10]
        model = ["layers", "width", "heads", "feed_forward_width", "context", "dropout"]
        assert first == ["task", "[model]", *model, "[training]", "steps"], name


def test_a_newer_recipe_is_refused_in_one_line():
    with pytest.raises(CheckpointError, match="has format 3, and this version reads up to 2; update regard"):
        Recipe.load("translation", {"format": 3})
