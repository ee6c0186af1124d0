"""Mask: True means "may look", and a matrix only where one is needed."""

import pytest
import torch

from regard.errors import ShapeError
from regard.model.attention import attention, fused_attention
from regard.model.masks import EVERYTHING, Mask


def test_a_mask_that_hides_nothing_is_no_matrix():
    assert EVERYTHING.dense(3, 3) is None


def test_the_causal_mask_is_a_lower_triangle():
    assert Mask(causal=True).dense(3, 3).tolist() == torch.ones(3, 3).tril().bool().tolist()


def test_an_offset_shifts_the_causal_mask():
    dense = Mask(causal=True, offset=2).dense(2, 4)
    assert dense.tolist() == [[True, True, True, False], [True, True, True, True]]


def test_each_row_may_have_its_own_offset():
    dense = Mask(causal=True, offset=torch.tensor([0, 2])).dense(1, 3)
    assert dense.shape == (2, 1, 1, 3)
    assert dense[:, 0, 0].tolist() == [[True, False, False], [True, True, True]]


def test_padding_a_matrix_and_causality_are_joined():
    keys = torch.tensor([[False, True, True]])
    matrix = torch.tensor([[True, True, True], [True, True, True], [True, False, True]])
    dense = Mask(causal=True, keys=keys, matrix=matrix).dense(3, 3)
    assert dense[0, 0].tolist() == [[False, False, False], [False, True, False], [False, False, True]]


def test_padding_has_no_position():
    keys = torch.tensor([[True, True, False], [False, True, True]])
    assert Mask(keys=keys).positions(3).tolist() == [[0, 1, 1], [0, 0, 1]]


def test_positions_continue_after_the_offset():
    assert Mask(offset=4).positions(2).tolist() == [4, 5]
    assert Mask(offset=torch.tensor([1, 4])).positions(2).tolist() == [[1, 2], [4, 5]]
    assert Mask(offset=torch.tensor([1, 4])).length(2) == 6


def test_of_padding_finds_the_tokens():
    assert Mask.of_padding(torch.tensor([[5, 0]]), pad=0).keys.tolist() == [[True, False]]


def test_a_matrix_has_two_or_four_axes():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 2, 4, 8).unbind()
    matrix = torch.rand(4, 4) < 0.6
    keys = torch.tensor([[True, True, False, True], [True, True, True, True]])
    for causal, present in ((False, None), (True, None), (False, keys), (True, keys)):
        flat, full = (Mask(causal, present, each) for each in (matrix, matrix.expand(2, 2, 4, 4)))
        for function in (attention, fused_attention):
            found, wanted = (function(query, key, value, mask) for mask in (flat, full))
            torch.testing.assert_close(found, wanted)
    for shape in ((4,), (2, 4, 4), (1, 1, 1, 4, 4)):  # of three axes the first could be B or H
        with pytest.raises(ShapeError, match=r"matrix of shape .* must be Q K or B H Q K"):
            Mask(matrix=torch.ones(shape, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"keys of shape \(4,\) must be B K"):
        Mask(keys=torch.ones(4, dtype=torch.bool))


def test_a_mask_is_bool_and_fits():
    for number in (torch.ones(4, 4), torch.ones(4, 4, dtype=torch.long)):
        with pytest.raises(ShapeError, match=r"of torch\.\w+ must be bool, True where a query may attend"):
            Mask(matrix=number)
        with pytest.raises(ShapeError, match=r"keys of torch\.\w+ must be bool"):
            Mask(keys=number)
    with pytest.raises(ShapeError, match="matrix of 4 x 3 must match 4 queries and 4 keys"):
        Mask(matrix=torch.ones(4, 3, dtype=torch.bool)).dense(4, 4)
    with pytest.raises(ShapeError, match="keys of 1 x 5 must match 4 queries and 4 keys"):
        Mask(keys=torch.ones(2, 5, dtype=torch.bool)).dense(4, 4)


@pytest.mark.parametrize("function", [attention, fused_attention])
@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_has_the_batch_and_heads_of_the_query(function, causal):
    query = torch.randn(1, 2, 4, 8)
    for shape in ((3, 1, 4, 4), (1, 3, 4, 4)):
        mask = Mask(causal, matrix=torch.ones(shape, dtype=torch.bool))
        with pytest.raises(ShapeError, match=r"matrix for .* must match 1 sequences and 2 heads"):
            function(query, query, query, mask)
    with pytest.raises(ShapeError, match="keys for 2 sequences and 1 heads must match"):
        function(query, query, query, Mask(causal, keys=torch.ones(2, 4, dtype=torch.bool)))


def test_keys_that_are_fewer_than_the_queries_are_refused():
    with pytest.raises(ShapeError, match="keys of 5 positions must have all 6 queries"):
        Mask(keys=torch.ones(2, 5, dtype=torch.bool)).positions(6)
