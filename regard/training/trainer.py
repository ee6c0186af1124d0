"""The Trainer: steps, validations and checkpoints, until the steps are done or nothing gets better.

It trains any module whose forward(batch) gives a summed loss and a count, from any resumable source of
batches. A step is one batch, cut into pieces where memory is short; gradients are divided once, by the
count of the whole step, so that the cut changes nothing.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.checkpoints.atomic_folders import readable_folder
from regard.checkpoints.untrusted_files import check_manifest
from regard.errors import CheckpointError, Interrupted, TrainingError
from regard.text.batches import BatchSource
from regard.text.tokenizer import Tokenizers
from regard.training.averaging import AVERAGES, swapped_in
from regard.training.changes import Changes, changed_settings
from regard.training.checkpoint_manager import CheckpointManager
from regard.training.compiling import compile_blocks
from regard.training.events import (
    Event,
    Finished,
    Observer,
    Resumed,
    Saved,
    Saving,
    StepDone,
    Validated,
    Validation,
)
from regard.training.optimizers import build_optimizer, gradients_of, scale_and_clip, set_rate
from regard.training.replicas import Learned, Workers
from regard.training.schedule import SCHEDULES
from regard.training.settings import TrainingSettings
from regard.training.signals import Interruption
from regard.training.state import (
    Best,
    Metadata,
    Progress,
    TrainingState,
    random_state,
    read_values,
    restore_random_state,
    seed_everything,
    undisturbed,
)

log = logging.getLogger("regard.training")

Validate = Callable[[nn.Module], Validation]


@dataclass(frozen=True)
class Outcome:
    """How training ended."""

    step: int
    reason: str  # "steps" or "patience"
    best: Best | None
    best_folder: Path | None  # the checkpoint of the best validation, a model folder


@dataclass(frozen=True)
class _Gathered:
    """The means of a step over its tokens, and its gradient's norm before clipping."""

    loss: float
    cross_entropy: float
    norm: float
    tokens: int


