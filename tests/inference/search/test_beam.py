"""Beam search beside a plain one, beside enumeration, and each of its settings."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import SettingError
from regard.inference.search.beam import Beam, BeamSettings, beam_search, select_beams
from regard.inference.search.constraints import Constraints
from regard.inference.search.requests import Request, run
from regard.inference.search.sampling import greedy

END = 0


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def ends(ids, settings):
    if ids[-1] in settings.end:
        return "end"
    content = [len(ids) - len(stop) for stop in settings.stop if tuple(ids[-len(stop) :]) == stop]
    return "stop" if any(length >= settings.min_length for length in content) else None


def forbidden(held, ids, settings):
    """Whether the last of these ids must not follow, said in the plainest words."""
    whole = [*held, *ids]
    if ids[-1] in settings.end and len(ids) <= settings.min_length:
        return True
    if any(tuple(whole[-len(word) :]) == word for word in settings.forbidden):
        return True
    size = settings.no_repeat_ngram_size
    grams = [tuple(whole[i : i + size]) for i in range(len(whole) - size + 1)] if size else []
    return bool(grams) and grams[-1] in grams[:-1]


def beam_by_hand(stepper, prefix, settings):
    """The rule of BeamSettings one hypothesis at a time: (score, ids, reason), the best first."""
    prefix, live, done, stuck = tuple(prefix), [(0.0, [])], [], []
    quota = np.inf
    if settings.patience is not None:
        quota = max(settings.n_best, round(settings.beams * settings.patience))

    def rank(each):
        return each[0] / penalty(len(each[1]), settings.length_penalty)

    while live:
        found = []
        for score, ids in live:
            chances = stepper.follows(prefix + tuple(ids))
            nexts = [i for i in range(len(chances)) if not forbidden(prefix, [*ids, i], settings)]
            found += [(score + float(chances[i]), [*ids, i]) for i in nexts]
            stuck += [] if nexts else [(score, ids, "stuck")]
        found.sort(key=lambda each: -each[0])
        done += [
            (*each, ends(each[1], settings)) for each in found[: settings.beams] if ends(each[1], settings)
        ]
        live = [each for each in found if not ends(each[1], settings)][: settings.beams]
        if live and len(live[0][1]) == settings.max_length:
            done += [(*each, "length") for each in live]
            break
        best = sorted(done, key=lambda each: -rank(each))[: settings.n_best]
        hope = max((each[0] for each in live), default=0) / penalty(
            settings.max_length, settings.length_penalty
        )
        if len(done) >= quota or (len(best) == settings.n_best and hope <= rank(best[-1])):
            break
    return sorted(done or stuck, key=lambda each: -rank(each))[: settings.n_best]


@st.composite
def some_settings(draw):
    beams = draw(st.integers(1, 6))
    longest = draw(st.integers(1, 7))
    word = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)
    return BeamSettings(
        beams=beams,
        n_best=draw(st.integers(1, beams)),
        max_length=longest,
        min_length=draw(st.integers(0, longest)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0, 2.5])),
        patience=draw(st.sampled_from([0.5, 1.0, 2.0, None])),
        end=draw(st.sampled_from([(), (END,), (END, 3)])),
        stop=draw(st.lists(word, max_size=2)),
        forbidden=draw(st.lists(word, max_size=3)),
        no_repeat_ngram_size=draw(st.sampled_from([None, None, 1, 2, 3])),
    )


@given(
    several=st.lists(
        st.tuples(some_settings(), st.lists(st.integers(0, 4), min_size=1, max_size=4)),
        min_size=1,
        max_size=5,
    ),
    seed=st.integers(0, 999),
)
def test_all_beams_at_once_are_each_beam_by_hand(fake, several, seed):
    stepper = fake(5, seed=seed)
    answers = beam_search(fake(5, seed=seed), [Request(prefix, settings) for settings, prefix in several])
    for answer, (settings, prefix) in zip(answers, several, strict=True):
        expected = beam_by_hand(stepper, prefix, settings)
        assert [(r.ids.tolist(), r.reason) for r in answer.results] == [
            (ids, why) for _, ids, why in expected
        ]
        assert [r.score for r in answer.results] == pytest.approx(
            [score for score, _, _ in expected], abs=1e-6
        )


def every_answer(stepper, prefix, settings):
    """All that could be generated, with its score."""
    for length in range(1, settings.max_length + 1):
        for ids in product(range(stepper.vocabulary), repeat=length):
            over = length == settings.max_length or ids[-1] == END
            if over and END not in ids[:-1] and not (ids[-1] == END and length <= settings.min_length):
                yield sum(stepper.forced(prefix, ids)), list(ids)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_as_wide_as_the_space_finds_the_best_there_is(fake, seed, alpha):
    settings = BeamSettings(
        beams=3**5, n_best=4, max_length=5, end=END, length_penalty=alpha, patience=None, min_length=seed % 2
    )
    stepper = fake(3, seed=seed)
    ranked = sorted(
        every_answer(stepper, [1], settings), key=lambda each: -each[0] / penalty(len(each[1]), alpha)
    )
    answer = beam_search(fake(3, seed=seed), [Request([1], settings)])[0]
    assert [result.ids.tolist() for result in answer.results] == [ids for _, ids in ranked[:4]]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_a_beam_of_one_is_greedy(fake, alpha):
    shared = dict(max_length=9, end=END, length_penalty=alpha, no_repeat_ngram_size=3)
    prefixes = [[1 + i % 4] * (1 + i % 3) + [i % 7 + 1] for i in range(30)]
    wide = beam_search(fake(8), [Request(p, BeamSettings(beams=1, **shared)) for p in prefixes])
    narrow = greedy(fake(8), [Request(p, Constraints(**shared)) for p in prefixes])
    for one, other in zip(wide, narrow, strict=True):
        assert one.best.ids.tolist() == other.best.ids.tolist()
        assert one.best.score == other.best.score
        assert one.best.reason == other.best.reason


# After [1]: 2 is likelier than 3, but what follows 3 is certain; 0 is the end.
GARDEN = {
    (1,): [0.0, 0.0, 0.6, 0.4],
    (1, 2): [0.5, 0.0, 0.3, 0.2],
    (1, 3): [1.0, 0.0, 0.0, 0.0],
    (1, 2, 2): [1.0, 0.0, 0.0, 0.0],
    (1, 2, 3): [1.0, 0.0, 0.0, 0.0],
}


def garden(fake, prefix=(1,), **settings):
    settings = BeamSettings(**dict(dict(end=END, beams=2, length_penalty=0.0, max_length=4), **settings))
    return beam_search(fake(4, table=GARDEN), [Request(list(prefix), settings)])[0]


def told(answer):
    return [result.ids.tolist() for result in answer.results]


def test_a_wider_beam_finds_what_a_narrow_one_passes_by(fake):
    assert told(garden(fake, beams=1)) == [[2, 0]]
    assert told(garden(fake, beams=2)) == [[3, 0]]
    assert garden(fake).best.score == pytest.approx(np.log(0.4))


def test_n_best_are_in_order(fake):
    assert told(garden(fake, beams=3, n_best=3, patience=None)) == [[3, 0], [2, 0], [2, 2, 0]]


def test_the_length_penalty_favours_longer_hypotheses(fake):
    table = {(1,): [0.3, 0.0, 0.7, 0.0], (1, 2): [0.0, 0.0, 0.0, 1.0], (1, 2, 3): [0.4, 0.0, 0.6, 0.0]}
    found = {}
    for alpha in (0.0, 1.0):
        settings = BeamSettings(end=END, beams=2, max_length=3, length_penalty=alpha)
        found[alpha] = beam_search(fake(4, table=table), [Request([1], settings)])[0].best
    assert found[0.0].ids.tolist() == [2, 3, 2]  # 0.42
    assert found[1.0].rank_score == pytest.approx(np.log(0.42) * 6 / 8)


def test_the_length_penalty_counts_generated_ids_only(fake):
    table = {(1, 1, 1, 1): [0.3, 0.0, 0.7, 0.0], (1, 1, 1, 1, 2): [0.35, 0.0, 0.0, 0.65]}
    settings = BeamSettings(end=END, beams=2, n_best=2, max_length=2, length_penalty=1.0)
    best, second = beam_search(fake(4, table=table), [Request([1, 1, 1, 1], settings)])[0].results
    assert best.ids.tolist() == [2, 3]
    assert best.rank_score == pytest.approx(np.log(0.455) / (7 / 6))
    assert second.rank_score == pytest.approx(np.log(0.3) / (6 / 6))


def test_patience_says_how_many_must_finish(fake):
    # [0] finishes first, then [2, 0], which is bad; the best one, [2, 3, 0], comes third.
    table = {(1,): [0.4, 0.0, 0.6, 0.0], (1, 2): [0.01, 0.0, 0.0, 0.99], (1, 2, 3): [0.99, 0.0, 0.01, 0.0]}

    def best(**settings):
        settings = BeamSettings(end=END, beams=2, max_length=5, **settings)
        return beam_search(fake(4, table=table), [Request([1], settings)])[0].best.ids.tolist()

    assert best(patience=1.0) == [0]
    assert best(patience=1.5) == [2, 3, 0]
    assert best(patience=None) == [2, 3, 0]


def test_the_search_stops_when_nothing_better_can_come(fake):
    table = {(1,): [0.6, 0.0, 0.4, 0.0]}
    settings = BeamSettings(end=END, beams=4, max_length=50, length_penalty=0.0)
    stepper = fake(4, table=table)
    assert told(beam_search(stepper, [Request([1], settings)])[0]) == [[0]]
    assert stepper.steps == 1
    stepper = fake(4, table=table)
    beam_search(stepper, [Request([1], settings.changed(length_penalty=1.0))])
    assert stepper.steps > 1  # a longer one might still rank higher


def test_minimum_and_maximum_length(fake):
    assert told(garden(fake, min_length=2)) == [[2, 2, 0]]
    assert told(garden(fake, min_length=1)) == [[3, 0]]
    assert told(garden(fake, max_length=1, n_best=2)) == [[2], [3]]
    assert [result.reason for result in garden(fake, max_length=1, n_best=2).results] == ["length"] * 2


def test_a_hypothesis_that_is_stuck_counts_only_where_nothing_else_finishes(fake):
    assert told(garden(fake, min_length=2, patience=0.5)) == [[2, 2, 0]]  # [3] may only end, and may not yet
    assert told(garden(fake, min_length=3, n_best=2, tree=True)) == [[3], [2, 2]]
    assert {result.reason for result in garden(fake, min_length=3).results} == {"stuck"}


def test_a_longer_prefix_forces_the_beginning(fake):
    forced = garden(fake, prefix=(1, 2), n_best=2)
    assert told(forced) == [[0], [2, 0]]
    assert forced.best.score == pytest.approx(np.log(0.5))


def test_forbidden_words_are_avoided_and_nothing_is_renormalised(fake):
    assert told(garden(fake, forbidden=[3])) == [[2, 0]]
    assert told(garden(fake, forbidden=[(3, 0)])) == [[2, 0]]
    assert garden(fake, forbidden=[3]).best.score == pytest.approx(np.log(0.3))
    assert told(garden(fake, prefix=(1, 2), forbidden=[(1, 2, 0)])) == [[2, 0]]  # it began in the prefix


def test_no_ngram_is_repeated(fake):
    assert told(garden(fake, prefix=(1, 2), forbidden=[(2, 0)])) == [[3, 0]]
    assert told(garden(fake, prefix=(1, 2), min_length=1)) == [[2, 0]]
    assert told(garden(fake, prefix=(1, 2), min_length=1, no_repeat_ngram_size=1)) == [[3, 0]]


def test_a_stop_sequence_ends_a_hypothesis(fake):
    best = garden(fake, stop=[(3,)], min_length=0).best
    assert (best.ids.tolist(), best.reason, best.content.tolist()) == ([3], "stop", [])
    assert told(garden(fake, stop=[(1, 3)])) == [[3, 0]]  # the prefix is no part of a stop


def test_equals_go_to_the_earlier_beam_and_the_lower_id(fake):
    even = {(1,): [0.0, 0.5, 0.5], (1, 1): [0.0, 0.5, 0.5], (1, 2): [0.0, 0.5, 0.5]}
    settings = BeamSettings(beams=3, n_best=3, max_length=2)
    assert told(beam_search(fake(3, table=even), [Request([1], settings)])[0]) == [[1, 1], [1, 2], [2, 1]]
    even = {(1, *ids): [0.125] * 8 for length in range(2) for ids in product(range(8), repeat=length)}
    settings = BeamSettings(beams=8, n_best=8, max_length=2)
    assert told(beam_search(fake(8, table=even), [Request([1], settings)])[0]) == [[0, i] for i in range(8)]


def test_many_equal_candidates_are_ranked_as_by_a_stable_sort():
    random = np.random.default_rng(0)
    scores = -random.integers(0, 4, (5, 300)).astype(float)
    ending = random.random(scores.shape) < 0.2
    beams = np.array([1, 5, 30, 90, 299])
    selection = select_beams(scores, ending, beams)
    for row, count in enumerate(beams):
        order = sorted(range(300), key=lambda place, row=row: -scores[row, place])
        goers = [place for place in order if not ending[row, place]][:count]
        assert np.flatnonzero(selection.lives[row]).tolist() == sorted(goers)
        enough = [place for place in order[:count] if ending[row, place]]
        assert np.flatnonzero(selection.finishes[row]).tolist() == sorted(enough)


def test_the_tree_tells_what_became_of_every_hypothesis(fake):
    answer = garden(fake, n_best=2, tree=True, patience=None)
    nodes = answer.tree.as_dict()
    assert json.loads(json.dumps(nodes)) == nodes
    path = {0: ()}
    for node in nodes[1:]:
        path[node["number"]] = (*path[node["parent"]], node["token"])
        chances = fake(4, table=GARDEN).forced([1], path[node["number"]])
        assert node["step"] == len(path[node["number"]])
        assert node["log_probability"] == pytest.approx(chances[-1])
        assert node["score"] == pytest.approx(sum(chances))
    fates = {path[node["number"]]: (node["fate"], node["place"]) for node in nodes}
    assert fates == {
        (): ("kept", None),
        (2,): ("kept", None),
        (3,): ("kept", None),
        (3, 0): ("end", 0),
        (2, 0): ("end", 1),
        (2, 2): ("abandoned", None),
        (2, 3): ("abandoned", None),
    }
    assert garden(fake).tree is None
    narrow = garden(fake, beams=1, tree=True).tree.nodes
    assert ("outranked", 3) in [(node.fate, node.token) for node in narrow]


def test_only_as_many_continuations_are_asked_for_as_can_matter(fake):
    stepper = fake(50)
    settings = BeamSettings(end=[0, 7], beams=4, stop=[(3, 4)], max_length=5)
    beam_search(stepper, [Request([1], settings)])
    assert set(stepper.asked) == {4 + 3}


def test_rows_are_reordered_only_when_their_order_changes(fake):
    table = {(1,): [0.0, 0.5, 0.3, 0.2]}
    table |= {(1, *[i] * n): np.eye(4)[i] for i in (1, 2, 3) for n in range(1, 6)}
    stepper = fake(4, table=table)
    run(Beam(stepper), [Request([1], BeamSettings(beams=3, max_length=5))])
    assert stepper.reorders == 2  # from one row to three, and out


def test_more_results_than_beams_are_refused():
    with pytest.raises(SettingError, match=r"n_best \(5\) must not be above beams \(4\)"):
        BeamSettings(n_best=5)
