"""What a head does for the output: switch it off, and see what changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from regard.errors import UsageError
from regard.inspection.record.inputs import translation_without
from regard.inspection.record.inspection import Inspection
from regard.model.watch import Part, parts_of


@dataclass(frozen=True)
class Rivals:
    """Two words at one position, before and after: their probabilities with everything on, and without."""

    position: int
    words: tuple[str, str]
    before: tuple[float, float]
    after: tuple[float, float]

    @property
    def flips(self) -> bool:
        """Whether the other word is now the likelier one."""
        return (self.before[0] > self.before[1]) != (self.after[0] > self.after[1])


@dataclass(frozen=True)
class Effect:
    """What switching something off does. Log-probabilities are of the same output, in nats.

    `text` and `text_without` are what the model writes, where it translates and was asked to.
    """

    off: tuple[Part, ...]
    log_probability: float
    without: float
    rivals: Rivals | None = None
    text: str | None = None
    text_without: str | None = None

    @property
    def change(self) -> float:
        """How the log-probability of the output changes; below 0, the part was of use."""
        return self.without - self.log_probability

    @property
    def flips(self) -> bool:
        """Whether the model writes something else."""
        return self.text != self.text_without

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            **asdict(self),
            "off": list(map(spell_part, self.off)),
            "change": self.change,
            "flips": self.flips,
        }


def switch_off(
    seen: Inspection,
    off: Iterable[Part],
    words: tuple[str, str] | None = None,
    position: int | None = None,
    translate: bool = True,
) -> Effect:
    """Read the same tokens without some parts, and write the translation anew.

    `words` are two rivals ("il", "elle"), compared at `position`; where none is given, at the first one
    that said either of them.
    """
    off = parts_of(off)
    without = seen.again(off=(*seen.recording.off, *off))
    rivals = None if words is None else _rivals(seen, without, words, position)
    effect = Effect(off, seen.log_probability, without.log_probability, rivals)
    if not translate or seen.source is None or seen.target is None:
        return effect
    offs = (seen.recording.off, without.recording.off)
    texts = [translation_without(seen.model, seen.source, seen.target, off) for off in offs]
    return replace(effect, text=texts[0], text_without=texts[1])


def switch_off_each(
    seen: Inspection, words: tuple[str, str] | None = None, position: int | None = None
) -> list[Effect]:
    """Every head off by itself; the one that the output needs most comes first."""
    heads = [
        (kind, layer, head)
        for kind in seen.kinds
        for layer in range(seen.layers(kind))
        for head in range(seen.heads)
    ]
    found = [switch_off(seen, [part], words, position, translate=False) for part in heads]
    return sorted(found, key=lambda effect: effect.change)


def chance(seen: Inspection, word: str, position: int) -> float:
    """The probability that a word begins after a position, with a space before it or without."""
    return float(seen.probabilities[seen.written.find(position)[0]][_first_ids(seen, word)].sum())


def parse_part(text: str) -> Part:
    """A part as people type it: "encoder.2.1" is a head, anything else a name that `watch` knows."""
    kind, _, rest = text.partition(".")
    numbers = rest.split(".")
    if kind in ("encoder", "decoder", "cross") and len(numbers) == 2 and all(n.isdigit() for n in numbers):
        return kind, int(numbers[0]), int(numbers[1])
    return text


def spell_part(part: Part) -> str:
    """The same the other way round."""
    return part if isinstance(part, str) else ".".join(map(str, part))


def _rivals(seen: Inspection, without: Inspection, words: tuple[str, str], position: int | None) -> Rivals:
    place = _where_said(seen, words) if position is None else seen.written.find(position)[0]
    before, after = (
        (chance(each, words[0], place), chance(each, words[1], place)) for each in (seen, without)
    )
    return Rivals(place, words, before, after)


def _where_said(seen: Inspection, words: tuple[str, str]) -> int:
    ids = [*_first_ids(seen, words[0]), *_first_ids(seen, words[1])]
    places = np.flatnonzero(np.isin(seen.followed, ids))
    if not len(places):
        raise UsageError(
            f"neither {words[0]!r} nor {words[1]!r} is in {seen.written.text!r}; give a position"
        )
    return int(places[0])


def _first_ids(seen: Inspection, word: str) -> list[int]:
    encode = seen.written.tokenizer.encode
    plain, spaced = encode(word), encode(f" {word}")
    if not plain or plain[0] == seen.written.tokenizer.specials.get("unknown"):
        raise UsageError(f"{word!r} is no word that this model has; give one that it can say")
    shares_a_space = spaced[:1] == encode(" ")[:1] != []
    return sorted({plain[0]} if shares_a_space else {plain[0], spaced[0]})
