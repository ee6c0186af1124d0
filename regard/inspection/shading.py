"""How a weight looks: light at 0, dark at 1, the same scale in the terminal and in a picture."""

from __future__ import annotations

import numpy as np
from rich.color import Color
from rich.style import Style

# Steps of equal lightness from nearly white to deep blue, and for differences from rust to blue.
SCALE = ("#f4f6fa", "#c3d6ea", "#87b1da", "#4387c2", "#1b5a9c", "#0a2f66")
DIVERGING = ("#7a2e05", "#c66a2b", "#eab98f", "#f4f2ef", "#9fc3e3", "#3f7fbc", "#0a3a75")
HATCH = "#dcd8d0"  # in pictures, a third look for what may not be seen
EVEN = 0.179  # the lightness on which black and white letters are read equally well
DARK, LIGHT = "#000000", "#ffffff"


def shade(weight: float) -> str:
    """The colour of a weight from 0 to 1."""
    return _between(SCALE, float(np.clip(weight, 0, 1)))


def shade_of_difference(difference: float, largest: float = 1.0) -> str:
    """The colour of a difference: rust below 0, blue above, nearly white at 0."""
    share = float(np.clip(difference / (largest or 1.0), -1, 1))
    return _between(DIVERGING, (share + 1) / 2)


def painted(colour: str) -> Style:
    """That ground, with letters that can be read on it."""
    return Style(color=DARK if _lightness(colour) > EVEN else LIGHT, bgcolor=colour)


def percent(weight: float, visible: bool = True) -> str:
    """A weight as a whole percent; a dot below half a percent, nothing where it may not be seen."""
    if not visible:
        return ""
    return "·" if weight < 0.005 else f"{100 * weight:.0f}"


def signed_percent(difference: float) -> str:
    """A difference as whole percents with its sign; a dot where it is below half a percent."""
    return "·" if abs(difference) < 0.005 else f"{100 * difference:+.0f}"


def _between(scale: tuple[str, ...], share: float) -> str:
    at = share * (len(scale) - 1)
    lower = min(int(at), len(scale) - 2)
    start, end = (np.array(Color.parse(scale[n]).get_truecolor()) for n in (lower, lower + 1))
    mixed = np.rint(start + (end - start) * (at - lower)).astype(int)
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _lightness(colour: str) -> float:
    """Relative luminance, 0 black to 1 white."""
    channels = np.array(Color.parse(colour).get_truecolor()) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
