"""The schemas of requests and responses: types, sizes, no unknown keys, no NaN."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from regard.service.api.limits import (
    LONGEST_TEXT,
    MOST_ALTERNATIVES,
    MOST_BEAMS,
    MOST_N,
    MOST_STOPS,
    MOST_TEXTS,
)

Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
# A list stops at its first error: one for each of its entries would take seconds to report.
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]
Id = Annotated[int, Field(ge=0, le=1 << 31)]
Ids = Annotated[list[Id], Field(min_length=1, max_length=LONGEST_TEXT, fail_fast=True)]
ManyIds = Annotated[list[Ids], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]
Length = Annotated[int, Field(ge=0, le=1 << 16)]
Word = Annotated[str, Field(min_length=1, max_length=200)]
Words = Annotated[list[Word], Field(max_length=100, fail_fast=True)]
Seed = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
NotYet = Literal[0] | None  # a parameter of OpenAI's that has no effect here may only have its default


class ApiRequest(BaseModel):
    """A request; unknown keys, other types, NaN and infinity are rejected."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )

    model: Name = Field(description="A name from /v1/models.")


class StreamOptions(BaseModel):
    """Options of a streamed answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    include_usage: bool | None = Field(None, description="End with a chunk that has the usage.")
    include_obfuscation: bool | None = Field(None, description="Accepted; nothing is obfuscated.")


class SamplingRequest(ApiRequest):
    """How tokens are sampled."""

    temperature: Annotated[float, Field(ge=0, le=100)] | None = Field(
        1.0, description="0 takes the likeliest token."
    )
    top_p: Annotated[float, Field(ge=0, le=1)] | None = Field(
        1.0, description="Draw from the smallest set of tokens with this probability."
    )
    top_k: Annotated[int, Field(ge=1, le=1 << 31)] | None = Field(
        None, description="Draw from so many tokens."
    )
    min_p: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Exclude tokens with less than this share of the likeliest one's probability."
    )
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = Field(
        1.0, description="Above 1, tokens that the text holds become less likely."
    )
    no_repeat_ngram_size: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="No n-gram of this size occurs twice."
    )
    n: Annotated[int, Field(ge=1, le=MOST_N)] | None = Field(1, description="Answers to each prompt.")
    seed: Seed | None = Field(None, description="The answer depends on it alone; without it, it is random.")
    stop: Word | Annotated[list[Word], Field(max_length=MOST_STOPS, fail_fast=True)] | None = Field(
        None, description="Strings that end the text and are not part of it."
    )
    forbidden: Words | None = Field(None, description="Words that the text must not contain.")
    min_tokens: Length | None = Field(None, description="The minimum number of tokens.")
    stream: bool | None = Field(False, description="Send the text piece by piece, as server-sent events.")
    stream_options: StreamOptions | None = None
    user: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="An id for the server's log."
    )
    presence_penalty: NotYet = Field(None, description="Not supported; use repetition_penalty.")
    frequency_penalty: NotYet = Field(None, description="Not supported; use repetition_penalty.")
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = Field(
        None, description="Not supported; use forbidden."
    )


class CompletionRequest(SamplingRequest):
    """Continue one or many prompts."""

    prompt: Text | Texts | Ids | ManyIds = Field(description="A text, several, or token ids.")
    max_tokens: Length | None = Field(16, description="The maximum number of tokens after the prompt.")
    logprobs: Annotated[int, Field(ge=0, le=MOST_ALTERNATIVES)] | None = Field(
        None, description="Return log-probabilities of the tokens and of so many alternatives."
    )
    echo: bool | None = Field(False, description="Begin the text with the prompt.")
    best_of: Annotated[int, Field(ge=1, le=MOST_N)] | None = Field(
        None, description="Sample so many and return the n with the highest mean log-probability."
    )
    suffix: Annotated[str, Field(max_length=0)] | None = Field(None, description="Not supported.")


class TextPart(BaseModel):
    """A part of a message."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    type: Literal["text"]
    text: Text


class Message(BaseModel):
    """A message of a chat."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Text | Annotated[list[TextPart], Field(max_length=MOST_TEXTS, fail_fast=True)] | None = Field(
        None, description="A text or its parts; may be left out for the assistant."
    )
    name: Name | None = Field(None, description="Accepted; templates do not see it.")

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        if self.content is None and self.role != "assistant":
            raise PydanticCustomError("missing_content", "content is missing; add it")
        return self

    @property
    def text(self) -> str:
        """The whole text."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class ResponseFormat(BaseModel):
    """The form of an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    type: Literal["text"]


class ChatRequest(SamplingRequest):
    """Answer a chat."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=1024, fail_fast=True)]
    max_tokens: Length | None = Field(None, description="The maximum number of tokens of the answer.")
    max_completion_tokens: Length | None = Field(None, description="The same under its newer name.")
    logprobs: bool | None = Field(False, description="Return log-probabilities of the tokens.")
    top_logprobs: Annotated[int, Field(ge=0, le=MOST_ALTERNATIVES)] | None = Field(
        None, description="How many alternatives."
    )
    response_format: ResponseFormat | None = Field(None, description="Text only.")
    tools: Annotated[list[Any], Field(max_length=0)] | None = Field(None, description="Not supported.")
    store: Literal[False] | None = Field(None, description="Not supported; nothing is stored.")
    metadata: Annotated[dict[Word, Annotated[str, Field(max_length=512)]], Field(max_length=16)] | None = (
        Field(None, description="Accepted; nothing is stored.")
    )


