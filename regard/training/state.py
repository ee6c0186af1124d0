"""All of training's state in one place, to files and back, for a run to go on as if it had never ended.

Beside the model that can be used as it is (its averaged weights, where there are some):

    training.json          step, best, latest losses, place in the data, settings, random generators, and
                           what the run says of itself
    training.safetensors   optimizer, averages, torch's random generators, and every weight of the module
                           that the model folder does not hold as it was trained
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer

from regard.checkpoints import format1
from regard.checkpoints.atomic_folders import write_json, write_tensors
from regard.checkpoints.folder import CONFIG, WEIGHTS, as_arrays, load_weights, stored_weights, write_model
from regard.checkpoints.untrusted_files import MappedWeights, check_manifest, read_json
from regard.errors import CheckpointError, SettingError
from regard.model.config import ModelConfig
from regard.text.batches import BatchSource
from regard.text.tokenizer import JOINT, SOURCE, Tokenizers
from regard.training.averaging import Average, swapped_in
from regard.training.changes import differences
from regard.training.settings import TrainingSettings


@dataclass(frozen=True)
class RandomState:
    """Where every generator stands; `tensors` of torch by device, `values` of the others."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


def seed_everything(seed: int) -> None:
    """Start every generator from one number."""
    torch.manual_seed(seed)
    np.random.seed(seed % (1 << 32))
    random.seed(seed)


def random_state() -> RandomState:
    """Where every generator stands now."""
    tensors = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        tensors |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return RandomState(tensors, {"numpy": np.random.get_state(), "python": random.getstate()})


