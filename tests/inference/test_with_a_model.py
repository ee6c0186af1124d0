"""Search over real, tiny torch models: scores of a forced pass, and the same answer in every company."""

import numpy as np
import pytest
import torch

from regard.engine.torch_stepper import TorchStepper
from regard.errors import CheckpointError
from regard.inference.reader import Reader
from regard.inference.search.beam import Beam, BeamSettings, beam_search
from regard.inference.search.constraints import Constraints, RowTokens
from regard.inference.search.requests import Request, run
from regard.inference.search.sampling import (
    Sampling,
    SamplingParameters,
    SamplingSettings,
    greedy,
    penalised,
    weights,
)
from regard.inference.translator import Translator
from regard.inference.writer import Writer
from regard.model.config import ModelConfig
from regard.model.transformer import build_model
from regard.text.tokenizer import Tokenizers

V, END = 40, (0, 1, 2)
RNG = np.random.default_rng(2)
KINDS = {
    "greedy": (Sampling, Constraints(end=END, max_length=14)),
    "sampling": (Sampling, SamplingSettings(end=END, max_length=14, top_p=0.9, temperature=0.8)),
    "top-k": (Sampling, SamplingSettings(end=END, max_length=14, top_k=5)),
    "beam": (Beam, BeamSettings(end=END, max_length=14, n_best=2)),
}


