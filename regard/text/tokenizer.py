"""Tokenizers: one for both sides of a translation, or one each."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import DataError, SettingError
from regard.registry import Registry
from regard.text.tokenizer_file import LARGEST_ID, open_tokenizer, parse_tokenizer, surviving

# Role and spelling of each special token; their order here is the order of their ids.
SPECIALS = {"pad": "<pad>", "start": "<s>", "end": "</s>", "unknown": "<unk>", "mask": "[MASK]"}

# A word keeps an English contraction (didn't) and lets go of an elided article (l' eau). Whatever else is
# neither word nor space is a sign.
WORD = r"(?i:\w+['’](?:s|t|re|ve|m|ll|d)(?!\w))|\w+['’](?=\w)|\w+"
SIGN = r"[^\w\s]"


@dataclass(frozen=True)
class Kind:
    """The parts of one kind of tokenizer; the trainer is made for a vocabulary and a smallest count."""

    model: Callable[[], models.Model]
    trainer: Callable[[int, int], trainers.Trainer]
    normalizers: tuple[normalizers.Normalizer, ...]
    pre_tokenizer: pre_tokenizers.PreTokenizer
    decoder: decoders.Decoder
    smallest: int
    min_count: int


def _byte_pairs() -> Kind:
    """Byte-pair encoding over bytes: every text has tokens and comes back as it was."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return Kind(
        model=models.BPE,
        trainer=lambda vocabulary, min_count: trainers.BpeTrainer(
            vocab_size=vocabulary,
            min_frequency=min_count,
            special_tokens=list(SPECIALS.values()),
            initial_alphabet=alphabet,
            show_progress=False,
        ),
        normalizers=(),
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoder=decoders.ByteLevel(),
        smallest=len(SPECIALS) + len(alphabet),
        min_count=2,
    )


def _word_kind() -> Kind:
    """Whole words, and signs that remember the spaces beside them.

    A word is the same token wherever it stands: two words are joined by a space, and a sign says for
    itself whether a space stood before (␣ on its left) or after it. So decoding writes what people write,
    with one space for any white space, and <unk> for a word or sign never met. Three signs serve the
    tokens' own spelling (▁ ␣ U+E000) and are left out of a text that has them.
    """
    sign, unknown = r"[^\w\s▁␣\ue000]", SPECIALS["unknown"]
    return Kind(
        model=lambda: models.WordLevel(unk_token=unknown),
        trainer=_word_trainer,
        normalizers=(
            normalizers.Replace(Regex(r"[▁␣\ue000]"), ""),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Replace(Regex(rf"(?<=\S) (?={sign})|(?<={sign}) (?=\S)"), "␣"),
        ),
        pre_tokenizer=pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(f"{WORD}|␣?{sign}␣?"), "removed", invert=True),
                pre_tokenizers.Metaspace(prepend_scheme="always", split=False),
            ]
        ),
        decoder=decoders.Sequence(
            [
                decoders.Replace(unknown, "▁\ue000"),
                decoders.Fuse(),
                decoders.Replace(Regex(rf"^▁|▁(?=␣|{sign})|(?<=␣|{sign})▁"), ""),
                decoders.Replace(Regex("[▁␣]"), " "),
                decoders.Replace("\ue000", unknown),
            ]
        ),
        smallest=len(SPECIALS) + 1,
        min_count=1,
    )


def _characters() -> Kind:
    """One token for each character (code point), line ends and spaces included."""
    return Kind(
        model=lambda: models.WordLevel(unk_token=SPECIALS["unknown"]),
        trainer=_word_trainer,
        normalizers=(),
        pre_tokenizer=pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"),
        decoder=decoders.Fuse(),
        smallest=len(SPECIALS) + 1,
        min_count=1,
    )


def _word_trainer(vocabulary: int, min_count: int) -> trainers.Trainer:
    return trainers.WordLevelTrainer(
        vocab_size=vocabulary,
        min_frequency=min_count,
        special_tokens=list(SPECIALS.values()),
        show_progress=False,
    )


