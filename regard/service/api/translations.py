"""/v1/translate: translate one text or many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from regard.inference.search.requests import Answer
from regard.inference.translation import Source, Translation
from regard.inference.translator import TranslationTask, Translator
from regard.inference.windows import Label
from regard.service.api.errors import ContextLength
from regard.service.api.generation import usage
from regard.service.api.routing import Service
from regard.service.api.schemas import TranslateRequest
from regard.service.api.works import SearchWork, TextWork
from regard.service.app import json_response
from regard.service.http_errors import Malformed


async def translate(service: Service, request: Request, body: TranslateRequest) -> Response:
    """Answer a translation request."""
    served = service.models[body.model]
    translator = served.as_kind(Translator, "translate")
    served.scheduler.check_room(1 if isinstance(body.text, str) else len(body.text))
    job = await service.in_thread_if_long(body, lambda: TranslationJob.of(translator, body))
    answers = await service.results(served, request, job.works())
    read, written = job.counted(answers)
    aligned = None
    if body.alignment:
        (aligned,) = await service.results(served, request, [job.finishing(answers)])

    def finish() -> Response:
        translations = job.finish(answers) if aligned is None else aligned
        data = [{"index": index, **as_data(each, body)} for index, each in enumerate(translations)]
        return json_response(
            {"object": "list", "model": served.name, "data": data, "usage": usage(read, written)}
        )

    response = await service.in_thread_if_many(written * body.n_best, finish)
    service.metrics.count_tokens(served.name, read, written)
    return response


@dataclass(frozen=True, eq=False)
class TranslationJob:
    """A translation request: its texts and their sources."""

    task: TranslationTask
    texts: list[str]
    sources: list[list[Source]]  # of each text: one, several if it is split, none if it is blank

    @classmethod
    def of(cls, translator: Translator, body: TranslateRequest) -> TranslationJob:
        """Check a request and encode its texts."""
        if body.n_best > body.beams:
            raise Malformed(f"n_best ({body.n_best}) must not be above beams ({body.beams}); widen the beam")
        context = translator.config.context
        if (body.max_tokens or 0) > context:
            raise ContextLength(
                f"max_tokens ({body.max_tokens:,}) must not be above this model's context of {context:,}; "
                "lower it"
            )
        task = translator.prepare(
            beams=body.beams,
            n_best=body.n_best,
            length_penalty=body.length_penalty,
            patience=body.patience,
            max_length=body.max_tokens,
            min_length=body.min_tokens,
            no_repeat_ngram_size=body.no_repeat_ngram_size,
            prefix=body.prefix,
            forbidden=body.forbidden,
            split=body.split,
            alignment=body.alignment,
        )
        is_only = isinstance(body.text, str)
        texts: list[str] = [body.text] if isinstance(body.text, str) else list(body.text)
        encoded = enumerate(zip(texts, translator.tokenizers.source.encode_batch(texts), strict=True), 1)
        sources = [task.read(Label(number, is_only), text, ids) for number, (text, ids) in encoded]
        return cls(task, texts, sources)

    def works(self) -> list[SearchWork]:
        """A work for each source."""
        is_beam = not self.task.is_greedy
        return [SearchWork(self.task.request(source), is_beam) for source in self._all_sources]

    def finish(self, answers: Sequence[Answer]) -> list[Translation]:
        """The translation of each text."""
        parts = iter(self.task.finish(self._all_sources, answers))
        return [
            self.task.join(text, sources, [next(parts) for _ in sources])
            for text, sources in zip(self.texts, self.sources, strict=True)
        ]

    def finishing(self, answers: Sequence[Answer]) -> TextWork:
        """The same as a work, because alignment needs a pass of the model."""
        return TextWork(object(), "", lambda _: [self.finish(answers)])

    def counted(self, answers: Sequence[Answer]) -> tuple[int, int]:
        """The tokens read and written."""
        written = sum(len(answer.best.ids) for answer in answers)
        return sum(len(source.ids) for source in self._all_sources), written

    @property
    def _all_sources(self) -> list[Source]:
        return [source for sources in self.sources for source in sources]


def as_data(translation: Translation, body: TranslateRequest) -> dict[str, Any]:
    """A translation as JSON values; tokens only if they are wanted."""
    values = {name: getattr(translation, name) for name in ("text", "score", "rank_score", "reason")}
    if body.tokens:
        values["tokens"] = [vars(token) for token in translation.tokens]
    for name in ("others", "parts"):
        if getattr(translation, name):
            values[name] = [as_data(each, body) for each in getattr(translation, name)]
    if translation.alignment is not None:
        values["alignment"] = translation.alignment.as_dict()
    return values
