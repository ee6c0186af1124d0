"""The native engine gives what torch gives: for every family, batch, beam, prefix and processor level."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import sys
import threading
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.engine import native_stepper
from regard.engine.native_stepper import (
    FUNCTIONS,
    NativeModel,
    NativeStepper,
    _built_libraries,
    library,
    processor_level,
)
from regard.engine.native_weights import KEPT, NotNative
from regard.engine.stepper import Banned
from regard.engine.torch_stepper import TorchStepper
from regard.errors import SettingError, ShapeError, UnknownName, UsageError
from regard.inference.search.beam import BeamSettings, beam_search
from regard.inference.search.requests import Request
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from tests.engine import fuzz


def _is_built() -> bool:
    try:
        library()
    except NotNative:
        return False
    return True


needs_engine = pytest.mark.skipif(not _is_built(), reason="the native engine was not built: no C++ compiler")
SIZES = dict(vocabulary=97, width=48, layers=2, heads=4, feed_forward_width=72, context=96)
LLAMA = dict(
    family="decoder-only", residual="pre", positions="rotary", norm="rms", feed_forward="swiglu",
    key_value_heads=2, attention_bias=False, feed_forward_bias=False, tie_head=False, scale_embeddings=False,
)  # fmt: skip
LEVELS = fuzz.levels() if _is_built() else []
CASES: dict[str, dict[str, Any]] = {
    "paper": {},
    "marian": dict(residual="pre", positions="sinusoidal-halves", feed_forward="gelu", head_bias=True),
    "separate vocabularies": dict(
        target_vocabulary=61, share_embeddings=False, decoder_layers=1, heads=3, key_width=20
    ),
    "no positions": dict(positions="none", feed_forward="silu", embedding_norm=True, final_norm=True),
    "gpt-2": dict(
        family="decoder-only", residual="pre", positions="learned", feed_forward="gelu-tanh",
        scale_embeddings=False,
    ),
    "llama": LLAMA,
    "llama 3": LLAMA | dict(rotary_scaling=dict(kind="llama3", factor=4.0, original_context=16)),
    "one key head": LLAMA | dict(key_value_heads=1, rotary_scaling=dict(kind="linear", factor=2.0)),
    "geglu": dict(feed_forward="geglu", feed_forward_width=40),
    "reglu": dict(feed_forward="reglu", norm="rms"),
}  # fmt: skip


def models(seed: int = 0, threads: int = 1, dtype: str = "float32", level: str = "", **changes: Any):
    """A torch model with random weights, norms and biases included, and the same on the native engine."""
    torch.manual_seed(seed)
    config = ModelConfig(**{**SIZES, **changes})
    model = build_model(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.05)
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    return model, NativeModel(config, weights, threads, dtype, level)


def drawn(config: ModelConfig, rows: int, seed: int = 0):
    """Prefixes and sources of different lengths, some longer than a page."""
    random = np.random.default_rng(seed)
    vocabulary = config.target_vocabulary or config.vocabulary
    prefixes = [random.integers(0, vocabulary, random.integers(1, 40)) for _ in range(rows)]
    if config.family == "decoder-only":
        return prefixes, None
    return prefixes, [random.integers(0, config.vocabulary, random.integers(1, 50)) for _ in range(rows)]


@needs_engine
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_torch(case, level):
    model, native = models(threads=2, level=level, **CASES[case])
    steppers = TorchStepper(model), NativeStepper(native)
    random = np.random.default_rng(1)
    for stepper in steppers:
        stepper.admit(*drawn(model.config, 5))
    for turn in range(20):
        rows = steppers[0].rows
        ids = random.integers(0, steppers[0].vocabulary, rows)
        torch_choices, native_choices = (stepper.step(ids) for stepper in steppers)
        assert native_choices.logits == pytest.approx(torch_choices.logits, abs=2e-5)
        assert native_choices.log_probabilities == pytest.approx(torch_choices.log_probabilities, abs=2e-5)
        order = random.integers(0, rows, rows)
        for stepper in steppers:
            stepper.reorder(order)
            if turn == 5:
                stepper.drop(np.array([0, 3]))
            if turn == 9:
                stepper.admit(*drawn(model.config, 3, seed=2))
        assert steppers[0].rows == steppers[1].rows


@needs_engine
@pytest.mark.parametrize("best", [1, 4, 97])
def test_the_best_are_those_of_torch_without_what_is_banned(best):
    model, native = models()
    steppers = TorchStepper(model), NativeStepper(native)
    banned = Banned(np.repeat(np.arange(3), 40), np.tile(np.arange(40), 3))
    for stepper in steppers:
        stepper.admit(*drawn(model.config, 3))
    expected, chosen = (stepper.step(np.array([5, 6, 7]), best, banned) for stepper in steppers)
    assert (chosen.ids[:, :57] == expected.ids[:, :57]).all()
    assert {*chosen.ids[0]} == {*expected.ids[0]}
    assert chosen.log_probabilities == pytest.approx(expected.log_probabilities, abs=2e-5)


@needs_engine
@pytest.mark.parametrize("case", ["paper", "gpt-2", "llama"])
def test_beam_search_finds_the_same(case):
    model, native = models(**CASES[case])
    prefixes, sources = drawn(model.config, 6)
    settings = BeamSettings(beams=4, n_best=4, max_length=30, end=2)
    requests = [
        Request(prefix[:3], settings, None if sources is None else sources[row])
        for row, prefix in enumerate(prefixes)
    ]
    found = [
        [[result.ids.tolist() for result in answer.results] for answer in beam_search(stepper, requests)]
        for stepper in (TorchStepper(model), NativeStepper(native))
    ]
    assert found[0] == found[1]


@needs_engine
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("case", ["marian", "llama"])
def test_a_row_is_bit_equal_in_every_batch_and_with_any_number_of_threads(case, dtype):
    model, native = models(dtype=dtype, **CASES[case])
    others = [models(dtype=dtype, threads=threads, **CASES[case])[1] for threads in (2, 3)]
    prefixes, sources = drawn(model.config, 9)

    def logits(on: NativeModel, rows: list[int]) -> list[np.ndarray]:
        stepper = NativeStepper(on)
        stepper.admit([prefixes[row] for row in rows], sources and [sources[row] for row in rows])
        return list(np.stack([stepper.step(np.full(len(rows), token)).logits for token in (5, 6)], axis=1))

    alone = [logits(native, [row])[0] for row in range(9)]
    for together in (logits(on, list(range(9))) for on in (native, *others)):
        assert all((a == b).all() for a, b in zip(alone, together, strict=True))


@needs_engine
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        dict(
            family="encoder-only", output="vectors", positions="learned", feed_forward="gelu", segments=2,
            embedding_norm=True, scale_embeddings=False,
        ),
    ],
)  # fmt: skip
def test_vectors_of_the_encoder_are_those_of_torch(changes, level):
    model, native = models(threads=2, level=level, **changes)
    sources = [source.tolist() for source in drawn(ModelConfig(**SIZES), 4)[1] or ()]
    assert native.encode([]) == []
    for source, vectors in zip(sources, native.encode(sources), strict=True):
        expected = model.encode(torch.tensor([source])).detach()[0].numpy()
        assert vectors == pytest.approx(expected, abs=2e-5)


@needs_engine
def test_a_decoder_alone_does_not_encode():
    with pytest.raises(ShapeError, match="no encoder"):
        models(**CASES["gpt-2"])[1].encode([[1, 2]])


@needs_engine
def test_int8_stays_close_and_takes_a_quarter():
    model, native = models(dtype="int8")
    steppers = TorchStepper(model), NativeStepper(native)
    for stepper in steppers:
        stepper.admit(*drawn(model.config, 8))
    exact, rounded = (stepper.step(np.arange(8)).logits for stepper in steppers)
    assert 0 < np.abs(exact - rounded).max() < 0.05 * np.abs(exact).max()


@needs_engine
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", ["paper", "gpt-2", "llama"])
def test_float16_is_float32_with_rounded_weights(case, level):
    model, _ = models(**CASES[case])
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    weights["decoder.blocks.0.feed_forward.expand.weight"][:2, :3] = [[6e-8, -1e-6, 65504], [0, -0.0, 3e-5]]
    half = NativeModel(model.config, weights, dtype="float16", level=level)
    rounded = dict(weights)
    for name, weight in weights.items():
        if weight.ndim == 2 and not name.endswith(KEPT):
            rounded[name] = weight.astype(np.float16).astype(np.float32)
    steppers = [NativeStepper(half), NativeStepper(NativeModel(model.config, rounded, level=level))]
    for stepper in steppers:
        stepper.admit(*drawn(model.config, 7))
    one, other = (stepper.step(np.arange(7)).logits for stepper in steppers)
    assert (one == other).all()


@needs_engine
def test_a_number_that_float16_has_not_is_refused():
    model, _ = models()
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    weights["encoder.blocks.0.feed_forward.expand.weight"][0, 0] = 7e4
    with pytest.raises(ShapeError, match=r"expand\.weight has numbers above 65504, .* use float32"):
        NativeModel(model.config, weights, dtype="float16")


@needs_engine
@pytest.mark.parametrize("possible", [1, 3, 2100])
def test_ids_that_are_impossible_have_a_probability_of_zero(possible):
    vocabulary = 4200  # logits are examined in pieces of 2,048
    model, _ = models(vocabulary=vocabulary, head_bias=True)
    with torch.no_grad():
        model.head.bias[possible:] = -torch.inf
    native = NativeModel(model.config, {name: value.numpy() for name, value in model.state_dict().items()})
    steppers = TorchStepper(model), NativeStepper(native)
    for stepper in steppers:
        stepper.admit(*drawn(model.config, 2))
    expected, found = (stepper.step(np.array([5, 6])).log_probabilities for stepper in steppers)
    assert found[:, :possible] == pytest.approx(expected[:, :possible], abs=2e-5)
    assert (found[:, possible:] == -np.inf).all()
    chosen = steppers[1].best(5)
    assert (chosen.log_probabilities == -np.sort(-found)[:, :5]).all()
    assert (chosen.log_probabilities == np.take_along_axis(found, chosen.ids, 1)).all()
    assert all(len({*row}) == 5 for row in chosen.ids.tolist())


@needs_engine
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of addresses and /proc are Linux's")
def test_threads_that_cannot_be_started_are_an_error():
    script = """
