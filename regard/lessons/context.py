"""Long contexts: memory and time of attention by the number of tokens, explicit and fused."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import torch

from regard.lessons.experiment import alternate, peak_memory, ratios
from regard.lessons.lesson import Chart, Lesson, Say, See, Series, Spread, Table, Verdict, series
from regard.model.attention import attention, fused_attention

KINDS = {"fused": fused_attention, "explicit": attention}
MIB = 2**20
CONSTANT = ", below 1 because a part of it is the same at every length"


class Context(Lesson):
    """Attention over 256 to 8,192 tokens."""

    name: ClassVar = "context"
    lecture_rows: ClassVar = ("23",)
    claim: ClassVar = (
        "Long contexts, typically of 4,096 tokens, work in memory linear in the number of tokens."
    )
    question: ClassVar = "How do memory and time of attention grow with the number of tokens?"
    variable: ClassVar = (
        "The number of tokens, with equation 1 in explicit steps, which hold a matrix of all pairs of "
        "tokens, and in the fused kernel, which computes a block of it at a time."
    )
    measurement: ClassVar = (
        "The most bytes that torch's allocator holds at one time, beyond the queries, keys and values; the "
        "time, alternating between the two; the slope of both in a plot with logarithmic axes."
    )
    rule: ClassVar = (
        "The claim holds if the slope of the memory of the judged `kind` of attention is at most `slope`, "
        "where 1 is linear and 2 quadratic."
    )
    control_words: ClassVar = "The explicit steps in place of the fused kernel."
    is_timed: ClassVar = True
    places: ClassVar = (See("Sizes with a context of 8,192 tokens", command="regard describe llama-3-8b"),)

    tokens: tuple[int, ...] = (256, 512, 1024, 2048, 4096, 8192)
    """Lengths of the text."""
    kind: Literal["fused", "explicit"] = "fused"
    """The judged kind of attention."""
    slope: float = 1.25
    """Highest slope of the memory that counts as linear."""
    key_width: int = 64
    """Width of the queries, keys and values; there is one head."""
    rounds: int = 3
    """Rounds of timing."""

    def control(self) -> Context:
        """Explicit steps."""
        return self.changed(kind="explicit")

    def measure(self, say: Say) -> dict[str, Any]:
        """Memory and time of both kinds at every length."""
        memory: dict[str, list[int]] = {kind: [] for kind in KINDS}
        seconds: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
        for tokens in self.tokens:
            say(f"{tokens:,} tokens")
            works = {kind: _work(kind, tokens, self.key_width) for kind in KINDS}
            times = alternate(works, self.rounds)
            for kind, work in works.items():
                memory[kind].append(peak_memory(work))
                seconds[kind].append(times[kind])
        return {"bytes": memory, "seconds": seconds}

    def judge(self, measured: dict[str, Any]) -> Verdict:
        """The slope of the memory."""
        slopes = {kind: _slope(self.tokens, measured["bytes"][kind]) for kind in KINDS}
        medians = {kind: [float(np.median(one)) for one in measured["seconds"][kind]] for kind in KINDS}
        last = {kind: measured["bytes"][kind][-1] / MIB for kind in KINDS}
        longer = Spread.of_times(ratios(*(measured["seconds"][kind][-1] for kind in ("explicit", "fused"))))
        return Verdict(
            holds=slopes[self.kind] <= self.slope,
            reason=f"The memory of the judged attention ({self.kind}) has a slope of "
            f"{slopes[self.kind]:.2f}{CONSTANT if slopes[self.kind] < 1 else ''}. "
            f"At {self.tokens[-1]:,} tokens explicit steps take {last['explicit']:,.0f} MiB and the fused "
            f"kernel {last['fused']:,.1f} MiB; explicit steps take "
            f"{longer.write('.1f')} times as long. Time is not linear in either: its slopes are "
            f"{_slope(self.tokens, medians['explicit']):.2f} (explicit) and "
            f"{_slope(self.tokens, medians['fused']):.2f} (fused), since every pair of tokens counts.",
        )

    def tables(self, measured: dict[str, Any]) -> list[Table]:
        """One row for each length."""
        rows = tuple(
            (
                tokens,
                *(measured["bytes"][kind][number] / MIB for kind in KINDS),
                *(
                    Spread.of_times([1e3 * one for one in measured["seconds"][kind][number]]).write(".1f")
                    for kind in KINDS
                ),
            )
            for number, tokens in enumerate(self.tokens)
        )
        columns = ("tokens", *(f"MiB, {kind}" for kind in KINDS), *(f"ms, {kind}" for kind in KINDS))
        return [Table("One head, one text", columns, rows)]

    def charts(self, measured: dict[str, Any]) -> list[Chart]:
        """Memory and time by length."""
        memory = tuple(
            Series(kind, self.tokens, tuple(one / MIB for one in measured["bytes"][kind])) for kind in KINDS
        )
        seconds = tuple(
            series(kind, self.tokens, measured["seconds"][kind], Spread.of_times) for kind in KINDS
        )
        return [
            Chart("Memory", "tokens", "MiB", memory, log_x=True, log_y=True),
            Chart("Time", "tokens", "seconds", seconds, log_x=True, log_y=True),
        ]


def _work(kind: str, tokens: int, width: int) -> Any:
    """Attention of one head over random queries, keys and values."""
    torch.manual_seed(tokens)
    query, key, value = torch.randn(3, 1, 1, tokens, width)

    def attend() -> torch.Tensor:
        with torch.no_grad():
            return KINDS[kind](query, key, value)

    return attend


def _slope(tokens: tuple[int, ...], values: list[float]) -> float:
    """The slope of a line through the logarithms of both, from the middle length on."""
    half = (len(tokens) - 1) // 2
    return float(np.polyfit(np.log(tokens[half:]), np.log(values[half:]), 1)[0])
