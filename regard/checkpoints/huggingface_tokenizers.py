"""The tokenizer of a Hugging Face folder, from tokenizer.json or from the files of older tokenizers.

    tokenizer.json                       any tokenizer of the tokenizers library
    source.spm, target.spm, vocab.json   Marian: one SentencePiece model per language, one table of ids
    vocab.txt                            WordPiece, of BERT and DistilBERT
    vocab.json, merges.txt               byte-level BPE, of GPT-2 and RoBERTa
    added_tokens.json                    tokens that were added to one of the last two

tokenizer_config.json and special_tokens_map.json spell the special tokens; config.json has the ids of others.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from regard.checkpoints.foreign import ForeignConfig, short_repr
from regard.checkpoints.sentencepiece_files import unigram_tokenizer
from regard.checkpoints.untrusted_files import LARGEST_OTHER, FolderFiles
from regard.errors import CheckpointError, DataError
from regard.model.config import ModelConfig
from regard.opener import read_regular
from regard.text.tokenizer import JOINT, Tokenizer, Tokenizers
from regard.text.tokenizer_file import LARGEST_ID, as_data_error, parse_tokenizer, read_content

SETTINGS, SPELLED, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
PIECES, BYTE_PAIRS, MERGES = "vocab.txt", "vocab.json", "merges.txt"
SOURCE, TARGET, TARGET_IDS = "source.spm", "target.spm", "target_vocab.json"
BYTE_LEVEL = ("gpt2", "roberta")  # the families whose merges.txt is byte-level BPE with GPT-2's pattern
# Part, kind of step, classes of transformers that apply their own flags to it, and these flags.
APPLIED = (
    ("normalizer", "BertNormalizer", ("Bert", "DistilBert"),
     {"do_lower_case": "lowercase", "strip_accents": "strip_accents",
      "tokenize_chinese_chars": "handle_chinese_chars"}),
    ("pre_tokenizer", "ByteLevel", ("GPT2", "Roberta", "Qwen2"), {"add_prefix_space": "add_prefix_space"}),
)  # fmt: skip
# Their names of our roles; an encoder-only model has other names for start and end.
NAMES = {
    "pad": "pad_token",
    "start": "bos_token",
    "end": "eos_token",
    "unknown": "unk_token",
    "mask": "mask_token",
}
READING = NAMES | {"start": "cls_token", "end": "sep_token"}
IDS = {"pad": "pad_token_id", "start": "bos_token_id", "end": "eos_token_id"}


def read_tokenizers(files: FolderFiles, config: ModelConfig, values: dict[str, Any]) -> Tokenizers:
    """The tokenizers of a folder; one for both sides except for Marian's two SentencePiece models."""
    spelled = spelled_tokens(files)
    if JOINT in files:
        return Tokenizers.joint(_with_roles(_whole(files), config, values, spelled))
    if SOURCE in files:
        source_ids = _ids(files, BYTE_PAIRS)
        target_ids = _ids(files, TARGET_IDS) if TARGET_IDS in files else source_ids
        pair = (
            unigram_tokenizer(files, name, ids) for name, ids in ((SOURCE, source_ids), (TARGET, target_ids))
        )
        return Tokenizers(*(_with_roles(inner, config, values, spelled) for inner in pair))
    if PIECES in files:
        inner = _with_added(files, _word_pieces(files, spelled))
        return Tokenizers.joint(_with_roles(inner, config, values, spelled))
    if BYTE_PAIRS in files and MERGES in files and values.get("model_type") in BYTE_LEVEL:
        inner = _with_added(files, _byte_pairs(files, spelled))
        return Tokenizers.joint(_with_roles(inner, config, values, spelled))
    raise CheckpointError(
        f"{files.folder} has no tokenizer that regard reads; it must have {JOINT}, or {PIECES}, "
        f"or {BYTE_PAIRS} with {MERGES} or {SOURCE}"
    )


def _whole(files: FolderFiles) -> tokenizers.Tokenizer:
    """The tokenizer in tokenizer.json, with the settings that its class in transformers applies to it."""
    content = read_content(files.path(JOINT))
    settings = ForeignConfig(SETTINGS, files.json(SETTINGS) if SETTINGS in files else {})
    name = str(settings.values.get("tokenizer_class"))
    for part, kind, families, flags in APPLIED:
        steps = _steps(content.get(part), kind) if name.startswith(families) else []
        for step, (theirs, ours) in product(steps, flags.items()):
            if settings.has(theirs):
                step[ours] = settings.flag(theirs, False)
    return parse_tokenizer(content, str(files.folder / JOINT))


def _steps(part: Any, kind: str) -> list[dict[str, Any]]:
    """The steps of one kind in a part of a tokenizer, which is a step or a sequence of steps."""
    table = part if isinstance(part, dict) else {}
    several = table.get("pretokenizers")
    steps = several if isinstance(several, list) else [table]
    return [step for step in steps if isinstance(step, dict) and step.get("type") == kind]


def spelled_tokens(files: FolderFiles) -> dict[str, str]:
    """The text of each special token by its name, such as eos_token."""
    tables = [files.json(name) for name in (SPELLED, SETTINGS) if name in files]
    spelled: dict[str, str] = {}
    for name, value in (item for table in tables for item in table.items()):
        text = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            spelled[name] = text
    return spelled


