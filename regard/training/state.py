"""The state of training, saved in checkpoints and restored bit for bit, and its comparison on resume.

A checkpoint is a usable model folder, with averaged weights if there are any, and two files more:

    training.json          step, best, latest losses, position in the data, settings, random generators, and
                           the identity of the run
    training.safetensors   optimizer, averages, torch's random generators, and the trained weights that
                           differ from those of the model folder
    shard-*.safetensors    of a run with the strategy fsdp: all sharded tensors, a file of each rank
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer

from regard import ranks
from regard.checkpoints import format1
from regard.checkpoints.atomic_folders import write_json, write_tensors
from regard.checkpoints.folder import (
    CONFIG,
    WEIGHTS,
    as_arrays,
    check_names,
    load_weights,
    stored_weights,
    write_model,
)
from regard.checkpoints.untrusted_files import MappedWeights, check_manifest, read_json
from regard.errors import CheckpointError, SettingError
from regard.model.config import ModelConfig
from regard.text.batches import BatchSource
from regard.text.tokenizer import JOINT, SOURCE, Tokenizers
from regard.training.averaging import Average
from regard.training.parallel import Parallel
from regard.training.settings import MAY_CHANGE, TrainingSettings
from regard.training.shards import (
    has_shards,
    is_sharded,
    like,
    local,
    parameter_in,
    read_shards,
    share_of,
    write_shards,
)

VALUES = "training.json"
TENSORS = "training.safetensors"
LOSSES_KEPT = 100
COPIES = 5  # of the weights in a checkpoint at most: usable, trained, averaged, two of the optimizer


@dataclass(frozen=True)
class RandomState:
    """The states of all random generators: torch's tensors by device, and values of numpy and Python."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The states of numpy and Python as JSON values."""
        kind, key, *rest = self.values["numpy"]
        version, words, gauss = self.values["python"]
        return {"numpy": [kind, key.tolist(), *rest], "python": [version, list(words), gauss]}

    @classmethod
    def from_dict(cls, tensors: dict[str, Tensor], values: Any) -> RandomState:
        """The states from torch's tensors and the values of `as_dict`."""
        try:
            kind, key, *rest = values["numpy"]
            version, words, gauss = values["python"]
            numpy, python = (kind, np.array(key, np.uint32), *rest), (version, tuple(words), gauss)
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(
                f"the random generators in {VALUES} cannot be read; resume from another checkpoint"
            ) from None
        return cls(tensors, {"numpy": numpy, "python": python})


def seed_everything(seed: int) -> None:
    """Seed all random generators."""
    torch.manual_seed(seed)
    np.random.seed(seed % (1 << 32))
    random.seed(seed)


def random_state() -> RandomState:
    """The current states of all random generators."""
    tensors = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        tensors |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return RandomState(tensors, {"numpy": np.random.get_state(), "python": random.getstate()})


def restore_random_state(state: RandomState) -> None:
    """Set the states of all random generators."""
    try:
        torch.set_rng_state(state.tensors["cpu"])
        on_cuda = [state.tensors[name] for name in sorted(state.tensors) if name.startswith("cuda")]
        if on_cuda and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(on_cuda)
        np.random.set_state(state.values["numpy"])
        random.setstate(state.values["python"])
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise CheckpointError(
            "the saved random generators do not match this machine; resume on a machine of the same kind"
        ) from None


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """A context that restores the random generators at its end."""
    state = random_state()
    try:
        yield
    finally:
        restore_random_state(state)


@dataclass(frozen=True)
class Best:
    """The best validation so far."""

    step: int
    value: float


