"""`regard studio`: type a sentence on a page and watch the Transformer work."""

from __future__ import annotations

from typing import Annotated

import typer

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard studio                        the demo's model
  regard studio runs/mine              a model of your own, while it trains too
  regard studio demo runs/a runs/b     several, to choose from on the page
"""


@commands.command(epilog=EXAMPLES)
def studio(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL ...]", help="Model folders, or runs', or demo.", show_default=False),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Without it 8765, or the next free.", show_default=False),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Open a web page that shows how a model computes.

    It is served to this machine alone. Ctrl-C ends it.
    """
    from regard.service.models import open_models
    from regard.service.serving import address_of, open_port, serve
    from regard.service.studio import make_studio

    app = make_studio(open_models(models or []))
    with open_port(port) as opened:
        print(address_of(opened), flush=True)
        serve(app, opened, browser=not no_browser)
