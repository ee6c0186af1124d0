"""`regard plan`: what a recipe would read and build, and how long it would take, here or on many devices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer

from regard.cli.options import (
    Labelled,
    PlainText,
    Settings,
    Source,
    Target,
    Tsv,
    Valid,
    ValidSource,
    ValidTarget,
)

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard plan translation --source a.en --target a.de               on this machine
  regard plan translation --source a.en --target a.de --minutes 60  what an hour would train
  regard plan paper-big --gpus 64 --price 2                         on 64 devices; needs no text
"""


@commands.command(epilog=EXAMPLES)
def plan(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|FILE.toml", help="See regard train --list.")],
    source: Source = None,
    target: Target = None,
    tsv: Tsv = None,
    text: PlainText = None,
    labelled: Labelled = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    valid: Valid = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Plan a run that takes N minutes as a whole.")
    ] = None,
    settings: Settings = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Estimate for N devices, without reading text.")
    ] = None,
    teraflops: Annotated[
        float | None,
        typer.Option(
            min=1e-6, max=1e9, help="With --gpus: dense TFLOP/s of a device in the training precision; 312."
        ),
    ] = None,
    memory: Annotated[
        float | None, typer.Option(min=1e-6, max=1e9, help="With --gpus: memory of a device in GB; 80.")
    ] = None,
    node_bandwidth: Annotated[
        float | None,
        typer.Option(min=1e-6, max=1e9, help="With --gpus: GB/s of a device to others in its machine; 300."),
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(min=1e-6, max=1e9, help="With --gpus: GB/s of a device to other machines; 25."),
    ] = None,
    efficiency: Annotated[
        float | None,
        typer.Option(min=1e-6, max=1, help="With --gpus: share of TFLOP/s that training reaches; 0.4."),
    ] = None,
    price: Annotated[
        float | None, typer.Option(min=0, max=1e9, help="With --gpus: price of a device for an hour.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show what a run would read, build and take."""
    from regard.runs.run import as_settings
    from regard.runs.toml import merged, read_overrides

    files = {
        "source": source, "target": target, "tsv": tsv, "text": text, "labelled": labelled,
        "valid_source": valid_source, "valid_target": valid_target, "valid": valid,
    }  # fmt: skip
    about_device = {
        "teraflops": teraflops, "memory": memory, "node_bandwidth": node_bandwidth,
        "bandwidth": bandwidth, "efficiency": efficiency, "price": price,
    }  # fmt: skip
    changes = merged(as_settings(files, {"minutes": minutes}), read_overrides(settings or []))
    if gpus is None:
        _refuse(about_device, "is about devices; give their number with --gpus, or leave it out")
        from regard.runs.plan import plan_here

        found = plan_here(recipe, changes)
    else:
        _refuse(files, "names text, which --gpus does not read; leave it out")
        from regard.runs.cluster import Device
        from regard.runs.plan import plan_cluster

        device = Device(**{name: value for name, value in about_device.items() if value is not None})
        found = plan_cluster(recipe, changes, device, gpus)
    print(json.dumps(found.values, indent=2) if as_json else "\n".join(found.lines))


def _refuse(options: Mapping[str, object], rule: str) -> None:
    """Refuse options that would have no effect."""
    from regard.errors import UsageError

    for name, value in options.items():
        if value is not None:
            raise UsageError(f"--{name.replace('_', '-')} {rule}")
