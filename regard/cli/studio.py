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
        typer.Argument(metavar="[MODEL ...]", help="Model folders, run folders or demo.", show_default=False),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Default: 8765, or the next free port.", show_default=False),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let every user of this machine open the page.")
    ] = False,
) -> None:
    """Open a web page that shows how a model computes.

    It is served to this machine alone, to whoever has the address: it contains a new token at every start.
    Ctrl-C ends it.
    """
    from regard.lessons.studio import StudioLessons
    from regard.service.access import Token
    from regard.service.models import open_models
    from regard.service.serving import address_of, open_port, serve
    from regard.service.studio import make_studio

    token = None if no_token else Token()
    app = make_studio(open_models(models or []), token=token, lessons=StudioLessons())
    with open_port(port) as opened:
        print(address_of(opened, token and token.value), flush=True)
        page = None if no_browser else address_of(opened, token and token.new_ticket())
        serve(app, opened, page)
