"""Greedy search, the order of answers, and rows that come and go: what holds for every search."""

import subprocess
import sys

import numpy as np
import pytest

from regard.errors import CheckpointError, SettingError, UsageError
from regard.inference.search.beam import Beam, BeamSettings, beam_search
from regard.inference.search.constraints import Constraints
from regard.inference.search.requests import Request, run, stream_answers
from regard.inference.search.sampling import Sampling, SamplingSettings, greedy, sample

RNG = np.random.default_rng(5)
END = 0


def words(length):
    return RNG.integers(1, 12, length)


def greedy_by_hand(stepper, prefix, limits, source=()):
    held, answer = tuple(prefix), []
    while len(answer) < limits.max_length:
        answer.append(int(stepper.follows(held, source).argmax()))
        held = (*held, answer[-1])
        if answer[-1] in limits.end:
            break
    return answer


def test_greedy_takes_the_likeliest_id_and_keeps_the_order(fake):
    limits = Constraints(end=END, max_length=9)
    requests = [Request(words(1 + i % 4), limits, source=words(3)) for i in range(20)]
    stepper = fake(12)
    for request, answer in zip(requests, greedy(stepper, requests), strict=True):
        expected = greedy_by_hand(stepper, request.prefix, limits, tuple(request.source.tolist()))
        assert answer.request is request
        assert answer.best.ids.tolist() == expected
        assert answer.best.reason == ("end" if expected[-1] == END else "length")
        assert answer.best.content.tolist() == [number for number in expected if number != END]
    assert set(stepper.asked) == {1}
    assert stepper.rows == 0


def test_a_score_is_that_of_a_forced_pass(fake):
    stepper = fake(12)
    requests = [Request(words(2), BeamSettings(end=END, max_length=7, n_best=3)) for _ in range(5)]
    drawn = [Request(words(2), SamplingSettings(end=END, top_p=0.8, seed=i)) for i in range(5)]
    for answer in [*beam_search(stepper, requests), *sample(fake(12), drawn)]:
        for result in answer.results:
            forced = stepper.forced(answer.request.prefix, result.ids)
            assert result.log_probabilities == pytest.approx(forced, abs=1e-6)
            assert result.score == pytest.approx(sum(forced), abs=1e-5)
            penalty = ((5 + len(result.ids)) / 6) ** 0.6
            assert result.rank_score == pytest.approx(result.score / penalty)


MIXED = [
    Constraints(end=END, max_length=8),
    SamplingSettings(end=END, max_length=8, seed=1),
    SamplingSettings(end=END, max_length=6, temperature=0.7, top_k=3, seed=2),
    SamplingSettings(end=END, max_length=8, top_p=0.7, seed=3, no_repeat_ngram_size=2),
    SamplingSettings(end=[END, 5], max_length=9, min_p=0.2, seed=4, forbidden=[3, (4, 2)]),
    SamplingSettings(end=END, max_length=7, repetition_penalty=1.7, seed=5, min_length=3),
    SamplingSettings(end=END, max_length=7, temperature=0, repetition_penalty=1.7),
    SamplingSettings(max_length=12, top_k=4, top_p=0.9, min_p=0.05, stop=[(2,), (1, 7)], seed=7),
]
BEAMS = [
    BeamSettings(end=END, max_length=8),
    BeamSettings(end=END, max_length=6, beams=1, min_length=2),
    BeamSettings(end=[END, 4], max_length=9, beams=7, n_best=3, length_penalty=0.0),
    BeamSettings(end=END, max_length=7, beams=2, no_repeat_ngram_size=2, forbidden=[3, (4, 2)]),
    BeamSettings(end=END, max_length=9, beams=3, stop=[(2, 1), (7,)], patience=2.0, tree=True),
    BeamSettings(end=END, max_length=8, beams=3, patience=None, length_penalty=1.5),
]


def max_running(search, requests, count):
    return run(search, requests, count)


def entering_late(search, requests, count):
    """One more request enters before every step."""
    found, waiting = [], list(requests)
    while waiting or search.active:
        search.admit(waiting[:1])
        del waiting[:1]
        found += search.step()
    return sorted(found, key=lambda answer: answer.request_id)


def told(answers):
    return [
        [(r.ids.tolist(), r.log_probabilities.tolist(), r.score, r.reason) for r in a.results]
        + ([] if a.tree is None else a.tree.as_dict())
        for a in answers
    ]


@pytest.mark.parametrize(("kind", "settings"), [(Sampling, MIXED), (Beam, BEAMS)])
@pytest.mark.parametrize(
    ("way", "count"),
    [(max_running, 2), (max_running, 8), (max_running, 32), (max_running, None), (entering_late, 0)],
)
def test_an_answer_does_not_depend_on_its_neighbours(fake, kind, settings, way, count):
    requests = [Request(words(1 + i % 5), settings[i % len(settings)], source=words(4)) for i in range(40)]
    alone = [run(kind(fake(12)), [request])[0] for request in requests]
    stepper = fake(12)
    assert told(way(kind(stepper), requests, count)) == told(alone)
    assert stepper.rows == 0


