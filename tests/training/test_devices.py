"""Training does not depend on a device: on the meta device, and on an accelerator where there is one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.engine.device import available_devices
from regard.engine.torch_stepper import TorchStepper
from regard.model.transformer import build_model
from regard.model.watch import watch
from regard.training.averaging import AVERAGES
from regard.training.events import StepDone
from regard.training.optimizers import build_optimizer, gradients_of, scale_and_clip, set_learning_rate
from regard.training.parallel import checkpoint_activations

from . import toy
from .conftest import KINDS, OBJECTIVES, tiny

ACCELERATORS = [device for device in ("cuda", "mps") if device in available_devices()]


def test_a_step_creates_no_tensor_on_another_device(kind):
    """A tensor of the CPU in a computation on the meta device raises, as it does on a GPU.

    AdamW itself is torch's, and reads numbers, which the meta device has not.
    """
    batch, shape = KINDS[kind]
    model = build_model(tiny(**shape, dropout=0.1)).to("meta")
    objective = OBJECTIVES[kind](model, label_smoothing=0.1, r_drop=1.0)
    checkpoint_activations(objective)
    settings = toy.settings(optimizer="muon", averaging="ema")
    chosen = build_optimizer(objective, settings)
    average = AVERAGES.find("ema")(dict(objective.named_parameters()), settings.averaging)
    loss, _ = objective(batch())
    loss.backward()
    norm = scale_and_clip(gradients_of(chosen), 8, 1.0)
    set_learning_rate(chosen, 0.1)
    with torch.no_grad():
        chosen.update(next(group for group in chosen.param_groups if group["sections"]))
    average.update(1)
    tensors = [loss, norm, *objective.parameters(), *gradients_of(chosen), *average.weights().values()]
    states = [slot for state in chosen.state.values() for slot in state.values()]
    assert {tensor.device.type for tensor in [*tensors, *states]} == {"meta"}


def losses(device: str, **values) -> list[float]:
    seen: list[float] = []
    module = toy.module(dropout=0.0).to(device)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(toy, "module", lambda **changes: module)
        run = toy.trainer(None, {"steps": 4, **values})
    run.observers.append(lambda event: seen.append(event.loss) if isinstance(event, StepDone) else None)
    run.train()
    return seen


@pytest.mark.skipif(not ACCELERATORS, reason="needs a CUDA or MPS device")
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_an_accelerator_gives_nearly_the_losses_of_the_cpu(optimizer):
    for device in ACCELERATORS:
        assert losses(device, optimizer=optimizer) == pytest.approx(
            losses("cpu", optimizer=optimizer), rel=1e-3
        )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_bfloat16_on_a_gpu_gives_nearly_the_losses_of_float32():
    assert losses("cuda", precision="bfloat16") == pytest.approx(losses("cpu"), rel=0.02)


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_an_accelerator_searches_and_watches_as_the_cpu_does(device):
    if device not in ACCELERATORS:
        pytest.skip(f"needs a {device} device")
    check_search_and_watch(device)


def check_search_and_watch(device: str) -> None:
    """The same greedy tokens, and nearly the same recorded values, as on the CPU."""
    torch.manual_seed(0)
    model = build_model(tiny(family="decoder-only", vocabulary=30)).eval()
    prompt, written, seen = np.array([[3, 4, 5]]), [], []
    for place in ("cpu", device):
        moved, stepper = model.to(place), TorchStepper(model.to(place), capacity=1)
        ids = [*prompt[0]]
        stepper.admit([np.array(ids)], None)
        for _ in range(5):
            ids.append(int(stepper.step(np.array(ids[-1:])).log_probabilities[0].argmax()))
        written.append(ids)
        with torch.no_grad(), watch(moved) as record:
            moved(torch.from_numpy(prompt).to(place))
        seen.append({name: record[name].cpu() for name in record})
    assert written[0] == written[1]
    assert seen[0].keys() == seen[1].keys()
    for name, value in seen[0].items():
        torch.testing.assert_close(seen[1][name], value, rtol=1e-3, atol=1e-4, equal_nan=True)
