"""Columns of rows: joined, taken, and slim again when the long ones have left."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from regard.inference.search.beam import Beam, BeamSettings
from regard.inference.search.constraints import RowTokens, concatenate_rows, select_rows, trim_padding
from regard.inference.search.requests import Request
from regard.inference.search.sampling import Sampling, SamplingSettings


def test_rows_of_different_lengths_end_in_the_same_column():
    tokens = concatenate_rows([RowTokens.of(np.array([5])), RowTokens.of(np.array([6, 7, 8]))])
    assert tokens.ids.tolist() == [[-1, -1, 5], [6, 7, 8]]
    tokens = tokens.append(np.array([1, 2]), np.array([-0.5, -0.25]))
    assert tokens.last.tolist() == [1, 2]
    assert [tokens.generated_ids(row).tolist() for row in (0, 1)] == [[1], [2]]
    assert tokens.generated_log_probabilities(1).tolist() == [-0.25]
    assert select_rows(tokens, np.array([0])).trimmed().ids.tolist() == [[5, 1]]
    assert select_rows(tokens, np.array([1, 0, 1])).ids[:, -1].tolist() == [2, 1, 2]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        ([[-1, -1, 3], [-1, 4, 5]], [[-1, 3], [4, 5]]),
        ([[-1, -1], [-1, -1]], [[-1], [-1]]),
        ([[[-1, -1], [-1, -1]], [[-1, -1], [-1, 2]]], [[[-1]], [[2]]]),
        ([[[-1, -1], [-1, -1]]], np.zeros((1, 0, 1))),
        (np.zeros((0, 3, 4)), np.zeros((0, 0, 1))),
        (np.zeros((2, 0)), np.zeros((2, 0))),
        ([7, -1], [7, -1]),
    ],
)
def test_padding_columns_are_trimmed(array, expected):
    found, expected = trim_padding(np.array(array)), np.array(expected)
    assert found.shape == expected.shape
    assert (found == expected).all()


def widest(columns):
    if is_dataclass(columns):
        return max(widest(getattr(columns, field.name)) for field in fields(columns))
    return max(columns.shape[1:], default=0)


@pytest.mark.parametrize(("kind", "settings"), [(Sampling, SamplingSettings()), (Beam, BeamSettings())])
def test_an_endless_search_keeps_no_finished_rows(fake, kind, settings):
    long = settings.changed(max_length=300, forbidden=[[1, 2, 3]] * 200, end=list(range(1, 90)))
    search = kind(fake(90))
    search.admit([Request(np.ones(100, int), long)])
    short = Request([1], settings.changed(max_length=3))
    for _ in range(320):
        search.admit([short])
        search.step()
    assert len(search.active) == 2
    assert widest(search._rows) <= 6
    assert kind is Sampling or widest(search._groups) <= 6
