"""The tokenizer in the metadata of a GGUF file: byte-level BPE (gpt2) or SentencePiece's BPE (llama).

The chat template is there as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from regard.checkpoints.chat_templates import chat_template
from regard.checkpoints.foreign import short_repr
from regard.checkpoints.huggingface_tokenizers import NAMES
from regard.errors import CheckpointError
from regard.text.tokenizer import Tokenizer
from regard.text.tokenizer_file import as_data_error, parse_tokenizer

CONTROL, USER_DEFINED = 3, 4  # kinds of tokens
LONGEST_PIECE = 128  # characters of a token that other tokens may form
MOST_CHARACTERS = 1 << 22  # of all pairs of tokens that form another; Llama's have 500,000
IDS = {
    "start": "bos_token_id",
    "end": "eos_token_id",
    "unknown": "unknown_token_id",
    "pad": "padding_token_id",
}
ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")  # of an answer
PREFIX = "tokenizer.ggml."
_LETTERS = r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SMOLLM, LLAMA3 = "smollm", "llama-bpe"
# The patterns by tokenizer.ggml.pre; the empty one is GPT-2's. llama.cpp has others where none is named.
PATTERNS = {
    "gpt-2": "",
    SMOLLM: "",
    LLAMA3: _CONTRACTIONS + _LETTERS + r"\p{N}{1,3}" + _REST,
    "qwen2": _CONTRACTIONS + _LETTERS + r"\p{N}" + _REST,
}


def read_tokenizer(path: Path, metadata: dict[str, Any]) -> Tokenizer:
    """The tokenizer with its special tokens; raise if its kind is not supported."""
    table = {key.removeprefix(PREFIX): value for key, value in metadata.items()}
    kind, tokens = table.get("model"), table.get("tokens")
    if not isinstance(kind, str) or kind not in KINDS:
        raise CheckpointError(
            f"{path}: tokenizer.ggml.model ({short_repr(kind)}) is not supported; it must be gpt2 or llama"
        )
    if not isinstance(tokens, list) or not tokens or len(set(tokens)) < len(tokens):
        raise CheckpointError(f"{path}: tokenizer.ggml.tokens must be a list of different tokens")
    ids = {token: number for number, token in enumerate(tokens)}
    with as_data_error(f"{path} has no valid tokenizer"):
        inner = KINDS[kind](path, table, ids)
        inner.add_special_tokens(_marked(table, tokens, CONTROL))
        inner.add_tokens(_marked(table, tokens, USER_DEFINED))
        roles = {role: token for role, key in IDS.items() if (token := _token(table.get(key), tokens))}
        inner.add_special_tokens([AddedToken(token, normalized=False) for token in roles.values()])
        adds_start = kind == "llama" or table.get("pre") == LLAMA3  # unless the file says otherwise
        if table.get("add_bos_token", adds_start) and "start" in roles:
            start = roles["start"]
            inner.post_processor = processors.TemplateProcessing(
                single=f"{start} $A", special_tokens=[(start, ids[start])]
            )
    return Tokenizer(parse_tokenizer(json.loads(inner.to_str()), str(path)), roles)


def read_chat(path: Path, metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a model that can chat: its template, its tokens and the ids that end an answer."""
    template = metadata.get("tokenizer.chat_template")
    if template is None:
        return {}
    table = {key.removeprefix(PREFIX): value for key, value in metadata.items()}
    tokens = table["tokens"] if isinstance(table.get("tokens"), list) else []
    spelled = {NAMES[role]: token for role, key in IDS.items() if (token := _token(table.get(key), tokens))}
    ends = [table[key] for key in ENDS if _token(table.get(key), tokens)]
    chat = {"template": template, "tokens": spelled, "ends": list(dict.fromkeys(ends))}
    try:
        chat_template(chat)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: tokenizer.chat_template: {error}") from None
    return {"chat": chat}


def _token(number: Any, tokens: list[str]) -> str | None:
    return tokens[number] if type(number) is int and 0 <= number < len(tokens) else None


def _marked(table: dict[str, Any], tokens: list[str], kind: int) -> list[AddedToken]:
    """The tokens of one kind."""
    kinds = table.get("token_type")
    if not isinstance(kinds, np.ndarray) or len(kinds) != len(tokens):
        return []
    return [AddedToken(tokens[number], normalized=False) for number in np.flatnonzero(kinds == kind)]


def _byte_pairs(path: Path, table: dict[str, Any], ids: dict[str, int]) -> tokenizers.Tokenizer:
    """Byte-level BPE, with the pattern that tokenizer.ggml.pre names."""
    name, lines = table.get("pre"), table.get("merges")
    if not isinstance(name, str) or name not in PATTERNS:
        raise CheckpointError(
            f"{path}: tokenizer.ggml.pre ({short_repr(name)}) is not supported; {', '.join(PATTERNS)} are"
        )
    if not isinstance(lines, list):
        raise CheckpointError(f"{path}: tokenizer.ggml.merges is missing; a gpt2 tokenizer has it")
    merges: Any = [tuple(line.split(" ", 1)) for line in lines]
    inner = tokenizers.Tokenizer(models.BPE(ids, merges, ignore_merges=name == LLAMA3))
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not PATTERNS[name])
    split: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if name == SMOLLM else []
    split += [pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated")] if PATTERNS[name] else []
    inner.pre_tokenizer = pre_tokenizers.Sequence([*split, bytes_only]) if split else bytes_only
    inner.decoder = decoders.ByteLevel()
    return inner


def _cuts(token: str, ids: dict[str, int]) -> list[int]:
    """The places where a token is two other tokens."""
    return [cut for cut in range(1, len(token)) if token[:cut] in ids and token[cut:] in ids]


def _pieces(path: Path, table: dict[str, Any], ids: dict[str, int]) -> tokenizers.Tokenizer:
    """SentencePiece's BPE: of all neighbours that form a token, those of the best token are joined first."""
    scores = table.get("scores")
    if not isinstance(scores, np.ndarray) or len(scores) != len(ids):
        raise CheckpointError(f"{path}: tokenizer.ggml.scores must have one number per token")
    pairs, characters = [], 0
    for token, number in ids.items():
        cuts = _cuts(token, ids) if len(token) <= LONGEST_PIECE else []
        pairs += [(-float(scores[number]), number, token[:cut], token[cut:]) for cut in cuts]
        characters += len(token) * len(cuts)
        if characters > MOST_CHARACTERS:
            raise CheckpointError(
                f"{path}: the pairs that form tokenizer.ggml.tokens have more than {MOST_CHARACTERS:,} "
                "characters; it is no usual vocabulary"
            )
    merges = [(left, right) for _, _, left, right in sorted(pairs, key=lambda pair: pair[:2])]
    unknown = _token(table.get("unknown_token_id", 0), list(ids))
    inner = tokenizers.Tokenizer(
        models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    adds_space = table.get("add_space_prefix", True)
    steps = [normalizers.Prepend("▁")] if adds_space else []
    inner.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    restored = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    inner.decoder = decoders.Sequence([*restored, *([decoders.Strip(" ", 1, 0)] if adds_space else [])])
    return inner


KINDS = {"gpt2": _byte_pairs, "llama": _pieces}
