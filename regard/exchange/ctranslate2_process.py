"""CTranslate2 in a process of its own, because its threads and those of torch hinder each other.

    python -m regard.exchange.ctranslate2_process convert THEIRS OUT     THEIRS is a Hugging Face folder
    python -m regard.exchange.ctranslate2_process run OUT Translator        or Generator, or Encoder

`run` reads one request per line of its input and writes one reply per line, both JSON.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Vocabulary:
    """The tokens of a folder as the converter asks for them: one per id, also for ids without a token."""

    def __init__(self, folder: Path, values: dict[str, Any]):
        from tokenizers import Tokenizer

        inner = Tokenizer.from_file(str(folder / "tokenizer.json"))
        texts = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        start = values.get("decoder_start_token_id")
        self._tokens = [
            inner.id_to_token(number) or f"<extra_id_{number}>" for number in range(values["vocab_size"])
        ]
        self.eos_token = texts.get("eos_token") or texts.get("sep_token")
        self.unk_token = texts.get("unk_token") or ""
        self.pad_token = texts.get("pad_token")
        self.bos_token = texts.get("bos_token") or (
            self._tokens[start] if start is not None else self.eos_token
        )

    def get_vocab(self) -> dict[str, int]:
        """The ids by token."""
        return {token: number for number, token in enumerate(self._tokens)}

    def convert_ids_to_tokens(self, number: int) -> str:
        """The token of an id."""
        return self._tokens[number]


def convert(theirs: Path, out: Path) -> None:
    """Write a Hugging Face folder in the format of CTranslate2, in float32."""
    from ctranslate2.converters import TransformersConverter  # pyright: ignore[reportMissingImports]

    values = json.loads((theirs / "config.json").read_text(encoding="utf-8"))
    _register_loaders()

    class Converter(TransformersConverter):
        def load_tokenizer(self, *arguments: Any, **options: Any) -> Vocabulary:
            return Vocabulary(theirs, values)

    Converter(str(theirs)).convert(str(out), force=True)


def _register_loaders() -> None:
    """Loaders of Marian and Pegasus for a start token with an embedding.

    CTranslate2's own loaders have the start token of the published models: padding, with a vector of zeros.
    """
    from ctranslate2.converters import transformers  # pyright: ignore[reportMissingImports]

    def register(config: str, architecture: str, is_pre_norm: bool) -> None:
        class Loader(transformers.BartLoader):
            @property
            def architecture_name(self) -> Any:
                return architecture

            def get_model_spec(self, model: Any) -> Any:
                model.config.normalize_before = is_pre_norm
                model.config.normalize_embedding = False
                return super().get_model_spec(model)

        transformers.register_loader(config)(Loader)

    register("MarianConfig", "MarianMTModel", False)
    register("PegasusConfig", "PegasusForConditionalGeneration", True)


class Runner:
    """A converted model that answers requests in ids; the kinds are those of CTranslate2's classes."""

    def __init__(self, folder: Path, kind: str):
        import ctranslate2  # pyright: ignore[reportMissingImports]

        names = ("shared_vocabulary.json", "vocabulary.json")
        path = next(folder / name for name in names if (folder / name).exists())
        self._tokens: list[str] = json.loads(path.read_text(encoding="utf-8"))
        self._ids = {token: number for number, token in enumerate(self._tokens)}
        self._model = getattr(ctranslate2, kind)(str(folder), intra_threads=1)
        self.replies = {
            "Translator": {"logits": self._translator_logits, "greedy": self._translate},
            "Generator": {"logits": self._generator_logits, "greedy": self._complete},
            "Encoder": {"logits": self._encoder_output},
        }[kind]

    def _spell(self, ids: Sequence[int]) -> list[str]:
        return [self._tokens[number] for number in ids]

    def _translator_logits(self, source: list[int], target: list[int]) -> np.ndarray:
        """T V; the first target token is the start, which CTranslate2 adds itself."""
        result = self._model.translate_batch(
            [self._spell(source)], [self._spell(target[1:])], beam_size=1, max_input_length=0,
            max_decoding_length=len(target), min_decoding_length=0, return_logits_vocab=True,
        )[0]  # fmt: skip
        return np.array(result.logits[0], np.float32)

    def _translate(self, rows: list[list[int]], count: int) -> list[list[int]]:
        results = self._model.translate_batch(
            [self._spell(row) for row in rows], beam_size=1, max_input_length=0, max_decoding_length=count,
            min_decoding_length=0, max_batch_size=32,
        )  # fmt: skip
        return [[self._ids[token] for token in result.hypotheses[0]] for result in results]

    def _generator_logits(self, source: list[int], target: list[int]) -> np.ndarray:
        return np.array(self._model.forward_batch([target]))[0]

    def _complete(self, rows: list[list[int]], count: int) -> list[list[int]]:
        results = self._model.generate_batch(
            [self._spell(row) for row in rows], beam_size=1, max_length=count, min_length=0,
            include_prompt_in_result=False,
        )  # fmt: skip
        return [result.sequences_ids[0] for result in results]

    def _encoder_output(self, source: list[int], target: list[int]) -> np.ndarray:
        output = self._model.forward_batch([source])
        pooled = output.pooler_output
        return np.array(output.last_hidden_state if pooled is None else pooled)[0]


def run(folder: Path, kind: str) -> None:
    """Answer requests: {"name": "logits", ...} with an array, {"name": "greedy", ...} with lists of ids."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries must not mix with replies
    runner = Runner(folder, kind)
    for line in sys.stdin:
        request = json.loads(line)
        reply = runner.replies[request.pop("name")](**request)
        if isinstance(reply, np.ndarray):
            packed = base64.b64encode(np.ascontiguousarray(reply, "<f4").tobytes()).decode()
            reply = {"shape": reply.shape, "values": packed}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    {"convert": lambda a, b: convert(Path(a), Path(b)), "run": lambda a, b: run(Path(a), b)}[sys.argv[1]](
        *sys.argv[2:]
    )
