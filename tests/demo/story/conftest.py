"""A demo trained for a few steps on a small corpus: it knows little, and all about it can be checked."""

from __future__ import annotations

import pytest

SETTINGS = {
    "training": {"steps": 20, "batch_tokens": 512, "threads": 1},
    "checkpoints": {"snapshot_every": 2},
    "model": {"layers": 1, "width": 32, "feed_forward_width": 32, "context": 32},
    "validation": {"validate_every": 20, "sentences": 2},
}


@pytest.fixture(scope="session")
def settings():
    return SETTINGS


@pytest.fixture(scope="session")
def make_place():
    from regard.demo.story.model_store import DemoFolder

    def make(folder, name="demo", **changes):
        used = {**SETTINGS, **changes}
        if name != "demo-language-model":
            used["architecture"] = {"decoder_layers": 1}
        return DemoFolder(name, folder, used, pairs=4000)

    return make


@pytest.fixture(scope="session")
def demo(make_place, tmp_path_factory):
    """The small English-French model, trained once."""
    from regard.demo.story.training import obtain

    return obtain(make_place(tmp_path_factory.mktemp("demo") / "model"), show=False)


@pytest.fixture(scope="session")
def scenes(demo):
    """The lectures' two sentences with their right translations, as the small model reads them."""
    from regard.demo.lectures import TOO_TIRED, TOO_WIDE
    from regard.demo.story.links import TIRED, WIDE, Scene
    from regard.inspection.inspection import inspect

    pairs = ((TIRED, TOO_TIRED[0]), (WIDE, TOO_WIDE[0]))
    return [Scene(linked, inspect(demo.model, linked.text, french)) for linked, french in pairs]
