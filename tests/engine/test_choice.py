"""Which engine computes: native where it can, torch for what changes the model, never with stale weights."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from regard.engine import choice
from regard.engine.choice import Engine, StoredModel, active_engine, chosen_engine
from regard.engine.native_stepper import NativeStepper, NotBuilt
from regard.engine.torch_module import weights_of
from regard.engine.torch_stepper import TorchStepper
from regard.errors import SettingError, ShapeError, UnknownName
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.model.watch import watch
from tests.engine.test_native_stepper import SIZES, drawn, models, needs_engine

pytestmark = needs_engine
READERS = {
    "masked": dict(output="masked", head_bias=True, positions="learned", segments=2, embedding_norm=True),
    "words": dict(output="words", tie_head=False),
    "bert": dict(output="classes", classes=3, pooling="bert", norm="rms"),
    "mean": dict(output="classes", classes=2, pooling="mean"),
    "pooled": dict(output="pooled", pooling="distilbert"),
    "vectors": dict(output="vectors", residual="pre"),
}


def model_of(**changes):
    torch.manual_seed(0)
    return build_model(ModelConfig(**{**SIZES, **changes})).eval()


def logits_of(engine: Engine, **options) -> np.ndarray:
    stepper = engine.stepper(**options)
    stepper.admit(*drawn(engine.config, 2))
    return stepper.step(np.array([3, 4])).log_probabilities


def test_an_argument_counts_more_than_the_environment(monkeypatch):
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    assert chosen_engine() == "native"
    monkeypatch.setenv(choice.VARIABLE, "torch")
    assert chosen_engine() == "torch"
    assert active_engine() == ("torch", "REGARD_ENGINE=torch")
    assert chosen_engine("native") == "native"
    with pytest.raises(UnknownName, match="unknown engine 'tosh'; did you mean torch"):
        chosen_engine("tosh")


def replaced_forward(model):
    model.decoder.blocks[0].feed_forward.forward = lambda x: x


def replaced_part(model):
    model.decoder.blocks[1].feed_forward = nn.Identity()


def hooked(model):
    model.encoder.blocks[0].register_forward_hook(lambda *given: None)


def rescaled(model):
    model.encoder.blocks[0].attention.similarity.scale = 0.5


CHANGES = {
    "feed_forward has other attributes": replaced_forward,
    "feed_forward is a Identity": replaced_part,
    "a hook is registered on EncoderBlock": hooked,
    "similarity has other attributes": rescaled,
    "training mode": lambda model: model.train(),
    "float64": lambda model: model.double(),
}


@pytest.mark.parametrize("reason", CHANGES)
def test_a_changed_model_is_computed_by_torch_and_the_reason_is_logged_once(reason, caplog, monkeypatch):
    monkeypatch.setattr(choice, "_logged", set())
    model = model_of()
    engine = Engine(model)
    assert isinstance(engine.stepper(), NativeStepper)
    CHANGES[reason](model)
    with caplog.at_level(logging.INFO, "regard.engine"):
        assert isinstance(engine.stepper(), TorchStepper)
        assert isinstance(engine.stepper(), TorchStepper)
    assert [reason in record.message for record in caplog.records] == [True]


def test_what_is_watched_or_ablated_is_computed_by_torch():
    model = model_of()
    engine = Engine(model)
    with watch(model, only="output"):
        assert engine.native() is None
    with watch(model.encoder, only="output"):
        assert engine.native() is None
    assert isinstance(engine.stepper([("cross", 0, 1)]), TorchStepper)
    assert isinstance(engine.stepper(), NativeStepper)
    assert isinstance(Engine(model, "torch").stepper(), TorchStepper)


def test_a_model_that_the_engine_does_not_have_is_computed_by_torch(caplog, monkeypatch):
    monkeypatch.setattr(choice, "_logged", set())
    engine = Engine(model_of(similarity="bilinear"), "native")
    assert isinstance(engine.stepper(), TorchStepper)
    assert "similarity = 'bilinear' is not in the native engine" in caplog.text


def test_without_the_library_torch_is_used(monkeypatch):
    def missing():
        raise NotBuilt("it was not built")

    monkeypatch.setattr(choice, "_logged", set())

    monkeypatch.setattr(choice, "library", missing)
    monkeypatch.setattr(choice, "processor_level", missing)
    assert isinstance(Engine(model_of()).stepper(), TorchStepper)
    assert active_engine() == ("torch", "it was not built")


def test_a_user_reads_one_line_where_the_library_is_missing():
    code = """
