"""Patches: an image cut into squares, each of which becomes one token (Dosovitskiy et al. 2021, section 3.1).

B batch, C channels, P pixels on a side of a patch, Q patches, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.model.initialization import random_weight


def cut_patches(images: Tensor, side: int) -> Tensor:
    """Images B C (rows P) (columns P) to patches B Q CPP, row by row from the top left."""
    if images.dim() != 4 or images.shape[2] % side or images.shape[3] % side:
        raise ShapeError(
            f"images of shape {tuple(images.shape)} must be B C height width, with patches of {side} x {side}"
            " pixels in whole numbers; pad or scale the images"
        )
    squares = images.unfold(2, side, side).unfold(3, side, side)  # B C rows columns P P
    return squares.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


class PatchEmbedding(nn.Module):
    """A linear projection of each patch; a class token, one trained vector, may precede them.

    The projection equals a convolution whose stride is the size of its kernel, with the same weights
    D C P P.
    """

    def __init__(self, side: int, channels: int, width: int, class_token: bool = True):
        super().__init__()
        self.side, self.channels = side, channels
        self.projection = nn.Linear(channels * side * side, width)
        self.class_token = random_weight(width, deviation=0.02) if class_token else None

    def forward(self, images: Tensor) -> Tensor:
        """Images B C height width to B Q D, or B Q+1 D with a class token."""
        if images.dim() != 4 or images.shape[1] != self.channels or not images.is_floating_point():
            raise ShapeError(
                f"{images.dtype} of shape {tuple(images.shape)} must be images: floats of shape "
                f"B {self.channels} height width"
            )
        x = self.projection(cut_patches(images, self.side))
        if self.class_token is None:
            return x
        return torch.cat((self.class_token.expand(len(x), 1, -1), x), dim=1)
