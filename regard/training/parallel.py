"""How the gradients of a step are computed: by this process alone, or by the ranks that torchrun started.

alone   replicas, which are threads on a CPU
ddp     every rank has all weights; gradients are summed (DistributedDataParallel)
fsdp    every rank has a share of the rows of each weight, its gradient and its optimizer state (FSDP2)

Every rank draws the same batch of a step and computes its part of the rows. Gradients are summed once per
step, after the last micro-batch. So neither the number of ranks nor the strategy changes which examples a
step has, and the loss of every token has the same weight.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard import ranks
from regard.errors import SettingError
from regard.model.transformer import Stack
from regard.registry import Registry
from regard.training.averaging import swapped_in
from regard.training.replicas import LossSums, Replicas, backward_here
from regard.training.settings import TrainingSettings


class Parallel(Protocol):
    """A strategy as the Trainer uses it. It is a context that is open while training runs."""

    is_sharded: bool  # whether parameters are DTensors

    def __enter__(self) -> Parallel: ...
    def __exit__(self, *error: object) -> None: ...

    def groups(self, batch: Any) -> list[Sequence[Any]]:
        """The parts of a batch that this process computes, in groups that are computed one by one."""
        ...

    def backward(self, group: Sequence[Any], is_last: bool) -> list[LossSums]:
        """The losses of a group; after the last one the module has the gradients of the whole batch."""
        ...

    def begin_step(self, step: int) -> None:
        """Prepare the random numbers of a step."""
        ...

    def everywhere(self, losses: list[LossSums]) -> list[LossSums]:
        """The losses of all ranks."""
        ...

    def norm(self, norm: Tensor) -> Tensor:
        """The norm of whole tensors, from the norm of what this process has of them."""
        ...

    def whole(self, weights: Mapping[str, Tensor]) -> AbstractContextManager[nn.Module]:
        """A context with a module that has all weights; these replace those of the same name."""
        ...


class Alone:
    """One process; replicas divide its threads."""

    is_sharded = False

    def __init__(self, module: nn.Module, settings: TrainingSettings):
        self.module, self.accumulation = module, settings.gradient_accumulation
        self.parameters = dict(module.named_parameters())
        self.replicas = Replicas.for_module(module, settings.replicas, settings.precision)

    def __enter__(self) -> Alone:
        self.replicas.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.replicas.__exit__(None, None, None)

    def groups(self, batch: Any) -> list[Sequence[Any]]:
        """The micro-batches, each divided among the replicas."""
        together = self.replicas.count
        count = self.accumulation * together
        parts = [batch] if count == 1 else batch.split(count)
        return [parts[first : first + together] for first in range(0, len(parts), together)]

    def backward(self, group: Sequence[Any], is_last: bool) -> list[LossSums]:
        """The losses of a group."""
        return self.replicas.backward(self.module, group)

    def begin_step(self, step: int) -> None:
        """Torch's generator continues."""

    def everywhere(self, losses: list[LossSums]) -> list[LossSums]:
        """The losses themselves."""
        return losses

    def norm(self, norm: Tensor) -> Tensor:
        """The norm itself."""
        return norm

    @contextmanager
    def whole(self, weights: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """The module itself, with these weights swapped in."""
        with swapped_in(self.parameters, weights):
            yield self.module


class Together:
    """What the strategies for several ranks have in common."""

    is_sharded = False

    def __init__(self, module: nn.Module, settings: TrainingSettings):
        self.module, self.seed, self.precision = module, settings.seed, settings.precision
        self.micro_batches = -(-settings.gradient_accumulation // ranks.count())
        for tensor in [*module.parameters(), *module.buffers()]:  # another processor can draw other last bits
            torch.distributed.broadcast(tensor.data, 0)
        self.engine = self._wrapped(module, settings)
        self.parameters = dict(module.named_parameters())

    def _wrapped(self, module: nn.Module, settings: TrainingSettings) -> Any:
        """The module to call."""
        raise NotImplementedError

    def __enter__(self) -> Together:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def groups(self, batch: Any) -> list[Sequence[Any]]:
        """As many parts on every rank, since every pass exchanges weights or gradients.

        A rank that lacks rows computes the first part again, without effect.
        """
        parts = batch.split(ranks.count() * self.micro_batches)
        mine = [[part] for part in parts[ranks.rank() :: ranks.count()]]
        return [*mine, *[[_Idle(parts[0])]] * (self.micro_batches - len(mine))]

    def backward(self, group: Sequence[Any], is_last: bool) -> list[LossSums]:
        """The losses of a part; the gradients of all ranks are summed after the last one."""
        (part,) = group
        with self._synchronised(is_last):
            is_counted = not isinstance(part, _Idle)
            batch = part if is_counted else part.batch
            return [backward_here(self.engine, batch, self.precision, is_counted)]

    def _synchronised(self, wanted: bool) -> AbstractContextManager[object]:
        """A context whose backward pass exchanges gradients if wanted."""
        raise NotImplementedError

    def begin_step(self, step: int) -> None:
        """Seed the generators with the step and the rank, so that checkpoints need no state of each rank."""
        mixed = torch.Generator().manual_seed(self.seed)
        state = torch.randint(1 << 62, (1,), generator=mixed).item()
        torch.manual_seed((int(state) + step * 1_000_003 + ranks.rank()) % (1 << 63))

    def everywhere(self, losses: list[LossSums]) -> list[LossSums]:
        """The losses of all ranks, as many from each."""
        numbers = [float(x) for part in losses for x in (part.loss, part.cross_entropy, part.count)]
        rows = [row[i : i + 3] for row in ranks.gathered_numbers(numbers) for i in range(0, len(row), 3)]
        as_here = losses[0].loss.new_tensor
        return [LossSums(as_here(a), as_here(b), int(n)) for a, b, n in rows]

    def norm(self, norm: Tensor) -> Tensor:
        """The norm itself, since every rank has whole tensors."""
        return norm

    @contextmanager
    def whole(self, weights: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """The module itself, with these weights swapped in."""
        with swapped_in(self.parameters, weights):
            yield self.module


class _Idle:
    """A part that is computed without effect."""

    def __init__(self, batch: Any):
        self.batch = batch


class DataParallel(Together):
    """Every rank has all weights."""

    engine: nn.parallel.DistributedDataParallel

    def _wrapped(self, module: nn.Module, settings: TrainingSettings) -> nn.parallel.DistributedDataParallel:
        engine = nn.parallel.DistributedDataParallel(
            module, forward_sync_buffers=False, gradient_as_bucket_view=True
        )
        # torch compares annotations of a hook with its own types, and a lambda has none.
        engine.register_comm_hook(None, lambda state, bucket: _summed(bucket.buffer()))
        return engine

    def _synchronised(self, wanted: bool) -> AbstractContextManager[object]:
        return nullcontext() if wanted else self.engine.no_sync()


def _summed(gradients: Tensor) -> torch.futures.Future[Tensor]:
    """The sum of gradients over ranks; DistributedDataParallel would average them."""
    work = torch.distributed.all_reduce(gradients, async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])


class FullySharded(Together):
    """Every rank has a share of the rows of each weight; blocks are gathered when they are computed."""

    is_sharded = True

    def _wrapped(self, module: nn.Module, settings: TrainingSettings) -> Any:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule, fully_shard

        scalars = [name for name, parameter in module.named_parameters() if parameter.ndim == 0]
        if scalars:
            raise SettingError(f"fsdp shards rows, and {scalars[0]} is a single number; use ddp")
        self._empty = _without_weights(module)
        device = next(module.parameters()).device.type
        self.mesh = init_device_mesh(device, (ranks.count(),))
        for block in blocks_of(module):
            fully_shard(block, mesh=self.mesh)
        fully_shard(module, mesh=self.mesh)
        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)
        return module

    @contextmanager
    def _synchronised(self, wanted: bool) -> Iterator[None]:
        self.engine.set_requires_gradient_sync(wanted)
        yield

    def norm(self, norm: Tensor) -> Tensor:
        """The norm over all ranks."""
        squared = norm.double() ** 2 if norm.device.type == "cpu" else norm**2
        torch.distributed.all_reduce(squared)
        return squared.sqrt().to(norm.dtype)

    @contextmanager
    def whole(self, weights: Mapping[str, Tensor]) -> Iterator[nn.Module]:
        """A plain copy of the module with gathered weights, in memory for the duration of the block."""
        empty = dict(self._empty.named_parameters())
        self._empty.train(self.module.training)
        with ExitStack() as emptying:
            for name, parameter in self.parameters.items():
                full = weights.get(name, parameter.detach()).full_tensor()  # type: ignore[attr-defined]
                emptying.callback(setattr, empty[name], "data", empty[name].data)
                empty[name].data = full
            yield self._empty


def _without_weights(module: nn.Module) -> nn.Module:
    """A copy whose parameters have no rows; tied ones stay tied."""
    known: dict[int, Any] = {
        id(parameter): nn.Parameter(parameter.data.new_empty(0), parameter.requires_grad)
        for parameter in module.parameters()
    }
    return copy.deepcopy(module, known)


STRATEGIES: Registry[Callable[[nn.Module, TrainingSettings], Together]] = Registry(
    "strategy", {"ddp": DataParallel, "fsdp": FullySharded}
)


def parallel_for(module: nn.Module, settings: TrainingSettings) -> Parallel:
    """The strategy of the settings if there are several ranks. FSDP changes the module in place."""
    if settings.activation_checkpointing:
        checkpoint_activations(module)
    if ranks.count() == 1:
        return Alone(module, settings)
    return STRATEGIES.find(settings.distributed.strategy)(module, settings)


def blocks_of(module: nn.Module) -> list[nn.Module]:
    """The blocks of all stacks."""
    return [block for stack in module.modules() if isinstance(stack, Stack) for block in stack.blocks]


def checkpoint_activations(module: nn.Module) -> None:
    """Make every block keep only its input in training and compute the rest again in the backward pass."""
    for block in blocks_of(module):
        block.forward = partial(_checkpointed, block, block.forward)


def _checkpointed(block: nn.Module, forward: Callable[..., Any], *inputs: Any) -> Any:
    if not (block.training and torch.is_grad_enabled()):
        return forward(*inputs)
    from torch.utils.checkpoint import checkpoint

    return checkpoint(forward, *inputs, use_reentrant=False)
