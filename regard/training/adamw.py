"""AdamW: Adam with decoupled weight decay (Loshchilov and Hutter 2019), one kernel for all parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw
from torch.optim.optimizer import Optimizer

from regard.training.shards import local


class AdamW(Optimizer):
    """torch's AdamW without the import of torch's compiler.

    torch decorates these methods to exclude them from compilation, and the first call imports the compiler,
    which takes as long as importing torch. Here they are undecorated.
    """

    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)
    state_dict = unwrap(Optimizer.state_dict)
    load_state_dict = unwrap(Optimizer.load_state_dict)

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        fused: bool = False,
        **defaults: Any,
    ):
        super().__init__(
            groups, dict(lr=lr, weight_decay=weight_decay, betas=betas, eps=eps, fused=fused, **defaults)
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update every parameter that has a gradient."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            self.update(group)
        return loss

    def update(self, group: dict[str, Any]) -> None:
        """Update the parameters of one group."""
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        states = [self.state_of(parameter, "exp_avg", "exp_avg_sq", counted=True) for parameter in parameters]
        if not parameters:
            return
        adamw(
            [local(parameter) for parameter in parameters],
            [local(parameter.grad) for parameter in parameters],
            [local(state["exp_avg"]) for state in states],
            [local(state["exp_avg_sq"]) for state in states],
            [],
            [state["step"] for state in states],
            fused=group["fused"],
            foreach=not group["fused"],
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )

    def state_of(self, parameter: Tensor, *slots: str, counted: bool = False) -> dict[str, Tensor]:
        """The state of a parameter; zeros at first."""
        state = self.state[parameter]
        if not state:
            state.update({slot: torch.zeros_like(parameter) for slot in slots})
            if counted:
                state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
        return state
