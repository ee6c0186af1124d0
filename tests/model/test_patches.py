"""Patches of images: their order, parity with a strided convolution, and models that read them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from regard.checkpoints.folder import load_model, save_model
from regard.errors import SettingError, ShapeError
from regard.model.config import ModelConfig, Patches
from regard.model.patches import PatchEmbedding, cut_patches
from regard.model.transformer import build_model
from regard.text.collate import LabelledBatch
from regard.training.objectives import Classification

SMALL = dict(width=16, layers=1, heads=2, feed_forward_width=24, positions="learned", context=7)
READER = dict(SMALL, family="encoder-only", output="classes", classes=5, patches=dict(side=2))


def test_patches_are_cut_row_by_row():
    image = torch.arange(2 * 4 * 6).reshape(1, 2, 4, 6)
    patches = cut_patches(image, 2)
    assert patches.shape == (1, 6, 8)
    assert patches[0, 0].tolist() == [0, 1, 6, 7, 24, 25, 30, 31]
    assert patches[0, :, 0].tolist() == [0, 2, 4, 12, 14, 16]


def test_the_projection_is_a_convolution_whose_stride_is_its_kernel():
    embedding, convolution = PatchEmbedding(4, 3, 16, class_token=True), nn.Conv2d(3, 16, 4, stride=4)
    weights = convolution.state_dict()
    embedding.projection.load_state_dict({"weight": weights["weight"].flatten(1), "bias": weights["bias"]})
    images = torch.randn(2, 3, 8, 12)
    embedded = embedding(images)
    assert embedded.shape == (2, 7, 16)
    torch.testing.assert_close(embedded[:, 1:], convolution(images).flatten(2).mT)
    assert embedding.class_token is not None
    assert torch.equal(embedded[:, 0], embedding.class_token.expand(2, 16))


def test_an_encoder_reads_an_image_like_the_vectors_of_its_patches():
    reader = build_model(ModelConfig(**READER | dict(patches=dict(side=2, class_token=False)))).eval()
    other = build_model(ModelConfig(**READER | dict(patches=None, vectors=12))).eval()
    weights = {
        name.replace("patches.projection", "vectors"): value for name, value in reader.state_dict().items()
    }
    other.load_state_dict(weights)
    images = torch.rand(2, 3, 4, 6)
    torch.testing.assert_close(reader(images), other(cut_patches(images, 2)))


def test_a_captioner_attends_from_words_to_patches():
    config = ModelConfig(**SMALL, patches=Patches(side=2), target_vocabulary=9, share_embeddings=False)
    assert build_model(config)(torch.rand(2, 3, 4, 6), torch.randint(0, 9, (2, 5))).shape == (2, 5, 9)


def test_a_model_of_images_is_saved_and_trained(tmp_path):
    model = build_model(ModelConfig(**READER)).eval()
    images = np.random.default_rng(1).random((4, 3, 4, 6), np.float32)
    loaded = load_model(save_model(tmp_path / "model", model)).eval()
    assert torch.equal(loaded(torch.as_tensor(images)), model(torch.as_tensor(images)))
    batch = LabelledBatch(images, np.ones((4, 1), bool), np.array([0, 1, 2, 3]))
    whole, _ = Classification(model)(batch)
    parts = [Classification(model)(part)[0] for part in batch.split(2)]
    torch.testing.assert_close(whole, sum(parts))


@pytest.mark.parametrize(
    "images",
    [torch.rand(2, 1, 4, 4), torch.rand(3, 4, 4), torch.ones(2, 3, 4, 4).long(), torch.rand(2, 3, 4, 5)],
)
def test_other_shapes_are_refused(images):
    with pytest.raises(ShapeError, match=r"must be (images|B C height width)"):
        build_model(ModelConfig(**READER))(images)


def test_settings_that_exclude_each_other_are_refused():
    with pytest.raises(SettingError, match="two kinds of input"):
        ModelConfig(**READER | dict(vectors=12))
    with pytest.raises(SettingError, match="need an encoder"):
        ModelConfig(family="decoder-only", vocabulary=9, patches=Patches(side=2))
