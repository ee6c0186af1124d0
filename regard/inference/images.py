"""ImageClassifier: a picture in, a label out.

B batch, C channels, S side of an image in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, overload

import numpy as np
from pydantic import Field, model_validator

from regard.errors import DataError, SettingError, ShapeError
from regard.inference.reader import Classified, check_labels, classified
from regard.opener import open_regular
from regard.settings import Settings

if TYPE_CHECKING:
    from PIL.Image import Image

    from regard.model.config import ModelConfig
    from regard.model.transformer import EncoderOnly

LARGEST_FILE = 1 << 26  # bytes
LARGEST_PICTURE = 1 << 26  # pixels; some files of a few kilobytes unpack to gigabytes
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
Picture = np.ndarray | str | Path


class ImageSettings(Settings):
    """How a picture becomes the image that a model reads."""

    side: Annotated[int, Field(ge=1, le=1 << 14)]
    """Height and width of an image in pixels."""
    resampling: Literal["nearest", "lanczos", "bilinear", "bicubic"] = "bilinear"
    """The filter that resizes a picture."""
    scale: Annotated[float, Field(gt=0, le=1)] = 1 / 255
    """The factor of the numbers 0 to 255 of a picture."""
    mean: Annotated[tuple[float, ...], Field(max_length=64, strict=False)] = (0.0,)
    """Subtracted from each channel, after scaling; one number for all channels or one for each."""
    std: Annotated[tuple[float, ...], Field(max_length=64, strict=False)] = (1.0,)
    """The divisor of each channel, after the subtraction."""

    @model_validator(mode="after")
    def _check(self) -> ImageSettings:
        if not all(np.isfinite(self.mean)) or not all(np.isfinite(self.std)) or 0.0 in self.std:
            raise SettingError(f"mean ({self.mean}) and std ({self.std}) must be finite, and std not 0")
        return self


class ImageClassifier:
    """A trained model that tells classes of pictures apart. It keeps no state; threads may share it."""

    def __init__(self, model: EncoderOnly, settings: ImageSettings, labels: Sequence[str] = ()):
        self.model, self.settings = model, settings
        self.labels = check_labels(labels, model.config.classes)
        patches = model.config.patches
        assert patches is not None
        self._channels = patches.channels
        for name in ("mean", "std"):
            if len(getattr(settings, name)) not in (1, self._channels):
                raise SettingError(f"{name} must have one number for each of {self._channels} channels")

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self.model.config

    @overload
    def classify(self, pictures: Picture) -> Classified: ...
    @overload
    def classify(self, pictures: Sequence[Picture]) -> list[Classified]: ...
    def classify(self, pictures: Picture | Sequence[Picture]) -> Classified | list[Classified]:
        """Classify a picture or a sequence of them: files, or arrays height width channels of uint8."""
        if isinstance(pictures, np.ndarray | str | Path):
            return self.classify([pictures])[0]
        from regard.inference.scoring import image_probabilities

        rows = [image_probabilities(self.model, self.image(picture)[None])[0] for picture in pictures]
        return [classified(self.labels, row) for row in rows]

    def image(self, picture: Picture) -> np.ndarray:
        """The numbers C S S that the model reads."""
        opened = _from_array(picture) if isinstance(picture, np.ndarray) else _open(Path(picture))
        mode = {1: "L", 3: "RGB", 4: "RGBA"}.get(self._channels)
        if mode is None:
            raise ShapeError(f"a picture has 1, 3 or 4 channels, and this model reads {self._channels}")
        from PIL.Image import Resampling

        side = self.settings.side
        size, kind = (side, side), Resampling[self.settings.resampling.upper()]
        pixels = np.asarray(opened.convert(mode).resize(size, kind), np.float32)
        mean, std = (np.array(getattr(self.settings, name), np.float32) for name in ("mean", "std"))
        values = (pixels.reshape(*size, -1) * np.float32(self.settings.scale) - mean) / std
        return np.ascontiguousarray(values.transpose(2, 0, 1))


def _from_array(array: np.ndarray) -> Image:
    """An array as a picture."""
    from PIL import Image

    if array.dtype != np.uint8 or array.ndim not in (2, 3) or array.shape[2:] not in ((), (3,), (4,)):
        raise ShapeError(
            f"{array.dtype} of shape {array.shape} must be a picture: height width, or height width 3 or 4, "
            "of uint8"
        )
    if 0 in array.shape:
        raise ShapeError(f"a picture of shape {array.shape} has no pixels")
    return Image.fromarray(array)


def _open(path: Path) -> Image:
    """The picture in a file; a link is followed."""
    from PIL import Image, UnidentifiedImageError

    try:
        with open_regular(path.resolve(), LARGEST_FILE) as file, Image.open(file, formats=FORMATS) as opened:
            if opened.width * opened.height > LARGEST_PICTURE:
                raise DataError(f"{path} has {opened.width} x {opened.height} pixels; use a smaller picture")
            return opened.convert("RGBA" if "A" in opened.getbands() else "RGB")
    except UnidentifiedImageError:
        raise DataError(f"{path} is no picture that can be read; use {', '.join(FORMATS)}") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"cannot read {path}: {line[:200]}") from None
