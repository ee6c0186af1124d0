"""Tokenizer: text to token ids and back; its kinds; the tokenizers of source and target."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import DataError, SettingError
from regard.registry import Registry
from regard.text.tokenizer_file import LARGEST_ID, as_data_error, open_tokenizer, parse_tokenizer

# The special tokens by role, in the order of their ids.
SPECIALS = {"pad": "<pad>", "start": "<s>", "end": "</s>", "unknown": "<unk>", "mask": "[MASK]"}

# A word includes an English contraction (didn't) and ends after an elided article (l' eau). Any other
# character except white space is a sign.
WORD = r"(?i:\w+['’](?:s|t|re|ve|m|ll|d)(?!\w))|\w+['’](?=\w)|\w+"
SIGN = r"[^\w\s]"


@dataclass(frozen=True)
class Kind:
    """The parts of one kind of tokenizer; `trainer(vocabulary, min_count)` makes its trainer."""

    model: Callable[[], models.Model]
    trainer: Callable[[int, int], trainers.Trainer]
    normalizers: tuple[normalizers.Normalizer, ...]
    pre_tokenizer: pre_tokenizers.PreTokenizer
    decoder: decoders.Decoder
    smallest: int
    min_count: int


def _byte_pairs() -> Kind:
    """Byte-level BPE: any text can be encoded and is decoded exactly."""
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
    """Words, and signs that encode the spaces beside them.

    A word is the same token in any position. Two words are joined by a space. The token of a sign contains ␣
    on the side where a space is. Decoding restores the text, with one space for any white space and <unk> for
    unknown words and signs. The characters ▁ ␣ U+E000 are used in tokens and removed from texts.
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
    """One token per character (code point), including line ends and spaces."""
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
        # NFC, straight quotes, ASCII spaces, and no invisible characters.
        "plain": _plain,
    },
)


# Spellings of the special tokens in other tokenizers, in order of preference.
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
    """A token of a text: its id, its characters, and the index of its word.

    `text[start:end]` is the piece, including a space that the token begins with. Tokens that share a
    character have the same span. Words are numbered from 0; white space alone belongs to no word.
    """

    id: int
    text: str
    start: int
    end: int
    word: int | None


