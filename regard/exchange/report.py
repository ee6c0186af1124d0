"""The verification report of an import or export: what was compared with what, and how far apart it was."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError
from regard.opener import open_regular

REPORT = "verification.json"
TOLERANCE = 1e-5  # largest difference of logits, relative to their largest magnitude


@dataclass(frozen=True)
class Comparison:
    """The largest difference of two outputs for one kind of input, relative to the largest magnitude."""

    inputs: str
    difference: float


@dataclass(frozen=True)
class Report:
    """What was compared with the reference, and the sha256 of all files."""

    operation: str
    model_type: str
    reference: str
    comparisons: list[Comparison]
    tolerance: float = TOLERANCE
    token_ids: str = "not compared"
    greedy_tokens: str = "not compared"
    notes: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    format: str = "huggingface"

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The report as lines of text."""
        compared = [f"  {each.inputs}: largest difference {each.difference:.1e}" for each in self.comparisons]
        files = [f"  {name}: sha256 {digest}" for name, digest in self.files.items()]
        return [
            f"{self.operation} ({self.format}) of a {self.model_type} model, compared with {self.reference}",
            *compared,
            f"  tolerance: {self.tolerance:.0e} of the largest magnitude",
            f"  token ids: {self.token_ids}",
            f"  greedy tokens: {self.greedy_tokens}",
            *(f"  note: {note}" for note in self.notes),
            *files,
        ]

    def check(self) -> None:
        """Raise if a difference is above the tolerance or not a number."""
        for each in self.comparisons:
            if not each.difference <= self.tolerance:
                raise CheckpointError(
                    f"verification failed: {each.inputs} differ from {self.reference} by "
                    f"{each.difference:.1e} of the largest magnitude, and {self.tolerance:.0e} is allowed; "
                    "nothing was written"
                )


def digests(folder: Path) -> dict[str, str]:
    """The sha256 of each file of a folder and its subfolders, by its path there."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if not path.is_dir()):
        with open_regular(path) as file:
            found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found
