"""Each objective: the loss it states, over the places that are scored, whatever stands in the padding."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.errors import SettingError
from regard.model.masks import Mask
from regard.model.transformer import build_model
from regard.training import loss as losses
from regard.training.loss import CrossEntropyLoss, cross_entropy, observed_cross_entropy
from regard.training.objectives import Translation

from .conftest import KINDS, OBJECTIVES, labelled, masked, parallel, text, tiny


def make(kind: str, smoothing: float = 0.1, **changes):
    torch.manual_seed(1)
    batch, config = KINDS[kind]
    model = build_model(tiny(**config, **changes))
    return OBJECTIVES[kind](model, smoothing), batch()


def plainly(kind: str, model, batch) -> tuple[torch.Tensor, np.ndarray]:
    """Logits of every place through the model's own forward, and the words or labels, -100 where unscored."""
    if kind == "translation":
        masks = Mask(keys=torch.tensor(batch.source_keys)), Mask(keys=torch.tensor(batch.target_keys))
        logits = model(torch.tensor(batch.source), torch.tensor(batch.target_in), *masks)
        return logits, np.where(batch.target_keys, batch.target_out, -100)
    logits = model(torch.tensor(batch.input), Mask(keys=torch.tensor(batch.keys)))
    if kind == "classification":
        return logits, batch.labels
    return logits, np.where(
        batch.chosen if kind == "masked-language-modeling" else batch.keys, batch.output, -100
    )


@pytest.mark.parametrize("training", [True, False])
def test_the_loss_is_that_of_the_whole_forward(kind, training):
    objective, batch = make(kind)
    objective.train(training)
    loss, count = objective(batch)
    logits, wanted = plainly(kind, objective.model, batch)
    expected = F.cross_entropy(
        logits.flatten(0, -2),
        torch.tensor(wanted).flatten(),
        reduction="sum",
        label_smoothing=0.1 if training else 0.0,
    )
    assert count == batch.tokens == (wanted != -100).sum()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_the_whole_forward(kind):
    objective, batch = make(kind)
    parameters = list(objective.parameters())
    ours = torch.autograd.grad(objective(batch)[0], parameters)
    logits, wanted = plainly(kind, objective.model, batch)
    loss = F.cross_entropy(
        logits.flatten(0, -2), torch.tensor(wanted).flatten(), reduction="sum", label_smoothing=0.1
    )
    scale = max(gradient.abs().max() for gradient in ours)
    for mine, other in zip(ours, torch.autograd.grad(loss, parameters), strict=True):
        assert (mine - other).abs().max() / scale < 1e-5


def test_what_stands_in_the_padding_changes_nothing(kind):
    objective, batch = make(kind)
    objective.eval()
    before = objective(batch)[0]
    changes = {}
    for name, array in vars(batch).items():
        keys = batch._masks.get(name)
        if keys and array.dtype != bool:
            changes[name] = np.where(getattr(batch, keys), array, 7)
    after = objective(dataclasses.replace(batch, **changes))[0]
    torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "batch"),
    [("translation", parallel()), ("language-modeling", text()), ("masked-language-modeling", masked())],
)
def test_only_scored_positions_reach_the_head(kind, batch, monkeypatch):
    seen = []
    monkeypatch.setattr(
        losses,
        "cross_entropy",
        lambda rows, *rest, **named: seen.append(len(rows)) or cross_entropy(rows, *rest, **named),
    )
    objective, _ = make(kind)
    objective(batch)
    assert seen == [batch.tokens]
    assert batch.tokens < (batch.target_out if kind == "translation" else batch.output).size


def test_a_batch_without_padding_needs_no_mask(kind, monkeypatch):
    from regard.training import objectives

    objective, batch = make(kind)
    one_row = batch.split(batch.rows)[0]
    monkeypatch.setattr(objectives, "Mask", None)
    objective(one_row)


def test_r_drop_adds_the_divergence_of_two_passes(kind, monkeypatch):
    """The loss equals a reference computed from the logits of both passes."""
    objective, batch = make(kind, dropout=0.3)
    objective.loss = CrossEntropyLoss(0.1, r_drop=3.0)
    seen = []
    if kind != "classification":

        def recorded(rows, weight, targets, bias, label_smoothing, r_drop):
            seen.append((F.linear(rows, weight, bias), targets))
            return cross_entropy(rows, weight, targets, bias, label_smoothing, r_drop=r_drop)

        monkeypatch.setattr(losses, "cross_entropy", recorded)
    else:
        forward = objective.model.forward
        labels = torch.tensor(batch.labels).repeat(2)
        monkeypatch.setattr(
            objective.model, "forward", lambda *inputs: seen.append((forward(*inputs), labels)) or seen[-1][0]
        )
    loss, count = objective(batch)
    ((logits, wanted),) = seen
    p, q = logits.log_softmax(-1).chunk(2)
    divergence = F.kl_div(p, q, reduction="sum", log_target=True) + F.kl_div(
        q, p, reduction="sum", log_target=True
    )
    expected = F.cross_entropy(logits, wanted, reduction="sum", label_smoothing=0.1) + 1.5 * divergence
    assert count == 2 * batch.tokens
    assert divergence > 0.01  # dropout differs between the passes
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)


def test_without_training_one_pass_is_made(kind):
    objective, batch = make(kind, dropout=0.3)
    objective.eval()
    alone = objective(batch)
    objective.loss = CrossEntropyLoss(r_drop=3.0)
    assert objective(batch) == alone


def test_r_drop_needs_dropout(kind):
    config = KINDS[kind][1]
    with pytest.raises(SettingError, match="needs dropout"):
        OBJECTIVES[kind](build_model(tiny(**config, dropout=0.0)), r_drop=1.0)
    assert OBJECTIVES[kind](build_model(tiny(**config, dropout=0.1)), r_drop=1.0).loss.r_drop == 1.0


def test_label_smoothing_is_below_1():
    with pytest.raises(SettingError, match="smoothing"):
        Translation(build_model(tiny()), 1.0)


def test_labels_are_smoothed_over_classes():
    objective, batch = make("classification", smoothing=0.2)
    assert objective(batch)[0] != objective.eval()(batch)[0]
    assert objective(labelled())[1] == 8


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_the_cross_entropy_is_reported_without_label_smoothing_and_r_drop(kind, r_drop):
    objective, batch = make(kind, smoothing=0.2)
    objective.loss = CrossEntropyLoss(0.2, r_drop)
    with observed_cross_entropy() as sums:
        loss, count = objective.train()(batch)
    plain, alone = objective.eval()(batch)
    assert float(sum(sums)) / count == pytest.approx(plain.item() / alone, rel=1e-5)
    assert not any(tensor.requires_grad for tensor in sums)
    assert loss.item() / count != pytest.approx(plain.item() / alone, rel=1e-4)
    objective(batch)
    assert len(sums) == 1  # nothing is reported outside the context
