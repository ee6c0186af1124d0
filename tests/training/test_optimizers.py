"""Optimizers: what each parameter is, updates against a plain reference, state, clipping."""

from __future__ import annotations

import copy
import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from regard.errors import SettingError, TrainingError, UnknownName
from regard.model.transformer import build_model
from regard.training.muon import COEFFICIENTS, Muon, orthogonalise
from regard.training.optimizers import (
    build_optimizer,
    freeze,
    gradients_of,
    parts_of,
    scale_and_clip,
    set_learning_rate,
)
from regard.training.settings import TrainingSettings

from . import toy
from .conftest import KINDS, OBJECTIVES, parallel, tiny


def objective(kind="translation", **changes):
    torch.manual_seed(3)
    return OBJECTIVES[kind](build_model(tiny(**KINDS[kind][1], **changes)))


def with_gradients(module: nn.Module, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return module


def settings(**changes) -> TrainingSettings:
    return toy.settings(**{"optimizer": "muon", **changes})


def by_reference(matrix: torch.Tensor) -> torch.Tensor:
    """One matrix, in float64, the polynomial written out."""
    x = matrix.double() / matrix.double().norm()
    for a, b, c in COEFFICIENTS:
        x = a * x + b * x @ x.T @ x + c * x @ x.T @ x @ x.T @ x
    return x


@pytest.mark.parametrize("shape", [(6, 6), (6, 8), (4, 9), (9, 4), (1, 5)])
def test_orthogonalising_is_the_polynomial_of_each_matrix(shape):
    torch.manual_seed(0)
    stack = torch.randn(3, *shape) * torch.tensor([1e-6, 1.0, 1e4])[:, None, None]
    for matrix, result in zip(stack, orthogonalise(stack), strict=True):
        torch.testing.assert_close(result.double(), by_reference(matrix), rtol=1e-3, atol=1e-5)


def test_singular_values_come_near_one_and_directions_stay():
    torch.manual_seed(0)
    u, _, v = torch.linalg.svd(torch.randn(2, 12, 20), full_matrices=False)
    result = orthogonalise(u * torch.logspace(0, -2, 12) @ v)
    assert torch.linalg.svdvals(result).min() > 0.79
    assert torch.linalg.svdvals(result).max() < 1.21
    assert (u.mT @ result @ v.mT).diagonal(dim1=1, dim2=2).min() > 0.79


def test_the_coefficients_do_what_is_said_of_them():
    x = torch.logspace(torch.tensor(0.003).log10().item(), 0, 10_000, dtype=torch.float64)
    for a, b, c in COEFFICIENTS:
        x = a * x + b * x**3 + c * x**5
    assert 0.80 <= x.min() < 0.81
    assert 1.19 < x.max() <= 1.20
    assert round(math.prod(a for a, _, _ in COEFFICIENTS)) == 296


def test_a_zero_matrix_stays_zero():
    assert orthogonalise(torch.zeros(1, 3, 4)).abs().max() == 0


def test_it_works_in_float32_only(monkeypatch):
    seen = set()
    real = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda a, b: seen.add(a.dtype) or real(a, b))
    module = with_gradients(objective())
    build_optimizer(module, settings()).step()
    assert seen == {torch.float32}


def test_a_step_is_the_stated_rule_for_every_projection():
    module = with_gradients(objective(feed_forward="swiglu"))
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    optimizer = build_optimizer(module, settings(weight_decay=0.1, momentum=0.9))
    set_learning_rate(optimizer, 0.01)
    optimizer.step()
    for part in parts_of(module):
        if part.role != "matrix":
            continue
        momentum = 0.1 * part.parameter.grad
        ahead = 0.9 * momentum + 0.1 * part.parameter.grad
        expected = [
            (1 - 0.01 * 0.1) * old - 0.01 * 0.2 * max(old.shape) ** 0.5 * by_reference(piece)
            for old, piece in zip(
                before[part.name].split(part.sections), ahead.split(part.sections), strict=True
            )
        ]
        torch.testing.assert_close(
            part.parameter.detach().double(), torch.cat(expected), rtol=1e-4, atol=1e-6
        )


def test_muon_looks_one_step_ahead_of_its_momentum():
    """At a second step, whose gradient points elsewhere: at the first one momentum and gradient agree."""
    weight, rate = nn.Parameter(torch.randn(4, 6, generator=torch.Generator().manual_seed(1))), 0.01
    optimizer = Muon([{"params": [weight], "sections": [[4]]}], momentum=0.9, lr=rate, weight_decay=0.0)
    held, expected = torch.zeros(4, 6).double(), weight.detach().double()
    for seed in range(3):
        gradient = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 + seed))
        weight.grad = gradient.clone()
        optimizer.step()
        held = 0.9 * held + 0.1 * gradient
        expected = expected - rate * 0.2 * 6**0.5 * by_reference(0.9 * held + 0.1 * gradient)
        torch.testing.assert_close(weight.detach().double(), expected, rtol=1e-5, atol=1e-6)


