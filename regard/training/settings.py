"""TrainingSettings: the [training] table of a run file.

Loads no torch. Names of optimizers, schedules and averages are checked by the Trainer, against the live
tables of the room.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from regard.errors import SettingError
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

    steps: Steps = 10_000  # updates of the weights
    seed: Annotated[int, Field(ge=0, le=(1 << 63) - 1)] = 1  # of everything random: dropout above all
    accumulate: Annotated[int, Field(ge=1, le=1 << 16)] = (
        1  # pieces a step's batch is cut into, to save memory
    )
    workers: Annotated[int, Field(ge=1, le=256)] = (
        1  # pieces worked on at once, each by threads of its own: 2 trains a small model faster on a CPU
    )

    optimizer: str = "adamw"  # or "muon"
    rate: Factor = 1e-3  # the highest learning rate, where the schedule's factor is 1
    schedule: str = "inverse-sqrt"  # or "cosine", "linear", "constant"
    warmup: Annotated[int, Field(ge=0, le=1 << 40)] = 400  # steps in which the rate rises from 0
    final_rate: Annotated[float, Field(ge=0, le=1)] = 0.0  # where cosine and linear end, as a share of rate
    betas: tuple[Share, Share] = (0.9, 0.98)  # of Adam: how slowly mean and square of gradients change
    epsilon: Factor = 1e-9  # of Adam, the paper's
    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.01  # not of norms, biases and embeddings
    embedding_decay: Annotated[float, Field(ge=0, le=10)] = 0.0  # of embeddings, learned positions
    momentum: Share = 0.95  # of Muon
    matrix_rate: Factor = 1.0  # of Muon: the rate of matrices, as a multiple of rate
    clip: Factor | None = 1.0  # the longest gradient over all parameters; None lets any length pass

    freeze: tuple[str, ...] = ()  # what does not learn, by pattern: ["source.*", "encoder.blocks.0.*"]
    body_rate: Factor = 1.0  # the rate of all but the head, as a multiple of rate: below 1 to fine-tune
    head_rate: Factor = 1.0  # the rate of the head, as a multiple of rate

    average: str = "none"  # weights to use: the trained ones, or "ema", or the mean of the "last"
    average_decay: Share = 0.999  # of ema: how slowly it follows
    average_last: Annotated[int, Field(ge=1, le=1000)] = (
        5  # of last: how many states are averaged; all are held
    )
    average_every: Steps = 100  # of last: steps between two of them

    validate_every: Steps | None = 500  # steps between two validations; None: only at the end
    patience: Annotated[int, Field(ge=1)] | None = None  # stop after so many validations without a better one

    save_every: Steps | None = 500  # steps between two checkpoints; None: only the best and the last
    keep_last: Annotated[int, Field(ge=2, le=10_000)] = 2  # checkpoints kept besides the best
    keep_weights_every: Steps | None = None  # steps between weights kept for good, from the first on

    compile: bool = False  # let torch.compile make the model faster, where a compiler is present

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
