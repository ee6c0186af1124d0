"""Many texts at once: windows over a stream, batches of similar length in each, answers in order.

A text is read into items: none if it is empty, several if it is split. Items are answered in batches, and the
results of a text's items are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from regard import ranks
from regard.errors import DataError, RegardError, SettingError, UsageError

WINDOW = 1024  # texts that are sorted by length together
BUDGET = 4096  # tokens of a batch, with padding and beams

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Label:
    """The name of a text in an error message; the first text has number 1."""

    number: int = 1
    is_only_text: bool = True

    def __str__(self) -> str:
        return "the text" if self.is_only_text else f"text number {self.number}"


@dataclass(frozen=True)
class Job(Generic[Item, Result, Answer]):
    """How texts are answered.

    `encode` gives the ids of texts. `read` makes items of a text, from its label, itself and its ids. `size`
    is the number of tokens of an item. `answer` gives the results of a batch of items. `join` makes the
    answer of a text from the text, its items and their results.
    """

    encode: Callable[[Sequence[str]], list[list[int]]]
    read: Callable[[Label, str, list[int]], list[Item]]
    size: Callable[[Item], int]
    answer: Callable[[list[Item]], list[Result]]
    join: Callable[[str, list[Item], list[Result]], Answer]
    budget: int = BUDGET
    window: int = WINDOW

    def __post_init__(self):
        for name, value, default in (("batch_tokens", self.budget, BUDGET), ("window", self.window, WINDOW)):
            if not 1 <= value <= 1 << 30:
                raise SettingError(f"{name} ({value}) must be 1 or more; leave it out for {default}")

    def run(self, texts: str | Iterable[str]) -> Answer | list[Answer] | Iterator[Answer]:
        """One answer for a string, a list for a sequence, and an iterator for any other iterable."""
        if isinstance(texts, str):
            return self.one(texts)
        if isinstance(texts, bytes) or not isinstance(texts, Iterable):
            raise UsageError(f"a text must be a string, or many of them, not {type(texts).__name__}")
        answers = self.stream(texts)
        return list(answers) if isinstance(texts, Sequence) else answers

    def one(self, text: str) -> Answer:
        """The answer to one text."""
        items, error = self._read([text], [Label()])
        if error is not None:
            raise error
        return self.join(text, items[0], self._results(items[0]))

    def stream(self, texts: Iterable[str]) -> Iterator[Answer]:
        """The answers in the order of texts; an error is raised after the answers to the texts before it."""
        remaining, number, error = iter(texts), 1, None
        while error is None:
            window, source_error = _next_window(remaining, self.window)
            labels = [Label(number + i, is_only_text=False) for i in range(len(window))]
            items_of_texts, error = self._read(window, labels)
            results = iter(self._results([item for items in items_of_texts for item in items]))
            for text, items in zip(window, items_of_texts, strict=False):
                yield self.join(text, items, list(islice(results, len(items))))
            number, error = number + len(window), error or source_error
            if not window and error is None:
                return
        raise error

    def _read(
        self, texts: Sequence[str], labels: Sequence[Label]
    ) -> tuple[list[list[Item]], RegardError | None]:
        """The items of each text before the first that cannot be read, and the error of that one."""
        items: list[list[Item]] = []
        try:
            for label, text, ids in zip(labels, texts, self._encoded(texts), strict=True):
                items.append(self.read(label, text, ids))
        except RegardError as error:
            return items, error
        return items, None

    def _encoded(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """The ids of texts, encoded together, or one by one if one of them cannot be encoded."""
        try:
            if all(isinstance(text, str) for text in texts):
                yield from self.encode(texts)
                return
        except DataError:
            pass
        for text in texts:
            if not isinstance(text, str):
                raise UsageError(f"a text must be a string, not {type(text).__name__}")
            yield from self.encode([text])

    def _results(self, items: Sequence[Item]) -> list[Result]:
        """The results of items, in their order; several ranks divide the batches."""
        divided = list(batches([self.size(item) for item in items], self.budget))
        answers = ranks.divided(lambda indices: self.answer([items[index] for index in indices]), divided)
        results: dict[int, Result] = {}
        for indices, answered in zip(divided, answers, strict=True):
            results |= dict(zip(indices, answered, strict=True))
        return [results[index] for index in range(len(items))]


def _next_window(texts: Iterator[str], size: int) -> tuple[list[str], RegardError | None]:
    """The next texts, and the error of their source if it raised one."""
    window: list[str] = []
    try:
        for text in islice(texts, size):
            window.append(text)
    except RegardError as error:
        return window, error
    return window, None


def batches(sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in batches of similar size, the largest first; largest size times rows is within the budget."""
    batch: list[int] = []
    longest = 0
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)):
        longest = longest if batch else max(sizes[index], 1)
        if batch and longest * (len(batch) + 1) > budget:
            yield batch
            batch, longest = [], max(sizes[index], 1)
        batch.append(index)
    if batch:
        yield batch
