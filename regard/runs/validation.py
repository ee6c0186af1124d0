"""Validation as the Trainer takes it: a function from the module to figures and a few texts to read."""

from __future__ import annotations

from torch import nn

from regard.errors import SettingError
from regard.inference.rescoring.noisy_channel import check_channel_weight
from regard.runs.prepared_data import PreparedData
from regard.runs.recipe import Recipe
from regard.runs.tasks.measuring import measure
from regard.runs.tasks.task import Findings, Sample
from regard.runs.trained import Trained
from regard.training.events import Validation
from regard.training.trainer import Validate

# What each objective can be watched by.
WATCHABLE = {
    "translation": ("loss", "bleu", "chrf"),
    "language-modeling": ("loss",),
    "masked-language-modeling": ("loss", "accuracy"),
    "classification": ("loss", "accuracy"),
}


def build_validate(recipe: Recipe, material: PreparedData) -> Validate:
    """A look at the validation part with the recipe's settings."""
    settings = recipe.validation
    check_watched(recipe)
    check_channel_weight(settings.channel_weight, material.words.tokenizers)
    if settings.channel_weight and settings.beams == 1:
        raise SettingError(
            f"[validation] channel_weight ({settings.channel_weight}) needs beams of 2 or more; set beams"
        )

    def validate(module: nn.Module) -> Validation:
        model = module.model
        found = measure(module, Trained(model, material.words, recipe.task), material.valid, settings)  # type: ignore[arg-type]
        return _told(found, settings.monitor)

    return validate


def check_watched(recipe: Recipe) -> None:
    """Refuse a figure that this objective never gives."""
    known, monitor = WATCHABLE[recipe.task], recipe.validation.monitor
    unmeasured = monitor in ("bleu", "chrf") and not recipe.validation.sentences
    if monitor not in known or unmeasured:
        rule = "needs validation.sentences above 0" if unmeasured else f"must be one of {', '.join(known)}"
        raise SettingError(f"validation.monitor ({monitor}) {rule} for {recipe.task}; change it")


def _told(found: Findings, watched: str) -> Validation:
    return Validation(
        found.values(), watched, watched != "loss", [_written(sample) for sample in found.samples]
    )


def _written(sample: Sample) -> str:
    """A sample as lines: what was given, what came, what was expected."""
    lines = [sample.input, f"→ {sample.output}", f"= {sample.expected}" if sample.expected else ""]
    return "\n".join(line for line in lines if line)
