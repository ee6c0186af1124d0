"""The settings of the Trainer, one class for each table of a recipe that the Trainer reads.

Loads no torch. The names of optimizers, schedules and averages are checked by `check_names` and by the
Trainer, against their registries.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from regard.errors import SettingError
from regard.registry import NamedIn
from regard.settings import Settings

Steps = Annotated[int, Field(ge=1, le=1 << 40)]
Factor = Annotated[float, Field(gt=0, le=1e6)]
Share = Annotated[float, Field(ge=0, lt=1)]


class LoopSettings(Settings):
    """The training loop: the part of [training] that the Trainer reads."""

    steps: Steps = 10_000
    """Number of updates of the weights.

    Training ends after the last one, or earlier with `validation.early_stopping_patience`.
    """
    seed: Annotated[int, Field(ge=0, le=(1 << 63) - 1)] = 1
    """Seed of all random numbers of training: new weights, dropout, the order of batches, masking.

    The automatic validation split does not depend on it.
    """
    gradient_accumulation: Annotated[int, Field(ge=1, le=1 << 16)] = 1
    """Number of micro-batches of a step. They are computed one after the other and their gradients are added.

    The batch of a step has `batch_tokens x gradient_accumulation` tokens.
    """
    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    """Number of parts of a micro-batch that are computed at the same time on a CPU, sharing its threads.

    2 trains a small model faster on two or more cores. It is 1 on an accelerator, and must be with `compile`.
    """
    max_grad_norm: Factor | None = 1.0
    """Largest L2 norm of the gradient over all parameters; a longer gradient is scaled down to it."""
    freeze: tuple[str, ...] = ()
    """Parameters that are not trained, by patterns of their names: `["source.*", "encoder.blocks.0.*"]`."""
    compile: bool = False
    """Whether torch.compile compiles the blocks of the model. It is left out where there is no compiler."""

    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """Precision of matrix products in training. Weights, optimizer and loss stay in float32.

    `bfloat16` is faster on GPUs, and for wide models on processors with AMX or AVX512-BF16. Elsewhere it is
    slower. `auto` measures steps of the run in both and takes the faster one. The run says which.
    """
    activation_checkpointing: bool = False
    """Whether a block keeps only its input and computes the rest again in the backward pass.

    It takes about a third more time and much less memory. It needs `replicas` 1.
    """

    @field_validator("freeze", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value  # TOML and JSON have only lists

    @model_validator(mode="after")
    def _check_replicas(self) -> LoopSettings:
        if self.replicas > 1 and self.compile:
            raise SettingError(
                f"replicas ({self.replicas}) must be 1 with compile; set replicas to 1, or leave compile out"
            )
        if self.replicas > 1 and self.activation_checkpointing:
            raise SettingError(
                f"replicas ({self.replicas}) must be 1 with activation_checkpointing; leave one of them out"
            )
        return self


class OptimizerSettings(Settings):
    """[optimizer]: how a gradient changes the weights."""

    name: Annotated[str, NamedIn("regard.training.optimizers", "OPTIMIZERS")] = "adamw"
    """The optimizer. `muon` updates the matrices of the blocks with Muon and all else with AdamW."""
    learning_rate: Factor = 1e-3
    """The highest learning rate, reached at the end of the warm-up."""
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
    muon_lr_scale: Factor = 1.0
    """Learning rate of the matrices that Muon updates, as a multiple of the learning rate."""
    backbone_lr_scale: Factor = 1.0
    """Learning rate of all parameters outside the head, as a multiple of the learning rate.

    A value below 1 is for fine-tuning. An output layer tied to the embeddings counts as backbone.
    """
    head_lr_scale: Factor = 1.0
    """Learning rate of the head (the output layer), as a multiple of the learning rate."""

    @field_validator("betas", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value


class ScheduleSettings(Settings):
    """[schedule]: the learning rate of each step."""

    name: Annotated[str, NamedIn("regard.training.schedule", "SCHEDULES")] = "inverse-sqrt"
    """How the learning rate falls after the warm-up.

    `inverse-sqrt` is the paper's (section 5.3) and does not end. `cosine` and `linear` reach
    `learning_rate x min_lr_ratio` at the last step.
    """
    warmup_steps: Annotated[int, Field(ge=0, le=1 << 40)] = 400
    """Number of first steps in which the learning rate rises from 0 to `optimizer.learning_rate`.

    With `cosine` and `linear` it must be below `training.steps`.
    """
    min_lr_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Learning rate of the last step with `cosine` and `linear`, as a share of the highest."""


