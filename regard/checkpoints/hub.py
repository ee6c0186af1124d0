"""Models of the Hugging Face hub by name (`org/name`): the only place where loading uses the network."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from regard.checkpoints.locations import cache_folder
from regard.errors import CheckpointError, MissingPackage

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
# Config, tokenizer and pooling; of the weights only the safest kind that the model has.
_SETTINGS = ("*.json", "*_Pooling/config.json", "chat_template.jinja", "vocab.txt", "merges.txt", "*.spm")
_SAFE, _PICKLED = "model*.safetensors", "pytorch_model*.bin"


def is_hub_name(path: str | Path) -> bool:
    """Whether a path is written as org/name, and neither it nor the folder org exists."""
    text = str(path)
    return _NAME.fullmatch(text) is not None and not Path(text).exists() and not Path(text).parent.exists()


def download(name: str | Path) -> Path:
    """The folder of a model of the hub, downloaded at the first use; needs the package huggingface_hub."""
    try:
        from huggingface_hub import list_repo_files, snapshot_download
    except ImportError:
        raise MissingPackage(
            f"{name} is not a folder; to load it from the Hugging Face hub: pip install 'regard[huggingface]'"
        ) from None
    folder = cache_folder() / "hub" / str(name).replace("/", "--")
    try:
        wanted = _wanted(list_repo_files(str(name)))
        snapshot_download(str(name), local_dir=folder, allow_patterns=wanted)
    except Exception as error:  # the library has errors of many kinds for names and connections
        if (folder / "config.json").is_file():
            return folder  # downloaded before, and there is no connection now
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(
            f"{name} is not a folder, and the Hugging Face hub does not give it: {reason[:200]}"
        ) from None
    return folder


def _wanted(files: list[str]) -> list[str]:
    """The files to download; not those of other formats, which a model often has in subfolders."""

    def matching(pattern: str) -> list[str]:
        return [
            file for file in files if file.count("/") == pattern.count("/") and fnmatchcase(file, pattern)
        ]

    weights = matching(_SAFE) or matching(_PICKLED)
    return [*(file for pattern in _SETTINGS for file in matching(pattern)), *weights]
