"""The recurrent models of the lesson recurrence: padding, order of computation, size."""

from __future__ import annotations

import pytest
import torch

from regard.lessons.recurrent import RECURRENT, Recurrent, alignment, models_of_equal_size
from regard.model.masks import Mask
from regard.model.transformer import count_parameters

SOURCE, TARGET = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]]), torch.tensor([[1, 2, 3], [4, 5, 6]])
EXISTS = torch.arange(5) < torch.tensor([[5], [3]])


@pytest.fixture(params=list(RECURRENT))
def model(request):
    torch.manual_seed(0)
    return Recurrent(*RECURRENT[request.param], vocabulary=10, width=8).eval()


def test_padding_changes_nothing(model):
    mask = Mask(keys=EXISTS)
    padded = model.decode(TARGET, model.encode(SOURCE, mask), mask)
    alone = model.decode(TARGET[1:], model.encode(SOURCE[1:, :3]))
    torch.testing.assert_close(padded[1:], alone)


def test_a_later_word_changes_no_earlier_output(model):
    memory = model.encode(SOURCE)
    changed = TARGET.clone()
    changed[:, 1] = 7
    before, after = model.decode(TARGET, memory), model.decode(changed, memory)
    assert torch.equal(before[:, 0], after[:, 0])
    assert not torch.allclose(before[:, 2], after[:, 2])


def test_models_have_about_the_same_number_of_parameters():
    counts = [count_parameters(build()) for build in models_of_equal_size(300).values()]
    assert max(counts) / min(counts) < 1.08


def test_weights_of_an_alignment_sum_to_one():
    builders = models_of_equal_size(10)
    for name in ("GRU with attention", "LSTM with attention", "Transformer"):
        weights = alignment(builders[name](), SOURCE, TARGET)
        assert weights.shape == (2, 3, 5)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3))