@dataclass
class Progress:
    """The progress of training."""

    step: int = 0
    best: Best | None = None
    since_best: int = 0  # validations since the best one
    validated: int = 0  # the step of the latest validation
    losses: list[float] = field(default_factory=list)  # of the latest steps

    def forget_best(self) -> None:
        """Forget the best validation; the next one is due at once and becomes the best."""
        self.best, self.since_best, self.validated = None, 0, 0

    def add_loss(self, loss: float) -> None:
        """Count a step and record its loss."""
        self.step += 1
        self.losses = [*self.losses[1 - LOSSES_KEPT :], loss]

    @classmethod
    def read(cls, values: Any) -> Progress:
        """Progress from JSON values."""
        try:
            best = (
                Best(int(values["best"]["step"]), float(values["best"]["value"])) if values["best"] else None
            )
            counts = {name: int(values[name]) for name in ("step", "since_best", "validated")}
            return cls(best=best, losses=[float(loss) for loss in values["losses"]], **counts)
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(
                f"the progress in {VALUES} cannot be read; resume from another checkpoint"
            ) from None


@dataclass(frozen=True)
class Metadata:
    """The metadata of a model folder."""

    task: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    tokenizers: Tokenizers | None = None


@dataclass(frozen=True)
class TrainingState:
    """The objects whose states make up the state of training."""

    module: nn.Module
    parallel: Parallel
    optimizer: Optimizer
    average: Average
    source: BatchSource[Any]
    settings: TrainingSettings
    metadata: Metadata
    run: Mapping[str, Any] = field(default_factory=dict)  # the identity of the run, as JSON values

    @property
    def model(self) -> nn.Module | None:
        """The model of the module; None if it has no ModelConfig and cannot be saved as a model folder."""
        model = getattr(self.module, "model", None)
        return model if isinstance(getattr(model, "config", None), ModelConfig) else None

    def size(self) -> int:
        """An upper estimate of the size of a checkpoint, in bytes."""
        copies = COPIES + (self.settings.averaging.last if self.settings.averaging.name == "last" else 0)
        return copies * sum(tensor.nbytes for tensor in stored_weights(self.module).values())

    def write(self, folder: Path, progress: Progress) -> None:
        """Write all files of a checkpoint except its manifest; every rank must call it."""
        self.write_model(folder)
        optimizer, numbers = self._optimizer_state()
        random = random_state()
        tensors = {
            **self._weights_to_write(),
            **{f"average/{name}": tensor for name, tensor in self.average.state().items()},
            **{f"random/{name}": tensor for name, tensor in random.tensors.items()},
            **optimizer,
        }
        sharded = {name: tensor for name, tensor in tensors.items() if is_sharded(tensor)}
        if sharded:
            write_shards(folder, sharded)
        if not ranks.is_first():
            return
        whole = {name: tensor for name, tensor in tensors.items() if name not in sharded}
        write_tensors(folder / TENSORS, as_arrays(whole))
        values = {
            "format": format1.FORMAT,
            "progress": asdict(progress),
            "source": self.source.state(),
            "random": random.as_dict(),
            "optimizer": numbers,
            "settings": self.settings.model_dump(mode="json"),
            "run": dict(self.run),
        }
        write_json(folder / VALUES, values)

    def _weights_to_write(self) -> dict[str, Tensor]:
        """The trained weights that the model folder does not have, and all that are sharded."""
        in_folder: set[str] = set()
        if self.model is not None and not self.average.weights():
            in_folder = {f"model.{name}" for name in stored_weights(self.model)}
        return {
            f"weights/{name}": tensor
            for name, tensor in stored_weights(self.module).items()
            if name not in in_folder or is_sharded(tensor)
        }

    def write_model(self, folder: Path) -> None:
        """Write a model folder, with averaged weights if there are any; every rank must call it."""
        if self.model is None:
            return
        with self.parallel.whole(self.average.weights()) as module:
            if ranks.is_first():
                model: Any = module.model
                weights, metadata = stored_weights(model), self.metadata
                write_model(folder, model.config, weights, metadata.tokenizers, metadata.task, metadata.extra)

    def restore(self, folder: Path) -> Progress:
        """Restore the state of a checkpoint; its progress."""
        files = ranks.from_first(lambda: check_manifest(folder))
        values = _values(folder, files)
        self._check_model(folder, files)
        progress = Progress.read(values.get("progress"))
        parameters = dict(self.module.named_parameters())
        tensors: Mapping[str, np.ndarray | Tensor] = MappedWeights(folder / TENSORS)
        if has_shards(files):
            tensors = {**tensors, **read_shards(folder, parameters, tensors)}
        self._load_weights(self._weights(folder, tensors, WEIGHTS in files))
        self.average.restore(_under("average/", tensors, parameters))
        self._restore_optimizer(_under("optimizer/", tensors, parameters), values.get("optimizer"))
        position = values.get("source")
        self.source.restore(position if isinstance(position, dict) else {})
        restore_random_state(RandomState.from_dict(_under("random/", tensors, {}), values.get("random")))
        return progress

    def _load_weights(self, weights: Mapping[str, np.ndarray | Tensor]) -> None:
        """Load weights by name; of a sharded module every rank its rows."""
        if not self.parallel.is_sharded:
            arrays = {name: x.numpy() if isinstance(x, Tensor) else x for name, x in weights.items()}
            load_weights(self.module, arrays)
            return
        wanted = stored_weights(self.module)
        check_names(*({name: tuple(x.shape) for name, x in side.items()} for side in (wanted, weights)))
        with torch.no_grad():
            for name, tensor in wanted.items():
                local(tensor).copy_(local(_placed(tensor, weights[name])))

    def _check_model(self, folder: Path, files: Collection[str]) -> None:
        """Raise if the checkpoint has another architecture or other tokenizers."""
        if CONFIG in files and self.model is not None:
            config: Any = self.model.config
            _check_equal(folder, "model", read_config(folder).model_dump(), config.model_dump())
        saved = Tokenizers.load(folder) if {JOINT, SOURCE} & set(files) else None
        fingerprints = [
            {"fingerprint": tokenizers.fingerprint if tokenizers else ""}
            for tokenizers in (saved, self.metadata.tokenizers)
        ]
        _check_equal(folder, "tokenizer", *fingerprints)

    def _weights(
        self, folder: Path, tensors: Mapping[str, np.ndarray | Tensor], has_model: bool
    ) -> dict[str, np.ndarray | Tensor]:
        stored = MappedWeights(folder / WEIGHTS).items() if has_model else ()
        trained = [(name, array) for name, array in tensors.items() if name.startswith("weights/")]
        return {
            **{f"model.{name}": array for name, array in stored},
            **{name.removeprefix("weights/"): array for name, array in trained},
        }

    def _parameter_names(self) -> list[str]:
        """The names of the parameters in the order of the optimizer."""
        names = {id(parameter): name for name, parameter in self.module.named_parameters()}
        return [names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]

    def _optimizer_state(self) -> tuple[dict[str, Tensor], dict[str, dict[str, Any]]]:
        """The optimizer's state of each parameter: tensors, and other values."""
        tensors: dict[str, Tensor] = {}
        numbers: dict[str, dict[str, Any]] = {}
        names = self._parameter_names()
        for index, slots in self.optimizer.state_dict()["state"].items():
            for slot, value in slots.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer/{names[index]}/{slot}"] = value
                else:
                    numbers.setdefault(names[index], {})[slot] = value
        return tensors, numbers

    def _restore_optimizer(self, tensors: dict[str, Tensor], numbers: Any) -> None:
        """Restore the optimizer's state; learning rates and the like come from the current settings."""
        indexes = {name: index for index, name in enumerate(self._parameter_names())}
        state: dict[int, dict[str, Any]] = {}
        entries = [(*name.rpartition("/")[::2], tensor) for name, tensor in tensors.items()]
        for name, slots in numbers.items() if isinstance(numbers, dict) else ():
            entries += [(name, *item) for item in slots.items()] if isinstance(slots, dict) else []
        for name, slot, value in entries:
            if name not in indexes:
                raise CheckpointError(
                    f"the checkpoint trained {name}, which is frozen or missing now; start a new run"
                )
            state.setdefault(indexes[name], {})[slot] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})


