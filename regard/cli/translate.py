"""`regard translate`: text in one language in, text in the other out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.lines import Lines, as_json, parts_named
from regard.cli.options import (
    Ablate,
    AsJson,
    Backwards,
    Datastore,
    Device,
    Dtype,
    File,
    Forbid,
    Model,
    NoRepeat,
    Out,
    Text,
    Threads,
    Window,
)

if TYPE_CHECKING:
    from regard.inference.rescoring.datastore import Datastore as Folder
    from regard.inference.translation import Translation

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard translate MODEL "the cat sleeps"            one text
  regard translate MODEL - --beams 1                 lines from stdin, one out for each in
  regard translate MODEL --file in.txt --out out.txt
  regard translate MODEL "the cat" --n-best 3 --json
"""


@commands.command(epilog=EXAMPLES)
def translate(
    model: Model,
    text: Text = None,
    beams: Annotated[int, typer.Option(help="Hypotheses kept while searching; 1 is greedy.")] = 4,
    n_best: Annotated[int, typer.Option(help="Translations of each text.")] = 1,
    length_penalty: Annotated[float, typer.Option(help="More favours longer ones.")] = 0.6,
    backwards: Backwards = 0.0,
    remembered: Datastore = None,
    patience: Annotated[
        float, typer.Option(help="Over when beams times this many have finished; more searches on.")
    ] = 1.0,
    max_length: Annotated[int | None, typer.Option(help="Tokens at most.", show_default=False)] = None,
    min_length: Annotated[int, typer.Option(help="Tokens at least.")] = 0,
    prefix: Annotated[str, typer.Option(help="How the translation begins.", show_default=False)] = "",
    forbid: Forbid = None,
    no_repeat: NoRepeat = None,
    split: Annotated[str, typer.Option(help="What to do with a text too long: error, sentences.")] = "error",
    align: Annotated[bool, typer.Option("--align", help="Show target-source pairs of tokens.")] = False,
    ablate: Ablate = None,
    file: File = None,
    out: Out = None,
    window: Window = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Translate a text, or each line of many."""
    lines = Lines(text, file, out, window)
    from regard.inference.loading import load_for

    translator = load_for("translate", model, device, dtype, threads)
    found = translator.translate(
        lines.texts,
        beams=beams,
        n_best=n_best,
        length_penalty=length_penalty,
        backwards=backwards,
        remembered=None if remembered is None else _loaded(remembered, device),
        patience=patience,
        max_length=max_length,
        min_length=min_length,
        prefix=prefix,
        forbidden=forbid or (),
        no_repeat_ngram_size=no_repeat,
        split=split,
        alignment=align,
        ablate=parts_named(ablate),
        window=lines.window,
    )
    lines.answer(found, as_json if json else lambda each: _columns(each, n_best, align))


def _loaded(remembered: str, device: str) -> Folder:
    from regard.inference.rescoring.datastore import Datastore

    return Datastore.load(remembered, device)


def _columns(found: Translation, n_best: int, align: bool) -> list[str]:
    """As many texts as were asked for, and the pairs of an alignment; empty where there is none."""
    texts = [found.text, *(other.text for other in found.others)]
    pairs = [] if found.alignment is None else found.alignment.pairs
    aligned = [" ".join(f"{target}-{source}" for target, source in pairs)] if align else []
    return [*texts, *[""] * (n_best - len(texts)), *aligned]
