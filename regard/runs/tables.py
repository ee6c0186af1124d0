"""The tables of a run file: [data], [tokenizer], [validation], and what a run adds to [training]."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from regard.settings import Settings
from regard.text.corpus import Filters
from regard.training.settings import MAY_CHANGE, TrainingSettings

Files = str | list[str] | None
Share = Annotated[float, Field(gt=0, lt=1)]


class DataTable(Settings):
    """[data]: the files to learn from, how they are read, and what is held out of them.

    A file may be gzip, a pattern such as "news.*.en", or a list. Training text is either `source` and
    `target`, or `tsv`, or `text`, or `labelled`; `valid` and `test` are single files of the same kind.
    """

    source: Files = None  # the sentences to translate, one a line
    target: Files = None  # their translations, line by line
    tsv: Files = None  # both in one table instead
    text: Files = None  # plain text
    labelled: Files = None  # a table of texts and labels: TSV, CSV or JSONL
    valid_source: Files = None  # what training is checked on; without any, a part is held out
    valid_target: Files = None
    valid: Files = None  # the same as a tsv, text or labelled file
    test_source: Files = None  # what `regard evaluate` reads, and training never does
    test_target: Files = None
    test: Files = None

    columns: tuple[int | str, int | str] = (0, 1)  # of a tsv: source and target, by number or by name
    text_column: int | str = "text"  # of a labelled table
    label_column: int | str = "label"
    header: bool | None = None  # whether a table's first line is passed over, where columns are numbers
    lines: bool = True  # masked: each line is a text; false cuts running text to the model's context
    held_out: Share = 0.05  # the part kept for validation where none is given
    most_held_out: Annotated[int, Field(ge=1)] = 1000  # examples, not of running text
    filters: Filters = Filters()  # what is left out: see [data.filters] of the recipes

    @field_validator("columns", mode="before")
    @classmethod
    def _two(cls, value: object) -> object:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"columns ({value}) must be two: the source's and the target's")
        return tuple(value)


class TokenizerTable(Settings):
    """[tokenizer]: how text becomes ids; learned on the training part alone."""

    kind: str = "bpe"  # or "word", "character"
    vocabulary: Annotated[int, Field(ge=2)] = 8000  # tokens at most
    joint: bool = True  # one vocabulary for source and target
    normalisation: str = "none"  # or "nfc", "nfkc", "plain" (straight quotes, ordinary spaces)
    lowercase: bool = False  # forget capital letters
    min_count: Annotated[int, Field(ge=1)] | None = None  # rarer pairs or words get no token


class TrainingTable(TrainingSettings):
    """[training]: what the Trainer is told, and what a run decides around it."""

    tokens: Annotated[int, Field(ge=1, le=1 << 30)] = 4096  # cells of a step's batch, of its wider side
    smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0  # label smoothing, section 5.4 of the paper
    agree: Annotated[float, Field(ge=0, le=100)] = 0.0  # pull between two passes with other dropout: R-Drop
    respell: Annotated[float, Field(ge=0, lt=1)] = 0.0  # share of the tokens broken into smaller ones
    respell_epochs: Annotated[int, Field(ge=0)] = 0  # first epochs in which it does so; 0: in all
    both_ways: int | Literal["always"] = 0  # first epochs, in which pairs are learned backwards too
    hide: Annotated[float, Field(ge=0, lt=1)] = 0.0  # share of the tokens read that are masked: word dropout
    threads: Annotated[int, Field(ge=0, le=4096)] = 0  # of the processor; 0 leaves torch's choice
    device: str = "auto"  # "cpu", "cuda", "mps"; auto takes what is there

    @field_validator("both_ways", mode="before")
    @classmethod
    def _epochs_or_always(cls, value: object) -> object:
        if value != "always" and (type(value) is not int or value < 0):
            raise ValueError(f"both_ways ({value}) must be a number of first epochs, or always")
        return value

    @property
    def of_the_trainer(self) -> TrainingSettings:
        """The settings without those that are the run's own."""
        return TrainingSettings(**self.model_dump(include=set(TrainingSettings.model_fields)))


class ValidationTable(Settings):
    """[validation]: what is measured besides the loss, and which figure makes a checkpoint the best."""

    best: Literal["loss", "bleu", "chrf", "accuracy"] = "loss"
    sentences: Annotated[int, Field(ge=0)] = 500  # translated at most, for BLEU and chrF; 0: none
    beams: Annotated[int, Field(ge=1, le=64)] = 1  # 1 is greedy
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 0.6  # of beam search
    backwards: Annotated[float, Field(ge=0, le=100)] = 0.0  # weight of the way back; see Backwards
    samples: Annotated[int, Field(ge=0, le=100)] = 3  # outputs to show and keep
    sample_tokens: Annotated[int, Field(ge=1, le=10_000)] = 100  # of a text that is continued
    prompt: str = ""  # what a text is continued from; "" is the beginning of a line
    temperature: Annotated[float, Field(ge=0, le=100)] = 0.8  # of a continued text; 0: the likeliest


# What --resume may have otherwise than before, table by table. Files may have moved: what training reads is
# known by its content, and another content is refused when the order of batches is taken up.
RESUMABLE = {
    "data": tuple(name for name, field in DataTable.model_fields.items() if field.annotation == Files),
    "training": (*MAY_CHANGE, "threads", "device"),
    "validation": tuple(ValidationTable.model_fields),
}
