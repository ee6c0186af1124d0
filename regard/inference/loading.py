"""load: a model folder, or one of Hugging Face, as a Translator, a Writer or a Reader."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoints.chat_templates import chat_template, end_ids
from regard.checkpoints.folder import Copies, ModelFolder, load_model
from regard.checkpoints.hub import download, is_hub_name
from regard.checkpoints.locations import CONFIG, RECIPE, built_in_folder, has_file, locate_model
from regard.checkpoints.reading import read_model
from regard.engine.choice import Engine, StoredModel, check_threads
from regard.engine.native_weights import NotNative
from regard.errors import CheckpointError, SettingError, UnknownName, UsageError, nearest
from regard.model.config import ModelConfig
from regard.settings import Settings

if TYPE_CHECKING:
    from regard.inference.chat import Chat
    from regard.inference.images import ImageClassifier
    from regard.inference.reader import Reader
    from regard.inference.translator import Translator
    from regard.inference.writer import Writer
    from regard.model.transformer import Transformer

DTYPES = ("float32", "float16", "bfloat16", "int8")


@dataclass(frozen=True)
class LoadOptions:
    """What computes with a model, and in which numbers.

    engine     native or torch; native where it can be used if None
    threads    the number of threads of the engine
    device     cpu, cuda, mps, or auto for the fastest
    dtype      float32, float16, int8 (native engine) or bfloat16 (accelerators); that of the folder if None
    """

    engine: str | None = None
    threads: int | None = None
    device: str = "cpu"
    dtype: str | None = None

    def resolved(self) -> LoadOptions:
        """The same with the device that is used; raise if two options do not fit."""
        check_threads(self.threads)
        if self.dtype is not None and self.dtype not in DTYPES:
            raise UnknownName(f"unknown dtype {self.dtype!r}; {nearest(self.dtype, DTYPES)}")
        options = self
        if self.device != "cpu":
            from regard.engine.device import find_device

            options = replace(self, device=find_device(self.device))
        if options.dtype == "bfloat16" and options.on_cpu:
            raise SettingError("dtype (bfloat16) is for accelerators, and slow on a cpu; leave it out")
        if options.dtype == "int8" and not options.on_cpu:
            raise SettingError(f"dtype (int8) needs device cpu, not {options.device}; leave one of them out")
        return options

    @property
    def on_cpu(self) -> bool:
        """Whether the device is a CPU."""
        return self.device.startswith("cpu")


DEFAULTS = LoadOptions()


def load(
    path: str | Path,
    device: str = "cpu",
    dtype: str | None = None,
    threads: int | None = None,
    engine: str | None = None,
) -> Translator | Writer | Reader:
    """Load a model folder, the model of a run or a Hugging Face folder: a Translator, a Writer or a Reader.

    A model of images, such as ViT, is refused; `load_images` loads it. `regard.load` also knows the names of
    built-in models, such as demo.

    A name of the Hugging Face hub, such as org/name, is downloaded; nothing else uses the network.

    device     cpu, cuda, mps, or auto for the fastest
    dtype      float32, float16, int8 (native engine) or bfloat16 (accelerators); by default as the folder
               stores it
    threads    the number of threads of the engine
    engine     "native" or "torch"; by default native where it can be used
    """
    folder = _read(path)
    _check_reads_text(path, folder)
    return _loaded(folder, LoadOptions(engine, threads, device, dtype))


def load_images(path: str | Path, options: LoadOptions = DEFAULTS) -> ImageClassifier:
    """Load a model that classifies images; raise if it reads text."""
    from regard.inference.images import ImageClassifier, ImageSettings

    folder = _read(path)
    if "image" not in folder.extra:
        raise _cannot("classify images", path, folder.config)
    settings, options = _extra_settings(folder, "image", ImageSettings), options.resolved()
    if options.engine not in (None, "torch"):
        raise SettingError(f"engine ({options.engine}) is not for models of images; leave it out")
    if options.on_cpu and options.dtype not in (None, "float32"):
        raise SettingError(f"dtype ({options.dtype}) is not for models of images on a cpu; leave it out")
    model: Any = _placed(folder, options)
    return ImageClassifier(model, settings, folder.labels)


def _check_reads_text(path: str | Path, folder: ModelFolder) -> None:
    if folder.config.patches is not None:
        raise UsageError(f"{path} holds a model that reads images; use regard classify --image")


def load_for(command: str, path: str | Path, options: LoadOptions = DEFAULTS) -> Any:
    """Load a model for a command; raise before loading if the command cannot use it."""
    folder = _read(path)
    if command not in commands_for(folder.config):
        raise _cannot(command, path, folder.config)
    _check_reads_text(path, folder)
    return _loaded(folder, options)


def load_chat(path: str | Path, options: LoadOptions = DEFAULTS) -> Chat:
    """Load a model that continues text, with its chat template; raise if it has none."""
    folder = _read(path)
    if folder.config.family != "decoder-only":
        raise _cannot("chat", path, folder.config)
    if "chat" not in folder.extra:
        raise UsageError(f"{path} has no chat template, so it cannot chat; use regard complete")
    return chat_of(folder, _loaded(folder, options))


def chat_of(folder: ModelFolder, writer: Writer) -> Chat:
    """The Writer of a folder with the folder's chat template."""
    from regard.inference.chat import Chat

    try:
        template = chat_template(folder.extra["chat"])
    except CheckpointError as error:
        raise CheckpointError(f"{folder.path}: {error}") from None
    return Chat(writer, template, end_ids(folder.extra["chat"]))


