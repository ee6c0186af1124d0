"""A corpus becomes a data set of ids, in memory or in a cache folder on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.errors import DataError, nearest
from regard.text.corpus import Example, Pair, Place, Report
from regard.text.running_text import RunningText
from regard.text.splitting import Corpus
from regard.text.token_files import Columns, Data, build_in_memory, open_or_build
from regard.text.tokenizer import Tokenizer, Tokenizers

TOO_MANY_TOKENS = "too many tokens"
_AT_ONCE = 2000
_CHUNKS_AT_ONCE = 16


class _Held(NamedTuple):
    """An example waiting to be encoded with its neighbours, and where it stands."""

    fields: tuple[str, ...]
    place: Place


def encode_parallel(
    corpus: Corpus[Pair], tokenizers: Tokenizers, longest: int, cache: Path | None = None
) -> Data:
    """Columns source and target; a pair with a side of `longest` tokens or more is left out and counted.

    The model reads a start or an end with each side, so a side itself may have one token less.
    """
    sides = (tokenizers.source, tokenizers.target)

    def fill(columns: Columns) -> Report:
        for batch in _batches(corpus, corpus):
            encoded = [side.encode_batch([held.fields[i] for held in batch]) for i, side in enumerate(sides)]
            for held, source, target in zip(batch, *encoded, strict=True):
                if max(len(source), len(target)) >= longest:
                    corpus.report.drop(TOO_MANY_TOKENS, held.place)
                else:
                    columns["source"].add(source)
                    columns["target"].add(target)
        return corpus.report

    vocabularies = {"source": sides[0].vocabulary, "target": sides[1].vocabulary}
    return _made(fill, vocabularies, cache, corpus.identity(), tokenizers.fingerprint, longest)


def encode_labelled(
    corpus: Corpus[Example],
    tokenizer: Tokenizer,
    labels: Sequence[str],
    longest: int,
    cache: Path | None = None,
) -> Data:
    """Columns text and label (its place in `labels`); a long text is shortened, not lost, and counted."""
    numbers = {label: number for number, label in enumerate(labels)}

    def fill(columns: Columns) -> Report:
        for batch in _batches(corpus, corpus):
            encoded = tokenizer.encode_batch([held.fields[0] for held in batch])
            for (fields, place), ids in zip(batch, encoded, strict=True):
                if fields[1] not in numbers:
                    raise DataError(f"{place}: unknown label {fields[1]!r}; {nearest(fields[1], labels)}")
                columns["text"].add(_shortened(ids, longest - 2, corpus.report, place))
                columns["label"].add([numbers[fields[1]]])
        return corpus.report

    vocabularies = {"text": tokenizer.vocabulary, "label": len(labels)}
    return _made(fill, vocabularies, cache, corpus.identity(), tokenizer.fingerprint, longest, *labels)


def encode_lines(corpus: Corpus[str], tokenizer: Tokenizer, longest: int, cache: Path | None = None) -> Data:
    """Column text, a sequence for each line; a long line is shortened, not lost, and counted."""

    def fill(columns: Columns) -> Report:
        for batch in _batches(corpus, ((line,) for line in corpus)):
            encoded = tokenizer.encode_batch([held.fields[0] for held in batch])
            for held, ids in zip(batch, encoded, strict=True):
                columns["text"].add(_shortened(ids, longest - 2, corpus.report, held.place))
        return corpus.report

    vocabularies = {"text": tokenizer.vocabulary}
    return _made(fill, vocabularies, cache, corpus.identity(), tokenizer.fingerprint, longest)


def encode_running(text: RunningText, tokenizer: Tokenizer, cache: Path | None = None) -> Data:
    """Column text: the chunks of a running text; their ids stand one after another in `["text"].ids`.

    The end token stands between two documents, and nowhere else.
    """

    def fill(columns: Columns) -> Report:
        chunks, document = text.chunks(), None
        while several := list(islice(chunks, _CHUNKS_AT_ONCE)):
            encoded = tokenizer.encode_batch([chunk.text for chunk in several])
            for chunk, ids in zip(several, encoded, strict=True):
                begins = document not in (None, chunk.document)
                columns["text"].add([tokenizer.end, *ids] if begins else ids)
                document = chunk.document
        return text.report

    return _made(fill, {"text": tokenizer.vocabulary}, cache, text.identity(), tokenizer.fingerprint)


def _made(
    fill: Callable[[Columns], Report], vocabularies: dict[str, int], cache: Path | None, *identity: object
) -> Data:
    key = sha256("\n".join(map(str, identity)).encode()).hexdigest()
    data = (
        build_in_memory(fill, vocabularies, key)
        if cache is None
        else open_or_build(Path(cache), fill, vocabularies, key)
    )
    if not len(data):
        raise DataError(f"nothing is left to learn from: {' '.join(str(data.report).split())}")
    return data


def _batches(corpus: Corpus, items: Iterable[tuple[str, ...]]) -> Iterator[list[_Held]]:
    held: list[_Held] = []
    for item in items:
        held.append(_Held(tuple(item), corpus.report.place))
        if len(held) == _AT_ONCE:
            yield held
            held = []
    if held:
        yield held


def _shortened(ids: list[int], most: int, report: Report, place: Place) -> list[int]:
    if len(ids) > most:
        report.shortened.add(place)
    return ids[:most]
