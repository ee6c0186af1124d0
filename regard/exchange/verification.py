"""A loaded model compared with another library that reads the same files, or with the files themselves.

`verify` compares with transformers on a Hugging Face folder; the other formats give `compare_outputs` a
Reference of their own.

V vocabulary, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch

from regard.checkpoints.gguf_llama import GGUFModel
from regard.checkpoints.huggingface import HuggingFaceFolder
from regard.errors import CheckpointError
from regard.exchange.report import TOLERANCE, Comparison, Report
from regard.inference.loading import load
from regard.inference.reader import Reader
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.text.tokenizer import JOINT, Tokenizer

TextModel = Translator | Writer | Reader
Logits = Callable[
    [Sequence[int], Sequence[int]], np.ndarray
]  # source and target ids to T V; either may be empty

TEXTS = (
    "The animal didn't cross the street because it was too tired.",
    "L'animal n'a pas traversé la rue : elle était trop large !",
    "Straße, naïve façade; Ελληνικά, русский текст, 東京は日本の首都です。",
)
GREEDY = 16  # tokens of a greedy continuation
RANDOM_ROWS, RANDOM_TOKENS = 3, 24
NOT_INSTALLED = "transformers is not installed, so nothing was compared with it: pip install transformers"
NOT_RUN = "llama.cpp was not run; the weights, in float32, were compared with those of the file"
CLASSES = {
    "encoder-decoder": "AutoModelForSeq2SeqLM",
    "decoder-only": "AutoModelForCausalLM",
    "masked": "AutoModelForMaskedLM",
    "classes": "AutoModelForSequenceClassification",
}


def verify(operation: str, model: TextModel, folder: HuggingFaceFolder) -> Report:
    """Compare a model with a Hugging Face folder, or with the weights of a GGUF file; raise if it differs."""
    theirs = _transformers_model(folder)
    if theirs is not None and theirs.encode is None and operation == "export":
        raise CheckpointError(
            f"transformers cannot load the tokenizer: {theirs.tokenizer_error}; nothing was written"
        )
    if theirs is not None:
        report = compare_outputs(operation, str(folder.values["model_type"]), model, theirs)
    elif operation == "import":
        report = _compare_weights(model, folder)
    else:
        report = _compare_reloaded(model, folder)
    report.check()
    return report


@dataclass(frozen=True)
class Reference:
    """A written or imported model in another library.

    encode            ids of a text without special tokens; None if the library has no tokenizer for it
    greedy            their own greedy search: rows of ids and a number of tokens to the ids that follow;
                      without it, the logits are computed anew for each token
    """

    name: str
    logits: Logits
    encode: Callable[[str], list[int]] | None = None
    tokenizer_error: str = ""
    greedy: Callable[[list[list[int]], int], list[list[int]]] | None = None
    format: str = "huggingface"


def _transformers_model(folder: HuggingFaceFolder) -> Reference | None:
    """The folder in transformers, in float32; None if the library is not installed, and for a GGUF file."""
    if isinstance(folder, GGUFModel):
        return None
    try:
        import transformers
    except ImportError:
        return None
    config = folder.config
    name = CLASSES.get(config.family) or CLASSES.get(config.output, "AutoModel")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        model = getattr(transformers, name).from_pretrained(
            folder.path, local_files_only=True, dtype=torch.float32
        )
    except Exception as error:  # any kind of error of the library
        raise CheckpointError(
            f"transformers cannot load {folder.path}: {_first_line(error)}; nothing was written"
        ) from None
    encode, problem = _transformers_tokenizer(transformers, folder.path)
    logits = _their_logits(model.eval(), config.output)
    return Reference(f"transformers {transformers.__version__}", logits, encode, problem)


def _transformers_tokenizer(transformers: Any, path: Path) -> tuple[Callable[[str], list[int]] | None, str]:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:  # such as a package that the tokenizer needs
        return None, _first_line(error)
    return lambda text: list(tokenizer(text, add_special_tokens=False)["input_ids"]), ""


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[
        :200
    ]


def _their_logits(model: Any, output: str) -> Logits:
    @torch.inference_mode()
    def logits(source: Sequence[int], target: Sequence[int]) -> np.ndarray:
        read = torch.tensor([list(source or target)])
        more = {"decoder_input_ids": torch.tensor([list(target)])} if source and target else {}
        answer = model(input_ids=read, attention_mask=torch.ones_like(read), **more)
        if output == "pooled":
            return answer.pooler_output[0].numpy()
        return (answer.last_hidden_state if output == "vectors" else answer.logits)[0].numpy()

    return logits


def our_logits(model: TextModel) -> Logits:
    """The logits of a model; vectors where it gives vectors."""

    @torch.inference_mode()
    def logits(source: Sequence[int], target: Sequence[int]) -> np.ndarray:
        rows = [torch.tensor([list(ids)]) for ids in (source, target) if ids]
        return model.model(*rows)[0].float().numpy()

    return logits


def compare_outputs(
    operation: str, model_type: str, model: TextModel, theirs: Reference, tolerance: float = TOLERANCE
) -> Report:
    """Compare logits, ids of texts and greedy search; raise if they differ by more than the tolerance."""
    ours = our_logits(model)
    texts = [_inputs(model, text) for text in TEXTS]
    comparisons = [
        Comparison("random ids", _largest_difference(ours, theirs.logits, _random_inputs(model))),
        Comparison("text", _largest_difference(ours, theirs.logits, texts)),
    ]
    report = Report(operation, model_type, theirs.name, comparisons, tolerance, format=theirs.format)
    report.check()
    report = replace(report, token_ids=_compare_tokens(model, theirs))
    if isinstance(model, Reader):
        return replace(report, greedy_tokens="none, the model reads")
    compare = _compare_forced if theirs.greedy is None else _compare_greedy
    return replace(report, greedy_tokens=compare(model, theirs, tolerance))


def _largest_difference(ours: Logits, theirs: Logits, inputs: Sequence[tuple[list[int], list[int]]]) -> float:
    """The largest difference over all inputs, relative to the largest magnitude."""
    pairs = [(ours(*each), theirs(*each)) for each in inputs]
    if any(a.shape != b.shape for a, b in pairs):
        return float("nan")
    magnitude = max(float(np.abs(b).max()) for _, b in pairs)
    return max(float(np.abs(a - b).max()) for a, b in pairs) / max(magnitude, 1e-30)


def _inputs(model: TextModel, text: str) -> tuple[list[int], list[int]]:
    """Source and target ids of a text, cut to the context."""
    limit = model.config.context
    if isinstance(model, Translator):
        source, target = model.tokenizers.source, model.tokenizers.target
        return [*source.encode(text)[: limit - 1], source.end], [
            target.start,
            *target.encode(text)[: limit - 1],
        ]
    if isinstance(model, Writer):
        return [], [*model.tokenizer.opening, *model.tokenizer.encode(text)][:limit]
    tokenizer = model.tokenizer
    return [tokenizer.start, *tokenizer.encode(text)[: limit - 2], tokenizer.end], []


def _random_inputs(model: TextModel) -> list[tuple[list[int], list[int]]]:
    """Random ids of words, as source, as target or as both; a target begins with the start token."""
    draw = np.random.default_rng(0)
    config = model.config
    tokens = min(RANDOM_TOKENS, config.context)

    def ids(vocabulary: int, tokenizer: Tokenizer) -> list[int]:
        words = np.setdiff1d(np.arange(vocabulary), [*tokenizer.specials.values()])
        return draw.choice(words, tokens).tolist()

    rows = []
    for _ in range(RANDOM_ROWS):
        if isinstance(model, Translator):
            sizes = config.vocabulary, config.output_vocabulary
            both = model.tokenizers.source, model.tokenizers.target
            rows.append((ids(sizes[0], both[0]), [both[1].start, *ids(sizes[1], both[1])[1:]]))
        else:
            row = ids(config.vocabulary, model.tokenizer)
            rows.append(([], row) if isinstance(model, Writer) else (row, []))
    return rows


def _compare_tokens(model: TextModel, theirs: Reference) -> str:
    """Raise if the tokenizers give different ids; what was compared."""
    if theirs.encode is None:
        return f"not compared: {theirs.tokenizer_error}"
    tokenizer = _tokenizer(model)
    for text in TEXTS:
        if tokenizer.encode(text) != theirs.encode(text):
            raise CheckpointError(
                f"verification failed: tokenizer and {theirs.name} give different ids for {text[:20]!r}; "
                "nothing was written"
            )
    return f"equal for {len(TEXTS)} texts"


def written_tokenizer(folder: Path) -> Callable[[str], list[int]]:
    """The tokenizer.json of a folder in the tokenizers library."""
    inner = tokenizers.Tokenizer.from_file(str(folder / JOINT))
    return lambda text: inner.encode(text, add_special_tokens=False).ids


def _compare_forced(model: Translator | Writer, theirs: Reference, tolerance: float) -> str:
    """Raise if their logits after our tokens prefer another token by more than the tolerance."""
    equal = total = 0
    for text in TEXTS:
        source, target = _prompt(model, text)
        for number in _our_greedy(model, text):
            scores = theirs.logits(source, target)[-1]
            if isinstance(model, Translator) and model.tokenizers.target.specials.get("pad") == target[0]:
                scores[target[0]] = -np.inf
            _check_tie(scores, number, int(scores.argmax()), tolerance, text, len(target))
            equal += int(scores.argmax()) == number
            total += 1
            target.append(number)
    return _counts(equal, total)


def _compare_greedy(model: Translator | Writer, theirs: Reference, tolerance: float) -> str:
    """Raise if their greedy search writes other tokens, unless both are equally likely within tolerance."""
    assert theirs.greedy is not None
    equal = total = 0
    logits = our_logits(model)
    for text in TEXTS:
        source, target = _prompt(model, text)
        end = _tokenizer(model).specials.get("end", -1)
        ours = [number for number in _our_greedy(model, text) if number != end]
        written = theirs.greedy([source or target], _room(model, text))[0] if ours else []
        written = [number for number in written if number != end]
        for position, (number, other) in enumerate(zip_longest(ours, written, fillvalue=end)):
            total += 1
            if number != other:
                scores = logits(source, [*target, *ours[:position]])[-1]
                _check_tie(scores, other, number, tolerance, text, position)
                break
            equal += 1
    return _counts(equal, total)


def _prompt(model: Translator | Writer, text: str) -> tuple[list[int], list[int]]:
    """Source ids and the target ids with which the search begins."""
    source, target = _inputs(model, text)
    return source, target[:1] if source else target


def _check_tie(
    scores: np.ndarray, number: int, best: int, tolerance: float, text: str, position: int
) -> None:
    """Raise if a token scores less than the best by more than the tolerance."""
    if float(scores[best] - scores[number]) > 2 * tolerance * float(
        np.abs(scores[np.isfinite(scores)]).max()
    ):
        raise CheckpointError(
            f"verification failed: greedy search of {text[:30]!r} gives another token at position "
            f"{position}; nothing was written"
        )


def _counts(equal: int, total: int) -> str:
    ties = "" if equal == total else f", {total - equal} ties"
    return f"{equal} of {total} equal{ties}"


def _our_greedy(model: Translator | Writer, text: str) -> list[int]:
    """The tokens of greedy search; none if the text fills the context."""
    room = _room(model, text)
    if room < 1:
        return []
    if isinstance(model, Translator):
        return model.translate(text, beams=1, max_length=room).tokens.ids.tolist()
    return model.complete(text, top_k=1, max_tokens=room).tokens.ids.tolist()


def _room(model: Translator | Writer, text: str) -> int:
    """How many tokens greedy search may write: GREEDY, or fewer if the text nearly fills the context."""
    tokenizer = _tokenizer(model)
    room = model.config.context - len(tokenizer.opening) - len(tokenizer.encode(text)) - 1
    return min(GREEDY, room) if isinstance(model, Writer) or room < 1 else GREEDY


def _tokenizer(model: TextModel) -> Tokenizer:
    return model.tokenizers.source if isinstance(model, Translator) else model.tokenizer


def _compare_reloaded(model: TextModel, folder: HuggingFaceFolder) -> Report:
    """Compare a model with what regard reads from the folder that it was written to."""
    ours, again = our_logits(model), our_logits(load(folder.path))
    inputs = _random_inputs(model)
    comparison = Comparison("random ids", _largest_difference(ours, again, inputs))
    reference = "the folder, read again by regard"
    return Report("export", str(folder.values["model_type"]), reference, [comparison], notes=[NOT_INSTALLED])


def _compare_weights(model: TextModel, folder: HuggingFaceFolder) -> Report:
    """Compare the weights, written under their names again, with those that the folder stores."""
    written = folder.form.theirs(model.model.state_dict(), folder.config, repeat_tied=True)
    largest = magnitude = 0.0
    for name, stored in folder.weights.stored_items():
        known = written.get(name, written.get(folder.form.base + name))
        if known is None:
            continue
        difference = np.abs(known.float().numpy() - np.asarray(stored, np.float32))
        largest = max(largest, float(difference.max(initial=0.0)))
        magnitude = max(magnitude, float(np.abs(stored).max(initial=0)))
    comparison = Comparison("weights written and read again", largest / max(magnitude, 1e-30))
    is_file = isinstance(folder, GGUFModel)
    note, reference = (NOT_RUN, "the file's") if is_file else (NOT_INSTALLED, "the folder's")
    report = Report("import", str(folder.values["model_type"]), f"{reference} own weights", [comparison])
    return replace(report, notes=[note], format="gguf" if is_file else report.format)
