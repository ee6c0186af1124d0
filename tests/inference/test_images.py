"""A ViT folder as transformers writes it: the same probabilities for files and arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import run
from regard.errors import RegardError
from regard.inference.loading import LoadOptions, load, load_images

SIZES = dict(
    hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, image_size=8,
    patch_size=4,
)  # fmt: skip
LABELS = {0: "cat", 1: "dog", 2: "bird"}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(3)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**SIZES, id2label=LABELS)).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    processor = transformers.ViTImageProcessorPil(
        size=dict(height=8, width=8), image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.4]
    )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder, model, processor


def pictures() -> list[np.ndarray]:
    draw = np.random.default_rng(5)
    shapes = [(8, 8, 3), (31, 17, 3), (5, 40, 3), (9, 9)]
    return [draw.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]


@torch.inference_mode()
def test_probabilities_are_theirs(theirs, tmp_path) -> None:
    folder, model, processor = theirs
    classifier = load_images(folder)
    for number, picture in enumerate(pictures()):
        opened = Image.fromarray(picture).convert("RGB")
        opened.save(tmp_path / f"{number}.png")
        inputs = processor(opened, return_tensors="pt")
        expected = model(**inputs).logits.softmax(-1)[0].numpy()
        for given in (picture, tmp_path / f"{number}.png"):
            answer = classifier.classify(given)
            np.testing.assert_allclose(list(answer.probabilities.values()), expected, atol=1e-5, rtol=0)
            assert answer.label == LABELS[int(expected.argmax())]
    assert len(classifier.classify(pictures())) == 4


def test_the_command(theirs, tmp_path, capsys) -> None:
    Image.fromarray(pictures()[1]).save(tmp_path / "a.jpg")
    assert run(["classify", str(theirs[0]), "--image", str(tmp_path / "a.jpg")]) == 0
    label, probability = capsys.readouterr().out.split()
    assert label in LABELS.values()
    assert 0 < float(probability) <= 1
    assert run(["classify", str(theirs[0]), "--image", str(tmp_path / "a.jpg"), "--truncate"]) == 2
    assert "--truncate is for texts" in capsys.readouterr().err
    for command in (["embed"], ["classify"], ["inspect"]):
        assert run([command[0], str(theirs[0]), "a text"]) == 2
        assert "reads images; use regard classify --image" in capsys.readouterr().err


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((4, 4, 3)),
        np.zeros((4, 4, 5), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        b"not a picture",
        b"\x89PNG\r\n\x1a\n" + b"\0" * 40,
        "missing",
    ],
)
def test_what_is_no_picture_is_refused(theirs, tmp_path, picture) -> None:
    if not isinstance(picture, np.ndarray):
        path = tmp_path / "a.png"
        if isinstance(picture, bytes):
            path.write_bytes(picture)
        picture = path
    with pytest.raises(RegardError) as caught:
        load_images(theirs[0]).classify(picture)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("config.json", dict(image_size=9), "must be a multiple of patch_size"),
        ("config.json", dict(qkv_bias=False), "qkv_bias"),
        ("preprocessor_config.json", dict(size=dict(height=9, width=8)), "size"),
        ("preprocessor_config.json", dict(size=[8]), r"size \(\[8\]\)"),
        ("preprocessor_config.json", dict(size={"height": [], "width": 8}), "size"),
        ("preprocessor_config.json", dict(size={"shortest_edge": 8}), "size"),
        ("preprocessor_config.json", dict(resample=9), "resample"),
        ("preprocessor_config.json", dict(resample=[2]), r"resample \(\[2\]\)"),
        ("preprocessor_config.json", dict(do_flip=True), r"do_flip \(True\) is not a known setting"),
        ("preprocessor_config.json", dict(image_std=[0, 1, 1]), "std not 0"),
        ("preprocessor_config.json", dict(image_mean="a"), "mean"),
    ],
)
def test_settings_that_are_not_supported_are_refused(theirs, tmp_path, file, changes, message) -> None:
    for path in Path(theirs[0]).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    values = json.loads((tmp_path / file).read_text(encoding="utf-8")) | changes
    (tmp_path / file).write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(RegardError, match=message) as caught:
        load_images(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_text_model_is_refused_for_images_and_the_other_way_round(theirs) -> None:
    with pytest.raises(RegardError, match="reads images"):
        load(theirs[0])
    with pytest.raises(RegardError, match=r"dtype \(int8\) is not for models of images"):
        load_images(theirs[0], LoadOptions(dtype="int8"))
    with pytest.raises(RegardError, match=r"engine \(native\) is not for models of images"):
        load_images(theirs[0], LoadOptions(engine="native"))
    with pytest.raises(RegardError, match="cannot classify images"):
        load_images(Path(regard.__file__).parent / "demo" / "trained" / "demo")
