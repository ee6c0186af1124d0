"""Training contenders: equal sizes, dropout in the same places, the same loss from the same weights."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.bench import train as bench
from regard.bench.peers import TorchDecoder, TorchTransformer, gpt2_with_head, marian_with_head
from regard.bench.plain import PlainGPT
from regard.bench.shapes import LANGUAGE_MODELS, PAD, TRANSLATION, translation_batch
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.transformer import build_model, count_parameters
from regard.training.objectives import Translation


def test_the_plain_gpt_has_our_size_and_so_has_gpt2_with_its_tied_head():
    pytest.importorskip("transformers")
    config, _ = LANGUAGE_MODELS["lm-small"]
    ours = count_parameters(build_model(config))
    assert count_parameters(PlainGPT(config)) == count_parameters(gpt2_with_head(config)) == ours
    tiny = TRANSLATION["mt-tiny"]
    extra = 2 * 512 * tiny.width  # sinusoids that Marian may keep as parameters
    assert count_parameters(marian_with_head(tiny)) - count_parameters(build_model(tiny)) in (0, extra)


@pytest.mark.parametrize("make", [TorchTransformer, TorchDecoder])
def test_torch_drops_out_around_sublayers_alone(make):
    config = ModelConfig.named("tiny", vocabulary=50, layers=2, dropout=0.1)
    body = make(config).body
    inside = [m.dropout.p for m in body.modules() if hasattr(m, "linear1")]
    inside += [m.dropout for m in body.modules() if isinstance(m, nn.MultiheadAttention)]
    around = [m.dropout1.p for m in body.modules() if hasattr(m, "dropout1")]
    assert inside
    assert set(inside) == {0.0}
    assert set(around) == {0.1}


def test_our_objective_has_the_loss_that_a_peer_has():
    torch.manual_seed(0)
    config = ModelConfig.named("tiny", vocabulary=60, layers=1, dropout=0.0)
    batch = translation_batch(60, sentences=7)
    parallel = bench._parallel(batch)
    objective = Translation(build_model(config), bench.SMOOTHING).train()
    loss, count = objective(parallel)
    mask = torch.from_numpy(parallel.source_keys)
    assert (torch.from_numpy(parallel.target_in)[:, 0] == bench.START).all()
    logits = objective.model(batch.source, torch.from_numpy(parallel.target_in), Mask(keys=mask))
    flat, words = logits.flatten(0, 1), batch.target.flatten()
    wanted = F.cross_entropy(flat, words, ignore_index=PAD, label_smoothing=bench.SMOOTHING)
    assert torch.isclose(loss / count, wanted, rtol=1e-5)
    assert count == batch.tokens


def test_every_contender_learns(monkeypatch):
    """A step that forgot to update, or to forget the last gradients, would not get better."""
    pytest.importorskip("transformers")
    small = ModelConfig.named(
        "gpt-2", vocabulary=11, width=16, layers=1, heads=2, feed_forward_width=64, context=8
    )
    monkeypatch.setattr(bench, "LANGUAGE_MODELS", {"small": (small, 4)})
    monkeypatch.setattr(bench, "TRANSLATION", {})
    monkeypatch.setattr(bench, "DROPOUT", 0.0)
    monkeypatch.setattr(bench, "RATE", 1e-2)
    losses = []
    backward = torch.Tensor.backward
    monkeypatch.setattr(
        torch.Tensor, "backward", lambda self, *a, **k: (losses.append(self.item()), backward(self, *a, **k))
    )
    (case,) = bench.cases()
    for implementation in case.implementations():
        losses.clear()
        for _ in range(15):
            implementation.work()
        assert losses[-1] < 0.8 * losses[0], implementation.title


def test_the_head_counts_among_the_operations():
    cases = {case.name: case for case in bench.cases()}
    assert set(cases) == {"mt-tiny", "mt-base-small", "lm-small", "lm-large"}
    per_token = cases["mt-tiny"].operations / cases["mt-tiny"].amount
    assert 7e6 + 6 * 128 * 10_000 < per_token < 9e6 + 6 * 128 * 10_000
