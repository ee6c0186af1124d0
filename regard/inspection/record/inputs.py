"""The token sequences of a pass: what a Translator, Writer or Reader reads, and the output to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from regard.engine.stepper import Banned, Choices
from regard.errors import SettingError, UsageError
from regard.inference.reader import Reader
from regard.inference.tokens import beginning
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.inspection.record.recording import evaluation_mode
from regard.inspection.record.tokens import Side
from regard.model.parts import Part
from regard.model.transformer import EncoderDecoder
from regard.model.watch import Replacement, Seen

TextModel = Translator | Writer | Reader
Sides = tuple[Side | None, Side | None]  # the source and the target


def read_sides(
    model: TextModel,
    text: str,
    target: str | Sequence[int] | None = None,
    ablate: Sequence[Part] = (),
    patch: Mapping[str, Replacement] | None = None,
) -> Sides:
    """The source and the target of a pass, where the model has one.

    `target` is a text or token ids: an output to read, or for a Writer the continuation of the text. Without
    it a Translator reads the translation that `translate` gives by default under the same `ablate` and
    `patch`.
    """
    if isinstance(model, Translator):
        return source_side(model, text), _translation(model, text, target, ablate, patch)
    if isinstance(model, Writer):
        return None, writer_side(model, text, target)
    if not isinstance(model, Reader):
        kind = type(model).__name__
        raise UsageError(
            f"{kind} cannot be inspected; give a Translator, Writer or Reader, as regard.load does"
        )
    if target is not None:
        raise UsageError("an encoder-only model has no target; leave it out")
    return reader_side(model, text), None


def source_side(translator: Translator, text: str) -> Side:
    """What the encoder of a Translator reads."""
    tokenizer = translator.tokenizers.source
    return Side.of_text("source", tokenizer, text, last=[tokenizer.end])


def reader_side(reader: Reader, text: str) -> Side:
    """A text between start and end; a mask written in it counts as one where the model fills masks."""
    tokenizer = reader.tokenizer
    return Side.of_text("source", tokenizer, text, [tokenizer.start], [tokenizer.end], reader.fills)


def writer_side(writer: Writer, text: str, target: str | Sequence[int] | None = None) -> Side:
    """A text and its continuation; an empty one begins with the Writer's start token."""
    tokenizer, ids = writer.tokenizer, []
    if isinstance(target, str):
        text += target
    elif target is not None:
        ids = list(target)
    if text and not ids:
        return Side.of_text("target", tokenizer, text, tokenizer.opening)
    before = tokenizer.encode(text)
    _check_ids(ids, writer.config.vocabulary)
    first = tokenizer.opening if before else beginning(tokenizer)
    return Side.of_ids("target", tokenizer, [*before, *ids], first)


def output_side(translator: Translator, ids: Sequence[int]) -> Side:
    """A translation from its ids, as the decoder reads it: behind the start token and without the end."""
    tokenizer = translator.tokenizers.target
    _check_ids(ids, translator.config.output_vocabulary)
    read = ids[:-1] if len(ids) and ids[-1] == tokenizer.end else ids
    return Side.of_ids("target", tokenizer, read, [tokenizer.start])


def translate_by_default(
    translator: Translator,
    text: str,
    ablate: Sequence[Part] = (),
    patch: Mapping[str, Replacement] | None = None,
) -> list[int]:
    """The ids of the default translation, with parts ablated and values replaced."""
    if patch:
        translator = Translator(
            translator.model,
            translator.tokenizers,
            stepper=lambda model, ablate, blend: WholePassStepper(model, ablate, patch),
        )
    with evaluation_mode(translator.model):
        return translator.translate(text, ablate=ablate).tokens.ids.tolist()


def _translation(
    translator: Translator,
    text: str,
    target: str | Sequence[int] | None,
    ablate: Sequence[Part],
    patch: Mapping[str, Replacement] | None,
) -> Side:
    if isinstance(target, str):
        tokenizer = translator.tokenizers.target
        return Side.of_text("target", tokenizer, target, [tokenizer.start])
    if target is None:
        target = translate_by_default(translator, text, ablate, patch)
    return output_side(translator, target)


def _check_ids(ids: Sequence[int], vocabulary: int) -> None:
    unknown = next((number for number in ids if number >= vocabulary), None)
    if unknown is not None:
        raise SettingError(f"id {unknown} is none of this model's {vocabulary:,}; ask for its vocabulary")


class WholePassStepper:
    """A Stepper for one source that reads each row from its start, alone, at every step.

    A patch is written for one whole output, so it finds each query at its position.
    """

    limit = None

    def __init__(self, model: EncoderDecoder, ablate: Sequence[Part], patch: Mapping[str, Replacement]):
        self._model, self._seen = model, Seen(model, only=(), ablate=ablate, patch=patch)
        self._ids = torch.zeros((0, 0), dtype=torch.long)

    @property
    def rows(self) -> int:
        """How many rows run."""
        return len(self._ids)

    @property
    def vocabulary(self) -> int:
        """How many ids a row chooses from."""
        return self._model.config.output_vocabulary

    @torch.inference_mode()
    def admit(self, prefixes: Sequence[np.ndarray], sources: Sequence[np.ndarray] | None = None) -> None:
        """Encode the source of the first row."""
        assert len(prefixes) == 1
        assert sources is not None
        assert not self.rows
        device = next(self._model.parameters()).device
        self._ids = torch.as_tensor(prefixes[0][None, :-1], device=device)
        with self._seen.active():
            self._memory = self._model.encode(torch.as_tensor(sources[0][None], device=device))

    @torch.inference_mode()
    def step(self, ids: np.ndarray, best: int | None = None, banned: Banned | None = None) -> Choices:
        """Append an id to each row and give the log-probabilities of what follows."""
        self._ids = torch.cat([self._ids, torch.as_tensor(ids, device=self._ids.device)[:, None]], dim=1)
        with self._seen.active():
            hidden = [self._model.decode(row[None], self._memory)[:, -1:] for row in self._ids]
            logits = torch.cat([self._model.head(last)[:, 0] for last in hidden])  # R V
        chances = logits.float().log_softmax(-1).cpu().numpy()
        if banned is not None:
            chances[banned.rows, banned.ids] = -np.inf
        if best is None:
            return Choices(None, chances)
        order = np.argsort(-chances, axis=1, kind="stable")[:, :best]
        return Choices(order, np.take_along_axis(chances, order, 1))

    def reorder(self, rows: np.ndarray) -> None:
        """Row i becomes what row rows[i] was."""
        self._ids = self._ids[torch.as_tensor(rows, device=self._ids.device)]

    def drop(self, rows: np.ndarray) -> None:
        """Remove these rows; the others keep their order."""
        self.reorder(np.delete(np.arange(self.rows), rows))
