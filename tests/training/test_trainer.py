"""The Trainer: what a step is, what it tells, when it validates, stops and refuses."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import torch
from torch import nn

from regard.checkpoints.folder import load_model, read_folder, stored_weights
from regard.errors import SettingError, TrainingError, UnknownName
from regard.model.transformer import build_model
from regard.training.events import Finished, Resumed, Saved, StepDone, Validated, Validation
from regard.training.objectives import Translation
from regard.training.settings import MAY_CHANGE, TrainingSettings
from regard.training.trainer import Trainer, compile_blocks

from . import toy
from .conftest import parallel, tiny


def run(out=None, observers=(), model=None, **values):
    trainer = toy.trainer(out, values, observers, **(model or {}))
    return trainer, trainer.train()


def steps_of(events) -> list[StepDone]:
    return [event for event in events if isinstance(event, StepDone)]


class Mixed:
    """Batches in which short and long pairs stand together."""

    epoch = at = 0

    def next(self):
        self.at += 1
        return parallel(16, seed=self.at)

    def state(self):
        return {"at": self.at}

    def restore(self, state):
        self.at = state["at"]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_how_a_step_is_cut_changes_nothing(optimizer):
    seen: dict[int, list[StepDone]] = {}
    for parts in (1, 2, 8):
        events: list = []
        settings = toy.settings(
            steps=4, gradient_accumulation=parts, optimizer=optimizer, max_grad_norm=None, warmup_steps=2
        )
        torch.manual_seed(0)
        Trainer(Translation(build_model(tiny())), Mixed(), settings, observers=[events.append]).train()
        seen[parts] = steps_of(events)
    for parts in (2, 8):
        for one, other in zip(seen[1], seen[parts], strict=True):
            assert one.tokens == other.tokens
            assert other.loss == pytest.approx(one.loss, rel=1e-6)
            assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-6)


def test_a_step_is_that_of_the_mean_loss():
    torch.manual_seed(0)
    module, events = Translation(build_model(tiny())), []
    loss, tokens = module(Mixed().next())
    gradients = torch.autograd.grad(loss / tokens, list(module.parameters()))
    settings = toy.settings(steps=1, gradient_accumulation=3, max_grad_norm=0.01)
    Trainer(module, Mixed(), settings, observers=[events.append]).train()
    assert events[0].tokens == tokens
    assert events[0].loss == pytest.approx(loss.item() / tokens, rel=1e-6)
    assert events[0].gradient_norm == pytest.approx(torch.nn.utils.get_total_norm(gradients).item(), rel=1e-5)


def test_the_parts_of_a_step_are_unequal():
    assert len({part.tokens for part in Mixed().next().split(8)}) > 3


class Line(nn.Module):
    """Something that is no Transformer: y = ax + b."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, batch):
        x, y = batch
        return ((self.layer(x) - y) ** 2).sum(), len(x)


class Points:
    """A source of its own, with the state of a generator."""

    def __init__(self):
        self.random = np.random.default_rng(1)
        self.epoch = 0

    def next(self):
        x = torch.from_numpy(self.random.normal(size=(32, 1)).astype(np.float32))
        return x, 3 * x + 1

    def state(self):
        return {"random": self.random.bit_generator.state}

    def restore(self, state):
        self.random.bit_generator.state = state["random"]


def test_any_module_learns_from_any_source_and_goes_on(tmp_path):
    settings = toy.settings(
        steps=150, learning_rate=0.1, warmup_steps=0, schedule="linear", weight_decay=0.0, save_every=50
    )
    straight = Line()
    Trainer(straight, Points(), settings, tmp_path / "a").train()
    assert straight.layer.weight.item() == pytest.approx(3, abs=0.01)
    resumed = Line()
    second = Trainer(resumed, Points(), settings, tmp_path / "b")
    assert second.resume(tmp_path / "a" / "checkpoints" / "step-00000100")
    second.train()
    assert torch.equal(straight.layer.weight, resumed.layer.weight)


@pytest.mark.parametrize(("task", "limit"), [("copy", 1.02), ("sort", 1.03)])
def test_toy_tasks_are_learned_in_seconds(task, limit):
    settings = toy.settings(
        steps=260, learning_rate=0.01, warmup_steps=20, schedule="linear", optimizer="muon", weight_decay=0.0,
        validate_every=None, averaging="ema", ema_decay=0.95,
    )  # fmt: skip
    validate = toy.held_out_loss(task)
    validations: list[Validation] = []
    trainer = Trainer(
        toy.module(width=32, dropout=0.0, feed_forward_width=64, heads=4),
        toy.batches(task, count=3000, tokens=512),
        settings,
        validate=lambda module: validations.append(validate(module)) or validations[-1],
    )
    outcome = trainer.train()
    assert outcome.reason == "steps"
    assert validations[-1].scores["perplexity"] <= limit


