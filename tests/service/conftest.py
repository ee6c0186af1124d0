"""A studio around small models of every family, asked as a page asks."""

from __future__ import annotations

import json

import pytest

ENGLISH = "The animal didn't cross the street because it was too tired."
FRENCH = "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
API = "/studio/api/"


@pytest.fixture(scope="session")
def lines():
    """The lectures' sentence in both languages."""
    return ENGLISH, FRENCH


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory):
    """A run folder as the demo leaves it, with a model that knows nothing and two snapshots."""
    import torch

    from regard.checkpoints.folder import save_model
    from regard.model.config import ModelConfig
    from regard.model.transformer import build_model
    from regard.text.tokenizer import Tokenizer, Tokenizers

    run = tmp_path_factory.mktemp("runs") / "small"
    tokenizer = Tokenizer.train([ENGLISH, FRENCH, "wide large elle"], kind="word", normalisation="plain")
    size = dict(
        vocabulary=tokenizer.vocabulary, width=16, layers=2, heads=4, feed_forward_width=16, context=40
    )
    for seed, place in enumerate(("model", "weights/step-00000000", "weights/step-00000020")):
        torch.manual_seed(seed)
        model = build_model(ModelConfig(residual="pre", **size)).eval()
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.3)
        (run / place).parent.mkdir(parents=True, exist_ok=True)
        save_model(run / place, model, Tokenizers.joint(tokenizer), "translation")
    words = sorted({word.strip(".").lower() for word in ENGLISH.split()})
    (run / "demo.json").write_text(json.dumps({"name": "demo", "words": words}), encoding="utf-8")
    (run / "recipe.toml").write_text("[training]\nsteps = 20\n", encoding="utf-8")
    events = [
        *({"event": "step", "step": n, "loss": 9 - n / 4, "seconds": 0.5} for n in range(1, 21)),
        {"event": "validation", "step": 20, "scores": {"loss": 4.0, "bleu": None}},
        {"event": "finished", "step": 20, "reason": "steps"},
    ]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in events), encoding="utf-8")
    return run


@pytest.fixture(scope="session")
def models(model_folders, demo_run):
    """The models of one studio: translate, complete, fill and classify, and small, which is the demo's."""
    from regard.service.models import open_models

    return open_models([str(demo_run), *model_folders.values()])


@pytest.fixture
def client(models, monkeypatch):
    """What asks that studio; all requests share one event loop, as those of a server do."""
    from fastapi.testclient import TestClient

    from regard.service.models import Models
    from regard.service.studio import make_studio

    monkeypatch.setattr(Models, "warm_up", lambda *_: None)
    with TestClient(make_studio(models), base_url="http://127.0.0.1:8765") as client:
        yield client


@pytest.fixture
def ask(client):
    """Post a request and give what came back."""

    def post(route: str, **body):
        answer = client.post(API + route, json=body)
        assert answer.status_code == 200, answer.text
        return answer

    return post


@pytest.fixture
def read_sheet(client):
    """Get a sheet of a trace."""
    from regard.inspection.render.payload import unpack

    def get(trace: dict, route: str):
        answer = client.get(f"{API}trace/{trace['trace']}/{route}")
        assert answer.status_code == 200, answer.text
        return unpack(answer.content)

    return get
