"""What importing costs, and the names that regard hands out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version

import pytest

import regard
from regard.checkpoints.folder import save_model
from regard.engine.choice import active_engine
from regard.text.tokenizer import Tokenizers

HEAVY = ("torch", "numpy", "pydantic", "transformers")
# Each light module with the heavy packages that it may load all the same.
LIGHT = {
    "regard": (),
    "regard.errors": (),
    "regard.registry": (),
    "regard.cli.app": (),
    "regard.settings": ("pydantic",),
    "regard.engine.stepper": ("numpy",),
    "regard.model.config": ("pydantic",),
    "regard.text.tokenizer": ("pydantic", "numpy"),
    "regard.model.parts": ("numpy",),
    "regard.inference.loading": ("pydantic", "numpy"),
}


def heavy_packages_loaded_by(statement: str, heavy: Sequence[str] = HEAVY) -> set[str]:
    """Run a statement in a fresh Python and name the heavy packages that it brought in."""
    code = f"import sys\n{statement}\nprint(*(name for name in {heavy!r} if name in sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=300,
    )
    return set(result.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_module_loads_nothing_heavy(module):
    assert heavy_packages_loaded_by(f"import {module}") - set(LIGHT[module]) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], [], ["describe", "--help"], ["nonsense"]])
def test_help_loads_nothing_heavy(arguments):
    loaded = heavy_packages_loaded_by(f"from regard.cli.app import run\nrun({arguments!r})")
    # typer checks the values of arguments with pydantic, quickly enough.
    assert loaded - {"pydantic"} == set()


@pytest.mark.skipif(active_engine()[0] == "torch", reason="the native engine was not built: no C++ compiler")
@pytest.mark.parametrize(
    ("command", "changes"),
    [
        (["translate", "the cat"], {}),
        (["complete", "the cat", "--max-tokens", "5"], dict(family="decoder-only")),
        (["fill", "the [MASK]"], dict(family="encoder-only", output="masked")),
        (["classify", "the cat"], dict(family="encoder-only", output="classes", classes=2)),
        (["embed", "the cat"], dict(family="encoder-only", output="vectors")),
    ],
)
def test_using_a_model_loads_no_torch(command, changes, toy_model, toy_tokenizer, tmp_path):
    save_model(tmp_path / "model", toy_model(1, **changes), Tokenizers.joint(toy_tokenizer))
    arguments = [command[0], str(tmp_path / "model"), *command[1:]]
    assert heavy_packages_loaded_by(f"from regard.cli.app import run\nassert run({arguments!r}) == 0") == {
        "numpy",
        "pydantic",
    }


@pytest.mark.skipif(active_engine()[0] == "torch", reason="the native engine was not built: no C++ compiler")
def test_translating_loads_no_package_that_it_does_not_use():
    unused = (
        "torch",
        "rich",
        "safetensors",
        "regard.runs.recipe",
        "regard.training",
        "regard.inspection",
    )
    statement = "from regard.cli.app import run\nassert run(['translate', 'demo', 'the cat sleeps']) == 0"
    assert heavy_packages_loaded_by(statement, unused) == set()


def test_loading_torch_would_be_noticed():
    assert "torch" in heavy_packages_loaded_by("from regard import build_model")


def test_the_names_that_a_user_meets_first_are_there():
    first = {
        "load", "train", "resume", "inspect", "Translator", "Writer", "Reader", "Tokenizer", "ModelConfig",
        "build_model", "Trainer", "watch",
    }  # fmt: skip
    assert first | {"RegardError"} == set(regard.__all__)
    assert regard.Trainer.__module__ == "regard.training.trainer"


def test_every_public_name_resolves():
    assert sorted(regard.__all__) == sorted(regard._HOMES)
    for name in regard.__all__:
        assert getattr(regard, name) is not None
        assert name in dir(regard)


def test_the_version_is_that_of_the_package():
    assert regard.__version__ == version("regard")


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(AttributeError, match=r"'Transformr'.*build_model"):
        _ = regard.Transformr  # pyright: ignore[reportAttributeAccessIssue]