def _with_roles(
    inner: tokenizers.Tokenizer, config: ModelConfig, values: dict[str, Any], spelled: dict[str, str]
) -> Tokenizer:
    """The tokenizer with its special tokens by role; a token that the vocabulary lacks has no role."""
    names = READING if config.family == "encoder-only" else NAMES
    roles = {role: _token_of(inner, values.get(name)) for role, name in IDS.items()}
    for role, name in names.items():
        roles[role] = spelled.get(name) or spelled.get(NAMES[role]) or roles.get(role)
    if config.family == "encoder-decoder":
        roles["start"] = _token_of(inner, values.get("decoder_start_token_id")) or roles["start"]
    known = {role: text for role, text in roles.items() if text and inner.token_to_id(text) is not None}
    added = {token.content for token in inner.get_added_tokens_decoder().values()}
    with as_data_error("cannot use the special tokens of this tokenizer"):
        inner.add_special_tokens([text for text in dict.fromkeys(known.values()) if text not in added])
    return Tokenizer(inner, known)


def _token_of(inner: tokenizers.Tokenizer, number: Any) -> str | None:
    first = number[0] if isinstance(number, list) and number else number
    return inner.id_to_token(first) if type(first) is int and 0 <= first < LARGEST_ID else None


def _word_pieces(files: FolderFiles, spelled: dict[str, str]) -> tokenizers.Tokenizer:
    """WordPiece with BERT's normalisation; the line number of a piece is its id."""
    settings = ForeignConfig("tokenizer_config.json", files.json(SETTINGS) if SETTINGS in files else {})
    settings.require("do_basic_tokenize", True)
    pieces = _text(files, PIECES).removesuffix("\n").split("\n")
    vocabulary = {piece.removesuffix("\r"): number for number, piece in enumerate(pieces)}
    unknown = spelled.get("unk_token", "[UNK]")
    if unknown not in vocabulary:
        raise DataError(f"{files.folder / PIECES} lacks {short_repr(unknown)}, the token of unknown words")
    with as_data_error(f"{files.folder / PIECES} is not a valid vocabulary"):
        inner = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
        inner.normalizer = normalizers.BertNormalizer(
            handle_chinese_chars=settings.flag("tokenize_chinese_chars", True),
            strip_accents=settings.flag("strip_accents", True) if settings.has("strip_accents") else None,
            lowercase=settings.flag("do_lower_case", True),
        )
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        inner.decoder = decoders.WordPiece()
        usual = [unknown, "[PAD]", "[CLS]", "[SEP]", "[MASK]", *spelled.values()]
        inner.add_special_tokens([text for text in dict.fromkeys(usual) if text in vocabulary])
    return inner


def _with_added(files: FolderFiles, inner: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The tokenizer with the tokens that were added to it later; each must get the id that it has there."""
    special: set[str] = set()
    added = _ids(files, ADDED) if ADDED in files else {}
    decoder = files.json(SETTINGS).get("added_tokens_decoder") if SETTINGS in files else None
    for number, entry in decoder.items() if isinstance(decoder, dict) else ():
        if not number.isdecimal() or not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            raise DataError(f"{files.folder / SETTINGS}: added_tokens_decoder must have a content per id")
        added[entry["content"]] = int(number[:9])
        special |= {entry["content"]} if entry.get("special") is True else set()
    for token, number in sorted(added.items(), key=lambda item: item[1]):
        with as_data_error(f"{files.folder} has no valid added tokens"):
            if inner.token_to_id(token) is None:
                add = inner.add_special_tokens if token in special else inner.add_tokens
                add([AddedToken(token, normalized=False)])
        if inner.token_to_id(token) != number:
            raise DataError(
                f"{files.folder}: the added token {short_repr(token)} has the id {number}, and its place in "
                f"the vocabulary is {inner.token_to_id(token)}; save the tokenizer as {JOINT}"
            )
    return inner


def _byte_pairs(files: FolderFiles, spelled: dict[str, str]) -> tokenizers.Tokenizer:
    """Byte-level BPE; a line of merges.txt joins two tokens."""
    settings = ForeignConfig("tokenizer_config.json", files.json(SETTINGS) if SETTINGS in files else {})
    vocabulary = _ids(files, BYTE_PAIRS)
    lines = _text(files, MERGES).removesuffix("\n").split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    with as_data_error(f"{files.folder / MERGES} is not a valid list of merges"):
        inner = tokenizers.Tokenizer(models.BPE(vocabulary, merges))  # pyright: ignore[reportArgumentType]
        add_space = settings.flag("add_prefix_space", False)
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_space)
        inner.decoder = decoders.ByteLevel()
        start = spelled.get("bos_token")
        if settings.flag("add_bos_token", False) and start in vocabulary:
            inner.post_processor = processors.TemplateProcessing(
                single=f"{start} $A", special_tokens=[(start, vocabulary[start])]
            )
        usual = [AddedToken(text) for text in ("<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>")]
        usual.append(AddedToken("<mask>", lstrip=True))
        inner.add_special_tokens([token for token in usual if token.content in vocabulary])
    return inner


def _ids(files: FolderFiles, name: str) -> dict[str, int]:
    """The ids of a vocabulary by token."""
    ids = files.json(name, LARGEST_OTHER)
    for token, number in ids.items():
        if type(number) is not int or not 0 <= number < LARGEST_ID:
            raise DataError(
                f"{files.folder / name}: the id of {short_repr(token)} ({short_repr(number)}) must be an "
                f"integer below {LARGEST_ID}"
            )
    return ids


def _text(files: FolderFiles, name: str) -> str:
    try:
        return read_regular(files.path(name), LARGEST_OTHER).decode()
    except OSError as error:
        raise CheckpointError(f"cannot read {files.folder / name}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CheckpointError(f"{files.folder / name} is damaged: it is not UTF-8") from None
