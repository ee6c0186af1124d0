"""What a model reads for a request: its text and its output as sides, checked against its room."""

from __future__ import annotations

from collections.abc import Sequence

from regard.inference.reader import Reader
from regard.inference.translating import LONGER
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.inference.writing import beginning
from regard.inspection.analysis.interventions import Pull, check_pull, patches, write_pulled
from regard.inspection.record.inputs import Subject, side_of_reader
from regard.inspection.record.inspection import Inspection
from regard.inspection.record.tokens import Side
from regard.model.watch import Part
from regard.service.http_errors import Refused
from regard.service.requests import PullAsked, TraceAsked


def inspect_asked(subject: Subject, asked: TraceAsked) -> Inspection:
    """Read what was asked for, watched."""
    off, pulls = parts_of(asked.off), pulls_of(asked.pulls)
    source, target = sides_of(subject, asked, off, pulls)
    check_pulls(subject, source, pulls)
    return Inspection(subject.model, source, target, off, patches(pulls))


def parts_of(off: Sequence[str | tuple[str, int, int]]) -> tuple[Part, ...]:
    """What is off, each part once."""
    return tuple(dict.fromkeys(off))


def pulls_of(asked: Sequence[PullAsked]) -> list[Pull]:
    """The rows that were pulled; of several for one row, the last."""
    return [Pull(each.kind, each.layer, each.head, each.query, tuple(each.row)) for each in asked]


def check_pulls(subject: Subject, source: Side | None, pulls: Sequence[Pull]) -> None:
    """Refuse rows that do not fit; how long an output will be is not known yet."""
    for pull in pulls:
        keys = None if source is None or pull.kind == "decoder" else len(source)
        check_pull(subject.model, pull, keys)


def sides_of(
    subject: Subject, asked: TraceAsked, off: Sequence[Part], pulls: Sequence[Pull]
) -> tuple[Side | None, Side | None]:
    """The source and the target, where there is one; a target that is not given is written first."""
    if isinstance(subject, Translator):
        source = source_of(subject, asked.text)
        return source, _target(subject, source, asked, off, pulls)
    if isinstance(subject, Writer):
        return None, text_of(subject, asked.text + (asked.target or ""), asked.target_ids or [])
    if asked.target is not None or asked.target_ids is not None:
        raise Refused("a model that reads has no target; leave it out")
    return read_by(subject, asked.text), None


def source_of(translator: Translator, text: str) -> Side:
    """What the encoder reads."""
    reads = translator.tokenizers.source
    return _fitting(translator, Side.of_text("source", reads, text, last=[reads.end]), "the text")


def text_of(writer: Writer, text: str, ids: Sequence[int]) -> Side:
    """A text and the ids that go on after it; nothing at all begins as a Writer begins."""
    tokenizer = writer.tokenizer
    if not ids and text:
        return _fitting(writer, Side.of_text("target", tokenizer, text), "the text")
    before = tokenizer.encode(text)
    first = [] if before else beginning(tokenizer)
    check_ids(ids, writer.config.vocabulary)
    side = Side.of_ids("target", tokenizer, [*before, *ids], first)
    return _fitting(writer, side, "the text")


def read_by(reader: Reader, text: str) -> Side:
    """What an encoder reads: the text between start and end."""
    return _fitting(reader, side_of_reader(reader, text), "the text")


def said_by(translator: Translator, ids: Sequence[int]) -> Side:
    """An output of so many ids, with the start before it and without an end behind it."""
    writes = translator.tokenizers.target
    check_ids(ids, translator.config.target_vocabulary or translator.config.vocabulary)
    said = ids[:-1] if ids and ids[-1] == writes.end else ids
    return _fitting(translator, Side.of_ids("target", writes, said, [writes.start]), "the output")


def check_ids(ids: Sequence[int], vocabulary: int) -> None:
    """Refuse an id that the model has no word for."""
    wrong = next((number for number in ids if number >= vocabulary), None)
    if wrong is not None:
        raise Refused(f"id {wrong} is none of this model's {vocabulary:,}; ask for its vocabulary")


def longest_output(translator: Translator, source: Side) -> int:
    """How many tokens a translation may have, as `translate` counts."""
    return min(translator.config.context - 1, len(source) + LONGER)


def _target(
    translator: Translator, source: Side, asked: TraceAsked, off: Sequence[Part], pulls: Sequence[Pull]
) -> Side:
    writes = translator.tokenizers.target
    if asked.target_ids is not None:
        return said_by(translator, asked.target_ids)
    if asked.target is not None:
        return _fitting(
            translator, Side.of_text("target", writes, asked.target, [writes.start]), "the translation"
        )
    return said_by(translator, write(translator, source, off, pulls))


def write(translator: Translator, source: Side, off: Sequence[Part], pulls: Sequence[Pull] = ()) -> list[int]:
    """The ids of the likeliest word each time: quick, and what a person sees forming as they type."""
    if not pulls:
        return translator.translate(source.text, beams=1, off=off).tokens.ids.tolist()
    check_pulls(translator, source, pulls)
    writes, ids = translator.tokenizers.target, source.ids.tolist()
    longest = longest_output(translator, source)
    return write_pulled(translator.model, ids, writes.start, writes.end, longest, off, patches(pulls))


def _fitting(subject: Subject, side: Side, name: str) -> Side:
    room = subject.config.context
    if len(side) > room:
        raise Refused(f"{name} has {len(side):,} tokens and this model has room for {room:,}; shorten it")
    return side
