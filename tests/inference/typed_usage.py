"""Result types as pyright infers them; `make test` checks this file with pyright and never runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, assert_type

if TYPE_CHECKING:
    import numpy as np

    from regard.inference.reader import Classified, Filled, Reader
    from regard.inference.translation import Translation
    from regard.inference.translator import Translator
    from regard.inference.writer import Completion, Writer


def check_translate(translator: Translator, lines: Iterator[str]) -> None:
    assert_type(translator.translate("a", beams=2), Translation)
    assert_type(translator.translate(["a"], prefix="b"), list[Translation])
    assert_type(translator.translate(("a", "b")), list[Translation])
    assert_type(translator.translate(lines, alignment=True), Iterator[Translation])


def check_complete(writer: Writer, lines: Iterator[str]) -> None:
    assert_type(writer.complete("a", top_p=0.9), Completion)
    assert_type(writer.complete(["a"], stop="."), list[Completion])
    assert_type(writer.complete(lines), Iterator[Completion])


def check_read(reader: Reader, lines: Iterator[str]) -> None:
    assert_type(reader.fill("a"), Filled)
    assert_type(reader.fill(["a"], top=2), list[Filled])
    assert_type(reader.fill(lines), Iterator[Filled])
    assert_type(reader.classify("a"), Classified)
    assert_type(reader.classify(["a"], truncate=True), list[Classified])
    assert_type(reader.classify(lines), Iterator[Classified])
    assert_type(reader.embed("a"), np.ndarray)
    assert_type(reader.embed(["a"]), np.ndarray)
    assert_type(reader.embed(lines, pooling="first"), Iterator[np.ndarray])