def test_events_tell_what_happened(tmp_path):
    events: list = []
    run(tmp_path, [events.append], steps=6, validate_every=4, save_every=3, snapshot_every=5)
    steps = steps_of(events)
    assert [event.step for event in steps] == [1, 2, 3, 4, 5, 6]
    assert all(event.tokens_per_second > 0 and 0 <= event.padding < 1 for event in steps)
    assert steps[0].learning_rate == pytest.approx(1e-3 / 2)
    assert [event.step for event in events if isinstance(event, Validated)] == [4, 6]
    assert [event.path.parent.name for event in events if isinstance(event, Saved)][-2:] == [
        "weights",
        "checkpoints",
    ]
    assert events[-1] == Finished(6, "steps")


def test_there_is_one_wait_for_the_device_in_a_step(monkeypatch):
    waits = []
    for name in ("item", "tolist", "__float__", "__bool__", "__int__"):
        real = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor, name, lambda self, real=real, name=name: waits.append(name) or real(self)
        )
    trainer = toy.trainer(
        None, {"steps": 3, "gradient_accumulation": 2, "averaging": "ema", "optimizer": "muon"}
    )
    trainer.validate = None
    trainer.train()
    assert waits == ["tolist"] * 3


def test_a_validation_leaves_no_trace_in_training():
    losses = []
    for every in (None, 1):
        events: list = []
        run(None, [events.append], steps=6, validate_every=every, averaging="ema")
        losses.append([event.loss for event in steps_of(events)])
    assert losses[0] == losses[1]


def test_the_module_is_back_in_training_after_a_validation_that_fails():
    trainer = toy.trainer(None, {"steps": 4, "validate_every": 2, "averaging": "ema"})

    def fail(module):
        assert not module.training
        raise ZeroDivisionError

    trainer.validate = fail
    weight = trainer.module.model.source.weight
    place = weight.data_ptr()
    with pytest.raises(ZeroDivisionError):
        trainer.train()
    assert trainer.module.training
    assert weight.data_ptr() == place


def watching(values, higher=False):
    left = iter(values)
    return lambda module: Validation({"score": next(left)}, "score", higher)


@pytest.mark.parametrize(
    ("values", "higher", "best", "last"),
    [
        ([3, 2, 2.5, 2, 2, 1], False, 2, 5),
        ([1, 2, 3, 2, 3, 1, 9], True, 3, 6),
        ([math.nan, math.nan, math.nan], False, None, 3),
        ([5, math.nan, math.inf, -math.inf, 1], False, 1, 4),
    ],
)
def test_patience_counts_validations_without_a_better_one(values, higher, best, last):
    trainer = toy.trainer(None, {"steps": 50, "validate_every": 1, "early_stopping_patience": 3})
    trainer.validate = watching(values, higher)
    outcome = trainer.train()
    assert (outcome.reason, outcome.step) == ("patience", last)
    assert (outcome.best.step if outcome.best else None) == best


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_with_its_step(tmp_path, bad):
    trainer = toy.trainer(tmp_path, {"steps": 20, "save_every": 5})
    real = trainer.module.forward

    def forward(batch):
        loss, count = real(batch)
        return (loss * bad if trainer.progress.step == 7 else loss), count

    trainer.module.forward = forward
    with pytest.raises(TrainingError, match=r"(loss|gradient).* at step 8; the last checkpoint is untouched"):
        trainer.train()
    newest = trainer.checkpoints.newest_good()
    assert newest.name == "step-00000005"
    assert all(np.isfinite(array).all() for array in read_folder(newest).weights.values())


def test_weights_that_overflow_are_not_saved(tmp_path):
    trainer = toy.trainer(tmp_path, {"steps": 5, "save_every": 5, "validate_every": None})
    trainer.validate = None
    real = trainer._update

    def update():
        rate = real()
        if trainer.progress.step == 4:
            trainer.module.model.source.weight.data[0, 0] = math.inf
        return rate

    trainer._update = update
    with pytest.raises(TrainingError, match="NaN or infinite after step 5"):
        trainer.train()
    assert trainer.checkpoints.steps() == []


def test_a_checkpoint_is_a_model_that_can_be_used(tmp_path):
    trainer, outcome = run(tmp_path, steps=10, averaging="ema", snapshot_every=4)
    model = load_model(trainer.checkpoints.path(10))
    averaged = trainer.average.weights()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, averaged[f"model.{name}"])
    assert read_folder(outcome.best_folder).task == "translation"
    assert trainer.checkpoints.snapshots() == [0, 4, 8]
    assert read_folder(tmp_path / "weights" / "step-00000004").tokenizer_files == ["tokenizer.json"]


