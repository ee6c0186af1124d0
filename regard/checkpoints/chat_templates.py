"""The chat template of a Hugging Face folder, kept as `extra["chat"]` of a model folder.

chat_template.jinja, or chat_template in tokenizer_config.json: one text, or several with names, of which
`default` is used. The tokens that end an answer are those of generation_config.json, or of config.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.checkpoints.huggingface_tokenizers import SETTINGS, spelled_tokens
from regard.checkpoints.untrusted_files import FolderFiles
from regard.errors import CheckpointError
from regard.opener import read_regular
from regard.text.chat_template import LARGEST_TEMPLATE, ChatTemplate
from regard.text.tokenizer_file import LARGEST_ID

TEMPLATE, GENERATION = "chat_template.jinja", "generation_config.json"
DEFAULT = "default"


def read_chat(files: FolderFiles, values: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a model that can chat: its template, its tokens and the ids that end an answer."""
    template = _read_template(files)
    if template is None:
        return {}
    generation = files.json(GENERATION) if GENERATION in files else {}
    ends = _ids(generation.get("eos_token_id")) or _ids(values.get("eos_token_id"))
    chat = {"template": template, "tokens": spelled_tokens(files), "ends": ends}
    chat_template(chat)
    return {"chat": chat}


def chat_template(chat: Any) -> ChatTemplate:
    """The template in the metadata of a model folder."""
    values = chat if isinstance(chat, Mapping) else {}
    template, tokens = values.get("template"), values.get("tokens", {})
    is_table = isinstance(tokens, Mapping) and all(isinstance(text, str) for text in tokens.values())
    if not isinstance(template, str) or not is_table:
        raise CheckpointError("the metadata chat must have a template and a table of tokens; remove it")
    return ChatTemplate(template, tokens)


def end_ids(chat: Any) -> tuple[int, ...]:
    """The ids that end an answer, from the metadata of a model folder."""
    return tuple(_ids(chat.get("ends")))


def _read_template(files: FolderFiles) -> str | None:
    if TEMPLATE in files:
        try:
            return read_regular(files.path(TEMPLATE), 4 * LARGEST_TEMPLATE).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"cannot read {files.folder / TEMPLATE}: {error}") from None
    template = files.json(SETTINGS).get("chat_template") if SETTINGS in files else None
    if isinstance(template, list):
        named = {item.get("name"): item.get("template") for item in template if isinstance(item, dict)}
        template = named.get(DEFAULT)
    if template is not None and not isinstance(template, str):
        raise CheckpointError(f"{files.folder / SETTINGS}: chat_template must be a text")
    return template


def _ids(value: Any) -> list[int]:
    numbers = value if isinstance(value, list) else [value]
    return [number for number in numbers if type(number) is int and 0 <= number < LARGEST_ID]
