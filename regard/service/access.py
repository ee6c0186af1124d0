"""Who may use the studio: callers of this machine that know the token of this start.

The address that `regard studio` prints contains the token. The first visit stores it in a cookie, so that
later requests of the page need no token in their address.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from regard.service.http_errors import Forbidden, RequestError

LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
PORT = re.compile(r":(\d+)$")
TICKET_SECONDS = 60.0
PAGES = ("/", "/studio")  # the addresses that a person opens
API = "/studio/api/"
EXPLANATION = "this address needs the token of the studio; open the whole address that regard studio printed"
HTML = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Regard studio</title>{head}</head>
<body><p>{text}</p></body></html>
"""


@dataclass(frozen=True)
class Token:
    """The secret of one start of the studio."""

    value: str = field(default_factory=lambda: secrets.token_hex(24), repr=False)
    _tickets: dict[str, float] = field(default_factory=dict, repr=False)  # by the time when they end

    def new_ticket(self) -> str:
        """A token for one visit within a minute.

        It opens a browser by a command, whose arguments other users of the machine can list.
        """
        ticket = secrets.token_hex(24)
        self._tickets[ticket] = time.monotonic() + TICKET_SECONDS
        return ticket

    def accepts(self, given: str) -> bool:
        """Whether this is the token, or a ticket that was not used yet."""
        if secrets.compare_digest(given.encode(), self.value.encode()):
            return True
        return time.monotonic() < self._tickets.pop(given, 0.0)


@dataclass(frozen=True)
class LocalAccess:
    """Callers of this machine; with a token, those that have it."""

    token: Token | None = None

    def check(self, scope: Scope) -> Response | None:
        """Raise for a foreign caller, or give the response to a request without the token."""
        check_caller(Headers(scope=scope))
        return None if self.token is None else check_token(self.token, scope)


def check_caller(headers: Headers) -> None:
    """Raise for a foreign Host or a foreign Origin."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if not LOCAL.fullmatch(host):
        raise RequestError("the studio serves this machine only; open it as 127.0.0.1 or localhost")
    if origin is not None and not LOCAL.fullmatch(origin.removeprefix("http://")):
        raise RequestError("requests from pages of other hosts are rejected; open the studio's own page")


def check_token(token: Token, scope: Scope) -> Response | None:
    """None for a request with the token, or the response that is sent instead of the requested one."""
    headers, path = Headers(scope=scope), scope["path"]
    name = cookie_name(headers)
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    given = [value for key, value in query if key == "token"]
    if given and token.accepts(given[-1]):
        rest = [pair for pair in query if pair[0] != "token"]
        return _first_visit(token, name, rest) if path in PAGES and scope["method"] == "GET" else None
    if token.accepts(cookie_parser(headers.get("cookie", "")).get(name, "")):
        return None
    if path.startswith(API):
        raise Forbidden(EXPLANATION)
    text = f"{EXPLANATION[0].upper()}{EXPLANATION[1:]}."
    return HTMLResponse(HTML.format(head="", text=text), 403)


def cookie_name(headers: Headers) -> str:
    """The name of the cookie; cookies do not tell ports apart, so the name does."""
    port = PORT.search(headers["host"])
    return f"regard-{port[1] if port else 80}"


def _first_visit(token: Token, name: str, query: list[tuple[str, str]]) -> Response:
    """A page that stores the cookie and goes on to the studio, at an address without the token.

    It is no redirect: after a redirect from a link on another page, browsers would not send the cookie.
    """
    address = f"/studio?{urlencode(query)}" if query else "/studio"
    refresh = f'<meta http-equiv="refresh" content="0; url={address.replace("&", "&amp;")}">'
    response = HTMLResponse(HTML.format(head=refresh, text="Opening the studio …"))
    response.set_cookie(name, token.value, httponly=True, samesite="strict")
    return response