def test_answers_come_as_they_finish_and_only_so_many_run(fake):
    stepper = fake(12)
    lengths = [5, 1, 3, 1, 2]
    requests = (Request([1], Constraints(max_length=length)) for length in lengths)
    answers = list(stream_answers(Sampling(stepper), requests, max_running=2))
    assert [len(answer.best.ids) for answer in answers] == [1, 3, 5, 1, 2]
    assert stepper.steps == sum(lengths)  # rows that had finished were stepped no more
    with pytest.raises(SettingError, match=r"max_running \(0\) must be 1 or more"):
        run(Sampling(fake()), [], max_running=0)


@pytest.mark.parametrize(("kind", "settings"), [(Sampling, MIXED[0]), (Beam, BEAMS[2])])
def test_a_cancelled_request_leaves_at_once_with_what_it_has(fake, kind, settings):
    settings = settings.changed(min_length=6)
    requests = [Request(words(3), settings) for _ in range(3)]
    undisturbed = told(run(kind(fake(12)), requests))
    stepper = fake(12)
    search = kind(stepper)
    request_ids = search.admit(requests)
    search.step(), search.step()
    left = search.cancel(request_ids[1])
    assert [result.reason for result in left.results] == ["cancelled"] * len(left.results)
    assert {len(result.ids) for result in left.results} == {2}
    assert search.active == [request_ids[0], request_ids[2]]
    assert search.cancel(request_ids[1]) is None
    rest = sorted(stream_answers(search, []), key=lambda answer: answer.request_id)
    assert told(rest) == [undisturbed[0], undisturbed[2]]
    assert search.step() == []
    assert stepper.rows == 0


@pytest.mark.parametrize(("kind", "settings"), [(Sampling, Constraints()), (Beam, BeamSettings())])
def test_the_models_own_limit_is_kept(fake, kind, settings):
    answers = run(kind(fake(limit=5)), [Request([1, 2, 3], settings), Request([1], settings)])
    assert [len(answer.best.ids) for answer in answers] == [2, 4]
    assert {answer.best.reason for answer in answers} == {"length"}
    search = kind(fake(limit=3))
    with pytest.raises(SettingError, match=r"prefix \(3 ids\) fills the model's 3; make it shorter"):
        search.admit([Request([1], settings), Request([1, 2, 3], settings)])
    assert search.active == []


@pytest.mark.parametrize(("kind", "settings"), [(Sampling, Constraints()), (Beam, BeamSettings())])
def test_a_hook_sees_what_was_generated_and_stops_the_row(fake, kind, settings):
    seen = []

    def until(ids):
        seen.append(ids.tolist())
        return len(ids) >= 3 and bool(ids[-1] != 1)

    plain, stopped = run(
        kind(fake()), [Request([1], settings.changed(max_length=9)), Request([1], settings, until=until)]
    )
    assert stopped.best.reason == "stop"
    assert stopped.best.ending == 0
    assert stopped.best.ids.tolist() in seen
    assert plain.best.reason == "length"
    assert all(len(ids) >= 1 for ids in seen)


@pytest.mark.parametrize(("kind", "settings"), [(Sampling, Constraints()), (Beam, BeamSettings())])
def test_a_row_that_has_ended_is_not_shown_to_the_hook(fake, kind, settings):
    ends = settings.changed(end=list(range(12)), max_length=9)
    (answer,) = run(kind(fake(12)), [Request([1], ends, until=lambda ids: True)])
    assert answer.best.reason == "end"


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(Sampling, Constraints()), (Sampling, SamplingSettings(top_p=0.9)), (Beam, BeamSettings(n_best=2))],
)
def test_a_row_without_allowed_ids_is_stuck(fake, kind, settings):
    settings = settings.changed(no_repeat_ngram_size=1, max_length=20)
    answer = run(kind(fake(4)), [Request([1, 2], settings)])[0]
    assert [sorted(result.ids.tolist()) for result in answer.results] == [[0, 3]] * len(answer.results)
    assert {result.reason for result in answer.results} == {"stuck"}
    nothing = run(kind(fake(3)), [Request([1], settings.changed(forbidden=[0, 1, 2]))])[0]
    assert [(result.ids.tolist(), result.score) for result in nothing.results] == [([], 0.0)]


@pytest.mark.parametrize(
    "settings", [Constraints(), SamplingSettings(), SamplingSettings(top_k=2), BeamSettings()]
)
def test_a_model_that_answers_nan_is_refused(fake, settings):
    search = Beam if isinstance(settings, BeamSettings) else Sampling
    with pytest.raises(CheckpointError, match="the model gives NaN"):
        run(search(fake(3, table={(1,): [np.nan] * 3})), [Request([1], settings)])


def test_a_stepper_in_use_is_refused(fake):
    stepper = fake()
    stepper.admit([np.array([1])])
    for search in (Sampling, Beam):
        with pytest.raises(UsageError, match="runs 1 rows already"):
            search(stepper)


def test_greedy_has_no_temperature(fake):
    requests = [Request([1], SamplingSettings(max_length=20, temperature=3.0, seed=4))]
    cold = greedy(fake(), requests)[0]
    assert cold.request is requests[0]
    assert cold.best.ids.tolist() == greedy_by_hand(fake(), [1], Constraints(max_length=20))
    assert sample(fake(), requests)[0].best.ids.tolist() != cold.best.ids.tolist()


def test_search_loads_no_torch():
    code = "import sys, regard.inference.search.beam\nprint('torch' in sys.modules, 'numpy' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert result.stdout.split() == ["False", "True"]
