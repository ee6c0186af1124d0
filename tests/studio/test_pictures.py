"""The pictures of the studio, made again by docs/pictures/make.py; the documents show kept ones."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.test_documents import DOCUMENTS, pictures_of

pytestmark = pytest.mark.xdist_group("browser")
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
MOST = 250_000  # bytes of one picture


@pytest.fixture(scope="module")
def make():
    """The script, as a module."""
    found = importlib.util.spec_from_file_location("studio_pictures", PICTURES / "make.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        patch.setitem(sys.modules, "studio_pictures", module)
        found.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def taken(make, browser, studio, tmp_path_factory):
    """A folder with all of them, of a model that has learned little."""
    folder = tmp_path_factory.mktemp("pictures")
    make.take(browser, studio, make.SHOTS, folder, model="translation", pause=200)
    return folder


def read(path: Path) -> np.ndarray:
    """The pixels of a picture, rows x columns x (red, green, blue)."""
    with Image.open(path) as picture:
        return np.array(picture.convert("RGB"))


def size_of(path: Path) -> tuple[int, int]:
    """Width and height."""
    with Image.open(path) as picture:
        return picture.size


def says_something(path: Path) -> bool:
    """Whether a picture has many colours, and none that is nearly all of it."""
    pixels = read(path).reshape(-1, 3)
    colours, counts = np.unique(pixels, axis=0, return_counts=True)
    return len(colours) > 30 and counts.max() < 0.97 * len(pixels)


def test_every_picture_has_its_size_and_shows_something(make, taken):
    assert sorted(path.name for path in taken.iterdir()) == sorted(shot.file for shot in make.SHOTS)
    for shot in make.SHOTS:
        path = taken / shot.file
        assert size_of(path) == shot.size, shot.name
        assert says_something(path), shot.name
        assert path.stat().st_size < MOST, shot.name


def test_light_and_dark_are(make, taken):
    light, dark = (read(taken / name).mean() for name in ("studio-inspect.png", "studio-inspect-dark.png"))
    assert light > 200
    assert dark < 80


def test_a_picture_is_the_same_again(make, browser, studio, taken, tmp_path):
    shots = [shot for shot in make.SHOTS if shot.name == "inspect-narrow"]
    (again,) = make.take(browser, studio, shots, tmp_path, model="translation", pause=200)
    assert again.read_bytes() == (taken / again.name).read_bytes()


def test_an_empty_page_would_be_found(make, tmp_path):
    Image.new("RGB", (40, 30), "white").save(tmp_path / "white.png")
    assert not says_something(tmp_path / "white.png")


def test_the_documents_show_what_the_script_makes(make):
    made = {shot.file: shot for shot in (*make.SHOTS, *make.ENCODER_SHOTS)}
    shown = {Path(path).name for page in DOCUMENTS for path in pictures_of(page)}
    assert {name for name in shown if name.startswith("studio-")} <= set(made)
    kept = sorted(PICTURES.glob("studio-*.png"))
    assert {path.name for path in kept} <= set(made)
    for path in kept:
        assert size_of(path) == made[path.name].size, path.name
        assert says_something(path), path.name
        assert path.stat().st_size < MOST, path.name
