"""The predecessors of the Transformer: recurrent sequence-to-sequence models, plain and with attention.

They have the methods of EncoderDecoder that `Translation` and `greedy` call, so that all are trained and used
in the same way. B batch, S source tokens, T target tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.lessons.experiment import alternate, greedy
from regard.model.attention import masked_softmax
from regard.model.config import ModelConfig
from regard.model.initialization import random_weight
from regard.model.masks import EVERYTHING, Mask
from regard.model.outputs import LMHead
from regard.model.similarity import SIMILARITIES
from regard.model.transformer import EncoderDecoder, build_model, count_parameters
from regard.model.watch import watch
from regard.text.collate import ParallelBatch
from regard.training.objectives import Translation

# Each recurrent model by its name: the cell, and whether the decoder attends to the source.
RECURRENT: dict[str, tuple[type[nn.GRU] | type[nn.LSTM], bool]] = {
    "GRU": (nn.GRU, False),
    "LSTM": (nn.LSTM, False),
    "GRU with attention": (nn.GRU, True),
    "LSTM with attention": (nn.LSTM, True),
}
ROWS, ROUNDS = 16, 7  # of timing
State = Tensor | tuple[Tensor, Tensor]  # of a GRU, or hidden and cell state of an LSTM


@dataclass(frozen=True)
class Memory:
    """The last state of the encoder, and its output at every token."""

    state: State
    outputs: Tensor  # B S D


class Recurrent(nn.Module):
    """An encoder and a decoder of one recurrent layer each, with one embedding matrix.

    Plain, the decoder starts from the last state of the encoder and sees nothing else of the source
    (Sutskever et al. 2014). With attention, each step also reads a weighted mean of the encoder's outputs,
    by the additive similarity of Bahdanau et al. (2015); unlike theirs, this encoder reads only forwards.
    """

    def __init__(self, cell: type[nn.GRU] | type[nn.LSTM], attends: bool, vocabulary: int, width: int):
        super().__init__()
        self.words, self.scale = random_weight(vocabulary, width, deviation=width**-0.5), width**0.5
        self.encoder = cell(width, width, batch_first=True)
        self.decoder = cell(2 * width if attends else width, width, batch_first=True)
        self.similarity = SIMILARITIES.find("additive")(1, width) if attends else None
        self.join = nn.Linear(2 * width, width) if attends else None
        self.head = LMHead(vocabulary, width, bias=False, tied=self.words)

    def encode(self, source: Tensor, mask: Mask = EVERYTHING) -> Memory:
        """Ids B S to the memory."""
        embedded = self._embed(source)
        if mask.keys is None:
            outputs, state = self.encoder(embedded)
            return Memory(state, outputs)
        lengths = mask.keys.sum(1).cpu()
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        outputs, state = self.encoder(packed)
        padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=source.shape[1])
        return Memory(state, padded)

    def decode(self, target: Tensor, memory: Memory, mask: Mask = EVERYTHING) -> Tensor:
        """Ids B T to B T D, one token after the other."""
        if self.similarity is None:
            return self.decoder(self._embed(target), memory.state)[0]
        return self.attend(target, memory, mask)[0]

    def attend(self, target: Tensor, memory: Memory, mask: Mask = EVERYTHING) -> tuple[Tensor, Tensor]:
        """Ids B T to B T D, and the weights of the source tokens, B T S."""
        assert self.similarity is not None
        assert self.join is not None
        state, keys = memory.state, memory.outputs[:, None]  # B 1 S D
        visible = mask.dense(1, keys.shape[2])
        outputs, alignment = [], []
        for word in self._embed(target).split(1, dim=1):  # B 1 D
            hidden = state if isinstance(state, Tensor) else state[0]  # 1 B D
            scores = self.similarity(hidden.permute(1, 0, 2)[:, None], keys)  # B 1 1 S
            weights = masked_softmax(scores, visible)[:, 0]  # B 1 S
            context = weights @ memory.outputs  # B 1 D
            output, state = self.decoder(torch.cat((word, context), -1), state)
            outputs.append(self.join(torch.cat((output, context), -1)).tanh())
            alignment.append(weights)
        return torch.cat(outputs, 1), torch.cat(alignment, 1)

    def _embed(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.words) * self.scale


def models_of_equal_size(vocabulary: int) -> dict[str, Callable[[], EncoderDecoder]]:
    """A builder of a Transformer, and of recurrent models with about as many parameters."""
    config = ModelConfig(
        vocabulary=vocabulary, context=256, width=64, layers=2, heads=4, feed_forward_width=128,
        residual="pre",
    )  # fmt: skip
    transformer = cast(Callable[[], EncoderDecoder], partial(build_model, config))
    parameters = count_parameters(build_model(config, device="meta"))

    def distance(name: str, candidate: int) -> int:
        with torch.device("meta"):
            return abs(count_parameters(Recurrent(*RECURRENT[name], vocabulary, candidate)) - parameters)

    builders = {}
    for name in RECURRENT:
        nearest = min(range(16, 160, 4), key=partial(distance, name))
        build = partial(Recurrent, *RECURRENT[name], vocabulary, nearest)
        builders[name] = cast(Callable[[], EncoderDecoder], build)
    return {**builders, "Transformer": transformer}


@torch.no_grad()
def alignment(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    """The weights of source tokens for each target token, B T S; for a Transformer the mean over heads."""
    if isinstance(model, Recurrent):
        return model.attend(target, model.encode(source))[1]
    with watch(model, only="cross.weights") as seen:
        model(source, target)
    return torch.stack([weights.mean(1) for weights in seen.values()])[-1]


def translate(model: EncoderDecoder, batch: ParallelBatch) -> np.ndarray:
    """The greedy translation of every source, as long as the longest target."""
    keys, length = torch.as_tensor(batch.source_keys), batch.target_out.shape[1]
    return greedy(model, torch.as_tensor(batch.source), int(batch.target_in[0, 0]), length, Mask(keys=keys))


def time_steps(models: Mapping[str, EncoderDecoder], length: int) -> dict[str, list[float]]:
    """The seconds of a training step of each model in each round, with sources and targets of this length."""
    ids, exists = np.full((ROWS, length), 1), np.ones((ROWS, length), bool)
    batch = ParallelBatch(ids, exists, ids, ids, exists)
    return alternate({name: partial(_step, model, batch) for name, model in models.items()}, ROUNDS)


def _step(model: EncoderDecoder, batch: ParallelBatch) -> None:
    """Forward and backward pass of a training step."""
    loss, _ = Translation(model)(batch)
    loss.backward()
