"""The Trainer: steps, validations and checkpoints, up to the last step or early stopping.

It trains any module whose forward(batch) gives a summed loss and a count, from any resumable source of
batches. A step is one batch, divided into micro-batches, replicas and ranks. The summed gradients are divided
once, by the count of the whole step, so that the division of a batch does not change the result.
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

from regard import ranks
from regard.checkpoints.atomic_folders import readable_folder
from regard.errors import CheckpointError, Interrupted, TrainingError
from regard.text.batches import BatchSource
from regard.text.tokenizer import Tokenizers
from regard.training.averaging import AVERAGES
from regard.training.checkpoint_manager import CheckpointManager, damage_of
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
from regard.training.optimizers import build_optimizer, gradients_of, scale_and_clip, set_learning_rate
from regard.training.parallel import blocks_of, parallel_for
from regard.training.replicas import LossSums
from regard.training.schedule import SCHEDULES
from regard.training.settings import TrainingSettings
from regard.training.shards import local
from regard.training.signals import Interruption
from regard.training.state import (
    Best,
    Changes,
    Metadata,
    Progress,
    TrainingState,
    changed_settings,
    preserved_random_state,
    random_state,
    read_values,
    restore_random_state,
    seed_everything,
)

log = logging.getLogger("regard.training")

Validate = Callable[[nn.Module], Validation]


@dataclass(frozen=True)
class Outcome:
    """How training ended."""

    step: int
    reason: str  # "steps" or "patience"
    best: Best | None
    best_folder: Path | None  # the checkpoint of the best validation


@dataclass(frozen=True)
class _StepLoss:
    """The mean losses of a step over its tokens, and the norm of its gradient before clipping."""

    loss: float
    cross_entropy: float
    gradient_norm: float
    tokens: int


class Trainer:
    """Trains a module on a source of batches.

    out         the run's folder; without one nothing is saved
    validate    called with the module in eval mode and with averaged weights; returns a Validation
    observers   called with every event
    tokenizers, task, extra   saved in every model folder
    run         the identity of the run, as JSON values; saved in every checkpoint
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
        self.parallel = parallel_for(module, settings)
        self.module, self.source, self.settings = module, source, settings
        self.validate, self.observers = validate, list(observers)
        self.checkpoints = None if out is None else CheckpointManager(Path(out))
        self.progress = Progress()
        self.optimizer = build_optimizer(module, settings)
        self.schedule = SCHEDULES.find(settings.schedule.name)
        self.parameters = dict(module.named_parameters())
        self.average = AVERAGES.find(settings.averaging.name)(self.parameters, settings.averaging)
        metadata = Metadata(task, extra or {}, tokenizers)
        self.state = TrainingState(
            module, self.parallel, self.optimizer, self.average, source, settings, metadata, run or {}
        )
        self._resumed_from: Path | None = None
        self._saved: Progress | None = None

    def resume(self, path: str | Path | None = None, changes: Changes | None = None) -> bool:
        """Resume from a checkpoint; False if there is none.

        The path of a run's folder, the default, means its newest undamaged checkpoint. The path of a
        checkpoint means this one, which must be undamaged. `changes` are changes of settings that the caller
        permits; without them the settings are compared here.
        """
        folder = self._find_checkpoint(None if path is None else Path(path))
        if folder is None:
            return False
        if changes is None:
            changes = changed_settings(folder, read_values(folder).get("settings"), self.settings)
        self.progress = self.state.restore(folder)
        self._resumed_from = folder
        self._check_best(changes.best_is_void)
        manager = self.checkpoints
        if manager is not None and folder == readable_folder(manager.path(self.progress.step)):
            self._saved = replace(self.progress)
        for change in changes.permitted:
            log.info("resumed with a change: %s", change)
        self._emit(Resumed(self.progress.step, folder, changes.permitted, self.progress.validated))
        return True

    def _check_best(self, reason: str) -> None:
        """Forget the best validation if it is not comparable any more or its checkpoint is damaged."""
        best, checkpoints = self.progress.best, self.checkpoints
        if reason:
            log.info("the best validation so far is not comparable any more: %s", reason)
            self.progress.forget_best()
        elif checkpoints is not None and best is not None:
            folder = readable_folder(checkpoints.path(best.step))
            if damage := ranks.from_first(lambda: damage_of(folder)):
                log.warning("the best checkpoint, of step %d, cannot be used: %s", best.step, damage)
                self.progress.best = None

    def _find_checkpoint(self, path: Path | None) -> Path | None:
        if path is None:
            return None if self.checkpoints is None else self.checkpoints.newest_good()
        if (path / "checkpoints").is_dir():
            newest = CheckpointManager(path).newest_good()
            if newest is None:
                raise CheckpointError(f"{path} has no undamaged checkpoint; start a new run")
            return newest
        return readable_folder(path)

    def train(self) -> Outcome:
        """Train to the end. A signal writes a checkpoint and raises Interrupted."""
        with Interruption() as interruption, self.parallel:
            try:
                self._open()
                reason = self._run(interruption)
                if self.checkpoints is not None:
                    self.checkpoints.remove_abandoned()
                self._emit(Finished(self.progress.step, reason))
            finally:
                if self.checkpoints is not None:
                    self.checkpoints.close()
        best, manager = self.progress.best, self.checkpoints
        folder = None if manager is None or best is None else manager.path(best.step)
        return Outcome(self.progress.step, reason, best, folder)

    def averaged(self) -> AbstractContextManager[nn.Module]:
        """A context with a module that has all weights, averaged if there is an average."""
        return self.parallel.whole(self.average.weights())

    def _open(self) -> None:
        if self.settings.compile:
            with preserved_random_state():
                compile_blocks(self.module)
        if self._resumed_from is None:
            seed_everything(self.settings.seed)
        manager = self.checkpoints
        if manager is None:
            return
        manager.open(needed=self.state.size())
        if self._resumed_from is None and manager.steps():
            raise TrainingError(f"{manager.out} has a run already; resume it, or choose another folder")
        manager.abandon_after(self.progress.step)

    def _run(self, interruption: Interruption) -> str:
        self.module.train()
        while True:
            interruption.agree()
            if interruption.signal is not None:
                self._interrupt(interruption.signal)
            reason = self._reason_to_end()
            if self._validation_is_due(reason):
                if not self._validate(interruption):
                    continue
                reason = self._reason_to_end()
            if self._save_is_due(reason):
                self._save()
            self._save_snapshot()
            if reason:
                return reason
            self._step(interruption)

    def _reason_to_end(self) -> str:
        if self.progress.step >= self.settings.steps:
            return "steps"
        patience = self.settings.validation.early_stopping_patience
        return "patience" if patience is not None and self.progress.since_best >= patience else ""

    def _interrupt(self, signal: int) -> None:
        """Save a checkpoint and raise Interrupted."""
        where = "nothing is saved without an output folder"
        if self.checkpoints is not None:
            if self._saved != self.progress:
                self._save()
            where = f"saved in {self.checkpoints.path(self.progress.step)}; resume the run to continue"
        self._emit(Finished(self.progress.step, "signal"))
        raise Interrupted(f"ended by signal {signal} after step {self.progress.step}; {where}", signal)

    def _step(self, interruption: Interruption) -> None:
        """One update of the weights; a signal between two micro-batches undoes the step."""
        start, position, random = time.perf_counter(), self.source.state(), random_state()
        self.parallel.begin_step(self.progress.step + 1)
        groups = self.parallel.groups(self.source.next())
        losses: list[LossSums] = []
        for number, group in enumerate(groups, 1):
            if interruption.signal is not None:
                self.optimizer.zero_grad()
                self.source.restore(position)
                restore_random_state(random)
                return
            losses += self.parallel.backward(group, is_last=number == len(groups))
        mean = self._mean(self.parallel.everywhere(losses))
        learning_rate = self._update()
        self.progress.add_loss(mean.loss)
        self.average.update(self.progress.step)
        seconds, padding = time.perf_counter() - start, getattr(self.source, "padding", None)
        self._emit(
            StepDone(
                step=self.progress.step,
                epoch=self.source.epoch,
                loss=mean.loss,
                cross_entropy=mean.cross_entropy,
                learning_rate=learning_rate,
                gradient_norm=mean.gradient_norm,
                tokens=mean.tokens,
                seconds=seconds,
                padding=padding,
            )
        )

    def _mean(self, losses: list[LossSums]) -> _StepLoss:
        """The mean losses; the summed gradients become those of the mean loss, clipped."""
        tokens = sum(part.count for part in losses)
        gradients, limit = gradients_of(self.optimizer), self.settings.max_grad_norm
        norm = scale_and_clip(gradients, max(1, tokens), limit, self.parallel.norm)
        tensors = [*(part.loss for part in losses), *(part.cross_entropy for part in losses), norm]
        *sums, gradient_norm = torch.stack(tensors).tolist()  # the only synchronisation with the device
        halves = sums[: len(losses)], sums[len(losses) :]
        loss, cross_entropy = (sum(half) / max(1, tokens) for half in halves)
        if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
            problem = f"loss is {loss}" if not math.isfinite(loss) else f"gradient norm is {gradient_norm}"
            raise TrainingError(
                f"the {problem} at step {self.progress.step + 1}; the last checkpoint is untouched: "
                "resume it with a lower learning_rate, more warmup_steps or a smaller max_grad_norm"
            )
        return _StepLoss(loss, cross_entropy, gradient_norm, tokens)

    def _update(self) -> float:
        steps, schedule = self.settings.steps, self.settings.schedule
        factor = self.schedule(self.progress.step + 1, schedule.warmup_steps, steps, schedule.min_lr_ratio)
        learning_rate = self.settings.optimizer.learning_rate * factor
        set_learning_rate(self.optimizer, learning_rate)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return learning_rate

    def _validation_is_due(self, reason: str) -> bool:
        step, every = self.progress.step, self.settings.validation.validate_every
        if self.validate is None or self.progress.validated == step:
            return False
        return bool(reason) or (every is not None and step > 0 and step % every == 0)

    def _validate(self, interruption: Interruption) -> bool:
        """Validate; False if a signal aborted it, and it is due again after a resume."""
        start, progress = time.perf_counter(), self.progress
        assert self.validate is not None
        validation = None
        self.module.eval()
        try:
            with (
                torch.no_grad(),
                preserved_random_state(),
                self.averaged() as module,
                interruption.abortable(),
            ):
                validation = ranks.share(self.validate(module))
        finally:
            self.module.train()
        if validation is None:
            return False
        is_best = validation.beats(progress.best and progress.best.value)
        progress.validated, progress.since_best = progress.step, 0 if is_best else progress.since_best + 1
        if is_best:
            progress.best = Best(progress.step, validation.value)
        self._emit(Validated(progress.step, validation, is_best, time.perf_counter() - start))
        return True

    def _save_is_due(self, reason: str) -> bool:
        step, every, best = self.progress.step, self.settings.checkpoints.save_every, self.progress.best
        if self.checkpoints is None or self._saved == self.progress or step == 0:
            return False
        is_best = best is not None and best.step == step
        return bool(reason) or is_best or (every is not None and step % every == 0)

    def _save(self) -> None:
        assert self.checkpoints is not None
        start, progress, manager = time.perf_counter(), self.progress, self.checkpoints
        self._check_weights()
        self._emit(Saving(progress.step))
        path = manager.save(progress.step, lambda folder: self.state.write(folder, progress))
        manager.prune(self.settings.checkpoints.keep_checkpoints, progress.best and progress.best.step)
        manager.remove_abandoned(progress.step)
        self._saved = replace(progress)
        self._emit(Saved(progress.step, path, time.perf_counter() - start))

    def _save_snapshot(self) -> None:
        """Save a snapshot of the weights if it is due."""
        step, every = self.progress.step, self.settings.checkpoints.snapshot_every
        if self.checkpoints is None or every is None or step % every or step in self.checkpoints.snapshots():
            return
        start = time.perf_counter()
        path = self.checkpoints.save_snapshot(step, self.state.write_model)
        self._emit(Saved(step, path, time.perf_counter() - start))

    def _check_weights(self) -> None:
        """Raise if a weight is not finite; an update can overflow before the loss does."""
        weights = [local(parameter.detach()) for parameter in self.parameters.values()]
        if not math.isfinite(self.parallel.norm(torch.nn.utils.get_total_norm(weights)).item()):
            raise TrainingError(
                f"a weight is NaN or infinite after step {self.progress.step}; the last checkpoint is "
                "untouched: resume it with a lower learning_rate"
            )

    def _emit(self, event: Event) -> None:
        for observer in self.observers:
            observer(event)


def compile_blocks(module: nn.Module) -> bool:
    """Compile every block with torch.compile, or the module if it has no blocks; False if it does not work.

    Blocks are alike and take only tensors, so one compilation serves all of them and all lengths.
    """
    try:
        torch.compile(lambda x: x.sin() + 1, dynamic=True)(torch.ones(2))
    except Exception as error:  # depends on the compiler, or its absence
        reason = str(error).strip().partition("\n")[0]
        log.warning("torch.compile does not work here and is not used: %s", reason or type(error).__name__)
        return False
    for part in blocks_of(module) or [module]:
        part.compile(dynamic=True)
    return True
