"""A translation server of another library: a FastAPI app that calls it in a thread for each request.

    python -m regard.bench.peer_server LIBRARY FOLDER PORT LENGTH COMPUTE WORKERS THREADS

The words of a text are ids.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Lock
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

Translate = Callable[[str], str]


class Body(BaseModel):
    """A text to translate."""

    text: str


def transformers(folder: str, length: int, compute: str, workers: int, threads: int) -> Translate:
    """transformers' generate, one request at a time, as its pipeline does."""
    import torch
    import transformers as library

    torch.set_num_threads(threads)
    model: Any = library.MarianMTModel.from_pretrained(folder).eval()
    lock = Lock()
    options: dict[str, Any] = dict(num_beams=1, do_sample=False, min_new_tokens=length, max_new_tokens=length)

    def translate(text: str) -> str:
        ids = torch.tensor([[int(word) for word in text.split()]])
        with lock, torch.inference_mode():
            output = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        return " ".join(map(str, output[0, 1:].tolist()))

    return translate


def ctranslate2(folder: str, length: int, compute: str, workers: int, threads: int) -> Translate:
    """CTranslate2; its workers answer requests at the same time."""
    import ctranslate2 as library  # pyright: ignore[reportMissingImports]

    engine = library.Translator(folder, compute_type=compute, inter_threads=workers, intra_threads=threads)
    options: dict[str, Any] = dict(beam_size=1, min_decoding_length=length, max_decoding_length=length)

    def translate(text: str) -> str:
        return " ".join(engine.translate_batch([text.split()], **options)[0].hypotheses[0])

    return translate


def make_app(translate: Translate) -> FastAPI:
    """The server of a library."""
    app = FastAPI()

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        return {"status": "ready"}

    @app.post("/v1/translate")
    def answer(body: Body) -> dict[str, str]:  # FastAPI calls it in a thread
        return {"text": translate(body.text)}

    return app


LIBRARIES = {"transformers": transformers, "ctranslate2": ctranslate2}

if __name__ == "__main__":
    name, folder, port, length, compute, workers, threads = sys.argv[1:]
    app = make_app(LIBRARIES[name](folder, int(length), compute, int(workers), int(threads)))
    uvicorn.run(app, port=int(port), log_level="warning", access_log=False)
