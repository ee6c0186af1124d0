"""`regard translate`: text in one language in, text in the other out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.lines import as_json, parts_named
from regard.cli.options import (
    Ablate,
    ChannelWeight,
    DatastoreFolder,
    Forbid,
    Model,
    NoRepeatNgramSize,
    Text,
    Use,
    with_use,
)

if TYPE_CHECKING:
    from regard.inference.rescoring.datastore import Datastore
    from regard.inference.rescoring.noisy_channel import NoisyChannel
    from regard.inference.translation import Translation
    from regard.inference.translator import Translator
    from regard.model.parts import Part

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard translate MODEL "the cat sleeps"            one text
  regard translate MODEL - --beams 1                 lines from stdin, one line out for each
  regard translate MODEL --file in.txt --out out.txt
  regard translate MODEL "the cat" --n-best 3 --json
"""


@commands.command(epilog=EXAMPLES)
@with_use
def translate(
    model: Model,
    text: Text = None,
    beams: Annotated[int, typer.Option(help="Beam size; 1 is greedy.")] = 4,
    n_best: Annotated[int, typer.Option(help="Translations per text.")] = 1,
    length_penalty: Annotated[float, typer.Option(help="A higher value favours longer texts.")] = 0.6,
    channel_weight: ChannelWeight = 0.0,
    datastore: DatastoreFolder = None,
    patience: Annotated[
        float, typer.Option(help="Stop when beams times this many hypotheses have finished.")
    ] = 1.0,
    max_length: Annotated[int | None, typer.Option(help="Maximum tokens.", show_default=False)] = None,
    min_length: Annotated[int, typer.Option(help="Minimum tokens.")] = 0,
    prefix: Annotated[str, typer.Option(help="The beginning of the translation.", show_default=False)] = "",
    forbid: Forbid = None,
    no_repeat_ngram_size: NoRepeatNgramSize = None,
    split: Annotated[str, typer.Option(help="For a text that is too long: error or sentences.")] = "error",
    align: Annotated[bool, typer.Option("--align", help="Add target-source pairs of tokens.")] = False,
    ablate: Ablate = None,
    *,
    use: Use,
) -> None:
    """Translate a text or lines."""
    lines = use.lines(text)
    translator = use.load("translate", model)
    parts = parts_named(ablate)
    translations = translator.translate(
        lines.texts,
        beams=beams,
        n_best=n_best,
        length_penalty=length_penalty,
        patience=patience,
        max_length=max_length,
        min_length=min_length,
        prefix=prefix,
        forbidden=forbid or (),
        no_repeat_ngram_size=no_repeat_ngram_size,
        split=split,
        alignment=align,
        rescorer=_noisy_channel(translator, channel_weight, parts),
        blend=_datastore(datastore, use.device),
        ablate=parts,
        window=lines.window,
    )
    lines.answer(
        translations, as_json if use.json else lambda translation: _columns(translation, n_best, align)
    )


def _noisy_channel(translator: Translator, weight: float, ablate: list[Part]) -> NoisyChannel | None:
    if not weight:
        return None
    from regard.inference.rescoring.noisy_channel import NoisyChannel

    return NoisyChannel(translator, weight, ablate)


def _datastore(folder: str | None, device: str) -> Datastore | None:
    if folder is None:
        return None
    from regard.inference.rescoring.datastore import Datastore

    return Datastore.load(folder, device)


def _columns(translation: Translation, n_best: int, align: bool) -> list[str]:
    """The n best texts, empty if there are fewer, and the pairs of the alignment."""
    texts = [translation.text, *(other.text for other in translation.others)]
    pairs = [] if translation.alignment is None else translation.alignment.pairs
    aligned = [" ".join(f"{target}-{source}" for target, source in pairs)] if align else []
    return [*texts, *[""] * (n_best - len(texts)), *aligned]
