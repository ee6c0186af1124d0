"""TASKS, the one registry of tasks; loading a trained model with its task, and measuring it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import ranks
from regard.checkpoints.folder import load_model
from regard.checkpoints.reading import read_model
from regard.engine.device import find_device
from regard.errors import CheckpointError
from regard.inference.loading import model_folder
from regard.model.config import ModelConfig
from regard.registry import Registry
from regard.runs.tables import ValidationTable
from regard.runs.tasks.classification import ClassificationTask
from regard.runs.tasks.language_modeling import LanguageModelingTask
from regard.runs.tasks.masked_language_modeling import MaskedLanguageModelingTask
from regard.runs.tasks.task import EvaluationData, Measurement, Task, Trained, Vocabularies
from regard.runs.tasks.translation import TranslationTask
from regard.text.scores import Score, bits_per_character, perplexity

_TASKS: dict[str, Task] = {
    "translation": TranslationTask(),
    "language-modeling": LanguageModelingTask(),
    "masked-language-modeling": MaskedLanguageModelingTask(),
    "classification": ClassificationTask(),
}
TASKS: Registry[Task] = Registry("task", _TASKS)


def load_trained(folder: str | Path, device: str = "cpu") -> Trained:
    """The model in a model folder or in the folder of a run, on a device."""
    read = read_model(model_folder(folder))
    device = find_device(device)
    words = Vocabularies(read.tokenizers(), read.labels)
    return Trained(load_model(read).eval().to(device), words, _task_of(read.task, read.config))


def _task_of(name: str, config: ModelConfig) -> str:
    """The task that a folder names, or else the first one with such a model."""
    names = [name, *TASKS] if name in TASKS else [*TASKS]
    for task in names:
        if TASKS[task].fits(config.family, config.output):
            return task
    raise CheckpointError(
        f"no task has a model of family {config.family} with output {config.output}; it cannot be scored"
    )


def measure(
    objective: nn.Module, trained: Trained, held: EvaluationData, settings: ValidationTable
) -> Measurement:
    """The loss on all data, what follows from the loss, and the metrics of the task.

    The module keeps its mode. No random numbers are drawn.
    """
    was_training = objective.training
    objective.eval()
    try:
        scores = _scores_of_loss(objective, trained, held)
        measured = TASKS.find(trained.task).measure(trained, held, settings)
    finally:
        objective.train(was_training)
    return replace(measured, scores=[*scores, *measured.scores])


@torch.inference_mode()
def _scores_of_loss(objective: nn.Module, trained: Trained, held: EvaluationData) -> list[Score]:
    task, total, count = TASKS.find(trained.task), 0.0, 0

    def score(batch: Any) -> tuple[float, int]:
        loss, tokens = objective(batch)
        return float(loss), tokens

    for loss, tokens in ranks.divided(score, task.scoring_batches(held, trained.words, trained.context)):
        total, count = total + loss, count + tokens
    scores = [Score("loss", total / max(1, count))]
    if task.has_perplexity:
        scores.append(perplexity(total, count))
    if held.characters:
        scores.append(bits_per_character(total, held.characters))
    return scores