import resource
import numpy as np
from regard.engine.native_stepper import NativeModel
from regard.errors import ShapeError
from regard.model.config import ModelConfig
from regard.model.weight_shapes import stored_shapes

config = ModelConfig(family="decoder-only", vocabulary=9, width=4, layers=1, heads=1, context=8)
weights = {name: np.zeros(shape, np.float32) for name, shape in stored_shapes(config).items()}
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)  # threads take 8 MB of addresses each
try:
    NativeModel(config, weights, threads=1000)
except ShapeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "of 1000 threads could be started" in done.stdout, done.stderr[-500:]


@needs_engine
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize(
    "name",
    [
        "source.weight",
        "encoder.blocks.1.attention.projections.bias",
        "decoder.blocks.0.feed_forward.expand.weight",
        "decoder.blocks.1.around_cross.norm.weight",
    ],
)
def test_a_damaged_weight_gives_nan_whatever_its_type(name, number, dtype, level):
    """Search refuses NaN; a product with int8 must not round it to a number."""
    model, _ = models(feed_forward="gelu")
    weights = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    weights[name][..., 0] = number
    stepper = NativeStepper(NativeModel(model.config, weights, dtype=dtype, level=level))
    stepper.admit(*drawn(model.config, 3))
    assert np.isnan(stepper.step(np.arange(3), best=4).log_probabilities).all()