def restore_random_state(state: RandomState) -> None:
    """Make every generator stand where it stood."""
    try:
        torch.set_rng_state(state.tensors["cpu"])
        on_cuda = [state.tensors[name] for name in sorted(state.tensors) if name.startswith("cuda")]
        if on_cuda and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(on_cuda)
        np.random.set_state(state.values["numpy"])
        random.setstate(state.values["python"])
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise CheckpointError("the saved state of the random generators does not fit this machine") from None


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whatever is drawn inside leaves no trace outside."""
    before = random_state()
    try:
        yield
    finally:
        restore_random_state(before)


def to_json(values: dict[str, Any]) -> dict[str, Any]:
    """The generators of numpy and Python as JSON can hold them."""
    kind, key, *rest = values["numpy"]
    version, words, gauss = values["python"]
    return {"numpy": [kind, key.tolist(), *rest], "python": [version, list(words), gauss]}


def from_json(values: Any) -> dict[str, Any]:
    """The same back."""
    try:
        kind, key, *rest = values["numpy"]
        version, words, gauss = values["python"]
        return {"numpy": (kind, np.array(key, np.uint32), *rest), "python": (version, tuple(words), gauss)}
    except (KeyError, TypeError, ValueError):
        raise CheckpointError("the saved state of the random generators cannot be read") from None


VALUES = "training.json"
TENSORS = "training.safetensors"
LOSSES_KEPT = 100
COPIES = 5  # of the weights in a checkpoint at most: for use, as trained, averaged, two of the optimizer


@dataclass(frozen=True)
class Best:
    """The best validation so far."""

    step: int
    value: float


@dataclass
class Progress:
    """How far training has come."""

    step: int = 0
    best: Best | None = None
    since_best: int = 0  # validations since the best one
    validated: int = 0  # the step of the latest validation
    losses: list[float] = field(default_factory=list)  # of the latest steps

    def forget_best(self) -> None:
        """The next validation is the best again, and is due at once."""
        self.best, self.since_best, self.validated = None, 0, 0

    def add_loss(self, loss: float) -> None:
        """One more step is done."""
        self.step += 1
        self.losses = [*self.losses[1 - LOSSES_KEPT :], loss]

    @classmethod
    def read(cls, values: Any) -> Progress:
        """The same from JSON."""
        try:
            best = (
                Best(int(values["best"]["step"]), float(values["best"]["value"])) if values["best"] else None
            )
            counts = {name: int(values[name]) for name in ("step", "since_best", "validated")}
            return cls(best=best, losses=[float(loss) for loss in values["losses"]], **counts)
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(f"{VALUES} does not say how far training had come") from None


@dataclass(frozen=True)
class Metadata:
    """What a model folder says besides its weights."""

    task: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    tokenizers: Tokenizers | None = None


@dataclass(frozen=True)
class TrainingState:
    """The parts whose state is training's state."""

    module: nn.Module
    optimizer: Optimizer
    average: Average
    source: BatchSource[Any]
    settings: TrainingSettings
    metadata: Metadata
    run: Mapping[str, Any] = field(default_factory=dict)  # what the run says of itself, as JSON holds it

    @property
    def model(self) -> nn.Module | None:
        """The model inside the module, where it is one that a model folder can hold."""
        model = getattr(self.module, "model", None)
        return model if isinstance(getattr(model, "config", None), ModelConfig) else None

    def size(self) -> int:
        """About how many bytes a checkpoint has at most."""
        copies = COPIES + (self.settings.averaging.last if self.settings.averaging.name == "last" else 0)
        return copies * sum(tensor.nbytes for tensor in stored_weights(self.module).values())

    def write(self, folder: Path, progress: Progress) -> None:
        """Write everything into a folder that somebody else will seal."""
        averaged = self.average.weights()
        self.write_model(folder)
        in_folder = (
            {f"model.{name}" for name in stored_weights(self.model)} if self.model is not None else set()
        )
        apart = {n: t for n, t in stored_weights(self.module).items() if averaged or n not in in_folder}
        random = random_state()
        tensors = {
            **{f"weights/{name}": tensor for name, tensor in apart.items()},
            **{f"average/{name}": tensor for name, tensor in self.average.state().items()},
            **{f"random/{name}": tensor for name, tensor in random.tensors.items()},
        }
        slots, numbers = self._optimizer_state()
        write_tensors(folder / TENSORS, as_arrays({**tensors, **slots}))
        told = {
            "format": format1.FORMAT,
            "progress": asdict(progress),
            "source": self.source.state(),
            "random": to_json(random.values),
            "optimizer": numbers,
            "settings": _plain(self.settings),
            "run": dict(self.run),
        }
        write_json(folder / VALUES, told)

    def write_model(self, folder: Path) -> None:
        """Write the weights that are meant to be used: averaged ones, where there are some."""
        if self.model is None:
            return
        with swapped_in(dict(self.module.named_parameters()), self.average.weights()):
            config: Any = self.model.config
            weights, about = stored_weights(self.model), self.metadata
            write_model(folder, config, weights, about.tokenizers, about.task, about.extra)

    def restore(self, folder: Path) -> Progress:
        """Take up the state of a checkpoint and give how far it had come."""
        files = check_manifest(folder)
        told, tensors = _values(folder, files), MappedWeights(folder / TENSORS)
        self._refuse_another(folder, files)
        progress = Progress.read(told.get("progress"))
        load_weights(self.module, self._weights(folder, tensors, WEIGHTS in files))
        self.average.restore(_under("average/", tensors))
        self._restore_optimizer(_under("optimizer/", tensors), told.get("optimizer"))
        place = told.get("source")
        self.source.restore(place if isinstance(place, dict) else {})
        restore_random_state(RandomState(_under("random/", tensors), from_json(told.get("random"))))
        return progress

    def _refuse_another(self, folder: Path, files: Collection[str]) -> None:
        """Another architecture or tokenizer is another run; the checkpoint's own files say which it has."""
        if CONFIG in files and self.model is not None:
            now: Any = self.model.config
            _refuse(folder, "model", read_config(folder).model_dump(), now.model_dump())
        saved = Tokenizers.load(folder) if {JOINT, SOURCE} & set(files) else None
        prints = [
            {"fingerprint": one.fingerprint if one else ""} for one in (saved, self.metadata.tokenizers)
        ]
        _refuse(folder, "tokenizer", *prints)

    def _weights(self, folder: Path, tensors: MappedWeights, has_model: bool) -> dict[str, np.ndarray]:
        stored = {f"model.{n}": a for n, a in MappedWeights(folder / WEIGHTS).items()} if has_model else {}
        apart = {n.removeprefix("weights/"): a for n, a in tensors.items() if n.startswith("weights/")}
        return {**stored, **apart}

    def _parameter_names(self) -> list[str]:
        """The name of each parameter, in the order in which the optimizer counts them."""
        names = {id(parameter): name for name, parameter in self.module.named_parameters()}
        return [names[id(one)] for group in self.optimizer.param_groups for one in group["params"]]

    def _optimizer_state(self) -> tuple[dict[str, Tensor], dict[str, dict[str, Any]]]:
        """What the optimizer holds for each parameter: tensors, and other values."""
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
        """Rates and the like come from today's settings; what was accumulated comes from the files."""
        indexes = {name: index for index, name in enumerate(self._parameter_names())}
        state: dict[int, dict[str, Any]] = {}
        found = [(*name.rpartition("/")[::2], tensor) for name, tensor in tensors.items()]
        for name, slots in numbers.items() if isinstance(numbers, dict) else ():
            found += [(name, slot, value) for slot, value in slots.items()] if isinstance(slots, dict) else []
        for name, slot, value in found:
            if name not in indexes:
                raise CheckpointError(f"the saved optimizer has a state for {name}, which does not learn now")
            state.setdefault(indexes[name], {})[slot] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})


def _under(prefix: str, tensors: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Copies of the tensors whose names begin so, without that beginning."""
    return {
        name.removeprefix(prefix): torch.from_numpy(np.array(array))
        for name, array in tensors.items()
        if name.startswith(prefix)
    }


def _plain(settings: TrainingSettings) -> dict[str, Any]:
    """The settings of this room as JSON gives them back."""
    return settings.model_dump(mode="json")


def read_values(folder: Path) -> dict[str, Any]:
    """What training.json of a checkpoint says; every file of the checkpoint is checked first."""
    return _values(folder, check_manifest(folder))


def read_config(folder: Path) -> ModelConfig:
    """The config of the model in a checkpoint; settings that it lacks have their defaults."""
    try:
        return ModelConfig.read(format1.read_config(folder / CONFIG, read_json(folder / CONFIG)).get("model"))
    except SettingError as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from None


def _values(folder: Path, files: Collection[str]) -> dict[str, Any]:
    if VALUES not in files or TENSORS not in files:
        raise CheckpointError(f"{folder} is no checkpoint: it has no {VALUES}; give a run's folder")
    return format1.read_training(folder / VALUES, read_json(folder / VALUES))


def _refuse(folder: Path, part: str, saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse what differs in a part of the model, with a diff."""
    if found := list(differences(saved, now).values()):
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise CheckpointError(f"{folder} is of another {part}: {'; '.join(found[:5])}{more}; start a new run")
