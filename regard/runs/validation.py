"""Validation for the Trainer: a function from a module to scores and samples."""

from __future__ import annotations

from torch import nn

from regard.errors import SettingError
from regard.inference.rescoring.noisy_channel import check_channel_weight
from regard.runs.prepared_data import PreparedData
from regard.runs.recipe import Recipe
from regard.runs.tasks.registry import measure
from regard.runs.tasks.task import Measurement, Trained
from regard.training.events import Validation
from regard.training.trainer import Validate


def build_validate(recipe: Recipe, material: PreparedData) -> Validate:
    """The validation of a recipe on the validation split."""
    settings = recipe.validation
    check_channel_weight(settings.channel_weight, material.words.tokenizers)
    if settings.channel_weight and settings.beams == 1:
        raise SettingError(
            f"[validation] channel_weight ({settings.channel_weight}) needs beams of 2 or more; set beams"
        )

    def validate(module: nn.Module) -> Validation:
        model = module.model
        trained = Trained(model, material.words, recipe.task)  # type: ignore[arg-type]
        return _as_validation(measure(module, trained, material.valid, settings), settings.monitor)

    return validate


def _as_validation(measured: Measurement, monitor: str) -> Validation:
    samples = [str(sample) for sample in measured.samples]
    return Validation(measured.values(), monitor, monitor != "loss", samples)
