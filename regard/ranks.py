"""The processes of a job that torchrun started, called ranks, and what they exchange.

Without torchrun there is one process. Then torch.distributed is neither imported nor started, and every
function here returns at once: `share(value)` is the value, `gathered(value)` a list of it alone.

Every rank must call these functions in the same order, inside `joined`.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

from regard.errors import FailedElsewhere, SettingError, TrainingError

Value = TypeVar("Value")
Result = TypeVar("Result")

# The first rank may read text, train a tokenizer or write a large checkpoint while the others wait.
LONG_WAIT = timedelta(days=7)
NEEDED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
# Words in torch's errors about a rank that cannot be reached.
_LOST = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe", "timed out", "tcpstore")


@dataclass(frozen=True)
class World:
    """This process among those of its job."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # on its machine
    restarts: int = 0  # how often torchrun has restarted the job


def world(environment: Mapping[str, str] = os.environ) -> World:
    """What torchrun's variables say; one process without them."""
    if not all(environment.get(name) for name in NEEDED):
        return World()
    try:
        rank, size, local_rank = (int(environment[name]) for name in NEEDED[:3])
        restarts = int(environment.get("TORCHELASTIC_RESTART_COUNT", "0"))
    except ValueError:
        raise SettingError("RANK, WORLD_SIZE and LOCAL_RANK must be numbers; start with torchrun") from None
    return World(rank, size, local_rank, restarts)


@dataclass(frozen=True)
class _Groups:
    """The joined ranks, and their group for long waits."""

    world: World
    patient: Any


_groups: _Groups | None = None


@contextmanager
def joined(device: str = "cpu", timeout: float = 600.0, rendezvous: str = "env://") -> Iterator[None]:
    """Connect the ranks for this block. A rank that does not answer within `timeout` seconds is an error.

    Processes on CPUs exchange tensors with gloo, those on CUDA devices with NCCL.
    """
    here = world()
    if here.size == 1 or _groups is not None:
        yield
        return
    _connect(here, device, timedelta(seconds=timeout), rendezvous)
    try:
        yield
        barrier()
    except RuntimeError as error:
        if not any(word in str(error).lower() for word in _LOST):
            raise
        logging.getLogger("regard").debug("lost a process", exc_info=error)
        raise TrainingError(
            f"another process of the job ended, or did not answer within {timeout:g} s; "
            "resume the run from its last checkpoint"
        ) from None
    finally:
        _disconnect()


def _connect(here: World, device: str, timeout: timedelta, rendezvous: str) -> None:
    global _groups
    import torch
    import torch.distributed as dist
    from torch.distributed import PrefixStore  # pyright: ignore[reportPrivateImportUsage]
    from torch.distributed.rendezvous import rendezvous as stores

    if here.rank:
        logging.getLogger("regard").setLevel(logging.ERROR)
    backend = "cpu:gloo,cuda:nccl" if torch.device(device).type == "cuda" else "gloo"
    store, _, _ = next(iter(stores(rendezvous, here.rank, here.size, timeout=timeout)))
    own = PrefixStore(_meet(store, here, timeout), store)
    dist.init_process_group(backend, store=own, rank=here.rank, world_size=here.size, timeout=timeout)
    _groups = _Groups(here, dist.new_group(backend="gloo", timeout=LONG_WAIT))


def _meet(store: Any, here: World, timeout: timedelta) -> str:
    """A name for this start of the job, chosen by the first rank.

    torchrun keeps one store over restarts, and gloo would find the addresses of ended processes in it. So a
    rank asks with a new name of its own, and the first rank answers until every rank has taken the answer.
    """
    mine = secrets.token_hex(8)
    if here.rank:
        store.set(f"hello/{here.rank}", mine)
        store.wait([f"welcome/{mine}"], timeout)
        name = store.get(f"welcome/{mine}").decode()
        store.set(f"ready/{name}/{here.rank}", "")
        return name
    missing, end = set(range(1, here.size)), time.monotonic() + timeout.total_seconds()
    while missing:
        for other in tuple(missing):
            if store.check([f"ready/{mine}/{other}"]):
                missing.remove(other)
            elif store.check([f"hello/{other}"]):
                store.set(f"welcome/{store.get(f'hello/{other}').decode()}", mine)
        if time.monotonic() > end:
            raise TrainingError(
                f"processes {sorted(missing)} did not start within {timeout}; see their output"
            )
        time.sleep(0.01)
    return mine


