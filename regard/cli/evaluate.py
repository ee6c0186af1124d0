"""`regard evaluate`: how good a model is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import (
    ChannelWeight,
    DatastoreFolder,
    Device,
    Labelled,
    Model,
    PlainText,
    Source,
    Target,
    Tsv,
    folder_of,
    named,
)

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard evaluate runs/translation                                 on the run's own test part
  regard evaluate runs/translation --source test.en --target test.de --beams 5
  regard evaluate runs/a --against runs/b --source test.en --target test.de
  regard evaluate runs/book --text other.txt --json
  regard evaluate runs/sst2 --labelled test.tsv
"""


@commands.command(epilog=EXAMPLES)
def evaluate(
    model: Model,
    source: Source = None,
    target: Target = None,
    tsv: Tsv = None,
    text: PlainText = None,
    labelled: Labelled = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="data.KEY=VALUE", help="Replace a setting for reading tables."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A second model to compare with.", callback=folder_of)
    ] = None,
    beams: Annotated[int, typer.Option(min=1, max=64, help="Number of beams; 1 is greedy search.")] = 4,
    length_penalty: Annotated[
        float, typer.Option(min=0, max=10, help="Length penalty of beam search.")
    ] = 0.6,
    channel_weight: ChannelWeight = 0.0,
    datastore: DatastoreFolder = None,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU tokenizer to add to 13a.")] = "13a",
    outputs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write one translation per source line."),
    ] = None,
    device: Device = "cpu",
    threads: Annotated[int, typer.Option(min=0, help="Number of CPU threads; 0 takes torch's default.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Score a model: BLEU, chrF, perplexity or accuracy.

    BLEU and chrF have signatures. Running text also has bits per character.
    """
    import torch

    from regard import ranks
    from regard.engine.device import find_device
    from regard.runs import evaluation
    from regard.runs.toml import read_overrides

    if threads:
        torch.set_num_threads(threads)
    files = named(source=source, target=target, tsv=tsv, text=text, labelled=labelled)
    options = evaluation.ScoringOptions(
        beams, length_penalty, tokenize, device=device, channel_weight=channel_weight, datastore=datastore
    )
    reading = evaluation.reading_settings(read_overrides(settings or []))
    with ranks.joined(find_device(device)):
        report = evaluation.evaluate(model, against, {**files, **reading}, options)
    print(json.dumps(report.as_dict(), indent=2) if as_json else report)
    if outputs is not None and not ranks.world().rank:
        evaluation.write_outputs(report, outputs)
