"""Positions: the paper's formula, the other layout, learned ones and their end, rotary ones."""

import copy
import math

import numpy as np
import pytest
import torch

from regard.engine.torch_stepper import TorchStepper
from regard.errors import ShapeError
from regard.model.config import ModelConfig, RotaryScaling
from regard.model.frequencies import rotary_frequencies
from regard.model.positions import Learned, Rotary, Sinusoidal, sinusoids
from regard.model.transformer import build_model

HALVES = {torch.bfloat16: 2**-8, torch.float16: 2**-11}  # how finely each tells numbers apart
SCALINGS = [
    None,
    RotaryScaling(kind="linear", factor=2.0),
    RotaryScaling(kind="llama3", factor=8.0, low=1.0, high=4.0, original_context=256),
]


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoids_are_the_papers_formula(width):
    found = sinusoids(torch.arange(50), width)
    for position in (0, 1, 17, 49):
        for i in range(width):
            angle = position / 10_000 ** (2 * (i // 2) / width)
            wanted = math.sin(angle) if i % 2 == 0 else math.cos(angle)
            assert found[position, i].item() == pytest.approx(wanted, abs=1e-6)


def test_halves_hold_the_same_waves_in_another_order():
    paper, halves = sinusoids(torch.arange(9), 8), sinusoids(torch.arange(9), 8, halves=True)
    assert torch.equal(halves, torch.cat([paper[:, 0::2], paper[:, 1::2]], dim=1))


def test_sinusoidal_reaches_any_length():
    positions = Sinusoidal(8, prepared=16)
    far = torch.tensor([3, 1_000_000])
    assert torch.equal(positions(far, length=1_000_001), sinusoids(far, 8))
    assert torch.equal(positions(torch.arange(16), length=16), sinusoids(torch.arange(16), 8))


def test_learned_positions_end_where_they_were_learned():
    positions = Learned(8, context=4)
    assert positions(torch.arange(4), length=4).shape == (4, 8)
    with pytest.raises(ShapeError, match="a sequence of 5 tokens exceeds the 4 learned positions"):
        positions(torch.arange(5), length=5)


def test_rotary_makes_scores_depend_on_distance_alone():
    torch.manual_seed(0)
    query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    rotary = Rotary(8)

    def score(m, n):
        return (rotary.rotation(torch.tensor([m]))(query) * rotary.rotation(torch.tensor([n]))(key)).sum()

    assert score(3, 1) == pytest.approx(score(13, 11).item(), abs=1e-5)
    assert abs(score(3, 1) - score(3, 2)) > 1e-3


def test_rotary_turns_without_stretching():
    x = torch.randn(2, 3, 4, 8)
    turned = Rotary(8).rotation(torch.arange(4))(x)
    assert torch.allclose(turned.norm(dim=-1), x.norm(dim=-1), atol=1e-5)
    assert torch.equal(turned[:, :, 0], x[:, :, 0])


def test_linear_scaling_slows_every_frequency():
    plain = rotary_frequencies(8, 10_000.0)
    slowed = rotary_frequencies(8, 10_000.0, RotaryScaling(kind="linear", factor=4.0))
    assert np.allclose(slowed, plain / 4)


def test_llama3_scaling_slows_only_the_slow_ones():
    scaling = RotaryScaling(kind="llama3", factor=8.0, low=1.0, high=4.0, original_context=8192)
    plain, scaled = rotary_frequencies(128, 500_000.0), rotary_frequencies(128, 500_000.0, scaling)
    assert scaled[0] == plain[0]
    assert np.isclose(scaled[-1], plain[-1] / 8)
    assert (scaled <= plain + 1e-12).all()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_rotary_angles_are_float32_whatever_the_model_is_cast_to(half, scaling):
    rotary = Rotary(8, scaling=scaling)
    positions = torch.tensor([255, 256, 257, 1023, 1025, 40_000])
    wanted = rotary.rotation(positions)
    for cast in (copy.deepcopy(rotary).to(half), copy.deepcopy(rotary).double().to(half).float()):
        found = cast.rotation(positions)
        assert torch.equal(found.cosine, wanted.cosine)
        assert torch.equal(found.sine, wanted.sine)
    assert copy.deepcopy(rotary).double().rotation(positions).cosine.dtype == torch.float64
    x = torch.randn(1, 1, len(positions), 8, generator=torch.Generator().manual_seed(0)).to(half)
    assert rotary.rotation(positions)(x).dtype == half
    torch.testing.assert_close(
        rotary.rotation(positions)(x).float(), wanted(x.float()), rtol=HALVES[half], atol=0
    )


def half_and_its_float32(half, **changes):
    """A model in half precision, and one with the same rounded weights that computes in float32."""
    torch.manual_seed(0)
    config = ModelConfig(
        vocabulary=50, width=32, layers=2, heads=2, feed_forward_width=32, family="decoder-only",
        positions="rotary", norm="rms", residual="pre", scale_embeddings=False, **changes,
    )  # fmt: skip
    exact = build_model(config).eval()
    for matrix in (parameter for parameter in exact.parameters() if parameter.dim() == 2):
        torch.nn.init.normal_(matrix, std=0.2)  # so large that attention has its favourites
        matrix.data = matrix.data.to(half).float()
    return copy.deepcopy(exact).to(half), exact


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("scaling", SCALINGS)
@torch.inference_mode()
def test_half_precision_is_as_near_at_far_positions_as_at_near_ones(half, scaling):
    rounded, exact = half_and_its_float32(half, rotary_scaling=scaling)
    ids = torch.randint(0, 50, (4, 700), generator=torch.Generator().manual_seed(1))
    wanted = exact(ids)
    errors = (rounded(ids).float() - wanted).abs().amax((0, 2)) / wanted.abs().max()  # of each position
    assert errors[256:].mean() < 1.5 * errors[:256].mean()
    assert errors.max() < 12 * HALVES[half]


@pytest.mark.parametrize("half", HALVES)
def test_a_decoding_step_in_half_precision_knows_far_positions(half):
    rounded, exact = half_and_its_float32(half)
    text = np.random.default_rng(2).integers(0, 50, 600)
    found = []
    for model in (rounded, exact):
        stepper = TorchStepper(model)
        stepper.admit([text[:580]])
        found.append(
            np.concatenate([stepper.step(text[i : i + 1]).log_probabilities for i in range(579, 600)])
        )
    assert np.abs(found[0] - found[1]).max() < 12 * HALVES[half] * np.abs(found[1]).max()