@pytest.mark.parametrize("keep", [2, 3])
def test_the_last_and_the_best_are_kept_exactly(tmp_path, keep):
    values = [5, 1, 4, 4, 4, 4, 0.5, 3, 3, 3, 3]
    trainer = toy.trainer(
        tmp_path, {"steps": 11, "validate_every": 1, "save_every": 2, "keep_checkpoints": keep}
    )
    trainer.validate = watching(values)
    seen = []
    trainer.observers.append(
        lambda e: seen.append((e.step, trainer.checkpoints.steps())) if isinstance(e, Saved) else None
    )
    outcome = trainer.train()
    assert outcome.best.step == 7
    for step, there in seen:
        best = 2 if 2 <= step < 7 else 7 if step >= 7 else 1
        saved = sorted({1, 2, 7, 11, *range(2, step + 1, 2)} & set(range(step + 1)))
        assert there == sorted({*saved[-keep:], best}), step


def test_a_run_is_not_started_over_another(tmp_path):
    run(tmp_path, steps=5)
    with pytest.raises(TrainingError, match="has a run already"):
        run(tmp_path, steps=5)


def test_settings_explain_what_is_wrong():
    with pytest.raises(SettingError, match="unknown setting 'step'; did you mean steps"):
        TrainingSettings(step=3)
    with pytest.raises(SettingError, match="warmup_steps"):
        toy.settings(schedule="cosine", warmup_steps=10, steps=5)
    with pytest.raises(SettingError, match="keep_checkpoints"):
        toy.settings(keep_checkpoints=1)
    for name, idea in (("optimizer", "optimizer"), ("schedule", "schedule"), ("averaging", "average")):
        with pytest.raises(UnknownName, match=f"unknown {idea}"):
            toy.trainer(None, {name: "nothing"})
    read = TrainingSettings.read({"optimizer": {"betas": [0.8, 0.9]}, "freeze": ["encoder.*"]})
    assert (read.optimizer.betas, read.freeze) == ((0.8, 0.9), ("encoder.*",))
    for name in MAY_CHANGE:
        table, _, key = name.rpartition(".")
        assert key in (toy.TABLES[table] if table else TrainingSettings).model_fields


def test_what_is_frozen_does_not_move_in_a_run():
    trainer = toy.trainer(None, {"steps": 3, "freeze": ["encoder.*"]})
    before = {name: tensor.clone() for name, tensor in trainer.module.state_dict().items()}
    trainer.train()
    for name, tensor in trainer.module.state_dict().items():
        assert torch.equal(tensor, before[name]) == (".encoder." in name), name


def test_without_a_compiler_one_line_says_so(monkeypatch, caplog):
    def missing(*_, **__):
        raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found\nand a long story")

    monkeypatch.setattr(torch, "compile", missing)
    with caplog.at_level(logging.WARNING, "regard.training"):
        _, outcome = run(None, steps=2, compile=True)
    assert outcome.step == 2
    assert [record.getMessage() for record in caplog.records] == [
        "torch.compile does not work here and is not used: InvalidCxxCompiler: No working C++ compiler found"
    ]


def test_with_a_compiler_every_block_is_compiled(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(nn.Module, "compile", lambda self, **_: compiled.append(type(self).__name__))
    assert compile_blocks(toy.module(layers=2))
    assert compiled == ["EncoderBlock"] * 2 + ["DecoderBlock"] * 2
    compiled.clear()
    assert compile_blocks(Line())
    assert compiled == ["Line"]


def test_resuming_is_an_event(tmp_path):
    run(tmp_path, steps=5)
    events: list = []
    trainer = toy.trainer(tmp_path, {"steps": 8, "learning_rate": 0.002}, [events.append])
    assert trainer.resume()
    assert events == [
        Resumed(
            5,
            tmp_path / "checkpoints" / "step-00000005",
            ["steps 5, now 8", "optimizer.learning_rate 0.001, now 0.002"],
            5,
        )
    ]
    assert trainer.train().step == 8


@pytest.mark.parametrize("average", ["ema", "last"])
def test_validation_sees_the_averaged_weights_and_training_its_own(average):
    changes = {"averaging": average, "ema_decay": 0.5, "every": 1, "last": 3}
    trainer = toy.trainer(None, {"steps": 6, "validate_every": 3, **changes})
    seen: list[dict[str, torch.Tensor]] = []

    def validate(module):
        assert not module.training
        seen.append({name: one.detach().clone() for name, one in module.named_parameters()})
        return Validation({"loss": 1.0})

    trainer.validate = validate
    trainer.train()
    averaged, trained = trainer.average.weights(), dict(trainer.module.named_parameters())
    assert len(seen) == 2
    assert averaged
    assert all(torch.equal(seen[-1][name], weight) for name, weight in averaged.items())
    assert any(not torch.equal(seen[-1][name], trained[name]) for name in averaged)


def test_the_size_estimate_covers_a_checkpoint_with_averaged_states(tmp_path):
    trainer = toy.trainer(tmp_path, {"averaging": "last", "last": 4, "every": 1, "steps": 6})
    trainer.train()
    weights = sum(tensor.nbytes for tensor in stored_weights(trainer.module).values())
    files = trainer.checkpoints.path(6).glob("*.safetensors")
    assert 8 * weights < sum(file.stat().st_size for file in files)  # 4 states, and 4 copies besides
    assert trainer.state.size() == 9 * weights
