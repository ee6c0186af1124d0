"""export_ctranslate2: a model as a folder that CTranslate2 loads, verified before it appears.

CTranslate2's own converter reads the Hugging Face folder of the model. The folder has model.bin, config.json,
the vocabulary, and tokenizer.json, which CTranslate2 does not read: it takes and gives tokens.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from regard.background import module_command
from regard.checkpoints.atomic_folders import new_folder
from regard.errors import CheckpointError, MissingPackage
from regard.exchange.huggingface import ExportSource, finish_export, write_huggingface
from regard.exchange.report import Report
from regard.exchange.verification import Reference, compare_outputs, written_tokenizer
from regard.text.tokenizer import JOINT

PROCESS = "regard.exchange.ctranslate2_process"
KINDS = {"encoder-decoder": "Translator", "decoder-only": "Generator", "encoder-only": "Encoder"}
# The families that the converter reads, with the settings that it takes for granted.
FIXED: dict[str, dict[str, Any]] = {
    "marian": {}, "pegasus": {}, "gpt2": {"norm_epsilon": 1e-5},
    "llama": {"feed_forward": "swiglu"}, "mistral": {"feed_forward": "swiglu"},
    "qwen2": {"feed_forward": "swiglu"}, "qwen3": {"feed_forward": "swiglu"},
    "bert": {"output": "pooled"}, "roberta": {"output": "pooled"}, "xlm-roberta": {"output": "pooled"},
    "distilbert": {"output": "vectors"},
}  # fmt: skip


def export_ctranslate2(path: str | Path, out: str | Path) -> Report:
    """Write a model for CTranslate2; raise and write nothing if a setting prevents it."""
    _check_packages()
    source = ExportSource.open(path, out)
    _check(source)
    with new_folder(Path(out), manifest=False) as temporary, tempfile.TemporaryDirectory() as theirs:
        write_huggingface(Path(theirs), source)
        _convert(Path(theirs), temporary)
        shutil.copyfile(Path(theirs) / JOINT, temporary / JOINT)
        with running(temporary, KINDS[source.config.family]) as reference:
            report = compare_outputs("export", source.kind, source.model, reference)
        finish_export(temporary, source.path, source.read, report)
    return report


def _check_packages() -> None:
    for name in ("ctranslate2", "transformers"):
        try:
            version(name)
        except PackageNotFoundError:
            raise MissingPackage(
                f"export to CTranslate2 needs the package {name}: pip install 'regard[exchange]' transformers"
            ) from None


def _check(source: ExportSource) -> None:
    """Raise if a setting has no counterpart in CTranslate2 or in its converter."""
    config, fixed = source.config, FIXED.get(source.kind)
    special = source.tokenizer.specials
    if config.family == "encoder-decoder" and special["start"] == special.get("pad"):
        raise CheckpointError(
            f"a start token that is padding ({special['start']}) cannot be written for CTranslate2; convert "
            "the folder that the model was imported from with ct2-transformers-converter"
        )
    if fixed is None:
        raise CheckpointError(
            f"model_type ({source.kind}) cannot be written for CTranslate2, whose converter reads "
            f"{', '.join(FIXED)}"
        )
    fixed = fixed | ({"key_width": config.width // config.heads} if source.kind != "qwen3" else {})
    for name, value in fixed.items():
        actual = config.key_size if name == "key_width" else getattr(config, name)
        if actual != value:
            raise CheckpointError(
                f"{name} ({actual}) cannot be written for CTranslate2, which has {value} for {source.kind}; "
                "export it with --format onnx"
            )


def _convert(theirs: Path, out: Path) -> None:
    command = [*module_command(PROCESS), "convert", str(theirs), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=_environment())
    if done.returncode:
        raise CheckpointError(
            f"the converter of CTranslate2 failed: {_last_line(done.stderr)}; nothing was written"
        )


def _environment() -> dict[str, str]:
    return os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it ended without a message"])[-1][:200]


@contextmanager
def running(folder: Path, kind: str) -> Iterator[Reference]:
    """A converted model in a process of its own, which ends with the block."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as messages:
        process = subprocess.Popen(
            [*module_command(PROCESS), "run", str(folder), kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=messages,
            env=_environment(), text=True, encoding="utf-8",
        )  # fmt: skip

        def ask(**request: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""
            if not line:
                process.wait()
                messages.seek(0)
                raise CheckpointError(
                    f"CTranslate2 failed: {_last_line(messages.read())}; nothing was written"
                )
            return json.loads(line)

        def logits(source: Sequence[int], target: Sequence[int]) -> np.ndarray:
            reply = ask(name="logits", source=list(source), target=list(target))
            return np.frombuffer(base64.b64decode(reply["values"]), "<f4").reshape(reply["shape"])

        def greedy(rows: list[list[int]], count: int) -> list[list[int]]:
            return ask(name="greedy", rows=rows, count=count)

        try:
            name = f"CTranslate2 {version('ctranslate2')}"
            yield Reference(name, logits, written_tokenizer(folder), greedy=greedy, format="ctranslate2")
        finally:
            process.kill()
            process.communicate()
