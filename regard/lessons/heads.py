"""Heads: quality and time of 1 to 8 of them at equal width, and what the heads of a trained model do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.demo.corpus import built_in
from regard.demo.story.model_store import trained_folder
from regard.inference.loading import load_for
from regard.lessons.demo_text import demo_text, draw_sentences
from regard.lessons.experiment import alternate, fit, ratios, seeded
from regard.lessons.head_functions import FUNCTIONS, draw_links, find_function
from regard.lessons.lesson import EQUAL, Chart, Lesson, Say, See, Series, Spread, Table, Verdict, series
from regard.model.attention import MultiHeadAttention
from regard.model.transformer import DecoderOnly, build_model
from regard.training.objectives import LanguageModeling

IN_TURN = "in turn"


class OneAfterTheOther(nn.Module):
    """The same heads as modules of their own, computed in turn; W^O is applied to each and summed."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        size = width // heads
        self.heads = nn.ModuleList(
            MultiHeadAttention(width, 1, key_width=size, value_width=size) for _ in range(heads)
        )

    def forward(self, x: Tensor) -> Tensor:
        """B Q D to the same."""
        return torch.stack([head(x) for head in self.heads]).sum(0)


class Heads(Lesson):
    """Several heads, against one head of the same width."""

    name: ClassVar = "heads"
    lecture_rows: ClassVar = ("9", "31", "32")
    claim: ClassVar = "Attention has eight heads to speed it up, because they run in parallel."
    question: ClassVar = "Are several heads faster than one of the same width, and what else do they change?"
    variable: ClassVar = "The number of heads at equal width, so that all have the same number of parameters."
    measurement: ClassVar = (
        "The time of attention, forward and backward, on one core and in alternation; the loss of trained "
        "language models on new sentences; in the demo's model, the head that best follows a link from one "
        "word to another, found on some sentences and judged on others, and what it costs to ablate it. A "
        "head that takes the same noun for every “it” finds half of these links."
    )
    rule: ClassVar = (
        "The claim holds if the most heads take at most `faster` of the time of the `baseline`, in the "
        "median of all rounds."
    )
    control_words: ClassVar = "The same eight heads computed one after the other, in place of one wide head."
    is_timed: ClassVar = True
    places: ClassVar = (
        See(
            "The heads of one sentence",
            command='regard inspect demo "The small dog was tired."',
            view="tab=inspect&picture=heads",
        ),
    )

    cases: ClassVar = ("losses", "seconds")

    counts: tuple[int, ...] = (1, 2, 4, 8)
    """Numbers of heads."""
    baseline: str = "1"
    """What the most heads are compared with: a number of heads, or "in turn"."""
    faster: float = 0.7
    """Largest share of the baseline's time that counts as faster."""
    width: int = 128
    """Width of the timed attention."""
    texts: int = 4
    """Texts of the timed attention."""
    length: int = 64
    """Tokens of each text."""
    rounds: int = 100
    """Rounds of timing."""
    steps: int = 100
    """Training steps."""
    clear: float = 0.75
    """Share of sentences from which on a head is said to follow a link."""
    sentences: int = 80
    """Sentences for each function of a head; half of them choose the head."""
    ablated: int = 20
    """Sentences whose translation is scored without each head."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Seeds of the initial weights and of the batches."""

    def control(self) -> Heads:
        """Compare with the same heads in turn."""
        return self.changed(baseline=IN_TURN)

    def measure(self, say: Say) -> dict[str, Any]:
        """Time, trained loss and functions."""
        say("timing")
        works = {str(count): self._work(MultiHeadAttention(self.width, count)) for count in self.counts}
        works[IN_TURN] = self._work(OneAfterTheOther(self.width, self.counts[-1]))
        seconds = alternate(works, self.rounds)
        losses = [[self._loss(count, seed, say) for seed in self.seeds] for count in self.counts]
        translator = load_for("translate", trained_folder("demo"))
        functions = {}
        for name in FUNCTIONS:
            say(f"heads of the demo's model: {name}")
            links = draw_links(name, built_in(), translator.tokenizers.source, self.sentences)
            functions[name] = find_function(translator, links, self.ablated)._asdict()
        return {"seconds": seconds, "losses": losses, "functions": functions}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """The time of the most heads."""
        most, seconds, losses = self.counts[-1], measured["seconds"], measured["losses"]
        taken = Spread.of_times(ratios(seconds[str(most)], seconds[self.baseline]))
        if self.baseline == IN_TURN:
            reason = f"{most} heads at once take {taken.write()} times the time of {most} heads in turn."
            return Verdict(taken.middle <= self.faster, reason)
        return Verdict(
            holds=taken.middle <= self.faster,
            reason=f"On one core {most} heads take {taken.write()} times the time of one head of the same "
            f"width{EQUAL if taken.low <= 1 <= taken.high else ''}. The loss with 1 and with {most} heads is "
            f"{Spread.compare(losses[0], losses[-1])}. Heads divide the same work; they add that each "
            f"can attend to something else. {self._found(measured['functions'])}",
        )

    def _found(self, functions: dict[str, Any]) -> str:
        """The heads of the demo's model that follow a link, and the most costly one, in words."""
        clear = [
            f"{name} ({_place(one)}: {one['share']:.0%} of new sentences)"
            for name, one in functions.items()
            if one["share"] >= self.clear
        ]
        missing = [name for name, one in functions.items() if one["share"] < self.clear]
        most = max(functions.values(), key=lambda one: one["needed_cost"])
        return (
            f"The demo's model has a head for: {', '.join(clear) or 'none of the links'}. It has no clear "
            f"one for: {', '.join(missing) or 'none'}. The most costly head to ablate is "
            f"{_place(most, 'needed_')}: the loss of a translation rises by {most['needed_cost']:.2g} nats."
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each number of heads, and two tables with one for each function."""
        seconds, functions = measured["seconds"], measured["functions"]
        losses = [Spread.of(losses).write(".3f") for losses in measured["losses"]]
        times = [Spread.of_times(ratios(taken, seconds[str(self.counts[0])])) for taken in seconds.values()]
        rows = zip(seconds, (one.write() for one in times), [*losses, ""], strict=True)
        links = [(name, _place(one), one["share"], one["others"]) for name, one in functions.items()]
        costs = [
            (name, one["cost"], _place(one, "needed_"), one["needed_cost"]) for name, one in functions.items()
        ]
        found, cost = "Share of new sentences in which a head finds the link", "Rise of the loss, in nats"
        columns = ("link", "without its head", "most costly head", "without this one")
        return [
            Table("Equal width", ("heads", "time, one head = 1", "loss in nats per token"), tuple(rows)),
            Table(found, ("link", "its head", "found", "other heads, mean"), tuple(links)),
            Table(cost, columns, tuple(costs)),
        ]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Time, loss, functions and ablations."""
        seconds = measured["seconds"]
        taken = [ratios(one, seconds[str(self.counts[0])]) for one in seconds.values()]
        time = series("time", (*map(str, self.counts), f"{self.counts[-1]}\nin turn"), taken, Spread.of_times)
        names = tuple(name.replace(" to ", "\nto ").replace(" word", "\nword") for name in FUNCTIONS)

        def bars(label: str, column: str) -> Series:
            return Series(label, names, tuple(one[column] for one in measured["functions"].values()))

        finds = (bars("its head", "share"), bars("other heads, mean", "others"))
        costs = (bars("without its head", "cost"), bars("without the most costly head", "needed_cost"))
        loss = series("loss", self.counts, measured["losses"])
        return [
            Chart("Time", "heads", "one head = 1", (time,), kind="bars"),
            Chart("Language models of equal width", "heads", "nats per token", (loss,), log_x=True),
            Chart("The demo's model: links found", "", "share of sentences", finds, kind="bars"),
            Chart("Loss of a translation", "", "rise in nats", costs, kind="bars"),
        ]

    def _work(self, attention: nn.Module) -> Callable[[], object]:
        """Forward and backward of one attention."""
        torch.manual_seed(1)
        x = torch.randn(self.texts, self.length, self.width)
        return lambda: attention(x).sum().backward()

    def _loss(self, heads: int, seed: int, say: Say) -> float:
        say(f"training, {heads} heads, seed {seed}")
        text = demo_text()
        model = seeded(lambda: build_model(text.config(heads=heads)), seed)
        assert isinstance(model, DecoderOnly)
        module = LanguageModeling(model)
        fit(module, lambda r: text.language_batch(draw_sentences(text.train, 16, r)), self.steps, seed)
        return text.loss(module, text.held_out)


def _place(function: dict[str, Any], which: str = "") -> str:
    return f"layer {function[f'{which}layer']}, head {function[f'{which}head']}"
