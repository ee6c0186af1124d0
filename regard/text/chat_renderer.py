"""The process that renders chat templates, which are programs of unknown origin.

    python -m regard.text.chat_renderer

Each line of its input is a request: a template and its variables as JSON. The reply is a line with the text
or the error. Templates run in jinja2's sandbox. The operating system limits memory and processor time,
because Python cannot stop a loop of its own process. A template that exceeds the time ends this process.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Environment, Template, TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

CPU_SECONDS = 0.5  # of one request
MEMORY = 1 << 29  # bytes of address space
LARGEST_TEXT = 1 << 22  # characters of a rendered text


class Generation(Extension):
    """The block {% generation %}, which marks the text of the assistant; it is rendered as it is."""

    tags = frozenset({"generation"})  # pyright: ignore[reportAssignmentType]

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The contents of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def environment() -> Environment:
    """The sandbox with the functions that chat templates use."""
    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    sandbox.filters["tojson"] = _to_json
    sandbox.globals["raise_exception"] = _raise_exception
    sandbox.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return sandbox


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
    """JSON without the escapes for HTML that jinja2's own filter adds."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


@cache
def _compiled(template: str) -> Template:
    return environment().from_string(template)


def render(template: str, variables: dict[str, Any]) -> dict[str, str]:
    """The reply to a request."""
    try:
        text = _compiled(template).render(**variables)
    except MemoryError:
        return {"error": "it needs too much memory"}
    except Exception as error:  # whatever a template does, the reply is one line
        return {"error": f"{error}" or type(error).__name__}
    if len(text) > LARGEST_TEXT:
        return {"error": f"it wrote {len(text):,} characters; {LARGEST_TEXT:,} are the limit"}
    return {"text": text}


def _limit_memory() -> None:
    """No large allocation, no file and no core dump; Windows has no such limits."""
    try:
        import resource
    except ImportError:
        return
    for kind, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(kind, (most, most))


def _limited(work: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Do the work; the system ends this process if it takes more processor time than allowed."""
    if not hasattr(signal, "setitimer"):  # Windows; the parent's clock ends this process
        return work()
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> None:
    """Reply to each line of stdin."""
    _limit_memory()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        reply = _limited(lambda request=request: render(request["template"], request["variables"]))
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
