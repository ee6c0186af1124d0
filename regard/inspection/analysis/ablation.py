"""Ablation: switch parts of a model off and measure what changes in its output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from regard.errors import UsageError
from regard.inference.translator import Translator
from regard.inspection.record.inputs import translate_by_default
from regard.inspection.record.record import Record
from regard.model.parts import Part, parts_of
from regard.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Rivals:
    """Two words at one position and their probabilities, before and after the ablation."""

    position: int
    words: tuple[str, str]
    before: tuple[float, float]
    after: tuple[float, float]

    @property
    def flips(self) -> bool:
        """Whether the order of the two words changes."""
        return (self.before[0] > self.before[1]) != (self.after[0] > self.after[1])


@dataclass(frozen=True)
class Ablation:
    """What switching parts off changes. Both log-probabilities, in nats, are of the same output.

    `text` and `text_without` are the model's translations, if they were asked for.
    """

    ablated: tuple[Part, ...]
    log_probability: float
    without: float
    rivals: Rivals | None = None
    text: str | None = None
    text_without: str | None = None

    @property
    def change(self) -> float:
        """The change in the log-probability of the output; negative where the parts supported it."""
        return self.without - self.log_probability

    @property
    def flips(self) -> bool:
        """Whether the model writes another translation."""
        return self.text != self.text_without

    def as_dict(self) -> dict[str, Any]:
        """The fields as values that JSON can hold."""
        parts = list(map(spell_part, self.ablated))
        return {**asdict(self), "ablated": parts, "change": self.change, "flips": self.flips}


def ablate(
    record: Record,
    parts: Iterable[Part],
    words: tuple[str, str] | None = None,
    position: int | None = None,
    translate: bool = True,
) -> Ablation:
    """Read the same tokens with some parts ablated, and translate the source again.

    `words` are two rivals ("il", "elle"). They are compared at `position`, or at the first position where
    one of them was written.
    """
    parts = parts_of(parts)
    without = record.again(ablate=(*record.recording.ablated, *parts))
    rivals = None if words is None else _compare_rivals(record, without, words, position)
    ablation = Ablation(parts, record.log_probability, without.log_probability, rivals)
    if not translate or record.source is None or record.target is None:
        return ablation
    return replace(ablation, text=_translation(record), text_without=_translation(without))


def ablate_each_head(
    record: Record, words: tuple[str, str] | None = None, position: int | None = None
) -> list[Ablation]:
    """Ablate every head alone; the head that the output needs most comes first."""
    heads = [
        (kind, layer, head)
        for kind in record.kinds
        for layer in range(record.layers(kind))
        for head in range(record.heads)
    ]
    ablations = [ablate(record, [part], words, position, translate=False) for part in heads]
    return sorted(ablations, key=lambda ablation: ablation.change)


def chance(record: Record, word: str, position: int) -> float:
    """The probability that a word begins after a position, with or without a space before it."""
    return float(record.probabilities[record.written.find(position)[0]][first_ids(record, word)].sum())


def parse_part(text: str) -> Part:
    """A part from its spelling: "encoder.2.1" is a head, anything else a name that `watch` knows."""
    kind, _, rest = text.partition(".")
    numbers = rest.split(".")
    if kind in ("encoder", "decoder", "cross") and len(numbers) == 2 and all(n.isdigit() for n in numbers):
        return kind, int(numbers[0]), int(numbers[1])
    return text


def spell_part(part: Part) -> str:
    """The spelling of a part that `parse_part` reads."""
    return part if isinstance(part, str) else ".".join(map(str, part))


def _translation(record: Record) -> str:
    """What the model translates with the parts of a record off."""
    assert record.source is not None
    assert record.target is not None
    tokenizers = Tokenizers(record.source.tokenizer, record.target.tokenizer)
    translator = Translator(record.model, tokenizers)  # pyright: ignore[reportArgumentType]
    return tokenizers.target.decode(
        translate_by_default(translator, record.source.text, record.recording.ablated)
    )


def _compare_rivals(record: Record, without: Record, words: tuple[str, str], position: int | None) -> Rivals:
    place = first_written(record, words) if position is None else record.written.find(position)[0]
    before, after = ((chance(r, words[0], place), chance(r, words[1], place)) for r in (record, without))
    return Rivals(place, words, before, after)


def first_written(record: Record, words: tuple[str, str]) -> int:
    """The first position after which one of two words was written."""
    ids = [*first_ids(record, words[0]), *first_ids(record, words[1])]
    places = np.flatnonzero(np.isin(record.followed, ids))
    if not len(places):
        raise UsageError(
            f"neither {words[0]!r} nor {words[1]!r} is in {record.written.text!r}; give a position"
        )
    return int(places[0])


def first_ids(record: Record, word: str) -> list[int]:
    """The ids with which a word can begin: with and without a space before it."""
    encode = record.written.tokenizer.encode
    plain, spaced = encode(word), encode(f" {word}")
    if not plain or plain[0] == record.written.tokenizer.specials.get("unknown"):
        raise UsageError(f"{word!r} is not in the vocabulary of this model; give a word that is")
    shares_a_space = spaced[:1] == encode(" ")[:1] != []
    return sorted({plain[0]} if shares_a_space else {plain[0], spaced[0]})
