"""An exported ONNX folder in onnxruntime: the logits of a text, and greedy search step by step.

It needs onnxruntime and numpy alone, and shows how the graphs are called. B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

SETTINGS = "config.json"


class OnnxModel:
    """The graphs of a folder, on one thread."""

    def __init__(self, folder: Path):
        import onnxruntime  # pyright: ignore[reportMissingImports]

        self.settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        files = {path.stem: str(path) for path in folder.glob("*.onnx")}
        self._sessions = {
            name: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            for name, path in files.items()
        }

    def logits(self, source: Sequence[int], target: Sequence[int]) -> np.ndarray:
        """T V of one text; the output of the head for a model that reads."""
        read = self._encode([source]) if source else {}
        if not target:
            return read["output"][0]
        first = self._step(np.array([target]), read, {})["logits"]
        return first[0]

    def greedy(self, rows: list[list[int]], count: int) -> list[list[int]]:
        """The ids that follow each row, at most `count`; rows are sources of a model that translates."""
        if "encoder" in self._sessions:
            return self._search(np.full((len(rows), 1), self.settings["start"]), self._encode(rows), count)
        return [self._search(np.array([row]), {}, count)[0] for row in rows]

    def _search(self, ids: np.ndarray, read: dict[str, np.ndarray], count: int) -> list[list[int]]:
        """One id per row and step; every step gets the keys and values of all steps before."""
        end, cache, steps = self.settings["end"], {}, []
        running = np.ones(len(ids), bool)
        while running.any() and len(steps) < count:
            outputs = self._step(ids, read, cache)
            cache = {name.replace("present", "past", 1): array for name, array in outputs.items()}
            ids = cache.pop("logits")[:, -1].argmax(-1)[:, None]
            running &= ids[:, 0] != end
            steps.append(np.where(running, ids[:, 0], end))
        columns = np.array(steps).T if steps else np.zeros((len(ids), 0), int)
        return [[int(number) for number in row if number != end] for row in columns]

    def _encode(self, rows: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """The outputs of the encoder for rows of different lengths, and their mask."""
        longest = max(map(len, rows))
        mask = np.array([[position < len(row) for position in range(longest)] for row in rows])
        source = np.zeros(mask.shape, np.int64)
        source[mask] = np.concatenate([np.asarray(row) for row in rows])
        return self._run("encoder", {"source": source, "source_mask": mask}) | {"source_mask": mask}

    def _step(
        self, ids: np.ndarray, read: dict[str, np.ndarray], cache: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Logits and all keys and values; without a cache those of the past are empty."""
        feeds: dict[str, np.ndarray] = {"ids": ids.astype(np.int64), **read, **cache}
        for entry in self._sessions["decoder"].get_inputs():
            if entry.name not in feeds:
                _, groups, _, width = entry.shape
                feeds[entry.name] = np.zeros((len(ids), groups, 0, width), np.float32)
        return self._run("decoder", feeds)

    def _run(self, name: str, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        session: Any = self._sessions[name]
        titles = [entry.name for entry in session.get_outputs()]
        return dict(zip(titles, session.run(None, feeds), strict=True))