class Tokenizer:
    """Text to token ids and back. Special tokens in a text are encoded as text; only batches add them."""

    def __init__(self, inner: tokenizers.Tokenizer, specials: dict[str, str] | None = None):
        """Wrap a tokenizer of the library; `specials` overrides the spelling of roles."""
        added = {token.content: number for number, token in inner.get_added_tokens_decoder().items()}
        self.specials = _roles(added, specials or {})
        self._inner = inner
        _make_special(inner, self.specials.values())
        self._undecoded = {
            self.specials[role] for role in ("pad", "start", "end", "mask") if role in self.specials
        }

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        kind: str = "bpe",
        vocabulary: int = 8000,
        normalisation: str = "none",
        lowercase: bool = False,
        min_count: int | None = None,
    ) -> Tokenizer:
        """Train a tokenizer with at most `vocabulary` tokens; equal texts give equal files."""
        parts = KINDS.find(kind)()
        if not parts.smallest <= vocabulary <= LARGEST_ID:
            raise SettingError(
                f"vocabulary ({vocabulary}) must be between {parts.smallest} and {LARGEST_ID} for {kind}"
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
        with as_data_error("cannot train a tokenizer on these texts"):
            inner.train_from_iterator(_not_empty(texts), trainer)
        return cls(inner)

    @classmethod
    def load(cls, path: str | Path, specials: dict[str, str] | None = None) -> Tokenizer:
        """Read a tokenizer.json of this or another library; if the path is a link, it is followed."""
        return cls(open_tokenizer(Path(os.path.realpath(path))), specials)

    def save(self, path: str | Path) -> None:
        """Write the tokenizer to a JSON file."""
        Path(path).write_bytes(self._inner.to_str(pretty=True).encode())

    def to_json(self) -> str:
        """The content of the file that `save` writes, on one line."""
        return self._inner.to_str()

    @cached_property
    def vocabulary(self) -> int:
        """The size of the vocabulary: the largest id plus one."""
        return max(self._inner.get_vocab().values()) + 1

    @property
    def is_lowercase(self) -> bool:
        """Whether text is lower-cased."""
        normalizer = self._inner.normalizer
        return normalizer is not None and normalizer.normalize_str("A") == "a"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of everything that affects the ids of a text.

        Null, false and empty options are excluded, so that new options of the library do not change it.
        """
        parts = [_without_unset(json.loads(self.to_json())), self.specials]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def spellings(self) -> dict[str, str]:
        """The text of the special token of each role."""
        tokens = self._inner.get_added_tokens_decoder()
        return {role: tokens[number].content for role, number in self.specials.items()}

    @property
    def pad(self) -> int:
        """The id of padding."""
        return self._special("pad")

    @property
    def start(self) -> int:
        """The id at the start of a target or of a text to classify."""
        return self._special("start")

    @property
    def end(self) -> int:
        """The id at the end of a sequence."""
        return self._special("end")

    @property
    def unknown(self) -> int:
        """The id of unknown words and characters."""
        return self._special("unknown")

    @property
    def mask(self) -> int:
        """The id of a masked token."""
        return self._special("mask")

    @cached_property
    def opening(self) -> tuple[int, ...]:
        """The ids that the template of the tokenizer puts before a text, such as the start token of Llama."""
        with as_data_error("cannot encode a text"):
            encoding = self._inner.encode("a", add_special_tokens=True)
        added = encoding.special_tokens_mask
        return tuple(encoding.ids[: added.index(0) if 0 in added else 0])

    def encode(self, text: str, with_mask: bool = False) -> list[int]:
        """The ids of a text without start and end; `with_mask` encodes mask tokens in the text as such."""
        return self._encoding(text, with_mask).ids

    def encode_specials(self, text: str) -> list[int]:
        """The ids of a text in which special tokens are encoded as such, for text that no user wrote."""
        with as_data_error("cannot encode this text (is it valid Unicode?)"):
            return self._with_specials.encode(text, add_special_tokens=False).ids

    @cached_property
    def special_texts(self) -> list[str]:
        """The spellings of all special tokens, longest first."""
        tokens = self._inner.get_added_tokens_decoder().values()
        return sorted((token.content for token in tokens if token.special), key=len, reverse=True)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, computed on all cores."""
        if len(texts) == 1:  # without waking other threads
            return [self.encode(texts[0])]
        with as_data_error("cannot encode a text (is it valid Unicode?)"):
            encodings = self._inner.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; pad, start, end and mask have no text, unknown is <unk>."""
        decoded = [int(number) for number in ids if number not in self._undecoded]
        with as_data_error("cannot decode these ids"):
            return self._inner.decode(decoded, skip_special_tokens=False)

    def stream(self) -> TextStream:
        """A decoder of one id at a time."""
        return TextStream(self)

    def tokens(self, text: str, with_mask: bool = False) -> list[Piece]:
        """The tokens of a text with their spans and words."""
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
        inner = self._with_mask if with_mask else self._inner
        with as_data_error("cannot encode this text (is it valid Unicode?)"):
            return inner.encode(text, add_special_tokens=False)

    @cached_property
    def _with_specials(self) -> tokenizers.Tokenizer:
        inner = parse_tokenizer(json.loads(self.to_json()), "the tokenizer")
        inner.encode_special_tokens = False
        return inner

    @cached_property
    def _with_mask(self) -> tokenizers.Tokenizer:
        """The same tokenizer without special treatment of the mask, so that it is recognised in a text.

        In byte-level BPE a token contains the space before it, so the mask does, too.
        """
        content = json.loads(self.to_json())
        takes_space = (content.get("pre_tokenizer") or {}).get("type") == "ByteLevel"
        for token in content["added_tokens"]:
            if token["id"] == self.mask:
                token.update(special=False, normalized=False, lstrip=takes_space or token["lstrip"])
        return parse_tokenizer(content, "the tokenizer")


class TextStream:
    """Decodes one id at a time into parts that join to the text of `decode`; no character is split.

    Bytes of an incomplete character, and text that later bytes may change, are held back.
    """

    _window = 32
    _kept = 12  # at most three characters of four bytes are incomplete, and a token has at least one byte

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._emitted = 0

    def add(self, number: int) -> str:
        """The text that this id completes, which may be empty."""
        if number in self._tokenizer._undecoded:
            return ""
        self._ids.append(number)
        text = self._tokenizer.decode(self._ids)
        complete = len(text) - _incomplete(text)
        part, self._emitted = text[self._emitted : complete], max(self._emitted, complete)
        if len(self._ids) > self._window:
            self._shorten(len(text) - self._emitted)
        return part

    def peek(self, number: int) -> str:
        """The text that this id would add if it were the last one; it is not added."""
        ids = self._ids if number in self._tokenizer._undecoded else [*self._ids, number]
        return self._tokenizer.decode(ids)[self._emitted :]

    def finish(self) -> str:
        """The text that was held back, with U+FFFD for incomplete characters."""
        rest = self._tokenizer.decode(self._ids)[self._emitted :]
        self._ids, self._emitted = [], 0
        return rest

    def _shorten(self, held_back: int) -> None:
        self._ids = self._ids[-self._kept :]
        self._emitted = len(self._tokenizer.decode(self._ids)) - held_back


def _incomplete(text: str) -> int:
    return min(3, len(text) - len(text.rstrip("\ufffd")))


def _roles(added: dict[str, int], spelled: dict[str, str]) -> dict[str, int]:
    unknown = [text for role, text in spelled.items() if role not in SPECIALS or text not in added]
    if unknown:
        raise DataError(f"{unknown[0]!r} is not a special token of this tokenizer; it has {', '.join(added)}")
    known = {role: [spelled[role]] if role in spelled else SPELLINGS[role] for role in SPECIALS}
    ids = {
        role: next((added[name] for name in names if name in added), None) for role, names in known.items()
    }
    return {role: number for role, number in ids.items() if number is not None}


def _make_special(inner: tokenizers.Tokenizer, numbers: Iterable[int]) -> None:
    """Ensure that no text is encoded as these tokens; a file may not mark them as special."""
    tokens = inner.get_added_tokens_decoder()
    not_special = [tokens[number].content for number in numbers if not tokens[number].special]
    inner.add_special_tokens(not_special)
    inner.encode_special_tokens = True


def _not_empty(texts: Iterable[str]) -> Iterator[str]:
    first = next(iterator := iter(texts), None)
    if first is None:
        raise DataError("there is no text to train a tokenizer on; check what the corpus report skipped")
    return chain([first], iterator)


def _word_of_each(text: str, spans: Sequence[tuple[int, int]]) -> list[int | None]:
    """For each span the word it begins in; words in which no span begins are not numbered."""
    words = [span for _, span in _words.pre_tokenize_str(text)]
    numbers: dict[int, int] = {}
    result: list[int | None] = []
    index = 0
    for start, end in spans:
        while index < len(words) and words[index][1] <= start:
            index += 1
        overlaps = index < len(words) and words[index][0] < end
        result.append(numbers.setdefault(index, len(numbers)) if overlaps else None)
    return result


def _without_unset(value: Any) -> Any:
    """Parsed JSON without keys whose value is null, false or empty."""
    if isinstance(value, dict):
        items = {key: _without_unset(item) for key, item in value.items()}
        return {
            key: item
            for key, item in items.items()
            if item is not None and item is not False and item not in ("", [], {})
        }
    return [_without_unset(item) for item in value] if isinstance(value, list) else value


JOINT = "tokenizer.json"
SOURCE = "tokenizer.source.json"
TARGET = "tokenizer.target.json"


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of source and target; the same object twice for a joint vocabulary."""

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
        """The fingerprints of both tokenizers."""
        return f"{self.source.fingerprint} {self.target.fingerprint}"

    def save(self, folder: str | Path) -> list[str]:
        """Write one or two files into a folder; their names."""
        files = {JOINT: self.source} if self.are_joint else {SOURCE: self.source, TARGET: self.target}
        for name, tokenizer in files.items():
            tokenizer.save(Path(folder) / name)
        return list(files)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        names: Collection[str] | None = None,
        specials: Mapping[str, dict[str, str]] | None = None,
    ) -> Tokenizers:
        """Read the one or two files of a folder, or those of `names`; links are refused.

        `specials` overrides, for each file, the spelling of roles.
        """
        if names is None:
            names = [name for name in (JOINT, SOURCE, TARGET) if os.path.lexists(Path(folder) / name)]
        if set(names) not in ({JOINT}, {SOURCE, TARGET}):
            raise DataError(
                f"{folder} has {', '.join(sorted(names)) or 'no tokenizer'}; "
                f"it must have {JOINT} alone, or {SOURCE} and {TARGET}"
            )
        spelled = specials or {}
        files = {name: Tokenizer(open_tokenizer(Path(folder) / name), spelled.get(name)) for name in names}
        return cls.joint(files[JOINT]) if JOINT in files else cls(files[SOURCE], files[TARGET])
