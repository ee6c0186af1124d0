"""Pool: the finished hypotheses of a request, of which the best few become its answer."""

from __future__ import annotations

import numpy as np

from regard.inference.request import Answer, Request, Result
from regard.inference.tree import Tree


class Pool:
    """The best of a request's finished hypotheses, in order, and the tree where one is kept."""

    def __init__(self, request: Request, n_best: int, tree: Tree | None):
        self.request, self.tree = request, tree
        self._n_best = n_best
        self._best: list[tuple[Result, int]] = []
        self._stuck: list[tuple[Result, int]] = []

    def add(self, result: Result, node: int) -> None:
        """Take in a hypothesis; of equals the earlier one ranks first."""
        few = self._stuck if result.reason == "stuck" else self._best
        few.append((result, node))
        few.sort(key=lambda pair: -pair[0].rank_score)
        del few[self._n_best :]
        self.mark(node, result.reason)

    @property
    def border(self) -> float:
        """What a hypothesis must rank above to be among the results."""
        return self._best[-1][0].rank_score if len(self._best) == self._n_best else -np.inf

    def mark(self, node: int, fate: str) -> None:
        """Note in the tree what became of a hypothesis."""
        if self.tree is not None:
            self.tree.nodes[node].fate = fate

    def answer(self, ticket: int) -> Answer:
        """The results, their places noted in the tree; stuck ones only where there is nothing else."""
        few = self._best or self._stuck
        if self.tree is not None:
            for place, (_, node) in enumerate(few):
                self.tree.nodes[node].place = place
        return Answer(ticket, self.request, [result for result, _ in few], self.tree)
