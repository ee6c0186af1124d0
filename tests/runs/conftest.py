"""Small runs that several tests look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from regard.runs.run import Run, train
from regard.runs.toml import merged
from regard.runs.toys import builtin_data, small_settings, toy_settings, write_toy

RECIPES = {
    "translation": "translation",
    "language-modeling": "language-model",
    "masked-language-modeling": "masked-language-model",
    "classification": "classification",
}


def _small_run(task: str, folder: Path, name: str = "run", steps: int = 4, **changes: Any) -> Run:
    """A run of a few steps on built-in data."""
    lengths = {
        "training": {"steps": steps, "batch_tokens": 512, "gradient_accumulation": 1, "threads": 1},
        "checkpoints": {"save_every": 2},
        "validation": {"validate_every": 2},
    }
    settings = merged(merged(small_settings(), lengths), changes)
    files = builtin_data(task, folder)
    with no_pictures():
        return train(RECIPES[task], **files, out=folder / name, settings=settings, show=False)  # pyright: ignore[reportArgumentType]


@contextmanager
def no_pictures() -> Iterator[None]:
    """Pictures take a second a run; test_report.py draws some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.runs.report.write_pictures", lambda charts, folder: [])
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_pictures():
    """None here, and drawn again for the tests of other folders."""
    with no_pictures():
        yield


@pytest.fixture
def small_run() -> Callable[..., Run]:
    """A run of a few steps on built-in data: small_run("language-modeling", folder, steps=2, model={...})."""
    return _small_run


@pytest.fixture
def toy_run() -> Callable[[Path, str], Run]:
    """Learn a toy task by name in a folder."""
    return _toy_run


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> dict[str, Run]:
    """A run of each task, hardly trained."""
    return {name: _small_run(name, tmp_path_factory.mktemp(name)) for name in RECIPES}


@pytest.fixture(params=RECIPES)
def each(request, small) -> Run:
    """Each of them in turn."""
    return small[request.param]


@pytest.fixture(scope="session")
def copied(tmp_path_factory) -> Run:
    """A run that has learned to copy."""
    return _toy_run(tmp_path_factory.mktemp("copy"), "copy")


def _toy_run(folder: Path, name: str) -> Run:
    """Learn a toy task and keep some of it for a test at the end."""
    files = write_toy(folder, name)
    test = write_toy(folder / "test", name, pairs=100, seed=2)
    tested = {f"test_{side}": path for side, path in test.items()}
    settings = merged(toy_settings(), {"training": {"threads": 1}})
    with no_pictures():
        return train("translation", **files, **tested, out=folder / "run", settings=settings, show=False)  # pyright: ignore[reportArgumentType]
