"""How text becomes tokens: the kinds of tokenizer and the normalisations, as parts of the tokenizers library.

Everything here is written into tokenizer.json, so that any program reading it gives the same ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.tables import Table

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


def _words() -> Kind:
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


KINDS: Table[Callable[[], Kind]] = Table(
    "kind of tokenizer", {"bpe": _byte_pairs, "word": _words, "character": _characters}
)

NORMALISATIONS: Table[Callable[[], list[normalizers.Normalizer]]] = Table(
    "normalisation",
    {
        "none": list,
        "nfc": lambda: [normalizers.NFC()],
        "nfkc": lambda: [normalizers.NFKC()],
        # NFC, straight quotes for curly ones, plain spaces for odd ones, nothing for invisible signs.
        "plain": _plain,
    },
)
