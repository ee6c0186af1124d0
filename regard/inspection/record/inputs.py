"""What a Translator, a Writer or a Reader reads when it is inspected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.errors import UsageError
from regard.inference.reader import Reader
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.inspection.record.tokens import Side
from regard.model.watch import Part
from regard.text.pair import Tokenizers

Subject = Translator | Writer | Reader


def sides_read(
    subject: Subject, text: str, target: str | None, off: Sequence[Part] = ()
) -> tuple[Side | None, Side | None]:
    """The source and the target, where there is one, as the model reads them."""
    if isinstance(subject, Translator):
        return _pair(subject, text, target, off)
    if isinstance(subject, Writer):
        return None, Side.of_text("target", subject.tokenizer, text + (target or ""))
    if not isinstance(subject, Reader):
        kind = type(subject).__name__
        raise UsageError(
            f"{kind} cannot be inspected; give a Translator, Writer or Reader, as regard.load does"
        )
    if target is not None:
        raise UsageError("a model that reads has no target; leave it out")
    return side_of_reader(subject, text), None


def side_of_reader(reader: Reader, text: str) -> Side:
    """A text between start and end; a mask written in it is one where the model fills them."""
    tokenizer = reader.tokenizer
    return Side.of_text("source", tokenizer, text, [tokenizer.start], [tokenizer.end], reader.fills)


def translation_without(model: Any, source: Side, target: Side, off: Sequence[Part]) -> str:
    """What a model writes for a source with these parts off."""
    translator = Translator(model, Tokenizers(source.tokenizer, target.tokenizer))
    return translator.translate(source.text, off=off).text


def _pair(translator: Translator, text: str, target: str | None, off: Sequence[Part]) -> tuple[Side, Side]:
    """A source and its translation: the given one, or the one that the model writes."""
    reads, writes = translator.tokenizers.source, translator.tokenizers.target
    source = Side.of_text("source", reads, text, last=[reads.end])
    if target is not None:
        return source, Side.of_text("target", writes, target, [writes.start])
    ids = translator.translate(text, off=off).tokens.ids.tolist()
    said = ids[:-1] if ids and ids[-1] == writes.end else ids
    return source, Side.of_ids("target", writes, said, [writes.start])
