"""Many texts at once: windows over a stream, batches of about one length in each, answers in order.

A text is read into items (none where it is empty, several where it is split), items are answered in
batches, and what came of a text's items is joined again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from regard.errors import DataError, RegardError, SettingError, UsageError

WINDOW = 1024  # texts that are sorted by length together
BUDGET = 4096  # tokens of a batch, padding and beams included

Item = TypeVar("Item")
Found = TypeVar("Found")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Label:
    """Which text is meant, in the words of an error; the first has number 1."""

    number: int
    alone: bool = False

    def __str__(self) -> str:
        return "the text" if self.alone else f"text number {self.number}"


@dataclass(frozen=True)
class Job(Generic[Item, Found, Answer]):
    """How texts are answered.

    `encode` gives the ids of texts; `read` makes items of a text, given its label, itself and its ids;
    `size` is what an item costs of the budget; `answer` answers a batch; `join` makes one answer of a text,
    its items and what came of them.
    """

    encode: Callable[[Sequence[str]], list[list[int]]]
    read: Callable[[Label, str, list[int]], list[Item]]
    size: Callable[[Item], int]
    answer: Callable[[list[Item]], list[Found]]
    join: Callable[[str, list[Item], list[Found]], Answer]
    budget: int = BUDGET
    window: int = WINDOW

    def __post_init__(self):
        for name, value, usual in (("batch_tokens", self.budget, BUDGET), ("window", self.window, WINDOW)):
            if not 1 <= value <= 1 << 30:
                raise SettingError(f"{name} ({value}) must be 1 or more; leave it out for {usual}")

    def one(self, text: str) -> Answer:
        """The answer to one text."""
        items, problem = _read(self, [text], [Label(1, alone=True)])
        if problem is not None:
            raise problem
        return self.join(text, items[0], _answered(self, items[0]))

    def stream(self, texts: Iterable[str]) -> Iterator[Answer]:
        """An answer for each text in the order of texts; those before a text that fails are given first."""
        waiting, number, problem = iter(texts), 1, None
        while problem is None:
            window, broken = _next_window(waiting, self.window)
            readings, problem = _read(self, window, [Label(number + i) for i in range(len(window))])
            found = iter(_answered(self, [item for items in readings for item in items]))
            for text, items in zip(window, readings, strict=False):
                yield self.join(text, items, list(islice(found, len(items))))
            number, problem = number + len(window), problem or broken
            if not window and problem is None:
                return
        raise problem

    def run(self, texts: str | Iterable[str]) -> Answer | list[Answer] | Iterator[Answer]:
        """One answer for a string, a list for a sequence, and an iterator for any other iterable."""
        if isinstance(texts, str):
            return self.one(texts)
        if isinstance(texts, bytes) or not isinstance(texts, Iterable):
            raise UsageError(f"a text must be a string, or many of them, not {type(texts).__name__}")
        answers = self.stream(texts)
        return list(answers) if isinstance(texts, Sequence) else answers


def _next_window(texts: Iterator[str], size: int) -> tuple[list[str], RegardError | None]:
    """Texts up to a window's size, and why there are no more where their source has failed."""
    window: list[str] = []
    try:
        for text in islice(texts, size):
            window.append(text)
    except RegardError as error:
        return window, error
    return window, None


def _read(
    job: Job[Item, Found, Answer], texts: Sequence[str], labels: Sequence[Label]
) -> tuple[list[list[Item]], RegardError | None]:
    """The items of each text up to the first that cannot be read, and why it cannot."""
    readings: list[list[Item]] = []
    try:
        for label, text, ids in zip(labels, texts, _encoded(job, texts), strict=True):
            readings.append(job.read(label, text, ids))
    except RegardError as error:
        return readings, error
    return readings, None


def _encoded(job: Job[Item, Found, Answer], texts: Sequence[str]) -> Iterator[list[int]]:
    """The ids of texts, all at once; one by one where one of them cannot be encoded."""
    try:
        if all(isinstance(text, str) for text in texts):
            yield from job.encode(texts)
            return
    except DataError:
        pass
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"a text must be a string, not {type(text).__name__}")
        yield from job.encode([text])


def _answered(job: Job[Item, Found, Answer], items: Sequence[Item]) -> list[Found]:
    """The answers to items, in their order."""
    sizes = [job.size(item) for item in items]
    found: dict[int, Found] = {}
    for places in batches(sizes, job.budget):
        answers = job.answer([items[place] for place in places])
        found |= dict(zip(places, answers, strict=True))
    return [found[place] for place in range(len(items))]


def batches(sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Places in batches of about one size, the longest first; the longest times rows stays in the budget."""
    batch: list[int] = []
    longest = 0
    for place in sorted(range(len(sizes)), key=lambda place: (-sizes[place], place)):
        longest = longest if batch else max(sizes[place], 1)
        if batch and longest * (len(batch) + 1) > budget:
            yield batch
            batch, longest = [], max(sizes[place], 1)
        batch.append(place)
    if batch:
        yield batch