@pytest.fixture(scope="module", params=["encoder-decoder", "decoder-only"])
def model(request):
    torch.manual_seed(0)
    shape = dict(vocabulary=V, width=16, layers=2, heads=4, feed_forward_width=32)
    model = build_model(ModelConfig(family=request.param, tie_head=False, residual="pre", **shape)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def asked(model, settings, count):
    """Requests with prefixes and sources of many lengths, and seeds of their own."""
    translates = model.config.family == "encoder-decoder"
    random = np.random.default_rng(7)
    return [
        Request(
            random.integers(1, V, 1 + i % 4),
            settings.changed(seed=i) if isinstance(settings, SamplingSettings) else settings,
            random.integers(1, V, 2 + i % 7) if translates else None,
        )
        for i in range(count)
    ]


@torch.no_grad()
def forced(model, request, ids):
    held = torch.as_tensor(np.concatenate([request.prefix, ids[:-1]]))[None]
    source = () if request.source is None else (torch.as_tensor(request.source)[None],)
    chances = model(*source, held)[0].log_softmax(-1)[len(request.prefix) - 1 :]
    return chances[torch.arange(len(ids)), torch.as_tensor(ids)].numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_is_that_of_a_forced_pass(model, kind):
    search, settings = KINDS[kind]
    for answer in run(search(TorchStepper(model, capacity=4)), asked(model, settings, 12)):
        for result in answer.results:
            expected = forced(model, answer.request, result.ids)
            assert np.abs(result.log_probabilities - expected).max() < 1e-5
            assert abs(result.score - expected.sum(dtype=np.float64)) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_does_not_depend_on_its_neighbours(model, kind):
    search, settings = KINDS[kind]
    requests = asked(model, settings, 36)
    alone = [told(run(search(TorchStepper(model)), [request])[0]) for request in requests]
    assert len({str(each) for each in alone}) > 18
    for together in (2, 8, 32):
        assert [told(each) for each in run(search(TorchStepper(model)), requests, together)] == alone
    assert [told(each) for each in entering_late(search(TorchStepper(model)), requests)] == alone


def told(answer):
    return [(result.ids.tolist(), result.reason) for result in answer.results]


def entering_late(search, requests):
    found, waiting = [], list(requests)
    while waiting or search.active:
        search.admit(waiting[:3])
        del waiting[:3]
        found += search.step()
    return sorted(found, key=lambda answer: answer.request_id)


def test_a_beam_of_one_is_greedy(model):
    limits = dict(end=END, max_length=14)
    wide = beam_search(TorchStepper(model), asked(model, BeamSettings(beams=1, **limits), 20))
    narrow = greedy(TorchStepper(model), asked(model, Constraints(**limits), 20))
    assert [told(each) for each in wide] == [told(each) for each in narrow]


@pytest.fixture(scope="module")
def broken(toy_model, toy_tokenizer):
    """One of each family, with a weight that is no number."""

    def model(**shape):
        made = toy_model(**shape)
        with torch.no_grad():
            weight = next(w for name, w in made.named_parameters() if "0.feed_forward" in name)
            weight.view(-1)[0] = float("nan")
        return made

    reads = dict(family="encoder-only")
    return {
        "translate": Translator(model(), Tokenizers.joint(toy_tokenizer)),
        "complete": Writer(model(family="decoder-only"), toy_tokenizer),
        "fill": Reader(model(**reads, output="masked"), toy_tokenizer),
        "classify": Reader(model(**reads, output="classes", classes=2), toy_tokenizer),
    }


@pytest.mark.parametrize(
    "ask",
    [
        lambda toys: toys["translate"].translate("the cat"),
        lambda toys: toys["translate"].translate("the cat", beams=1),
        lambda toys: toys["translate"].score("the cat", "le chat"),
        lambda toys: toys["translate"].alternatives("the cat", 0, translation="le chat"),
        lambda toys: toys["complete"].complete("the cat"),
        lambda toys: toys["complete"].next_words("the cat"),
        lambda toys: toys["complete"].perplexity("the cat"),
        lambda toys: toys["fill"].fill("the [MASK]"),
        lambda toys: toys["fill"].embed("the cat"),
        lambda toys: toys["classify"].classify("the cat"),
    ],
)
def test_a_model_with_damaged_weights_is_refused(broken, ask):
    with pytest.raises(CheckpointError, match="the model gives NaN"):
        ask(broken)


def test_equal_probabilities_give_the_lowest_id():
    shape = dict(vocabulary=V, width=16, layers=1, heads=2, feed_forward_width=16)
    model = build_model(ModelConfig(family="decoder-only", tie_head=False, **shape)).eval()
    torch.nn.init.zeros_(model.head.weight)
    cold = greedy(TorchStepper(model), [Request([5], Constraints(max_length=3))])[0]
    assert cold.best.ids.tolist() == [0, 0, 0]
    settings = BeamSettings(max_length=3, beams=3, n_best=3)
    wide = beam_search(TorchStepper(model), [Request([5], settings)])[0]
    assert [result.ids.tolist() for result in wide.results] == [[0, 0, 0], [0, 0, 1], [0, 0, 2]]


def penalised_by_hand(logits, held, penalty):
    """The rule of Keskar et al. 2019, an id at a time."""
    scores = logits.copy()
    for number in set(held):
        scores[number] = scores[number] * penalty if scores[number] < 0 else scores[number] / penalty
    return scores


@torch.no_grad()
def logits_after(model, request, ids):
    held = torch.as_tensor(np.concatenate([request.prefix, ids]).astype(int))[None]
    source = () if request.source is None else (torch.as_tensor(request.source)[None],)
    return model(*source, held)[0, -1].numpy()


@pytest.mark.parametrize("penalty", [0.5, 1.3, 2.0, 30.0])
def test_a_repetition_penalty_scales_logits(model, penalty):
    settings = SamplingSettings(temperature=0, repetition_penalty=penalty, max_length=12, forbidden=[3])
    for answer in run(Sampling(TorchStepper(model)), asked(model, settings, 12)):
        ids = answer.best.ids.tolist()
        for place, number in enumerate(ids):
            logits = logits_after(model, answer.request, ids[:place])
            held = [*answer.request.prefix.tolist(), *ids[:place]]
            scores = penalised_by_hand(logits, held, penalty)
            scores[3] = -np.inf
            assert scores[number] >= scores.max() - 1e-4
            assert answer.best.log_probabilities[place] == pytest.approx(
                torch.tensor(logits).log_softmax(-1)[number].item(), abs=1e-4
            )


def test_the_repetition_penalty_works_near_certainty():
    """Of two ids, one that stands already with a probability of 0.952; the zero of logits matters."""
    logits = np.zeros((1, 2), np.float32)
    logits[0, 1] = np.log(0.952 / 0.048)
    chances = torch.tensor(logits).log_softmax(-1).numpy()
    for shift, wanted in ((-10.0, 0.018), (0.0, 0.817), (5.0, 0.268)):
        scores = penalised(chances, logits + np.float32(shift), np.array([2.0]), RowTokens.of(np.array([1])))
        assert torch.tensor(scores).softmax(-1)[0, 1].item() == pytest.approx(wanted, abs=0.002)


def test_penalty_and_distribution_are_those_of_transformers(model):
    theirs = pytest.importorskip("transformers.generation.logits_process")
    torch.manual_seed(3)
    stepper = TorchStepper(model)
    requests = asked(model, SamplingSettings(), 6)
    stepper.admit([each.prefix for each in requests], [each.source for each in requests])
    choices = stepper.step(np.array([each.prefix[-1] for each in requests]))
    assert choices.logits is not None
    for row, request in enumerate(requests):
        settings = SamplingSettings(repetition_penalty=1.7, temperature=0.7, top_k=12, top_p=0.8, min_p=0.02)
        parameters, written = SamplingParameters.of(settings, 1), RowTokens.of(request.prefix)
        one = slice(row, row + 1)
        wanted = penalised(choices.log_probabilities[one], choices.logits[one], parameters.penalty, written)
        found = weights(wanted, parameters)[0]
        scores = torch.tensor(logits_after(model, request, []))[None]
        for process in (
            theirs.RepetitionPenaltyLogitsProcessor(1.7),
            theirs.TemperatureLogitsWarper(0.7),
            theirs.TopKLogitsWarper(12),
            theirs.TopPLogitsWarper(0.8),
            theirs.MinPLogitsWarper(0.02),
        ):
            scores = process(torch.as_tensor(request.prefix)[None], scores)
        np.testing.assert_allclose(found / found.sum(), scores.softmax(-1)[0].numpy(), atol=1e-5)
