"""Pages that are watched: what they ask for, what they complain about, whether everybody can use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page

from .chromium import PATIENCE

AXE = Axe().axe_script
HERE = ("data:", "blob:", "about:")
REFUSED = "Failed to load resource"  # what chromium says of an answer such as 422
OURS = "Canvas2D: Multiple readback operations"  # what it says of tests that read pixels


@dataclass
class Watch:
    """What the pages of one visitor did."""

    home: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def strangers(self) -> list[str]:
        """Requests to anywhere but home."""
        return [address for address in self.requests if not address.startswith((self.home, *HERE))]

    def hear(self, message: Any) -> None:
        """Sort what the console says; a refused request stands apart, since some tests ask for one."""
        if message.type in ("error", "warning") and not message.text.startswith(OURS):
            heard = self.refusals if message.text.startswith(REFUSED) else self.complaints
            heard.append(f"{message.type}: {message.text}")


@contextmanager
def visitor(browser: Browser, home: str, **options: Any) -> Iterator[tuple[BrowserContext, Watch]]:
    """Somebody with a browser of their own; nothing of it may have gone elsewhere or failed unseen."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(PATIENCE)
    watch = Watch(home)
    context.on("request", lambda request: watch.requests.append(request.url))
    context.on("console", watch.hear)
    context.on("weberror", lambda error: watch.complaints.append(f"thrown: {error.error}"))
    try:
        yield context, watch
    finally:
        context.close()
    wrong = [f"asked elsewhere: {address}" for address in watch.strangers] + watch.complaints
    assert not wrong, "\n".join(wrong)


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong on the page as it stands, a line each."""
    # As a string: the page's policy forbids eval to its own scripts, not to the browser's protocol.
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{rule['id']}: {rule['help']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]
