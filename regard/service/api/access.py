"""Who may use the service: callers with an allowed Host and, if keys are set, with one of them.

Every path but /health needs the key, whether a route has it or not. The studio's pages accept the token
that is printed at the start as well.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from regard.errors import SettingError
from regard.service.access import LOCAL, Token, check_token
from regard.service.api.errors import Unauthorized
from regard.service.http_errors import Forbidden, RequestError
from regard.service.serving import in_address

OPEN = "/health"
EVERY_HOST = "*"
KEY = re.compile(r"[!-~]+")  # what a header can carry unchanged


@dataclass(frozen=True)
class ServiceAccess:
    """The keys, the allowed hosts and origins, and the token of the studio."""

    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    token: Token | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(map(checked_key, self.keys)))

    def check(self, scope: Scope) -> Response | None:
        """Raise for a caller that may not send this request."""
        headers, path = Headers(scope=scope), scope["path"]
        self._check_host(headers.get("host", ""))
        self._check_origin(headers.get("origin"))
        if path == OPEN or self._has_key(headers):
            return None
        if self.token is not None and is_studio(path):
            return check_token(self.token, scope)
        if self.keys:
            raise Unauthorized("the API key is missing or wrong; send it as Authorization: Bearer KEY")
        return None

    def _check_host(self, host: str) -> None:
        if not host:
            raise RequestError("the request names no Host; send one")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        allowed = {in_address(known.lower()) for known in self.hosts}
        if not (LOCAL.fullmatch(host) or EVERY_HOST in allowed or {host.lower(), name.lower()} & allowed):
            raise Forbidden("requests for other hosts are refused; allow this one with --allow-host")

    def _check_origin(self, origin: str | None) -> None:
        if origin is None or EVERY_HOST in self.origins or origin in self.origins:
            return
        if not LOCAL.fullmatch(_host_of(origin)):
            raise Forbidden("requests from other pages are refused; allow this one with --allow-origin")

    def _has_key(self, headers: Headers) -> bool:
        """Whether one of the keys was sent; takes the same time wherever the first difference is."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        candidates = (given if scheme.lower() == "bearer" else "", headers.get("x-api-key", ""))
        matches = [
            secrets.compare_digest(candidate.strip().encode(), key.encode())
            for key in self.keys
            for candidate in candidates
        ]
        return any(matches)


def checked_key(key: str) -> str:
    """A key without blanks around it; raise for one that no request could send."""
    key = key.strip()
    if not KEY.fullmatch(key):
        raise SettingError(
            "an API key must have one character or more, all of them ASCII and none of them a blank; "
            "choose another with --api-key or REGARD_API_KEY"
        )
    return key


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _host_of(origin: str) -> str:
    """The host and port of an origin; empty if it has none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def is_studio(path: str) -> bool:
    """Whether a path belongs to the studio's page."""
    return path in ("/", "/studio", "/favicon.ico") or path.startswith("/studio/")
