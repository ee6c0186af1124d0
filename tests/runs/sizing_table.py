"""The table of docs/results.md: a time budget against the recipe tuned by hand, at equal time.

    python -m tests.runs.sizing_table FOLDER sst2-1 shakespeare-2 multi30k-10 tatoeba-10

trains each case twice in FOLDER and prints a row of the table for it; a case that fails does not end the
others. The hand-tuned recipe is a file of its own, so that --minutes changes nothing but its length. Run it
on an idle machine: a case takes a bit more than twice its minutes. It reads ../shared/data.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from regard.runs.recipe import Recipe

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data"))
CAPTIONS = ["--source", "multi30k/train.en.gz", "--target", "multi30k/train.de.gz",
            "--valid-source", "multi30k/val.en.gz", "--valid-target", "multi30k/val.de.gz"]  # fmt: skip
CAPTIONS_TEST = ["--source", "multi30k/test_2016_flickr.en.gz", "--target", "multi30k/test_2016_flickr.de.gz"]
EVERYDAY = ["--tsv", "tatoeba/eng-fra.train.tsv.gz", "--valid", "tatoeba/eng-fra.valid.tsv.gz"]
REVIEWS = ["--labelled", "sst2/train.tsv", "--valid", "sst2/dev.tsv"]


@dataclass(frozen=True)
class Case:
    """A data set: the recipe that is sized, the recipe tuned by hand, and how a run is scored."""

    recipe: str
    tuned: str
    files: list[str]
    score: str  # of the best validation, or of `evaluate`
    evaluate: list[str] | None = None


CASES = {
    "sst2": Case("classification", "sst2", REVIEWS, "accuracy"),
    "shakespeare": Case("language-model-characters", "shakespeare", ["--text", "shakespeare.txt"], "loss"),
    "multi30k": Case("translation", "multi30k", CAPTIONS, "BLEU", [*CAPTIONS_TEST, "--length-penalty", "3"]),
    "tatoeba": Case("translation", "translation", EVERYDAY, "BLEU", ["--tsv", "tatoeba/eng-fra.test.tsv.gz"]),
}


def regard(*arguments: str) -> dict:
    """The JSON that a command prints."""
    call = [sys.executable, "-m", "regard", *arguments, "--json"]
    return json.loads(subprocess.run(call, cwd=DATA, check=True, stdout=subprocess.PIPE).stdout)


def trained(recipe: str, case: Case, minutes: str, out: Path) -> tuple[float, float]:
    """Minutes that a run took, as a whole process, and what it reached."""
    start = time.monotonic()
    run = regard("train", recipe, *case.files, "--minutes", minutes, "--out", str(out))
    taken = (time.monotonic() - start) / 60
    if case.evaluate is None:
        return taken, run["scores"][case.score]
    report = regard("evaluate", str(out), *case.evaluate, "--beams", "5")
    lowercase = [score["value"] for score in report["scores"] if "case:lc" in score["signature"]]
    return taken, lowercase[0]


def row(name: str, folder: Path) -> str:
    """A row of the table: requested, taken, reached, hand-tuned."""
    known, _, minutes = name.rpartition("-")
    case, own = CASES[known], folder / f"{known}.toml"
    own.write_text(Recipe.load(case.tuned).to_toml(), encoding="utf-8")
    taken, reached = trained(case.recipe, case, minutes, folder / f"{name}-sized")
    by_hand, tuned = trained(str(own), case, minutes, folder / f"{name}-tuned")
    cells = (known, f"{minutes} min", f"{taken:.2f} min", f"{case.score} {reached:.4g}",
             f"{case.score} {tuned:.4g} in {by_hand:.2f} min")  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    where, *names = sys.argv[1:]
    place = Path(where).absolute()
    place.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    for each in names:
        try:
            print(row(each, place), flush=True)
        except Exception as error:  # the other cases have their hours still
            failed.append(each)
            print(f"| {each} | failed: {error} |", flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
