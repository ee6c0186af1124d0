"""What holds for every test, and the small models that tests of several rooms use."""

from __future__ import annotations

import os
import random
import signal
import threading

import pytest
from hypothesis import settings

# Two workers on two cores: more threads than one each would only wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"

# A shell ignores Ctrl-C for what it runs in the background, and children inherit that; tests send the signal.
ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
if ignored and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples for everybody; `pytest --hypothesis-profile=explore` draws new ones.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("steady")


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the lines that tests left with record_property("summary", ...), each once."""
    stats = terminalreporter.stats
    reports = [*stats.get("passed", []), *stats.get("skipped", [])]
    properties = (each for report in reports for each in getattr(report, "user_properties", ()))
    left = (line for name, line in properties if name == "summary")
    for line in dict.fromkeys(left):
        terminalreporter.write_line(line)


NOUNS = {"cat": "chat", "dog": "chien", "bird": "pigeon", "child": "gamin", "king": "roi"}
ADJECTIVES = {"red": "rouge", "small": "petit", "tired": "fatigué", "wise": "sage", "old": "âgé"}
VERBS = {"sees": "voit", "hears": "entend", "follows": "suit", "likes": "aime"}


def phrase(draw: random.Random) -> tuple[str, str]:
    """A noun, half the time with an adjective, which French puts behind it."""
    noun, adjective = draw.choice(list(NOUNS)), draw.choice(list(ADJECTIVES))
    if draw.random() < 0.5:
        return f"the {noun}", f"le {NOUNS[noun]}"
    return f"the {adjective} {noun}", f"le {NOUNS[noun]} {ADJECTIVES[adjective]}"


def pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Sentences of the toy language and their translations."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        (who, qui), verb, (whom, quoi) = phrase(draw), draw.choice(list(VERBS)), phrase(draw)
        found.append((f"{who} {verb} {whom}.", f"{qui} {VERBS[verb]} {quoi}."))
    return found


@pytest.fixture(scope="session")
def toy_pairs():
    """Makes sentences of the toy language with their translations."""
    return pairs


@pytest.fixture(scope="session")
def toy_tokenizer():
    """Byte-level, with words of one token and of several."""
    from regard.text.tokenizer import Tokenizer

    return Tokenizer.train([side for pair in pairs(1000, 1) for side in pair], vocabulary=330)


@pytest.fixture(scope="session")
def toy_model(toy_tokenizer):
    """Makes a model that knows nothing, of any family, with peaks in what it says."""
    import torch

    from regard.model.config import ModelConfig
    from regard.model.transformer import build_model

    def make(seed: int = 0, sharpness: float = 2.0, **changes):
        torch.manual_seed(seed)
        sizes = dict(width=32, layers=2, heads=4, feed_forward_width=64, context=48, residual="pre")
        config = ModelConfig(
            **{**sizes, "vocabulary": toy_tokenizer.vocabulary, "tie_head": False, **changes}
        )
        model = build_model(config).eval()
        if hasattr(model.head, "weight"):
            model.head.weight.data *= sharpness
        return model

    return make


@pytest.fixture(scope="session")
def translator(toy_tokenizer):
    """A Translator that has learned the toy language for a few seconds."""
    return learned(toy_tokenizer, pairs(1500, 2), steps=150)


@pytest.fixture(scope="session")
def two_way_translator(toy_tokenizer):
    """The same for both directions."""
    there = pairs(1500, 2)
    return learned(toy_tokenizer, [*there, *((target, source) for source, target in there)], steps=300)


def learned(toy_tokenizer, pairs, steps):
    """A Translator that has learned these pairs for so many steps."""
    import numpy as np
    import torch

    from regard.inference.translator import Translator
    from regard.model.config import ModelConfig
    from regard.model.transformer import build_model
    from regard.text.collate import collate_pairs
    from regard.text.tokenizer import Tokenizers
    from regard.training.objectives import Translation

    torch.manual_seed(1)
    config = ModelConfig(
        vocabulary=toy_tokenizer.vocabulary, width=48, layers=2, heads=4, feed_forward_width=96, context=64,
        residual="pre",
    )  # fmt: skip
    model, draw = build_model(config), np.random.default_rng(1)
    objective = Translation(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
    encoded = [[np.array(toy_tokenizer.encode(side)) for side in pair] for pair in pairs]
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 4e-3 * min((step + 1) / 20, (steps - step) / steps)
        some = draw.integers(0, len(pairs), 40)
        sides = zip(*(encoded[i] for i in some), strict=True)
        batch = collate_pairs(*map(list, sides), toy_tokenizer, toy_tokenizer)
        loss, count = objective(batch)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    return Translator(model.eval(), Tokenizers.joint(toy_tokenizer))


@pytest.fixture(scope="session")
def guesser(toy_model, toy_tokenizer):
    """A Translator that knows nothing, for options whose effect must show."""
    from regard.inference.translator import Translator
    from regard.text.tokenizer import Tokenizers

    model = toy_model(4, head_bias=True)
    model.head.bias.data[toy_tokenizer.end] = 3.0  # or it would hardly ever come to an end
    return Translator(model, Tokenizers.joint(toy_tokenizer))


@pytest.fixture(scope="session")
def writer(toy_model, toy_tokenizer):
    """A Writer of random bytes, whose characters are often broken."""
    from regard.inference.writer import Writer

    return Writer(toy_model(5, family="decoder-only", positions="learned"), toy_tokenizer)


@pytest.fixture(scope="session")
def filler(toy_model, toy_tokenizer):
    """A Reader of masked text."""
    from regard.inference.reader import Reader

    return Reader(toy_model(6, family="encoder-only", output="masked", head_bias=True), toy_tokenizer)


@pytest.fixture(scope="session")
def classifier(toy_model, toy_tokenizer):
    """A Reader with three labels."""
    from regard.inference.reader import Reader

    model = toy_model(7, family="encoder-only", output="classes", classes=3)
    return Reader(model, toy_tokenizer, ["bad", "fair", "good"])


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory, guesser, writer, filler, classifier, toy_tokenizer):
    """Each of these models in a folder, by the command that uses it."""
    from regard.checkpoints.folder import save_model
    from regard.text.tokenizer import Tokenizers

    place = tmp_path_factory.mktemp("models")
    used = {"translate": guesser, "complete": writer, "fill": filler, "classify": classifier}
    extra = {"classify": {"labels": ["bad", "fair", "good"]}}
    for name, each in used.items():
        save_model(place / name, each.model, Tokenizers.joint(toy_tokenizer), extra=extra.get(name))
    return {name: str(place / name) for name in used}
