"""A server of the demo's models in a process of its own, and applications that a thread serves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient

HOME = "http://127.0.0.1:8765"
KEY = "the-secret-of-the-tests"
PATIENCE = 120  # seconds; torch alone takes several on a busy machine


@dataclass
class Server:
    """A process of `regard serve`."""

    process: subprocess.Popen
    address: str

    def client(self, key: str | None = KEY, **options) -> httpx2.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx2.Client(base_url=self.address, headers=headers, timeout=PATIENCE, **options)


@contextmanager
def serving(*arguments: str, log: Path | None = None):
    """A server with these arguments, from the moment when its models are loaded; `log` takes its log."""
    command = [sys.executable, "-m", "regard", "serve", *arguments, "--port", "0"]
    with nullcontext(subprocess.PIPE) if log is None else log.open("wb") as lines:
        process = subprocess.Popen(
            command, env=dict(os.environ), stdout=subprocess.PIPE, stderr=lines, text=True
        )
    try:
        assert process.stdout is not None
        server = Server(process, process.stdout.readline().strip())
        assert server.address.startswith("http://127.0.0.1:"), process.communicate()[1]
        with server.client() as client:
            wait_until(lambda: client.get("/ready").status_code == 200)
        yield server
    finally:
        process.kill()
        process.communicate()


def wait_until(happens, seconds: float = PATIENCE) -> None:
    """Wait until something happens; fail if it does not."""
    until = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def chat_folder(tmp_path_factory):
    """The demo's language model with a chat template."""
    return save_chat(tmp_path_factory.mktemp("chat") / "chat")


def save_chat(folder: Path) -> Path:
    """Write the demo's language model with a chat template."""
    from regard.checkpoints.folder import save_model
    from regard.demo.story.model_store import trained_folder
    from regard.inference.loading import load
    from regard.text.tokenizer import Tokenizers

    writer = load(trained_folder("demo-language-model"))
    template = "{% for message in messages %}{{ message.content }} {% endfor %}"
    chat = {"template": template, "ends": [writer.tokenizer.specials["end"]]}
    save_model(folder, writer.model, Tokenizers(writer.tokenizer, writer.tokenizer), extra={"chat": chat})
    return folder


@pytest.fixture(scope="session")
def api_app(chat_folder, model_folders):
    """An application with a model of every kind, without the studio."""
    from regard.demo.story.model_store import trained_folder
    from regard.service.api.application import ServiceSettings, make_service
    from regard.service.models import open_models

    names = [f"lm={trained_folder('demo-language-model')}", f"chat={chat_folder}"]
    names += [f"demo={trained_folder('demo')}", model_folders["fill"], model_folders["classify"]]
    return make_service(open_models(names), ServiceSettings(has_studio=False))


@pytest.fixture(scope="session")
def api_client(api_app):
    """A client of that application in this process."""
    with TestClient(api_app, base_url=HOME, raise_server_exceptions=False) as client:
        wait_until(lambda: client.get("/ready").status_code == 200)
        yield client


@pytest.fixture(scope="module")
def server(model_folders, chat_folder):
    """The demo's models, one that fills masks, one that tells labels apart and one that chats."""
    with serving(
        "demo", "lm=demo-language-model", model_folders["fill"], model_folders["classify"], str(chat_folder),
        "--api-key", KEY, "--threads", "1",
    ) as started:  # fmt: skip
        yield started


@pytest.fixture
def client(server):
    """A client with the key."""
    with server.client() as client:
        yield client