class Trainer:
    """Trains a module from a source of batches, as settings say.

    out         the run's folder; without one nothing is saved
    validate    is given the module, in eval mode and with the weights to be used, and gives a Validation
    observers   are told every event as it happens
    tokenizers, task, extra   go into every model folder that is written
    run         what the run says of itself, as JSON holds it; goes into every checkpoint
    """

    def __init__(
        self,
        module: nn.Module,
        source: BatchSource[Any],
        settings: TrainingSettings,
        out: str | Path | None = None,
        validate: Validate | None = None,
        observers: Sequence[Observer] = (),
        tokenizers: Tokenizers | None = None,
        task: str = "",
        extra: Mapping[str, Any] | None = None,
        run: Mapping[str, Any] | None = None,
    ):
        self.module, self.source, self.settings = module, source, settings
        self.validate, self.observers = validate, list(observers)
        self.saves = None if out is None else CheckpointManager(Path(out))
        self.progress = Progress()
        self.optimizer = build_optimizer(module, settings)
        self.schedule = SCHEDULES.find(settings.schedule.name)
        self.parameters = dict(module.named_parameters())
        self.average = AVERAGES.find(settings.averaging.name)(self.parameters, settings.averaging)
        about = Metadata(task, extra or {}, tokenizers)
        self.state = TrainingState(module, self.optimizer, self.average, source, settings, about, run or {})
        self.workers = Workers.for_module(module, settings.replicas)
        self._resumed: Path | None = None
        self._saved: Progress | None = None

    def resume(self, path: str | Path | None = None, changes: Changes | None = None) -> bool:
        """Go on from a checkpoint; False where there is none.

        Without a path, or with that of a run's folder, it is the newest without damage. A checkpoint that
        is named itself must be whole. `changes` are those that the caller found and permits; without them
        the settings are compared here.
        """
        folder = self._find(None if path is None else Path(path))
        if folder is None:
            return False
        if changes is None:
            changes = changed_settings(folder, read_values(folder).get("settings"), self.settings)
        self.progress = self.state.restore(folder)
        self._resumed = folder
        self._miss_the_best(changes.best_is_void)
        if self.saves is not None and folder == readable_folder(self.saves.path(self.progress.step)):
            self._saved = replace(self.progress)
        for change in changes.permitted:
            log.info("resumed with a change: %s", change)
        self._tell(Resumed(self.progress.step, folder, changes.permitted, self.progress.validated))
        return True

    def _miss_the_best(self, reason: str) -> None:
        """Where the best cannot be compared or used any more, the next validation is the best again."""
        best, saves = self.progress.best, self.saves
        if reason:
            log.info("the best validation so far does not count any more: %s", reason)
            self.progress.forget_best()
        elif saves is not None and best is not None:
            try:
                check_manifest(readable_folder(saves.path(best.step)))
            except CheckpointError as error:
                log.warning("the best checkpoint, of step %d, cannot be used: %s", best.step, error)
                self.progress.best = None

    def _find(self, path: Path | None) -> Path | None:
        if path is None:
            return None if self.saves is None else self.saves.newest_good()
        if (path / "checkpoints").is_dir():
            found = CheckpointManager(path).newest_good()
            if found is None:
                raise CheckpointError(f"{path} holds no checkpoint that can be trusted; start a new run")
            return found
        return readable_folder(path)

    def train(self) -> Outcome:
        """Train to the end. A signal leaves a complete checkpoint and raises Interrupted."""
        with Interruption() as interruption, self.workers:
            try:
                self._open()
                reason = self._run(interruption)
                if self.saves is not None:
                    self.saves.remove_abandoned()
                self._tell(Finished(self.progress.step, reason))
            finally:
                if self.saves is not None:
                    self.saves.close()
        best = self.progress.best
        folder = self.saves.path(best.step) if self.saves is not None and best is not None else None
        return Outcome(self.progress.step, reason, best, folder)

    def averaged(self) -> AbstractContextManager[None]:
        """A context in which the module has the weights that are meant to be used."""
        return swapped_in(self.parameters, self.average.weights())

    def _open(self) -> None:
        if self.settings.compile:
            with undisturbed():
                compile_blocks(self.module)
        if self._resumed is None:
            seed_everything(self.settings.seed)
        if self.saves is None:
            return
        self.saves.open(needed=self.state.size())
        if self._resumed is None and self.saves.steps():
            raise TrainingError(f"{self.saves.out} holds a run already; resume it, or choose another folder")
        self.saves.abandon_after(self.progress.step)

    def _run(self, interruption: Interruption) -> str:
        self.module.train()
        while True:
            if interruption.signal is not None:
                self._leave(interruption.signal)
            reason = self._reason_to_end()
            if self._validation_is_due(reason):
                if not self._validate(interruption):
                    continue
                reason = self._reason_to_end()
            if self._save_is_due(reason):
                self._save()
            self._keep_weights()
            if reason:
                return reason
            self._step(interruption)

    def _reason_to_end(self) -> str:
        if self.progress.step >= self.settings.steps:
            return "steps"
        patience = self.settings.validation.early_stopping_patience
        return "patience" if patience is not None and self.progress.since_best >= patience else ""

    def _leave(self, signal: int) -> None:
        """Save at the boundary and say goodbye."""
        where = "nothing is saved, since no folder was given"
        if self.saves is not None:
            if self._saved != self.progress:
                self._save()
            where = f"saved in {self.saves.path(self.progress.step)}; resume the run to go on"
        self._tell(Finished(self.progress.step, "signal"))
        raise Interrupted(f"ended by signal {signal} after step {self.progress.step}; {where}", signal)

    def _step(self, interruption: Interruption) -> None:
        """One update of the weights; a signal between two pieces undoes what was begun."""
        begun, place, random = time.perf_counter(), self.source.state(), random_state()
        batch = self.source.next()
        cut, together = self.settings.gradient_accumulation * self.workers.count, self.workers.count
        pieces = [batch] if cut == 1 else batch.split(cut)
        learned: list[Learned] = []
        for start in range(0, len(pieces), together):
            if interruption.signal is not None:
                self.optimizer.zero_grad()
                self.source.restore(place)
                restore_random_state(random)
                return
            learned += self.workers.learn(self.module, pieces[start : start + together])
        found = self._gather(learned)
        rate = self._update()
        self.progress.add_loss(found.loss)
        self.average.update(self.progress.step)
        seconds, padding = time.perf_counter() - begun, getattr(self.source, "padding", None)
        self._tell(
            StepDone(
                step=self.progress.step,
                epoch=self.source.epoch,
                loss=found.loss,
                cross_entropy=found.cross_entropy,
                rate=rate,
                gradient_norm=found.norm,
                tokens=found.tokens,
                seconds=seconds,
                padding=padding,
            )
        )

    def _gather(self, learned: list[Learned]) -> _Gathered:
        """Make the step's gradients those of its mean loss, clipped."""
        tokens = sum(piece.count for piece in learned)
        norm = scale_and_clip(gradients_of(self.optimizer), max(1, tokens), self.settings.max_grad_norm)
        tensors = [*(piece.loss for piece in learned), *(piece.cross_entropy for piece in learned), norm]
        *sums, length = torch.stack(tensors).tolist()  # the step's one wait for the device
        loss, plain = (sum(part) / max(1, tokens) for part in (sums[: len(learned)], sums[len(learned) :]))
        if not (math.isfinite(loss) and math.isfinite(length)):
            what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {length}"
            raise TrainingError(
                f"{what} at step {self.progress.step + 1}; the last checkpoint is untouched: "
                "resume it with a lower learning_rate, more warmup_steps or a smaller max_grad_norm"
            )
        return _Gathered(loss, plain, length, tokens)

    def _update(self) -> float:
        steps, schedule = self.settings.steps, self.settings.schedule
        factor = self.schedule(self.progress.step + 1, schedule.warmup_steps, steps, schedule.min_lr_ratio)
        rate = self.settings.optimizer.learning_rate * factor
        set_rate(self.optimizer, rate)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return rate

    def _validation_is_due(self, reason: str) -> bool:
        step, every = self.progress.step, self.settings.validation.validate_every
        if self.validate is None or self.progress.validated == step:
            return False
        return bool(reason) or (every is not None and step > 0 and step % every == 0)

    def _validate(self, interruption: Interruption) -> bool:
        """Validate, or be broken off by a signal and give False: it is then due again after a resume."""
        begun, progress = time.perf_counter(), self.progress
        assert self.validate is not None
        found = None
        self.module.eval()
        try:
            with torch.no_grad(), undisturbed(), self.averaged(), interruption.breaking_off():
                found = self.validate(self.module)
        finally:
            self.module.train()
        if found is None:
            return False
        is_best = found.beats(progress.best and progress.best.value)
        progress.validated, progress.since_best = progress.step, 0 if is_best else progress.since_best + 1
        if is_best:
            progress.best = Best(progress.step, found.value)
        self._tell(Validated(progress.step, found, is_best, time.perf_counter() - begun))
        return True

    def _save_is_due(self, reason: str) -> bool:
        step, every, best = self.progress.step, self.settings.checkpoints.save_every, self.progress.best
        if self.saves is None or self._saved == self.progress or step == 0:
            return False
        is_best = best is not None and best.step == step
        return bool(reason) or is_best or (every is not None and step % every == 0)

    def _save(self) -> None:
        assert self.saves is not None
        begun, progress = time.perf_counter(), self.progress
        self._refuse_broken_weights()
        self._tell(Saving(progress.step))
        path = self.saves.save(progress.step, lambda folder: self.state.write(folder, progress))
        self.saves.prune(self.settings.checkpoints.keep_checkpoints, progress.best and progress.best.step)
        self.saves.remove_abandoned(progress.step)
        self._saved = replace(progress)
        self._tell(Saved(progress.step, path, time.perf_counter() - begun))

    def _keep_weights(self) -> None:
        """Weights for looking at training later, where settings ask for them at this step."""
        step, every = self.progress.step, self.settings.checkpoints.snapshot_every
        if self.saves is None or every is None or step % every or step in self.saves.kept():
            return
        begun = time.perf_counter()
        path = self.saves.save_weights(step, self.state.write_model)
        self._tell(Saved(step, path, time.perf_counter() - begun))

    def _refuse_broken_weights(self) -> None:
        """An update can overflow before any loss shows it; such weights must not become a checkpoint."""
        length = torch.nn.utils.get_total_norm([one.detach() for one in self.parameters.values()]).item()
        if not math.isfinite(length):
            raise TrainingError(
                f"the weights are no longer numbers after step {self.progress.step}; the last checkpoint is "
                "untouched: resume it with a lower rate"
            )

    def _tell(self, event: Event) -> None:
        for observer in self.observers:
            observer(event)
