"""Encoding: a corpus as a data set of token ids, in memory or in a cache folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.errors import DataError, nearest
from regard.text.corpus import Example, Location, Pair, Report
from regard.text.running_text import RunningText
from regard.text.splitting import Corpus
from regard.text.token_files import Columns, Data, build_in_memory, open_or_build
from regard.text.tokenizer import Tokenizer, Tokenizers

TOO_MANY_TOKENS = "too many tokens"
_ENCODED_TOGETHER = 2000  # examples
_CHUNKS_ENCODED_TOGETHER = 16


class _Located(NamedTuple):
    """An example with its location."""

    fields: tuple[str, ...]
    location: Location


def encode_parallel(
    corpus: Corpus[Pair], tokenizers: Tokenizers, longest: int, cache: Path | None = None
) -> Data:
    """Columns source and target; pairs with a side of `longest` tokens or more are skipped and counted.

    Each side has a start or an end token besides, so that `longest` is the length of the model's input.
    """
    sides = (tokenizers.source, tokenizers.target)

    def fill(columns: Columns) -> Report:
        for batch in _batches(corpus, corpus):
            sources, targets = (
                side.encode_batch([example.fields[i] for example in batch]) for i, side in enumerate(sides)
            )
            for example, source, target in zip(batch, sources, targets, strict=True):
                if max(len(source), len(target)) >= longest:
                    corpus.report.drop(TOO_MANY_TOKENS, example.location)
                else:
                    corpus.report.count(example.location.entry, len(source))
                    columns["source"].add(source)
                    columns["target"].add(target)
        return corpus.report

    vocabularies = {"source": sides[0].vocabulary, "target": sides[1].vocabulary}
    return _build(fill, vocabularies, cache, corpus.identity(), tokenizers.fingerprint, longest)


def encode_labelled(
    corpus: Corpus[Example],
    tokenizer: Tokenizer,
    labels: Sequence[str],
    longest: int,
    cache: Path | None = None,
) -> Data:
    """Columns text and label (an index of `labels`); long texts are truncated and counted."""
    indices = {label: index for index, label in enumerate(labels)}

    def fill(columns: Columns) -> Report:
        for batch in _batches(corpus, corpus):
            encoded = tokenizer.encode_batch([example.fields[0] for example in batch])
            for ((_, label), location), ids in zip(batch, encoded, strict=True):
                if label not in indices:
                    raise DataError(f"{location}: unknown label {label!r}; {nearest(label, labels)}")
                columns["text"].add(_truncated(ids, longest - 2, corpus.report, location))
                columns["label"].add([indices[label]])
        return corpus.report

    vocabularies = {"text": tokenizer.vocabulary, "label": len(labels)}
    return _build(fill, vocabularies, cache, corpus.identity(), tokenizer.fingerprint, longest, *labels)


def encode_lines(corpus: Corpus[str], tokenizer: Tokenizer, longest: int, cache: Path | None = None) -> Data:
    """Column text, one sequence per line; long lines are truncated and counted."""

    def fill(columns: Columns) -> Report:
        for batch in _batches(corpus, ((line,) for line in corpus)):
            encoded = tokenizer.encode_batch([example.fields[0] for example in batch])
            for example, ids in zip(batch, encoded, strict=True):
                columns["text"].add(_truncated(ids, longest - 2, corpus.report, example.location))
        return corpus.report

    vocabularies = {"text": tokenizer.vocabulary}
    return _build(fill, vocabularies, cache, corpus.identity(), tokenizer.fingerprint, longest)


def encode_running(text: RunningText, tokenizer: Tokenizer, cache: Path | None = None) -> Data:
    """Column text: the chunks of a running text; `["text"].ids` has all their ids.

    There is an end token between two documents.
    """

    def fill(columns: Columns) -> Report:
        chunks, document = text.chunks(), None
        while batch := list(islice(chunks, _CHUNKS_ENCODED_TOGETHER)):
            encoded = tokenizer.encode_batch([chunk.text for chunk in batch])
            for chunk, ids in zip(batch, encoded, strict=True):
                is_first = document not in (None, chunk.document)
                ids = [tokenizer.end, *ids] if is_first else ids
                text.report.count(text.entries[chunk.document], len(ids))
                columns["text"].add(ids)
                document = chunk.document
        return text.report

    return _build(fill, {"text": tokenizer.vocabulary}, cache, text.identity(), tokenizer.fingerprint)


def _build(
    fill: Callable[[Columns], Report], vocabularies: dict[str, int], cache: Path | None, *identity: object
) -> Data:
    key = sha256("\n".join(map(str, identity)).encode()).hexdigest()
    data = (
        build_in_memory(fill, vocabularies, key)
        if cache is None
        else open_or_build(Path(cache), fill, vocabularies, key)
    )
    if not len(data):
        report = " ".join(str(data.report).split())
        raise DataError(f"no example is left to train on; check the files and filters: {report}")
    return data


def _batches(corpus: Corpus, items: Iterable[tuple[str, ...]]) -> Iterator[list[_Located]]:
    batch: list[_Located] = []
    for item in items:
        batch.append(_Located(tuple(item), corpus.report.location))
        if len(batch) == _ENCODED_TOGETHER:
            yield batch
            batch = []
    if batch:
        yield batch


def _truncated(ids: list[int], length: int, report: Report, location: Location) -> list[int]:
    """The ids that fit; they are counted."""
    if len(ids) > length:
        report.shortened.add(location)
    report.count(location.entry, min(len(ids), length))
    return ids[:length]