def _plain() -> list[normalizers.Normalizer]:
    return [
        normalizers.NFC(),
        normalizers.Replace(Regex("[‘’‚‛′ʼ]"), "'"),
        normalizers.Replace(Regex("[“”„‟″]"), '"'),
        normalizers.Replace(Regex(r"[\u00a0\u2000-\u200a\u202f\u205f\u3000]"), " "),
        normalizers.Replace(Regex(r"[\u00ad\u200b\u2060\ufeff]"), ""),
    ]


KINDS: Registry[Callable[[], Kind]] = Registry(
    "kind of tokenizer", {"bpe": _byte_pairs, "word": _word_kind, "character": _characters}
)

NORMALISATIONS: Registry[Callable[[], list[normalizers.Normalizer]]] = Registry(
    "normalisation",
    {
        "none": list,
        "nfc": lambda: [normalizers.NFC()],
        "nfkc": lambda: [normalizers.NFKC()],
        # NFC, straight quotes for curly ones, plain spaces for odd ones, nothing for invisible signs.
        "plain": _plain,
    },
)


# How other makers spell the special tokens; a tokenizer's own added tokens are searched in this order.
SPELLINGS = {
    "pad": ("<pad>", "[PAD]"),
    "start": ("<s>", "[CLS]", "<bos>", "<|begin_of_text|>", "<|endoftext|>"),
    "end": ("</s>", "[SEP]", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "unknown": ("<unk>", "[UNK]"),
    "mask": ("[MASK]", "<mask>"),
}

_words = pre_tokenizers.Split(Regex(f"{WORD}|{SIGN}"), "removed", invert=True)


@dataclass(frozen=True)
class Piece:
    """A token of a text: its id, the characters it covers, and the word it belongs to.

    `text[start:end]` is the piece, with the space before it where the token holds one. Tokens that share
    a character share its place. Words count from 0; white space alone belongs to none.
    """

    id: int
    text: str
    start: int
    end: int
    word: int | None


class Tokenizer:
    """Text to ids and back. Special tokens written in a text stay text; they are added by batches alone."""

    def __init__(self, inner: tokenizers.Tokenizer, specials: dict[str, str] | None = None):
        """Wrap a tokenizer of the library; `specials` spells the roles where its maker has other names."""
        added = {token.content: number for number, token in inner.get_added_tokens_decoder().items()}
        self.specials = _roles(added, specials or {})
        self._inner = inner
        _make_special(inner, self.specials.values())
        self._silent = {
            self.specials[role] for role in ("pad", "start", "end", "mask") if role in self.specials
        }

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        kind: str = "bpe",
        vocabulary: int = 8000,
        normalisation: str = "none",
        lowercase: bool = False,
        min_count: int | None = None,
    ) -> Tokenizer:
        """Learn a vocabulary of at most that many tokens; the same texts give the same file."""
        parts = KINDS.find(kind)()
        if not parts.smallest <= vocabulary <= LARGEST_ID:
            raise SettingError(
                f"vocabulary ({vocabulary}) must lie between {parts.smallest} and {LARGEST_ID} for {kind}"
            )
        steps = NORMALISATIONS.find(normalisation)()
        steps += [normalizers.Lowercase()] if lowercase else []
        steps += parts.normalizers
        inner = tokenizers.Tokenizer(parts.model())
        if steps:
            inner.normalizer = normalizers.Sequence(steps)
        inner.pre_tokenizer = parts.pre_tokenizer
        inner.decoder = parts.decoder
        trainer = parts.trainer(vocabulary, parts.min_count if min_count is None else min_count)
        with surviving("cannot learn a tokenizer from these texts"):
            inner.train_from_iterator(_some(texts), trainer)
        return cls(inner)

    @classmethod
    def load(cls, path: str | Path, specials: dict[str, str] | None = None) -> Tokenizer:
        """Read a tokenizer.json, ours or another maker's; a link that the caller names is followed."""
        return cls(open_tokenizer(Path(os.path.realpath(path))), specials)

    def save(self, path: str | Path) -> None:
        """Write the whole of it to one JSON file."""
        Path(path).write_bytes(self._inner.to_str(pretty=True).encode())

    def to_json(self) -> str:
        """What `save` writes, on one line."""
        return self._inner.to_str()

    @cached_property
    def vocabulary(self) -> int:
        """How many ids a model needs: one more than the largest."""
        return max(self._inner.get_vocab().values()) + 1

    @property
    def forgets_case(self) -> bool:
        """Whether capital letters are read, and so written, as small ones."""
        normalizer = self._inner.normalizer
        return normalizer is not None and normalizer.normalize_str("A") == "a"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of everything that decides which ids a text has.

        Options that are off do not count, so that a library which writes more of them gives the same.
        """
        parts = [_without_what_is_off(json.loads(self.to_json())), self.specials]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def pad(self) -> int:
        """The id that fills up short rows."""
        return self._special("pad")

    @property
    def start(self) -> int:
        """The id a target, or a text to be classified, begins with."""
        return self._special("start")

    @property
    def end(self) -> int:
        """The id that ends a sequence."""
        return self._special("end")

    @property
    def unknown(self) -> int:
        """The id of what was never met."""
        return self._special("unknown")

    @property
    def mask(self) -> int:
        """The id that hides a token from a masked model."""
        return self._special("mask")

    def encode(self, text: str, with_mask: bool = False) -> list[int]:
        """The ids of a text, without start or end; `with_mask` lets the mask token be written in it."""
        return self._encoding(text, with_mask).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, worked out on all cores."""
        with surviving("cannot encode a text (is it valid Unicode?)"):
            found = self._inner.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids: pad, start, end and mask say nothing, the unknown token shows itself."""
        spoken = [int(number) for number in ids if number not in self._silent]
        with surviving("cannot decode these ids"):
            return self._inner.decode(spoken, skip_special_tokens=False)

    def stream(self) -> TextStream:
        """A decoder that takes ids one at a time."""
        return TextStream(self)

    def tokens(self, text: str, with_mask: bool = False) -> list[Piece]:
        """The pieces of a text with their places in it and the words they make up."""
        encoding = self._encoding(text, with_mask)
        words = _word_of_each(text, encoding.offsets)
        return [
            Piece(number, text[start:end], start, end, word)
            for number, (start, end), word in zip(encoding.ids, encoding.offsets, words, strict=True)
        ]

    def _special(self, role: str) -> int:
        if role not in self.specials:
            raise DataError(
                f"this tokenizer has no {role} token; it has {', '.join(self.specials) or 'none'}"
            )
        return self.specials[role]

    def _encoding(self, text: str, with_mask: bool) -> tokenizers.Encoding:
        inner = self._admitting_mask if with_mask else self._inner
        with surviving("cannot encode this text (is it valid Unicode?)"):
            return inner.encode(text, add_special_tokens=False)

    @cached_property
    def _admitting_mask(self) -> tokenizers.Tokenizer:
        """The same tokenizer in which the mask alone is not special, so that a text may spell it.

        Under the byte-level kind a token holds the space before it, and so must the mask that stands for one.
        """
        content = json.loads(self.to_json())
        takes_space = (content.get("pre_tokenizer") or {}).get("type") == "ByteLevel"
        for token in content["added_tokens"]:
            if token["id"] == self.mask:
                token.update(special=False, normalized=False, lstrip=takes_space or token["lstrip"])
        return parse_tokenizer(content, "the tokenizer")


class TextStream:
    """Ids in one at a time, text out: the pieces join to what `decode` gives, no character is ever split.

    A character of several bytes, and a piece that later bytes may still change, is held back till it is sure.
    """

    _window = 32
    # What is unsure is at most three signs of at most four bytes, and a token is at least a byte.
    _kept = 12

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._said = 0

    def add(self, number: int) -> str:
        """The text that this id makes sure, often empty or a few characters."""
        if number in self._tokenizer._silent:
            return ""
        self._ids.append(number)
        text = self._tokenizer.decode(self._ids)
        sure = len(text) - _unsure(text)
        piece, self._said = text[self._said : sure], max(self._said, sure)
        if len(self._ids) > self._window:
            self._forget(len(text) - self._said)
        return piece

    def finish(self) -> str:
        """What was held back, with U+FFFD for bytes that never became a character."""
        piece = self._tokenizer.decode(self._ids)[self._said :]
        self._ids, self._said = [], 0
        return piece

    def _forget(self, held_back: int) -> None:
        self._ids = self._ids[-self._kept :]
        self._said = len(self._tokenizer.decode(self._ids)) - held_back


def _unsure(text: str) -> int:
    return min(3, len(text) - len(text.rstrip("\ufffd")))


def _roles(added: dict[str, int], spelled: dict[str, str]) -> dict[str, int]:
    unknown = [text for role, text in spelled.items() if role not in SPECIALS or text not in added]
    if unknown:
        raise DataError(f"{unknown[0]!r} is no special token of this tokenizer; it has {', '.join(added)}")
    known = {role: [spelled[role]] if role in spelled else SPELLINGS[role] for role in SPECIALS}
    found = {
        role: next((added[name] for name in names if name in added), None) for role, names in known.items()
    }
    return {role: number for role, number in found.items() if number is not None}


def _make_special(inner: tokenizers.Tokenizer, numbers: Iterable[int]) -> None:
    """See to it that no text can spell these tokens; neither a file nor the library promises it."""
    tokens = inner.get_added_tokens_decoder()
    forgeable = [tokens[number].content for number in numbers if not tokens[number].special]
    inner.add_special_tokens(forgeable)
    inner.encode_special_tokens = True


def _some(texts: Iterable[str]) -> Iterator[str]:
    first = next(iterator := iter(texts), None)
    if first is None:
        raise DataError("there is no text to learn a tokenizer from; check what the corpus report skipped")
    return chain([first], iterator)


def _word_of_each(text: str, spans: Sequence[tuple[int, int]]) -> list[int | None]:
    """For each span the word it begins in; words without a piece of their own are not counted."""
    words = [place for _, place in _words.pre_tokenize_str(text)]
    numbers: dict[int, int] = {}
    found: list[int | None] = []
    at = 0
    for start, end in spans:
        while at < len(words) and words[at][1] <= start:
            at += 1
        touches = at < len(words) and words[at][0] < end
        found.append(numbers.setdefault(at, len(numbers)) if touches else None)
    return found


def _without_what_is_off(value: Any) -> Any:
    """Parsed JSON without keys whose value is null, false or empty."""
    if isinstance(value, dict):
        kept = {key: _without_what_is_off(one) for key, one in value.items()}
        return {
            key: one
            for key, one in kept.items()
            if one is not None and one is not False and one not in ("", [], {})
        }
    return [_without_what_is_off(one) for one in value] if isinstance(value, list) else value


JOINT = "tokenizer.json"
SOURCE = "tokenizer.source.json"
TARGET = "tokenizer.target.json"


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of source and target; the same object twice where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def joint(cls, tokenizer: Tokenizer) -> Tokenizers:
        """One tokenizer for both sides."""
        return cls(tokenizer, tokenizer)

    @property
    def are_joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """What decides the ids of both sides."""
        return f"{self.source.fingerprint} {self.target.fingerprint}"

    def save(self, folder: str | Path) -> list[str]:
        """Write one file or two into a folder and give their names."""
        files = {JOINT: self.source} if self.are_joint else {SOURCE: self.source, TARGET: self.target}
        for name, tokenizer in files.items():
            tokenizer.save(Path(folder) / name)
        return list(files)

    @classmethod
    def load(cls, folder: str | Path, names: Collection[str] | None = None) -> Tokenizers:
        """Read whichever of the two layouts a folder has, of its files or of these; links are refused."""
        place = Path(folder)
        layout = (JOINT, SOURCE, TARGET)
        names = {name for name in layout if os.path.lexists(place / name)} if names is None else set(names)
        if names not in ({JOINT}, {SOURCE, TARGET}):
            raise DataError(
                f"{folder} holds {', '.join(sorted(names)) or 'no tokenizer'}; "
                f"it must hold {JOINT} alone, or {SOURCE} and {TARGET}"
            )
        files = {name: Tokenizer(open_tokenizer(place / name)) for name in names}
        return cls.joint(files[JOINT]) if JOINT in files else cls(files[SOURCE], files[TARGET])
