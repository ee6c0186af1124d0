"""Mask: True means "may look", and a matrix only where one is needed."""

import torch

from regard.model.masks import EVERYTHING, Mask


def test_nothing_hidden_is_no_matrix():
    assert EVERYTHING.dense(3, 3) is None


def test_causal_hides_what_lies_above_the_diagonal():
    assert Mask(causal=True).dense(3, 3).tolist() == torch.ones(3, 3).tril().bool().tolist()


def test_a_continued_sequence_is_aligned_at_its_own_place():
    dense = Mask(causal=True, first=2).dense(2, 4)
    assert dense.tolist() == [[True, True, True, False], [True, True, True, True]]


def test_each_row_goes_on_from_its_own_place():
    dense = Mask(causal=True, first=torch.tensor([0, 2])).dense(1, 3)
    assert dense.shape == (2, 1, 1, 3)
    assert dense[:, 0, 0].tolist() == [[True, False, False], [True, True, True]]


def test_padding_a_matrix_and_causality_are_joined():
    keys = torch.tensor([[False, True, True]])
    matrix = torch.tensor([[True, True, True], [True, True, True], [True, False, True]])
    dense = Mask(causal=True, keys=keys, matrix=matrix).dense(3, 3)
    assert dense[0, 0].tolist() == [[False, False, False], [False, True, False], [False, False, True]]


def test_padding_is_not_counted_as_a_place():
    keys = torch.tensor([[True, True, False], [False, True, True]])
    assert Mask(keys=keys).positions(3).tolist() == [[0, 1, 1], [0, 0, 1]]


def test_places_go_on_from_a_cache():
    assert Mask(first=4).positions(2).tolist() == [4, 5]
    assert Mask(first=torch.tensor([1, 4])).positions(2).tolist() == [[1, 2], [4, 5]]
    assert Mask(first=torch.tensor([1, 4])).reach(2) == 6


def test_of_padding_finds_the_tokens():
    assert Mask.of_padding(torch.tensor([[5, 0]]), pad=0).keys.tolist() == [[True, False]]