@needs_engine
def test_a_copy_holds_the_same_session():
    stepper = NativeStepper(models(**CASES["gpt-2"])[1])
    stepper.admit([np.array([3, 4])])
    other = copy.copy(stepper)
    del stepper
    assert other.step(np.array([1])).logits.shape == (1, 97)
    with pytest.raises((AttributeError, TypeError, ValueError), match="pickle"):
        copy.deepcopy(other)


@needs_engine
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_is_refused_a_session_that_needs_threads():
    script = """
import os
import signal
import numpy as np
from regard.engine.native_stepper import NativeModel, NativeStepper
from regard.errors import ShapeError
from regard.model.config import ModelConfig
from regard.model.weight_shapes import stored_shapes

config = ModelConfig(family="decoder-only", vocabulary=9, width=4, layers=1, heads=1, context=8)
weights = {name: np.zeros(shape, np.float32) for name, shape in stored_shapes(config).items()}
stepper = NativeStepper(NativeModel(config, weights, threads=2))
stepper.admit([np.array([1])])
if os.fork() == 0:
    signal.alarm(20)  # it would wait for threads that the fork does not have
    try:
        stepper.step(np.array([1]))
    except ShapeError as error:
        print(error, flush=True)
    os._exit(0)
print(os.wait()[1], stepper.step(np.array([1])).logits.shape)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "a fork has no threads of a model that was loaded before it; load the model again", "0 (1, 9)"
    ], done.stderr[-500:]  # fmt: skip


@needs_engine
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of addresses and /proc are Linux's")
def test_a_step_without_memory_is_an_error_and_leaves_no_rows():
    script = """
