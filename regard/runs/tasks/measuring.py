"""The four tasks by name, and what is measured alike for all of them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from regard.registry import Registry
from regard.runs.tables import ValidationTable
from regard.runs.tasks.classification import ClassificationTask
from regard.runs.tasks.language_modeling import WritingTask
from regard.runs.tasks.masked_language_modeling import MaskedTask
from regard.runs.tasks.task import Findings, Held, Task
from regard.runs.tasks.translation import TranslationTask
from regard.runs.trained import Trained
from regard.text.scores import Score, bits_per_character, perplexity

_TASKS: dict[str, Task] = {
    "translation": TranslationTask(),
    "language-modeling": WritingTask(),
    "masked-language-modeling": MaskedTask(),
    "classification": ClassificationTask(),
}
TASKS: Registry[Task] = Registry("task", _TASKS)


def measure(objective: nn.Module, trained: Trained, held: Held, settings: ValidationTable) -> Findings:
    """The loss of everything held, what follows from it, and what the task itself finds.

    The module is left in the mode it was in; nothing random is drawn.
    """
    was_training = objective.training
    objective.eval()
    try:
        scores = _from_loss(objective, trained, held)
        found = TASKS.find(trained.task).judge(trained, held, settings)
    finally:
        objective.train(was_training)
    return replace(found, scores=[*scores, *found.scores])


@torch.inference_mode()
def _from_loss(objective: nn.Module, trained: Trained, held: Held) -> list[Score]:
    total, count = 0.0, 0
    for batch in TASKS.find(trained.task).in_order(held, trained.words, trained.context):
        loss, tokens = objective(batch)
        total, count = total + float(loss), count + tokens
    scores = [Score("loss", total / max(1, count))]
    if trained.task != "classification":
        scores.append(perplexity(total, count))
    if held.characters:
        scores.append(bits_per_character(total, held.characters))
    return scores
