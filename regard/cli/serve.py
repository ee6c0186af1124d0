"""`regard serve`: models over HTTP, with the interface of OpenAI's API."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from regard.cli.options import Engine, Threads

commands = typer.Typer()

EXAMPLES = """\b
Examples:
  regard serve demo                                   on 127.0.0.1, with the studio
  regard serve demo chat=runs/mine --port 8000        two models, one under another name
  regard serve runs/mine --host 0.0.0.0 --allow-host models.example --api-key KEY
"""

Many = list[str] | None
KEY_VARIABLE = "REGARD_API_KEY"


@commands.command(epilog=EXAMPLES)
def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL ...", help="Model folders, runs, Hugging Face folders, demo; or NAME=FOLDER."
        ),
    ],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Without it 8765, or the next free.", show_default=False),
    ] = None,
    api_key: Annotated[
        Many,
        typer.Option(
            metavar="KEY",
            help=f"Required of callers; repeatable. Without it the variable {KEY_VARIABLE}.",
        ),
    ] = None,
    allow_host: Annotated[
        Many, typer.Option(metavar="NAME", help="A Host that requests may name; * for every one; repeatable.")
    ] = None,
    allow_origin: Annotated[
        Many, typer.Option(metavar="ORIGIN", help="A page's origin that may use the API (CORS); repeatable.")
    ] = None,
    studio: Annotated[
        bool | None,
        typer.Option(
            "--studio/--no-studio",
            help="The studio too; by default to callers of this machine only.",
            show_default=False,
        ),
    ] = None,
    engine: Engine = None,
    threads: Threads = None,
    workers: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Processes.")] = 1,
    max_rows: Annotated[
        int, typer.Option(metavar="N", min=1, max=4096, help="Sequences that run at a time.")
    ] = 64,
    max_waiting: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=1 << 16, help="Requests that may wait; more get status 429."),
    ] = 128,
    deadline: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, max=86400, help="The longest time of a request.")
    ] = 60.0,
    log_text: Annotated[bool, typer.Option("--log-text", help="Log the text of requests too.")] = False,
) -> None:
    """Serve models over HTTP.

    The routes are those of OpenAI's API, and /v1/translate, /v1/fill, /v1/classify, /v1/inspect. /docs lists
    them. The log is one JSON object per line on stderr. SIGTERM finishes the requests that run.
    """
    from regard.service.access import Token
    from regard.service.api.access import ServiceAccess, is_loopback
    from regard.service.api.application import ServiceSettings
    from regard.service.api.limits import Limits
    from regard.service.api.serving import ServePlan, begin_log, serve_here, serve_in_workers
    from regard.service.models import LoadOptions
    from regard.service.serving import address_at, open_port

    has_studio = is_loopback(host) and workers == 1 if studio is None else studio
    token = Token() if has_studio else None
    access = ServiceAccess(_keys(api_key), (host, *(allow_host or ())), tuple(allow_origin or ()), token)
    limits = Limits(waiting=max_waiting, rows=max_rows, seconds=deadline)
    settings = ServiceSettings(limits, access, log_text, has_studio)
    plan = ServePlan(models, settings, LoadOptions(engine, threads), workers)
    plan.check()
    with open_port(port, host) as opened:
        print(address_at(opened), flush=True)
        if token is not None:
            print(f"studio: {address_at(opened)}/?token={token.value}", flush=True)
        begin_log(access, host)
        if workers == 1:
            serve_here(plan, opened, _with_lessons)
        else:
            serve_in_workers(plan, opened)


def _keys(given: Many) -> tuple[str, ...]:
    """The keys of the command line, or the one of the variable."""
    if given is None and KEY_VARIABLE in os.environ:
        return (os.environ[KEY_VARIABLE],)
    return tuple(given or ())


def _with_lessons(plan):  # type: ignore[no-untyped-def]
    """The application with the studio's lessons."""
    from regard.lessons.studio import StudioLessons
    from regard.service.api.application import make_service

    return make_service(plan.open(), plan.settings, StudioLessons() if plan.settings.has_studio else None)
