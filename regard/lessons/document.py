"""All lessons as one page of Markdown: the claims with their verdicts, then each with figure and numbers."""

from __future__ import annotations

from collections.abc import Sequence

from regard.lessons.lesson import Result, Table
from regard.lessons.show import measured_on, write_cell

HEAD = """# Lessons

Each lesson turns a claim of the lectures into an experiment. Its threshold is fixed in the code before the run, and a control must have the opposite verdict. `regard lesson --all --run --out DIR` repeats all of them and writes this page to DIR. An experiment and its control are two processes with one thread each. They run at the same time if there are two cores, and one after the other if they measure time (`heads`, `recurrence`, `context`, `cost`).

```sh
regard lesson                    # list the claims and their verdicts
regard lesson order              # show a stored result
regard lesson six-steps --run    # repeat the experiment
```

The tab Lessons of `regard studio` shows the same and runs an experiment on request ([studio.md](studio.md)). To repeat `patches`, which reads scikit-learn's digits: `pip install 'regard[lessons]'`.
"""  # noqa: E501


def markdown(results: Sequence[Result], figures: str = "") -> str:
    """The page; `figures` is the folder of the figures, as seen from the page, with its slash."""
    rows = [
        f"| [{one.name}](#{one.name}) | {one.claim} | {one.experiment.verdict.words} |" for one in results
    ]
    overview = "\n".join(["| lesson | claim | verdict |", "|---|---|---|", *rows, ""])
    minutes = sum(one.seconds for one in results) / 60
    length = f"All of these runs together took {minutes:.0f} minutes of one core.\n"
    return "\n".join([HEAD, overview, length, *(_section(one, figures) for one in results)])


def _section(result: Result, figures: str) -> str:
    verdict, control, text = result.experiment.verdict, result.control.verdict, result.text
    parts = [
        f"## {result.name}\n",
        f"**{result.claim}**\n",
        f"The claim **{verdict.words}**. {verdict.reason}\n",
        f"![{result.claim}]({figures}{result.name}.svg)\n",
        f"*Question.* {text['question']} *What changes.* {text['variable']} "
        f"*Measured.* {text['measurement']} *Rule.* {text['rule']}\n",
        f"*Control.* {text['control_words']} The verdict is then: {control.words}. {control.reason}\n",
    ]
    parts += [f"*{place.text}.* {' or '.join(f'`{way}`' for way in place.ways)}\n" for place in result.places]
    return "\n".join([*parts, *map(_table, result.tables), f"{measured_on(result)}\n"])


def _table(table: Table) -> str:
    head = [f"{table.title}:\n", f"| {' | '.join(table.columns)} |", "|---" * len(table.columns) + "|"]
    rows = [f"| {' | '.join(write_cell(cell) for cell in row)} |" for row in table.rows]
    return "\n".join([*head, *rows, ""])
