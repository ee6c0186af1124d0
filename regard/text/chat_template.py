"""ChatTemplate: a conversation as the text that a chat model was trained on.

A template is a program in the language of jinja2 that came with the model. It runs in a process of its own
(chat_renderer.py), which is started for the first conversation and again after a template that exceeded its
limits. Imports neither torch nor jinja2.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from regard.background import module_command
from regard.errors import CheckpointError, DataError

Messages = Sequence[Mapping[str, str]]

LARGEST_TEMPLATE = 1 << 18  # characters; the largest known have about 20,000
LARGEST_CONVERSATION = 1 << 22  # characters of all messages
PATIENCE = 10.0 if sys.platform != "win32" else 2.0  # seconds; elsewhere processor time is limited as well


class ChatTemplate:
    """A chat template with the special tokens that it may write. Threads may share it."""

    def __init__(self, source: str, tokens: Mapping[str, str] | None = None):
        if not isinstance(source, str) or len(source) > LARGEST_TEMPLATE:
            raise CheckpointError(
                f"a chat template must be a text of at most {LARGEST_TEMPLATE:,} characters"
            )
        self.source, self.tokens = source, dict(tokens or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def render(self, messages: Messages, add_generation_prompt: bool = True) -> str:
        """The text of a conversation; with `add_generation_prompt` it ends where the assistant begins."""
        variables = {**self.tokens, "messages": check_messages(messages)}
        variables["add_generation_prompt"] = add_generation_prompt
        request = json.dumps({"template": self.source, "variables": variables}).encode() + b"\n"
        with self._lock:
            reply = self._ask(request)
        if "error" in reply:
            line = " ".join(reply["error"].split())
            raise DataError(f"the chat template cannot render this conversation: {line[:300]}")
        return reply["text"]

    def _ask(self, request: bytes) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        clock = threading.Timer(PATIENCE, process.kill)
        clock.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()
            reply = process.stdout.readline()
        except BrokenPipeError:
            reply = b""
        finally:
            clock.cancel()
        if not reply.endswith(b"\n"):
            _end(process)
            raise DataError(
                "the chat template exceeded its limits of time or memory; use a model with another template"
            )
        return json.loads(reply)

    def _running(self) -> subprocess.Popen[bytes]:
        """The process that renders, started if there is none."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                module_command("regard.text.chat_renderer"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            weakref.finalize(self, _end, self._process)
        return self._process


def check_messages(messages: Messages) -> list[dict[str, str]]:
    """The messages as plain dicts; raise unless each has the texts role and content."""
    if isinstance(messages, str) or not messages:
        raise DataError('a conversation must have messages, such as [{"role": "user", "content": "Hello"}]')
    checked = []
    for number, message in enumerate(messages, 1):
        texts = dict(message) if isinstance(message, Mapping) else {}
        if set(texts) != {"role", "content"} or not all(isinstance(text, str) for text in texts.values()):
            raise DataError(f"message {number} of the conversation must have two texts, role and content")
        checked.append(texts)
    size = sum(len(text) for message in checked for text in message.values())
    if size > LARGEST_CONVERSATION:
        raise DataError(
            f"the conversation has {size:,} characters; {LARGEST_CONVERSATION:,} are the limit; shorten it"
        )
    return checked


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