def _under(
    prefix: str, tensors: Mapping[str, np.ndarray | Tensor], parameters: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Copies of the tensors with a prefix, by name without it; sharded as their parameters are."""
    return {
        name.removeprefix(prefix): _placed(_parameter_of(name, tensors[name], parameters), tensors[name])
        for name in tensors
        if name.startswith(prefix)
    }


def _parameter_of(name: str, tensor: np.ndarray | Tensor, parameters: Mapping[str, Tensor]) -> Tensor | None:
    """The parameter that a stored tensor belongs to, if it has the same shape."""
    owner = parameter_in(name, parameters)
    return parameters[owner] if owner and tuple(parameters[owner].shape) == tuple(tensor.shape) else None


def _placed(parameter: Tensor | None, tensor: np.ndarray | Tensor) -> Tensor:
    """A copy of an array, sharded as a parameter is; a tensor was read so already."""
    if isinstance(tensor, Tensor):
        return tensor
    if parameter is None or not is_sharded(parameter):
        return torch.from_numpy(np.array(tensor))
    return like(parameter, share_of(parameter, tensor).to(parameter.device))


def read_values(folder: Path) -> dict[str, Any]:
    """The content of a checkpoint's training.json, after all its files were verified."""
    return _values(folder, check_manifest(folder))


def read_config(folder: Path) -> ModelConfig:
    """The ModelConfig of a checkpoint; missing settings have their defaults."""
    try:
        return ModelConfig.read(format1.read_config(folder / CONFIG, read_json(folder / CONFIG)).get("model"))
    except SettingError as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None


def progress_in(folder: Path) -> Progress:
    """The progress in a checkpoint, without verifying its files."""
    return Progress.read(_values(folder, (VALUES, TENSORS)).get("progress"))


def _values(folder: Path, files: Collection[str]) -> dict[str, Any]:
    if VALUES not in files or TENSORS not in files:
        raise CheckpointError(f"{folder} is not a checkpoint: it has no {VALUES}; give a run's folder")
    return format1.read_training(folder / VALUES, read_json(folder / VALUES))


def _check_equal(folder: Path, part: str, saved: dict[str, Any], now: dict[str, Any]) -> None:
    if lines := list(differences(saved, now).values()):
        more = f" and {len(lines) - 5} more" if len(lines) > 5 else ""
        raise CheckpointError(f"{folder} has another {part}: {'; '.join(lines[:5])}{more}; start a new run")


@dataclass(frozen=True)
class Changes:
    """The changes of settings that a resumed run has."""

    permitted: Sequence[str] = ()  # one line each: "training.steps 200, now 400"
    best_is_void: str = ""  # why later validations are not comparable with the best so far


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """The differences of two tables by name: {"model.width": "model.width 128, now 256"}.

    Both have all settings: a table of an earlier version is completed with defaults before.
    """
    old, new = _flat(saved), _flat(now)
    return {
        name: f"{name} {_shown(old.get(name))}, now {_shown(new.get(name))}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    }


def refused(changes: Mapping[str, str], may_change: Collection[str]) -> str:
    """The changes that a resumed run may not have, as one line; empty if there are none."""
    return "; ".join(line for name, line in changes.items() if name not in may_change)


def changed_settings(folder: Path, saved: Any, now: TrainingSettings) -> Changes:
    """The changes since the settings of a checkpoint; raises if one of them is not permitted."""
    try:
        before = TrainingSettings.read(saved)
    except SettingError as error:
        raise CheckpointError(f"the settings in {folder} cannot be read: {error}") from None
    changes = differences(before.model_dump(), now.model_dump())
    if lines := refused(changes, MAY_CHANGE):
        raise CheckpointError(
            f"{folder} was trained with other settings: {lines}; a resumed run may change "
            f"{', '.join(MAY_CHANGE)}; for anything else start a new run"
        )
    return Changes(list(changes.values()))


def _flat(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{path}{key}.") if isinstance(value, Mapping) else {f"{path}{key}": value}
    return flat


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)