def _extra_settings(folder: ModelFolder, name: str, kind: type[Settings]) -> Any:
    """Settings in the metadata of a folder, which may hold any value."""
    try:
        return kind.read(folder.extra.get(name, {}))
    except SettingError as error:
        raise CheckpointError(f"{folder.path / CONFIG}: extra.{name}: {error}") from None


def _cannot(command: str, path: str | Path, config: ModelConfig) -> UsageError:
    usable = " or regard ".join(commands_for(config))
    return UsageError(f"{path} holds {holds(config)}, which cannot {command}; use regard {usable}")


def holds(config: ModelConfig) -> str:
    """What a model is, for messages."""
    kinds = {"encoder-decoder": "a model that translates", "decoder-only": "a model that continues text"}
    readers = {
        "masked": "fills masks",
        "words": "fills masks",
        "classes": f"tells {config.classes} classes apart",
    }
    reading = f"a model that reads text and {readers.get(config.output, 'gives vectors')}"
    return f"{kinds.get(config.family, reading)} ({config.family})"


def commands_for(config: ModelConfig) -> list[str]:
    """The commands that can use a model."""
    writing = {"encoder-decoder": ["translate"], "decoder-only": ["complete"]}
    reading = {"masked": ["fill", "embed"], "words": ["fill", "embed"], "classes": ["classify", "embed"]}
    return writing.get(config.family) or reading.get(config.output, ["embed"])


def model_folder(path: str | Path) -> Path:
    """The model folder that a path means; a path without a model is returned as it is.

    A name of the Hugging Face hub (org/name) that is not a folder is downloaded.
    """
    path = built_in_folder(path)
    location = locate_model(path)
    if location is None and is_hub_name(path):
        return download(path)
    path = Path(path)
    if location is None and has_file(path, RECIPE):
        raise CheckpointError(
            f"{path} is a run that has no model before its first checkpoint; wait for it, or continue it "
            f"with regard train --resume {path}"
        )
    return path if location is None else location.model


def _read(path: str | Path) -> ModelFolder:
    """The contents of a model folder; imports no torch."""
    return read_model(model_folder(path))


def _loaded(folder: ModelFolder, options: LoadOptions) -> Any:
    tokenizers, model = folder.tokenizers(), _engine(folder, options.resolved())
    if folder.config.family == "encoder-decoder":
        from regard.inference.translator import Translator

        return Translator(model, tokenizers)
    if folder.config.family == "decoder-only":
        from regard.inference.writer import Writer

        return Writer(model, tokenizers.target)
    from regard.inference.reader import EmbeddingSettings, Reader

    embedding = _extra_settings(folder, "embedding", EmbeddingSettings)
    return Reader(model, tokenizers.source, folder.labels, embedding)


def _engine(folder: ModelFolder, options: LoadOptions) -> Engine:
    """The model on its engine: the weights are packed, or the torch model is built."""
    folder.check_weights()
    obstacle = None if options.on_cpu else f"the device is {options.device}"
    stored = StoredModel(folder.config, Copies(folder.weights), partial(_placed, folder, options), obstacle)
    model = Engine(stored, options.engine, options.threads, options.dtype or folder.dtype)
    if options.on_cpu and options.dtype not in (None, "float32"):
        _check_native(model, options.dtype)
    if model.native() is None:
        _ = model.module
    return model


def _check_native(model: Engine, dtype: str) -> None:
    try:
        model.check()
    except NotNative as reason:
        raise SettingError(f"dtype ({dtype}) needs the native engine: {reason}; leave it out") from None


def _placed(folder: ModelFolder, options: LoadOptions) -> Transformer:
    """The torch model with its weights, on its device."""
    import torch

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    model = load_model(folder).eval()
    return model if options.on_cpu else model.to(options.device, getattr(torch, options.dtype or "float32"))
