"""TrainingSettings: the [training] table of a run file.

Loads no torch. Names of optimizers, schedules and averages are checked by `check_names` and by the Trainer,
against the live tables of the room.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from regard.errors import SettingError
from regard.registry import NamedIn
from regard.settings import Settings

Steps = Annotated[int, Field(ge=1, le=1 << 40)]
Factor = Annotated[float, Field(gt=0, le=1e6)]
Share = Annotated[float, Field(ge=0, lt=1)]

# What a resumed run may have otherwise than before; any other change is another run.
MAY_CHANGE = (
    "steps",
    "rate",
    "schedule",
    "warmup",
    "final_rate",
    "clip",
    "weight_decay",
    "validate_every",
    "patience",
    "save_every",
    "keep_last",
    "keep_weights_every",
    "compile",
)


class TrainingSettings(Settings):
    """How a model is trained; the same for every objective."""

    steps: Steps = 10_000
    """Number of updates of the weights; training ends after the last, or earlier with `patience`."""
    seed: Annotated[int, Field(ge=0, le=(1 << 63) - 1)] = 1
    """Seed of all random numbers of training: new weights, dropout, the order of batches, masking.

    The automatic validation split does not depend on it.
    """
    accumulate: Annotated[int, Field(ge=1, le=1 << 16)] = 1
    """Number of pieces that the batch of a step is divided into, to need less memory.

    The pieces are computed one after the other and their gradients are added. It divides the batch: the
    batch of a step stays as large as before, and the result is the same apart from dropout and rounding.
    """
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """Number of pieces of a batch that are computed at the same time on a CPU, sharing its threads.

    Together with `accumulate` the batch is divided into `accumulate x workers` pieces. 2 trains a small model
    faster on two or more cores. On an accelerator it is 1. With `compile` it must be 1.
    """

    optimizer: Annotated[str, NamedIn("regard.training.optimizers", "OPTIMIZERS")] = "adamw"
    """The optimizer. `muon` updates the matrices of the blocks with Muon and all else with AdamW."""
    rate: Factor = 1e-3
    """The highest learning rate, reached at the end of the warm-up."""
    schedule: Annotated[str, NamedIn("regard.training.schedule", "SCHEDULES")] = "inverse-sqrt"
    """How the learning rate falls after the warm-up.

    `inverse-sqrt` is the paper's (section 5.3) and does not end. `cosine` and `linear` reach
    `rate x final_rate` at the last step.
    """
    warmup: Annotated[int, Field(ge=0, le=1 << 40)] = 400
    """Number of first steps in which the learning rate rises from 0 to `rate`.

    With `cosine` and `linear` it must be below `steps`.
    """
    final_rate: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Learning rate of the last step with `cosine` and `linear`, as a share of `rate`."""
    betas: tuple[Share, Share] = (0.9, 0.98)
    """Decay of Adam's running means: of the gradient, and of its square."""
    epsilon: Factor = 1e-9
    """Added to the denominator of Adam's update."""
    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.01
    """Decoupled weight decay: each step multiplies weights by `1 - learning rate x weight_decay`.

    It applies to the matrices of the blocks and the head, not to norms, biases, embeddings and learned
    positions.
    """
    embedding_decay: Annotated[float, Field(ge=0, le=10)] = 0.0
    """The weight decay of embeddings and learned positions, and of an output layer tied to embeddings."""
    momentum: Share = 0.95
    """Momentum of Muon."""
    matrix_rate: Factor = 1.0
    """Learning rate of the matrices that Muon updates, as a multiple of the learning rate."""
    clip: Factor | None = 1.0
    """Largest L2 norm of the gradient over all parameters; a longer gradient is scaled down to it."""

    freeze: tuple[str, ...] = ()
    """Parameters that are not trained, by patterns of their names: `["source.*", "encoder.blocks.0.*"]`."""
    body_rate: Factor = 1.0
    """Learning rate of all parameters outside the head, as a multiple of the learning rate.

    A value below 1 is for fine-tuning. An output layer tied to the embeddings counts as body.
    """
    head_rate: Factor = 1.0
    """Learning rate of the head (the output layer), as a multiple of the learning rate."""

    average: Annotated[str, NamedIn("regard.training.averaging", "AVERAGES")] = "none"
    """Which weights are validated and become the model.

    `none` takes the trained weights, `ema` their exponential moving average, `last` the mean of the last few
    states. Training itself goes on with the trained weights.
    """
    average_decay: Share = 0.999
    """For `ema`: the share of the average that a step keeps. 0.999 averages about 1000 steps."""
    average_last: Annotated[int, Field(ge=1, le=1000)] = 5
    """For `last`: number of states that are averaged. All are held in memory."""
    average_every: Steps = 100
    """For `last`: number of steps between two of these states."""

    validate_every: Steps | None = 500
    """Number of steps between two validations; `"none"` validates only at the end."""
    patience: Annotated[int, Field(ge=1)] | None = None
    """Training ends after this number of validations in a row without a new best; if not set, it does not."""

    save_every: Steps | None = 500
    """Number of steps between two checkpoints; `"none"` saves only the best and the last."""
    keep_last: Annotated[int, Field(ge=2, le=10_000)] = 2
    """Number of newest checkpoints that are kept. The best one is kept besides; older ones are deleted."""
    keep_weights_every: Steps | None = None
    """Number of steps between two copies of the weights in `weights/`, which are never deleted.

    The first is that of step 0. They show how attention formed in training.
    """

    compile: bool = False
    """Whether torch.compile compiles the blocks of the model. It is left out where there is no compiler."""

    @field_validator("betas", "freeze", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value  # TOML and JSON have lists alone

    @model_validator(mode="after")
    def _check(self) -> TrainingSettings:
        if self.schedule in ("cosine", "linear") and self.warmup >= self.steps:
            raise SettingError(
                f"warmup ({self.warmup}) must be below steps ({self.steps}) with a {self.schedule} schedule"
            )
        if self.workers > 1 and self.compile:
            raise SettingError(
                f"workers ({self.workers}) must be 1 with compile; set workers to 1, or leave compile out"
            )
        return self