def _disconnect() -> None:
    global _groups
    import torch.distributed as dist

    _groups = None
    dist.destroy_process_group()


def rank() -> int:
    """The number of this rank, from 0; 0 without others."""
    return 0 if _groups is None else _groups.world.rank


def count() -> int:
    """The number of joined ranks."""
    return 1 if _groups is None else _groups.world.size


def is_first() -> bool:
    """Whether this rank prints, and writes the files that all ranks share."""
    return rank() == 0


def patient_group() -> Any:
    """The process group without a short timeout, for torch's own functions; None without others."""
    return None if _groups is None else _groups.patient


def barrier() -> None:
    """Wait until every rank is here."""
    gathered(None)


def share(value: Value) -> Value:
    """The value of the first rank, on every rank."""
    if _groups is None:
        return value
    import torch.distributed as dist

    box = [value]
    dist.broadcast_object_list(box, 0, group=_groups.patient)
    return box[0]


def gathered(value: Value) -> list[Value]:
    """The values of all ranks, in their order, on every rank."""
    if _groups is None:
        return [value]
    import torch.distributed as dist

    values: list[Any] = [None] * count()
    dist.all_gather_object(values, value, group=_groups.patient)
    return values


def gathered_numbers(numbers: Sequence[float]) -> list[list[float]]:
    """The numbers of all ranks, as many from each; for every step, and bound by the timeout of `joined`."""
    if _groups is None:
        return [list(numbers)]
    import torch
    import torch.distributed as dist

    mine = torch.tensor(numbers, dtype=torch.float64)
    rows = [torch.empty_like(mine) for _ in range(count())]
    dist.all_gather(rows, mine)
    return [row.tolist() for row in rows]


def from_first(make: Callable[[], Value]) -> Value:
    """What `make` returns on the first rank, on every rank; if it raises, every rank raises."""
    if _groups is None:
        return make()
    made: tuple[Any, str] = (None, "")
    try:
        if is_first():
            made = make(), ""
    except BaseException as error:
        share((None, f"{type(error).__name__}: {error}"))
        raise
    value, problem = cast("tuple[Any, str]", share(made))
    if problem:
        raise FailedElsewhere(f"the first process of the job failed: {problem}")
    return value


def from_first_only(make: Callable[[], Value]) -> Value | None:
    """What `make` returns, on the first rank; None on the others. If it raises, every rank raises."""
    made: list[Value] = []
    from_first(lambda: made.append(make()))
    return made[0] if made else None


@contextmanager
def opened_by_first(opened: Callable[[], AbstractContextManager[Value]]) -> Iterator[Value]:
    """A context that the first rank opens and closes around the block of every rank.

    If the block raises on any rank, the context of the first rank sees an error.
    """
    if _groups is None:
        with opened() as value:
            yield value
        return
    context: AbstractContextManager[Value] | None = None

    def enter() -> Value:
        nonlocal context
        context = opened()
        return context.__enter__()

    value = from_first(enter)
    problem: BaseException | None = None
    try:
        yield value
    except BaseException as error:
        problem = error
    problems = _gathered_problems(problem)
    if problem is None and problems:
        problem = FailedElsewhere(f"another process of the job failed: {problems[0]}")
    if problem is not None:
        if context is not None:
            context.__exit__(type(problem), problem, problem.__traceback__)
        raise problem
    from_first(lambda: context.__exit__(None, None, None))  # type: ignore[union-attr]


def _gathered_problems(problem: BaseException | None) -> list[str]:
    """The problems of all ranks, or of this one if the others cannot be reached any more."""
    mine = "" if problem is None else f"{type(problem).__name__}: {problem}"
    try:
        return [text for text in gathered(mine) if text]
    except RuntimeError as error:
        return [mine or str(error)]


def divided(compute: Callable[[Value], Result], items: Iterable[Value]) -> Iterator[Result]:
    """`compute` of each item in order: every rank computes its share, and every rank gets all results.

    The items must be the same on every rank. Each is computed whole by one rank, so that the results do not
    depend on the number of ranks. One process computes each item when its result is asked for.
    """
    if _groups is None:
        yield from map(compute, items)
        return
    mine = [compute(item) for number, item in enumerate(items) if number % count() == rank()]
    shares = gathered(mine)
    for number in range(sum(map(len, shares))):
        yield shares[number % count()][number // count()]
