"""Requests and settings that cannot work are refused in one line."""

import numpy as np
import pytest

from regard.errors import SettingError
from regard.inference.search.beam import Beam, BeamSettings
from regard.inference.search.constraints import Constraints
from regard.inference.search.requests import Request
from regard.inference.search.sampling import Sampling, SamplingSettings

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Constraints, dict(max_length=0), r"max_length \(0\) must lie between 1 and"),
        (Constraints, dict(max_length=-3), r"max_length \(-3\)"),
        (Constraints, dict(max_length=1 << 40), r"max_length \(1099511627776\)"),
        (Constraints, dict(max_length=2.5), r"max_length \(2.5\): input should be a valid integer"),
        (Constraints, dict(max_length=True), r"max_length \(True\)"),
        (Constraints, dict(min_length=-1), r"min_length \(-1\)"),
        (
            Constraints,
            dict(min_length=9, max_length=8),
            r"min_length \(9\) must not be above max_length \(8\); lower",
        ),
        (Constraints, dict(end=-1), r"end \(-1\) must hold ids, 0 or more; ask the tokenizer"),
        (Constraints, dict(end="</s>"), r"end \('</s>'\): input should be a valid tuple"),
        (Constraints, dict(end=[1, 2.5]), r"end.1 \(2.5\)"),
        (Constraints, dict(stop=[()]), "stop holds an empty sequence; leave it out"),
        (Constraints, dict(stop=[(1, -4)]), r"stop \(-4\)"),
        (Constraints, dict(forbidden=[[1], "x"]), "forbidden"),
        (Constraints, dict(forbidden=7), r"forbidden \(7\)"),
        (
            Constraints,
            dict(no_repeat_ngram_size=0),
            r"no_repeat_ngram_size \(0\) .* leave it out to allow every repetition",
        ),
        (Constraints, dict(length_penalty=-0.5), r"length_penalty \(-0.5\)"),
        (Constraints, dict(length_penalty=NAN), r"length_penalty \(nan\): input should be a finite number"),
        (Constraints, dict(lenght_penalty=1.0), "did you mean length_penalty"),
        (SamplingSettings, dict(temperature=NAN), r"temperature \(nan\)"),
        (SamplingSettings, dict(temperature=INFINITY), r"temperature \(inf\)"),
        (SamplingSettings, dict(temperature=-1), r"temperature \(-1.0\) .* 0 takes the likeliest id"),
        (SamplingSettings, dict(top_k=0), r"top_k \(0\) must lie between 1 and .* leave it out"),
        (SamplingSettings, dict(top_p=0.0), r"top_p \(0.0\) .* leave it out"),
        (SamplingSettings, dict(top_p=1.1), r"top_p \(1.1\)"),
        (SamplingSettings, dict(top_p=NAN), r"top_p \(nan\)"),
        (SamplingSettings, dict(min_p=-0.1), r"min_p \(-0.1\)"),
        (SamplingSettings, dict(repetition_penalty=0), r"repetition_penalty \(0.0\) .* 1 is no penalty"),
        (SamplingSettings, dict(seed=-1), r"seed \(-1\)"),
        (BeamSettings, dict(beams=0), r"beams \(0\) .* 1 is greedy"),
        (BeamSettings, dict(beams=1 << 30), r"beams \(1073741824\)"),
        (BeamSettings, dict(n_best=0), r"n_best \(0\)"),
        (BeamSettings, dict(patience=0), r"patience \(0.0\)"),
        (BeamSettings, dict(patience=INFINITY), r"patience \(inf\)"),
    ],
)
def test_a_hostile_setting_is_one_line(kind, settings, message):
    with pytest.raises(SettingError, match=message) as caught:
        kind(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("prefix", "source", "message"),
    [
        ([], None, r"prefix of shape \(0,\) must be a row of ids; give one id at least"),
        ([[1, 2]], None, r"prefix of shape \(1, 2\)"),
        (3, None, r"prefix of shape \(\)"),
        ([1.5], None, "prefix of float64 must hold ids"),
        (["a"], None, "must hold ids"),
        ([2, -1], None, r"prefix \(-1\)"),
        ([1], [], r"source of shape \(0,\)"),
        ([1], [-7], r"source \(-7\)"),
    ],
)
def test_values_that_are_no_ids_are_refused(prefix, source, message):
    with pytest.raises(SettingError, match=message):
        Request(prefix, Constraints(), source)


@pytest.mark.parametrize(("kind", "settings"), [(Sampling, Constraints()), (Beam, BeamSettings())])
@pytest.mark.parametrize(
    ("prefix", "changes", "message"),
    [
        ([6], {}, r"prefix \(6\) must be below the vocabulary of 6; ask its tokenizer"),
        ([1], dict(end=[2, 9]), r"end \(9\)"),
        ([1], dict(stop=[(1, 8)]), r"stop \(8\)"),
        ([1], dict(forbidden=[(6, 1), 2]), r"forbidden \(6\)"),
    ],
)
def test_ids_beyond_the_vocabulary_are_refused_before_anything_runs(
    fake, kind, settings, prefix, changes, message
):
    stepper = fake(6)
    search = kind(stepper)
    with pytest.raises(SettingError, match=message):
        search.admit([Request([1], settings), Request(prefix, settings.changed(**changes))])
    assert search.active == []
    assert stepper.rows == 0


def test_what_does_not_fit_together_is_refused(fake):
    with pytest.raises(SettingError, match=r"settings \(Constraints\) must be BeamSettings"):
        Beam(fake()).admit([Request([1], Constraints())])
    with pytest.raises(SettingError, match=r"must be Constraints or SamplingSettings"):
        Sampling(fake()).admit([Request([1], BeamSettings())])
    with pytest.raises(SettingError, match="some requests have a source and some have none"):
        Sampling(fake()).admit([Request([1], Constraints()), Request([1], Constraints(), source=[2])])


def test_ids_may_come_in_any_form():
    array = np.array([3, 4], dtype=np.uint16)
    limits = Constraints(end=np.int64(2), stop=[array, [1], 5], forbidden=np.array([7, 8]))
    assert (limits.end, limits.stop, limits.forbidden) == ((2,), ((3, 4), (1,), (5,)), ((7,), (8,)))
    assert Constraints(end=array).end == (3, 4)
    assert Request(array, limits).prefix.dtype == np.int64
    assert limits.changed(max_length=3).stop == limits.stop
