"""The browser of the studio's tests: where it is, and how it gets there.

`make test` calls this file first: on Debian, as root, it installs chromium where none is found. Elsewhere the
tests of the page are skipped, and the end of the run says so; with REGARD_BROWSER=required, as in .ci/run,
they fail. REGARD_CHROMIUM names a browser that stands somewhere else.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys

PATIENCE = 60_000  # milliseconds; a page that is quiet by itself may stand on a machine that is not
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Nothing that the browser does by itself shall reach for the network, nor need a graphics card.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
]  # fmt: skip


def find() -> str | None:
    """The browser's program, where there is one."""
    if chosen := os.environ.get("REGARD_CHROMIUM"):
        return shutil.which(chosen)
    return next(filter(None, map(shutil.which, NAMES)), None)


def is_required() -> bool:
    """Whether a run without a browser is a failure."""
    return os.environ.get("REGARD_BROWSER") == "required"


def missing() -> str:
    """What to do where there is none."""
    if chosen := os.environ.get("REGARD_CHROMIUM"):
        return f"REGARD_CHROMIUM names {chosen}, which is no program; give the path of a chromium"
    return f"no browser found ({', '.join(NAMES)}); install chromium, or name one with REGARD_CHROMIUM"


def may_install() -> bool:
    """Whether this is Debian and its root; Ubuntu's chromium is a snap, which does not run everywhere."""
    try:
        system = platform.freedesktop_os_release()["ID"]
    except OSError:
        return False
    return system == "debian" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install() -> None:
    """Let apt install chromium, without a word unless it fails."""
    print("Installing chromium for the tests of the studio ...", file=sys.stderr, flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for call in (["update"], ["install", "-y", "chromium"]):
        result = subprocess.run(["apt-get", "-qq", *call], env=quiet, capture_output=True, text=True)
        if result.returncode:
            print(result.stdout + result.stderr, file=sys.stderr)
            return


if __name__ == "__main__":
    if find() is None and may_install():
        install()
