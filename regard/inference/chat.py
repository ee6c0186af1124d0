"""Chat: a conversation in, the next message out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Unpack

from regard.inference.search.sampling import SamplingSettings
from regard.inference.windows import Label
from regard.inference.writer import MAX_TOKENS, CompletionOptions, CompletionStream, Writer
from regard.text.chat_template import ChatTemplate, Messages, check_messages

_BREAK = "\ue001"  # a private character, between the characters of a special token that a message spells


class Chat:
    """A Writer with a chat template. It keeps no state between calls: the caller holds the conversation.

    `ends` are the ids that end an answer; the tokenizer's end token if there are none.
    """

    def __init__(self, writer: Writer, template: ChatTemplate, ends: Sequence[int] = ()):
        self.writer, self.template, self.ends = writer, template, tuple(ends)

    def reply(
        self,
        messages: Messages,
        settings: SamplingSettings | None = None,
        **options: Unpack[CompletionOptions],
    ) -> CompletionStream:
        """The assistant's next message, piece by piece; the options are those of `Writer.complete`."""
        base = settings or SamplingSettings(max_length=MAX_TOKENS)
        task = self.writer.prepare(base.changed(end=base.end or self.ends), **options)
        text, ids = self.encode(messages)
        return CompletionStream(task, task.prompt(Label(), text, ids))

    def encode(self, messages: Messages) -> tuple[str, list[int]]:
        """The rendered conversation and its ids.

        Special tokens that the template writes are encoded as such. Those that a message spells stay text,
        so that a message cannot end its turn or begin another.
        """
        tokenizer, checked = self.writer.tokenizer, check_messages(messages)
        specials = re.compile("|".join(map(re.escape, tokenizer.special_texts)) or "(?!)")
        if not any(specials.search(message["content"]) for message in checked):
            text = self.template.render(checked)
            return text, tokenizer.encode_specials(text)
        broken = [dict(m, content=specials.sub(_break, m["content"].replace(_BREAK, ""))) for m in checked]
        text = self.template.render(broken)
        ids: list[int] = []
        end = 0
        for special in specials.finditer(text):
            ids += tokenizer.encode(text[end : special.start()].replace(_BREAK, ""))
            ids += tokenizer.encode_specials(special[0])
            end = special.end()
        return text.replace(_BREAK, ""), ids + tokenizer.encode(text[end:].replace(_BREAK, ""))


def _break(special: re.Match[str]) -> str:
    return special[0][0] + _BREAK + special[0][1:]
