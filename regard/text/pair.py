"""Tokenizers: one for both sides of a translation, or one each."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError
from regard.text.opening import open_tokenizer
from regard.text.tokenizer import Tokenizer

JOINT = "tokenizer.json"
SOURCE = "tokenizer.source.json"
TARGET = "tokenizer.target.json"


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of source and target; the same object twice where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def joint(cls, tokenizer: Tokenizer) -> Tokenizers:
        """One tokenizer for both sides."""
        return cls(tokenizer, tokenizer)

    @property
    def are_joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """What decides the ids of both sides."""
        return f"{self.source.fingerprint} {self.target.fingerprint}"

    def save(self, folder: str | Path) -> list[str]:
        """Write one file or two into a folder and give their names."""
        files = {JOINT: self.source} if self.are_joint else {SOURCE: self.source, TARGET: self.target}
        for name, tokenizer in files.items():
            tokenizer.save(Path(folder) / name)
        return list(files)

    @classmethod
    def load(cls, folder: str | Path, names: Collection[str] | None = None) -> Tokenizers:
        """Read whichever of the two layouts a folder has, of its files or of these; links are refused."""
        place = Path(folder)
        layout = (JOINT, SOURCE, TARGET)
        names = {name for name in layout if os.path.lexists(place / name)} if names is None else set(names)
        if names not in ({JOINT}, {SOURCE, TARGET}):
            raise DataError(
                f"{folder} holds {', '.join(sorted(names)) or 'no tokenizer'}; "
                f"it must hold {JOINT} alone, or {SOURCE} and {TARGET}"
            )
        files = {name: Tokenizer(open_tokenizer(place / name)) for name in names}
        return cls.joint(files[JOINT]) if JOINT in files else cls(files[SOURCE], files[TARGET])
