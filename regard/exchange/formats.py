"""The formats of `regard export`, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.exchange.ctranslate2 import export_ctranslate2
from regard.exchange.gguf import export_gguf, export_gguf_f16, export_gguf_q8_0
from regard.exchange.huggingface import export_huggingface
from regard.exchange.onnx import export_onnx
from regard.exchange.report import Report
from regard.registry import Registry

EXPORTS: Registry[Callable[[str | Path, str | Path], Report]] = Registry(
    "format",
    {
        "huggingface": export_huggingface,
        "ctranslate2": export_ctranslate2,
        "onnx": export_onnx,
        "gguf": export_gguf,
        "gguf-f16": export_gguf_f16,
        "gguf-q8_0": export_gguf_q8_0,
    },
)