class TranslateRequest(ApiRequest):
    """Translate one or many texts."""

    text: Text | Texts
    beams: Annotated[int, Field(ge=1, le=MOST_BEAMS)] = Field(4, description="Beam size; 1 is greedy.")
    n_best: Annotated[int, Field(ge=1, le=MOST_N)] = Field(1, description="Translations of each text.")
    length_penalty: Annotated[float, Field(ge=0, le=10)] = Field(
        0.6, description="A higher value favours longer texts."
    )
    patience: Annotated[float, Field(ge=0.01, le=1000)] = Field(
        1.0, description="Stop when beams times this many hypotheses have finished."
    )
    max_tokens: Annotated[int, Field(ge=1, le=1 << 16)] | None = Field(
        None, description="Without it, 50 tokens more than the source."
    )
    min_tokens: Length = Field(0, description="The minimum number of tokens.")
    no_repeat_ngram_size: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="No n-gram of this size occurs twice."
    )
    prefix: Text = Field("", description="The beginning of the translation.")
    forbidden: Words = Field(default_factory=list, description="Words that it must not contain.")
    split: Literal["error", "sentences"] = Field(
        "error", description="What becomes of a text that is longer than the context."
    )
    alignment: bool = Field(False, description="Align the tokens of text and translation.")
    tokens: bool = Field(False, description="Return the tokens with their log-probabilities.")


class EmbeddingRequest(ApiRequest):
    """A vector for each text."""

    input: Text | Texts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1, le=1 << 16)] | None = Field(
        None, description="Must be the model's width, if it is given."
    )
    truncate: bool = Field(False, description="Read the beginning of a text that is too long.")
    user: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="An id for the server's log."
    )


class FillRequest(ApiRequest):
    """Predict masked words, written as [MASK]."""

    text: Text | Texts
    top: Annotated[int, Field(ge=1, le=100)] = Field(5, description="Choices for each mask.")


class ClassifyRequest(ApiRequest):
    """A label for each text."""

    text: Text | Texts
    truncate: bool = Field(False, description="Read the beginning of a text that is too long.")


class InspectRequest(ApiRequest):
    """The attention of a model on a text."""

    text: Text
    target: Text | None = Field(None, description="An output to read instead of the model's own.")
    kind: Literal["encoder", "decoder", "cross"] | None = Field(
        None, description="By default the first kind."
    )
    layer: Annotated[int, Field(ge=0, le=1 << 16)] | None = Field(None, description="By default every layer.")
    head: Annotated[int, Field(ge=0, le=1 << 16)] | None = Field(None, description="By default every head.")
    words: bool = Field(False, description="Sum the attention of the tokens of a word.")


class Usage(BaseModel):
    """Tokens read and written."""

    prompt_tokens: int
    completion_tokens: int = 0
    total_tokens: int


class ErrorDetails(BaseModel):
    """An error: one sentence, its kind, and the parameter that it is about."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """The body of every error."""

    error: ErrorDetails


class ModelCard(BaseModel):
    """A model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "regard"
    tasks: list[str]
    context: int
    is_ready: bool


class ModelList(BaseModel):
    """The models that are served."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class CompletionChoice(BaseModel):
    """One answer."""

    index: int
    text: str
    logprobs: dict[str, Any] | None
    finish_reason: Literal["stop", "length"] | None


class CompletionResponse(BaseModel):
    """The answers to a completion request."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: Usage


class ChatMessage(BaseModel):
    """The answer of a chat."""

    role: Literal["assistant"] = "assistant"
    content: str


class ChatChoice(BaseModel):
    """One answer."""

    index: int
    message: ChatMessage
    logprobs: dict[str, Any] | None
    finish_reason: Literal["stop", "length"] | None


class ChatResponse(BaseModel):
    """The answers to a chat request."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage


class DataResponse(BaseModel):
    """An entry for each text, in their order."""

    object: Literal["list"] = "list"
    model: str
    data: list[dict[str, Any]]
    usage: Usage


class InspectResponse(BaseModel):
    """Tokens of both sides and attention weights: layers, heads, queries, keys."""

    object: Literal["attention"] = "attention"
    model: str
    kind: str
    queries: list[str]
    keys: list[str]
    layers: list[int]
    heads: list[int]
    weights: list[Any]


class StatusResponse(BaseModel):
    """The state of the server."""

    status: Literal["ok", "ready", "loading", "failed", "draining"]