class AveragingSettings(Settings):
    """[averaging]: which weights are validated and become the model. Training itself does not use them."""

    name: Annotated[str, NamedIn("regard.training.averaging", "AVERAGES")] = "none"
    """The average.

    `none` takes the trained weights, `ema` their exponential moving average, `last` the mean of the last few
    states.
    """
    ema_decay: Share = 0.999
    """For `ema`: the share of the average that a step keeps. 0.999 averages about 1000 steps."""
    last: Annotated[int, Field(ge=1, le=1000)] = 5
    """For `last`: number of states that are averaged. All are held in memory."""
    every: Steps = 100
    """For `last`: number of steps between two of these states."""


class CheckpointSettings(Settings):
    """[checkpoints]: which states of training are saved and kept."""

    save_every: Steps | None = 500
    """Number of steps between two checkpoints; `"none"` saves only the best and the last."""
    keep_checkpoints: Annotated[int, Field(ge=2, le=10_000)] = 2
    """Number of newest checkpoints that are kept. The best one is kept besides; older ones are deleted."""
    snapshot_every: Steps | None = None
    """Number of steps between two copies of the weights in `weights/`, which are never deleted.

    The first is that of step 0. They show how attention formed in training.
    """


class DistributedSettings(Settings):
    """[distributed]: how the processes that torchrun started train one model. One process ignores it."""

    strategy: Annotated[str, NamedIn("regard.training.parallel", "STRATEGIES")] = "ddp"
    """Who has the weights. `ddp` gives all weights to every process.

    `fsdp` gives each process a share of every weight, of its gradient and of its optimizer state (FSDP2), for
    models that are too large for one device.
    """
    timeout: Annotated[float, Field(gt=0, le=1e6)] = 600.0
    """Seconds after which a process that does not answer in a step ends the job."""


class ValidationSchedule(Settings):
    """When the model is validated: the part of [validation] that the Trainer reads."""

    validate_every: Steps | None = 500
    """Number of steps between two validations; `"none"` validates only at the end."""
    early_stopping_patience: Annotated[int, Field(ge=1)] | None = None
    """Training ends after this number of validations in a row without a new best; if not set, it does not."""


class TrainingSettings(LoopSettings):
    """Everything that the Trainer reads; the same for every task."""

    optimizer: OptimizerSettings = OptimizerSettings()
    """See OptimizerSettings."""
    schedule: ScheduleSettings = ScheduleSettings()
    """See ScheduleSettings."""
    averaging: AveragingSettings = AveragingSettings()
    """See AveragingSettings."""
    checkpoints: CheckpointSettings = CheckpointSettings()
    """See CheckpointSettings."""
    validation: ValidationSchedule = ValidationSchedule()
    """See ValidationSchedule."""
    distributed: DistributedSettings = DistributedSettings()
    """See DistributedSettings."""

    @model_validator(mode="after")
    def _check_precision(self) -> TrainingSettings:
        if self.precision == "auto":
            raise SettingError("precision (auto) is measured by a run; give a Trainer float32 or bfloat16")
        return self

    @model_validator(mode="after")
    def _check_schedule(self) -> TrainingSettings:
        name, warmup = self.schedule.name, self.schedule.warmup_steps
        if name in ("cosine", "linear") and warmup >= self.steps:
            raise SettingError(
                f"warmup_steps ({warmup}) must be below steps ({self.steps}) with a {name} schedule"
            )
        return self


# What a resumed run may change, by its name in TrainingSettings; any other change makes it another run.
MAY_CHANGE = (
    "steps",
    "max_grad_norm",
    "compile",
    "activation_checkpointing",
    "optimizer.learning_rate",
    "optimizer.weight_decay",
    *(f"schedule.{name}" for name in ScheduleSettings.model_fields),
    *(f"checkpoints.{name}" for name in CheckpointSettings.model_fields),
    *(f"validation.{name}" for name in ValidationSchedule.model_fields),
    *(f"distributed.{name}" for name in DistributedSettings.model_fields),
)
