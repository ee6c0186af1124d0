"""The tables of a run file: [data], [tokenizer], [validation], and what a run adds to [training]."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from regard.registry import NamedIn
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

    source: Files = None
    """The sentences to translate, one a line."""
    target: Files = None
    """Their translations, line by line."""
    tsv: Files = None
    """Sentences and translations in one table, in place of `source` and `target`: TSV, CSV or JSONL."""
    text: Files = None
    """Plain text, for `writing` and `masked`."""
    labelled: Files = None
    """A table of texts and labels: TSV, CSV or JSONL."""
    valid_source: Files = None
    """The source of the validation split. Without validation files, `held_out` applies."""
    valid_target: Files = None
    """The target of the validation split."""
    valid: Files = None
    """The validation split as a file of the kind of `tsv`, `text` or `labelled`."""
    test_source: Files = None
    """The source of the test split, which `regard evaluate` reads and training never does."""
    test_target: Files = None
    """The target of the test split."""
    test: Files = None
    """The test split as a file of the kind of `tsv`, `text` or `labelled`."""

    format: Literal["tsv", "csv", "jsonl"] | None = None
    """What all tables are. Without it the ending of each file's name decides (.tsv, .csv, .jsonl)."""
    columns: tuple[int | str, int | str] = (0, 1)
    """The columns of source and target in `tsv`: two numbers from 0, or two names from the first line."""
    text_column: int | str = "text"
    """The column of the text in `labelled`: a number from 0, or a name from the first line."""
    label_column: int | str = "label"
    """The column of the label in `labelled`."""
    header: bool | None = None
    """Whether the first line of a table is skipped where columns are numbers; names need a header."""
    lines: bool = True
    """For `masked` on `text`: whether each line is a text of its own.

    With false the text is cut into pieces as long as the model's context.
    """
    held_out: Share = 0.05
    """Share of the training text that becomes the validation split where no validation file is given.

    A hash of the text decides, for pairs that of the source, so that all copies of a text are on one side.
    Labelled examples are stratified: each label gives its share and keeps an example for training. Of
    running text it is the end. A split that leaves fewer examples for training is refused.
    """
    most_held_out: Annotated[int, Field(ge=1)] = 1000
    """Largest number of examples, copies included, that are held out; it does not apply to running text."""
    filters: Filters = Filters()
    """A table that says which training examples are left out."""

    @field_validator("columns", mode="before")
    @classmethod
    def _two(cls, value: object) -> object:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"columns ({value}) must be two: the source's and the target's")
        return tuple(value)


class TokenizerTable(Settings):
    """[tokenizer]: how text becomes ids; learned on the training part alone."""

    kind: Annotated[str, NamedIn("regard.text.tokenizer", "KINDS")] = "bpe"
    """The unit of a token: byte-level byte-pair encoding, whole words, or characters."""
    vocabulary: Annotated[int, Field(ge=2)] = 8000
    """Largest number of tokens, the 5 special ones included. `bpe` needs at least 261, for all bytes."""
    joint: bool = True
    """For translation: whether source and target have one vocabulary."""
    normalisation: Annotated[str, NamedIn("regard.text.tokenizer", "NORMALISATIONS")] = "none"
    """What is done to text before it is encoded.

    `nfc` and `nfkc` are the Unicode forms. `plain` is NFC with straight quotes, ordinary spaces and no
    invisible characters.
    """
    lowercase: bool = False
    """Whether text is lower-cased. The model then writes no capital letters."""
    min_count: Annotated[int, Field(ge=1)] | None = None
    """Smallest count of a pair or word that becomes a token; if not set, 2 for `bpe` and 1 for the others."""


class ModelStart(Settings):
    """[model]: where a model starts from, beside the settings of ModelConfig."""

    size: Annotated[str | None, NamedIn("regard.model.config", "SIZES")] = None
    """A size known by name. Settings beside it replace its values. If not set, the defaults below hold."""
    from_: str | None = Field(default=None, alias="from")
    """Folder of a trained model whose weights and tokenizer training starts with (fine-tuning).

    A model with another output, or with other labels, gets a new head.
    """


class TrainingTable(TrainingSettings):
    """[training]: how the model is trained, and where."""

    tokens: Annotated[int, Field(ge=1, le=1 << 30)] = 4096
    """Largest batch of a step in tokens, padding, start and end tokens included.

    Source and target are counted apart, each up to this number. A longer example is a batch of its own.
    """
    smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Label smoothing (section 5.4): the share of the target's probability that is spread over all tokens."""
    agree: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Weight of R-Drop: the distance between two predictions for a text, computed with other dropout each.

    It needs `model.dropout` above 0 and halves the number of texts per second.
    """
    respell: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """BPE dropout: the probability that a token is split into the two it was merged from, and these in turn.

    Other tokens are split in every epoch. It is for translation and classification with `bpe`.
    """
    respell_epochs: Annotated[int, Field(ge=0)] = 0
    """Number of first epochs with `respell`; 0 means all epochs."""
    both_ways: Annotated[int, Field(ge=0)] | Literal["always"] = 0
    """Number of first epochs in which each pair is also learned from target to source.

    `"always"` means all epochs: the model then translates both ways and can rank by `backwards`. It is for
    translation and needs `tokenizer.joint`.
    """
    hide: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Word dropout: the share of input tokens that are replaced by the mask token, others in every epoch.

    It is for all objectives but `masked`.
    """
    threads: Annotated[int, Field(ge=0, le=4096)] = 0
    """Number of CPU threads; 0 takes torch's default. Another number can change results in the last bits."""
    device: str = "auto"
    """Where the model is computed: `cpu`, `cuda`, `mps`; `auto` takes an accelerator if there is one."""

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
    """The metric by which the best checkpoint is chosen.

    BLEU and chrF are for translation, accuracy for masked models and classification.
    """
    sentences: Annotated[int, Field(ge=0)] = 500
    """Largest number of validation sentences that are translated for BLEU and chrF; 0 translates none.

    They are taken evenly over the validation split.
    """
    beams: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of beams for these translations; 1 is greedy search."""
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 0.6
    """Exponent alpha of the length penalty of beam search (section 6.1); 0 ranks by log-probability alone."""
    backwards: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Weight of the log-probability of the source given the translation in ranking beams (noisy channel).

    It is for translation models with `both_ways = "always"`, and needs two or more beams.
    """
    samples: Annotated[int, Field(ge=0, le=100)] = 3
    """Number of outputs that are shown and logged at each validation."""
    sample_tokens: Annotated[int, Field(ge=1, le=10_000)] = 100
    """For `writing`: length of a sample in tokens."""
    prompt: str = ""
    """For `writing`: the text that samples continue; an empty one starts a new line."""
    temperature: Annotated[float, Field(ge=0, le=100)] = 0.8
    """For `writing`: temperature of sampling; 0 always takes the most probable token."""


# What --resume may have otherwise than before, table by table. Files may have moved: what training reads is
# known by its content, and another content is refused when the order of batches is taken up.
RESUMABLE = {
    "data": tuple(name for name, field in DataTable.model_fields.items() if field.annotation == Files),
    "training": (*MAY_CHANGE, "threads", "device"),
    "validation": tuple(ValidationTable.model_fields),
}
