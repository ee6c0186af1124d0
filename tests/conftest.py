"""What holds for every test."""

from __future__ import annotations

import os

from hypothesis import settings

# Two workers on two cores: more threads than one each would only wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TOKENIZERS_PARALLELISM"):
        os.environ.setdefault(variable, "1")
os.environ["HF_HUB_OFFLINE"] = "1"

# The same examples for everybody; `pytest --hypothesis-profile=explore` draws new ones.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("steady")


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the lines that tests left with record_property("summary", ...)."""
    for report in terminalreporter.stats.get("passed", []):
        for name, line in report.user_properties:
            if name == "summary":
                terminalreporter.write_line(line)