from regard.engine import choice, native_stepper
from regard.model.config import ModelConfig
native_stepper._built_libraries = lambda folder: []
for layers in (1, 2):
    stored = choice.StoredModel(ModelConfig(vocabulary=9, width=4, heads=1, layers=layers), {}, None)
    assert choice.Engine(stored).native() is None
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr == (
        "torch is used in place of the native engine: the native engine was not built; "
        "install a C++ compiler and then regard again\n"
    )


@pytest.mark.parametrize(
    ("given", "of_torch", "expected"),
    [("", 64, choice.MAX_THREADS), ("", 2, 2), ("16", 12, 12), ("16", None, 16)],
)
def test_without_a_setting_threads_have_a_cap_whether_or_not_torch_is_loaded(
    monkeypatch, given, of_torch, expected
):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    fake = None if of_torch is None else SimpleNamespace(get_num_threads=lambda: of_torch)
    monkeypatch.setattr(choice, "sys", SimpleNamespace(modules={"torch": fake}))
    assert choice.threads() == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.load_state_dict(model_of(norm_epsilon=1e-3).state_dict() | {
            "head.weight": torch.randn(97, 48)
        }),
        lambda model: model.decoder.blocks[1].cross.output.weight.data.mul_(3),
        lambda model: model.decoder.blocks[0].feed_forward.expand.weight.data.copy_(
            model.decoder.blocks[0].feed_forward.expand.weight.data.flip(0)
        ),
        lambda model: model.target.weight.detach().numpy().__setitem__((3, 0), 5.0),
        lambda model: setattr(
            model.encoder.blocks[0].attention.output, "bias", nn.Parameter(torch.arange(48.0))
        ),
    ],
)  # fmt: skip
def test_changed_weights_are_packed_again(change):
    model = model_of()
    engine = Engine(model)
    packed, before = engine.native(), logits_of(engine)
    assert engine.native() is packed
    with torch.no_grad():
        change(model)
    after = logits_of(engine)
    assert engine.native() is not packed
    assert np.abs(after - before).max() > 1e-3
    assert after == pytest.approx(logits_of(Engine(model, "torch")), abs=1e-4)


def test_a_stored_model_is_built_only_if_torch_is_needed():
    model, built = model_of(), []

    def build():
        built.append(True)
        return model

    engine = Engine(StoredModel(model.config, weights_of(model), build))
    native = engine.native()
    before = logits_of(engine)
    assert not built
    assert engine.module is engine.module is model
    assert built == [True]
    assert engine.native() is native  # the weights are the same
    with torch.no_grad():
        model.head.weight.mul_(2)
    assert engine.native() is not native
    assert np.abs(logits_of(engine) - before).max() > 1e-3


def test_hidden_states_are_those_of_torch():
    model, _ = models()
    seen = []

    def blend(hidden, log_probabilities):
        seen.append(hidden.clone())
        return log_probabilities.roll(1, dims=-1)

    engines = Engine(model), Engine(model, "torch")
    blended = [logits_of(engine, blend=blend) for engine in engines]
    assert seen[0].numpy() == pytest.approx(seen[1].numpy(), abs=1e-4)
    assert blended[0] == pytest.approx(blended[1], abs=1e-4)
    best = engines[0].stepper(blend=blend)
    best.admit(*drawn(model.config, 2))
    chosen = best.step(np.array([3, 4]), best=3)
    assert chosen.log_probabilities == pytest.approx(-np.sort(-blended[1])[:, :3], abs=1e-4)


def test_a_fork_packs_the_weights_again():
    engine = Engine(model_of(), threads=2)
    expected = logits_of(engine)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, logits_of(engine).tobytes())  # hangs if it waits for threads of the parent
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        assert answer.read() == expected.tobytes()
    os.waitpid(child, 0)


def test_wrong_sizes_are_errors():
    _, native = models()
    stepper = NativeStepper(native)
    stepper.admit(*drawn(native.config, 2))
    for hidden in (np.empty((1, 48), np.float32), np.empty((2, 48)), np.empty((48, 2), np.float32).T):
        with pytest.raises(ShapeError, match="float32 numbers in order"):
            stepper.advance(np.array([1, 2]), hidden)
    for count in (0, 98, -1):
        stepper.advance(np.array([1, 2]))
        with pytest.raises((ShapeError, ValueError)):
            stepper.best(count)
    with pytest.raises(SettingError, match="threads"):
        Engine(model_of(), threads=0)
