"""`python -m regard.service.demo_trainer JSON`: train a demo model for the page.

It prints its working folder and ends when its stdin is closed, that is, with the process that started it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.background import follow_parent
from regard.demo.story.model_store import DemoFolder
from regard.errors import RegardError


class ReportingFolder(DemoFolder):
    """A demo folder that prints the folder in which its model is trained."""

    @contextmanager
    def created(self) -> Iterator[Path]:
        """The temporary folder of the training, after it was printed."""
        with super().created() as work:
            print(json.dumps(str(work)), flush=True)
            yield work


def train(argument: str) -> int:
    """Train the model that the JSON argument describes, and return the exit code."""
    values = json.loads(argument)
    follow_parent()
    from regard.demo.story.training import obtain

    try:
        folder = ReportingFolder(values["name"], Path(values["path"]), values["settings"], values["pairs"])
        obtain(folder, show=False)
    except RegardError as error:
        print("error:", error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(train(sys.argv[1]))