def test_the_rest_is_adamw():
    ours, theirs = with_gradients(objective()), with_gradients(objective())
    for module, name in ((ours, "muon"), (theirs, "adamw")):
        optimizer = build_optimizer(module, settings(optimizer=name))
        for _ in range(3):
            set_learning_rate(optimizer, 0.01)
            optimizer.step()
    mine = {part.name: part for part in parts_of(ours)}
    for part in parts_of(theirs):
        same = torch.equal(part.parameter, mine[part.name].parameter)
        assert same == (part.role != "matrix"), part.name


def test_the_order_of_parameters_changes_nothing():
    results = []
    for reverse in (False, True):
        module = with_gradients(objective())
        optimizer = build_optimizer(module, settings())
        for group in optimizer.param_groups:
            if reverse:
                group["params"].reverse()
                group["sections"] = group["sections"] and group["sections"][::-1]
        set_learning_rate(optimizer, 0.01)
        for _ in range(2):
            optimizer.step()
        results.append([p.detach().clone() for p in module.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_state_goes_out_and_in(name):
    first = with_gradients(objective())
    first_optimizer = build_optimizer(first, settings(optimizer=name))
    set_learning_rate(first_optimizer, 0.01)
    first_optimizer.step()
    second = copy.deepcopy(first)
    for old, new in zip(first.parameters(), second.parameters(), strict=True):
        new.grad = old.grad.clone()
    second_optimizer = build_optimizer(second, settings(optimizer=name))
    second_optimizer.load_state_dict(copy.deepcopy(first_optimizer.state_dict()))  # not shared
    for optimizer in (first_optimizer, second_optimizer):
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert first_optimizer.state_dict()["state"].keys() == second_optimizer.state_dict()["state"].keys()


def test_adamw_is_fused_and_torchs():
    module, theirs = with_gradients(objective()), with_gradients(objective())
    optimizer = build_optimizer(module, settings(optimizer="adamw", weight_decay=0.0))
    set_learning_rate(optimizer, 0.01)
    assert all(group["fused"] for group in optimizer.param_groups)
    reference = torch.optim.AdamW(
        theirs.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, foreach=False
    )
    for _ in range(3):
        optimizer.step()
        reference.step()
    for a, b in zip(module.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_torchs_compiler_stays_unimported(optimizer):
    code = f"""
import sys
from torch import nn
from regard.training.optimizers import build_optimizer
from regard.training.settings import TrainingSettings
module = nn.Linear(2, 2)
optimizer = build_optimizer(module, TrainingSettings(optimizer={{"name": {optimizer!r}}}))
module.weight.sum().backward()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
optimizer.zero_grad()
assert module.weight.grad is None
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def roles(kind="translation", **changes) -> dict[str, str]:
    return {part.name.removeprefix("model."): part.role for part in parts_of(objective(kind, **changes))}


def test_roles_of_the_three_families():
    by_name = roles(feed_forward="swiglu")
    assert by_name["source.weight"] == "table"
    assert by_name["encoder.blocks.0.attention.projections.weight"] == "matrix"
    assert by_name["encoder.blocks.0.attention.projections.bias"] == "plain"
    assert by_name["decoder.blocks.1.around_cross.norm.weight"] == "plain"
    assert "head.weight" not in by_name  # tied to the embedding
    assert roles("language-modeling", tie_head=False, positions="learned")["head.weight"] == "weight"
    assert roles("language-modeling", positions="learned")["target.positions.weight"] == "table"
    assert roles("classification", segments=2)["source.segments"] == "table"
    assert roles("classification")["head.classify.weight"] == "weight"
    assert roles("masked-language-modeling")["head.transform.weight"] == "weight"


def test_fused_projections_and_gates_are_split():
    sections = {
        part.name: part.sections for part in parts_of(objective(feed_forward="swiglu", key_value_heads=1))
    }
    assert sections["model.encoder.blocks.0.attention.projections.weight"] == (16, 8, 8)
    assert sections["model.encoder.blocks.0.feed_forward.expand.weight"] == (32, 32)
    assert sections["model.encoder.blocks.0.feed_forward.contract.weight"] == (16,)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_only_weights_decay(name):
    module = objective("language-modeling", tie_head=False)
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = {part.name: part.parameter.detach().clone() for part in parts_of(module)}
    optimizer = build_optimizer(module, settings(optimizer=name, weight_decay=0.5))
    set_learning_rate(optimizer, 0.1)
    optimizer.step()
    for part in parts_of(module):
        expected = before[part.name] * (0.95 if part.role in ("matrix", "weight") else 1.0)
        torch.testing.assert_close(part.parameter.detach(), expected)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_embeddings_decay_where_asked(name):
    module = objective("language-modeling", positions="learned")  # the head's weight is the embedding
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = {part.name: part.parameter.detach().clone() for part in parts_of(module)}
    optimizer = build_optimizer(module, settings(optimizer=name, weight_decay=0.5, embedding_decay=0.2))
    set_learning_rate(optimizer, 0.1)
    optimizer.step()
    factors = {"matrix": 0.95, "weight": 0.95, "table": 0.98, "plain": 1.0}
    seen = set()
    for part in parts_of(module):
        seen.add(part.role)
        torch.testing.assert_close(part.parameter.detach(), before[part.name] * factors[part.role])
    assert seen == {"matrix", "table", "plain"}


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_without_a_decay_of_embeddings_groups_are_as_ever(name):
    """A run saved before there was one goes on."""
    module = objective("language-modeling", positions="learned")
    groups = build_optimizer(module, settings(optimizer=name, weight_decay=0.5)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.5, 0.0]
    by_id = {id(part.parameter): part.role for part in parts_of(module)}
    assert [by_id[id(parameter)] for parameter in groups[1]["params"]] == [
        part.role for part in parts_of(module) if part.role in ("table", "plain")
    ]


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_backbone_and_head_have_their_own_learning_rates(name):
    module = objective("classification")
    optimizer = build_optimizer(
        module, settings(optimizer=name, backbone_lr_scale=0.1, head_lr_scale=2.0, muon_lr_scale=0.5)
    )
    set_learning_rate(optimizer, 1.0)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    for part in parts_of(module):
        muon = 0.5 if name == "muon" and part.role == "matrix" else 1.0
        assert rates[id(part.parameter)] == (2.0 if part.in_head else 0.1 * muon)
    assert len(rates) == len(parts_of(module))


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_what_is_frozen_stays(name):
    module = objective("classification")
    optimizer = build_optimizer(module, settings(optimizer=name, freeze=["source.*", "encoder.*"]))
    before = {n: p.detach().clone() for n, p in module.named_parameters()}
    set_learning_rate(optimizer, 0.1)
    loss, _ = module(KINDS["classification"][0]())
    loss.backward()
    optimizer.step()
    moved = {n for n, p in module.named_parameters() if not torch.equal(p, before[n])}
    assert moved == {n for n in before if ".head." in n}


def test_freezing_nothing_or_everything_is_refused():
    with pytest.raises(SettingError, match=r"did you mean encoder\.\*"):
        freeze(objective(), ["encodr.*"])
    with pytest.raises(TrainingError, match="all parameters are frozen"):
        build_optimizer(objective(), settings(freeze=["*"]))
    with pytest.raises(UnknownName, match="did you mean adamw"):
        build_optimizer(objective(), settings(optimizer="adam"))


def test_a_tied_weight_is_frozen_under_any_of_its_names():
    module = objective()
    assert freeze(module, ["head.weight"]) == ["head.weight"]
    assert not module.model.source.weight.requires_grad


@pytest.mark.parametrize("limit", [None, 0.5, 1e9])
def test_clipping_is_torchs_and_divides_once(limit):
    module, theirs = objective(), objective()
    for model in (module, theirs):
        model(parallel())[0].backward()
    optimizer = build_optimizer(module, settings())
    norm = scale_and_clip(gradients_of(optimizer), 50, limit)
    for parameter in theirs.parameters():
        parameter.grad /= 50
    expected = torch.nn.utils.clip_grad_norm_(theirs.parameters(), limit or float("inf"))
    torch.testing.assert_close(norm, expected)
    for a, b in zip(module.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-7)


def test_parameters_without_gradient_are_left_alone():
    weight, other = nn.Parameter(torch.ones(3, 3)), nn.Parameter(torch.ones(3))
    groups = [{"params": [weight], "sections": [[3]], "lr": 0.1}, {"params": [other], "lr": 0.1}]
    Muon(groups, weight_decay=0.5).step()
    assert torch.equal(weight, torch.ones(3, 3))
    assert torch.equal(other, torch.ones(3))