import resource
import numpy as np
from regard.engine.native_stepper import NativeModel, NativeStepper
from regard.errors import ShapeError
from regard.model.config import ModelConfig
from regard.model.weight_shapes import stored_shapes

config = ModelConfig(family="decoder-only", vocabulary=9, width=64, layers=8, heads=1, positions="none")
weights = {name: np.zeros(shape, np.float32) for name, shape in stored_shapes(config).items()}
stepper = NativeStepper(NativeModel(config, weights))
stepper.admit([np.ones(16, int)] * 400)
ids = np.ones(400, int)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20),) * 2)  # the next page of all rows has 25 MB
try:
    for _ in range(3):
        stepper.step(ids, 1)
except ShapeError as error:
    print(error, stepper.rows)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "not enough memory 0\n", done.stderr[-500:]


@needs_engine
def test_an_unknown_dtype_is_answered_with_the_known():
    with pytest.raises(UnknownName, match="unknown dtype 'int4'; did you mean int8"):
        models(dtype="int4")


@needs_engine
def test_a_library_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(native_stepper, "INTERFACE", native_stepper.INTERFACE + 1)
    library.cache_clear()
    with pytest.raises(NotNative, match="install regard again"):
        library()
    library.cache_clear()


@needs_engine
def test_two_threads_of_python_step_one_model():
    model, native = models(threads=2)
    prefixes, sources = drawn(model.config, 6)
    expected: list[list[int]] = []
    found: dict[int, list[list[int]]] = {}

    def translate() -> list[list[int]]:
        stepper = NativeStepper(native)
        stepper.admit(prefixes, sources)
        ids, steps = np.zeros(6, int), []
        for _ in range(30):
            ids = stepper.step(ids, best=1).ids[:, 0]
            steps.append(ids.tolist())
        return steps

    expected = translate()
    workers = [
        threading.Thread(target=lambda number=number: found.update({number: translate()}))
        for number in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [found[number] for number in range(4)] == [expected] * 4


@needs_engine
def test_bad_input_is_an_error_and_never_a_crash():
    stepper = NativeStepper(models(**CASES["gpt-2"])[1])
    stepper.step(np.array([], int))
    stepper.admit([])
    for prefixes, message in (
        ([np.array([], int)], "a prefix is empty"),
        ([np.array([97, 1])], "97 is not below 97"),
        ([np.array([-1, 1])], "negative"),
        ([np.zeros(98, int)], "exceeds the 96 learned positions"),
    ):
        with pytest.raises(ShapeError, match=message):
            stepper.admit(prefixes)
    assert stepper.rows == 0
    stepper.admit([np.array([3, 4])])
    for ids in ([97], [1, 2], []):
        with pytest.raises(ShapeError):
            stepper.step(np.array(ids, int))
    with pytest.raises(ShapeError, match="outside"):
        stepper.step(np.array([1]), 1, Banned(np.array([1]), np.array([0])))
    with pytest.raises(ShapeError, match="best"):
        stepper.step(np.array([1]), 0)
    with pytest.raises(ShapeError, match="does not exist"):
        stepper.reorder(np.array([1]))
    assert stepper.step(np.array([1])).logits.shape == (1, 97)


@needs_engine
@pytest.mark.parametrize("ids", [np.empty((50_000_000, 0), int), np.ones((2, 2), int), np.ones(3), [True]])
def test_what_is_no_row_of_ids_is_refused(ids):
    """Lengths and ids must agree, or the library would read memory that is not the array's."""
    native = models(**CASES["gpt-2"])[1]
    stepper = NativeStepper(native)
    stepper.admit([np.array([1])])
    for call in (
        lambda: stepper.admit([np.array([1]), ids]),
        lambda: stepper.step(ids),
        lambda: stepper.reorder(ids),
        lambda: native.encode([ids]),
    ):
        with pytest.raises(ShapeError, match="must be whole numbers in a row"):
            call()
    assert stepper.rows == 1


def test_the_library_of_this_interpreter_comes_first(tmp_path):
    own = f"_native{EXTENSION_SUFFIXES[0]}"
    for name in ("_native.a.so", own, "_native.so"):
        (tmp_path / name).touch()
    assert _built_libraries(tmp_path)[0].name == own


def test_every_function_of_the_interface_has_its_types():
    header = Path(native_stepper.__file__).parent / "native" / "interface.h"
    declared = re.findall(r"EXPORTED [\w*: ]+[ *](regard_\w+)\(([^)]*)\)", header.read_text(encoding="utf-8"))
    assert {name: len(given.split(",")) if given else 0 for name, given in declared} == {
        name: len(arguments) for name, (arguments, _) in FUNCTIONS.items()
    }


@needs_engine
def test_sources_must_fit_the_rows():
    stepper = NativeStepper(models()[1])
    with pytest.raises(ShapeError, match="one source for each prefix"):
        stepper.admit([np.array([1])])
    with pytest.raises(ShapeError, match="a source is empty"):
        stepper.admit([np.array([1])], [np.array([], int)])


@needs_engine
def test_a_model_that_the_engine_does_not_have_is_refused_by_name():
    with pytest.raises(NotNative, match="similarity = 'cosine'"):
        models(similarity="cosine")
    with pytest.raises(NotNative, match="value_width"):
        models(value_width=8)
    with pytest.raises(UsageError, match="cannot generate text"):
        NativeStepper(models(family="encoder-only", output="vectors")[1])


@needs_engine
def test_weights_that_do_not_fit_are_refused_by_name():
    model, _ = models()
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    name = "decoder.blocks.1.feed_forward.expand.weight"
    with pytest.raises(ShapeError, match=f"{name} has the shape 71 x 48, not 72 x 48"):
        NativeModel(model.config, weights | {name: weights[name][:-1]})
    with pytest.raises(ShapeError, match=f"the weight {name} is missing"):
        NativeModel(model.config, {key: value for key, value in weights.items() if key != name})
    for threads in (0, (1 << 32) + 1):
        with pytest.raises(SettingError, match=rf"threads \({threads}\) must lie between"):
            NativeModel(model.config, weights, threads=threads)
    with pytest.raises(ShapeError, match="does not have the level avx1024"):
        NativeModel(model.config, weights, level="avx1024")


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_where_there_is_a_compiler_the_engine_was_built():
    assert processor_level() in fuzz.LEVELS
