"""The tables of a recipe that a run adds to those of the Trainer, and what a resumed run may change."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from regard.registry import NamedIn
from regard.settings import Settings
from regard.text.corpus import Filters
from regard.training.settings import MAY_CHANGE, LoopSettings, ValidationSchedule

Files = str | list[str] | None
Share = Annotated[float, Field(gt=0, lt=1)]


class DataTable(Settings):
    """[data]: the files of text, how they are read, and the validation split.

    A file may be gzip, a pattern such as "news.*.en", or a list. Training text is either `source` and
    `target`, or `tsv`, or `text`, or `labelled`; `valid` and `test` are single files of the same kind.
    """

    source: Files = None
    """The sentences to translate, one a line."""
    target: Files = None
    """Their translations, line by line."""
    tsv: Files = None
    """Sentences and translations in one table, in place of `source` and `target`.

    Tables are TSV, CSV, JSONL, Parquet or Arrow files. A folder of Parquet files, or one that `datasets` of
    Hugging Face has saved, is one table. These need pyarrow: `pip install 'regard[parquet]'`.
    """
    text: Files = None
    """Plain text, for `language-modeling` and `masked-language-modeling`."""
    labelled: Files = None
    """A table of texts and labels, of the same kinds."""
    valid_source: Files = None
    """The source of the validation split. Without validation files, `validation_split` applies."""
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

    format: Literal["tsv", "csv", "jsonl", "parquet", "arrow"] | None = None
    """What all tables are. Without it the ending of each file's name decides (.tsv, .csv, .jsonl, ...)."""
    columns: tuple[int | str, int | str] = (0, 1)
    """The columns of source and target in `tsv`: two numbers from 0, or two names from the first line.

    JSONL, Parquet and Arrow have names only; `translation.en` is the field `en` of the column `translation`.
    """
    text_column: int | str = "text"
    """The column of the text in `labelled`: a number from 0, or a name from the first line."""
    label_column: int | str = "label"
    """The column of the label in `labelled`."""
    header: bool | None = None
    """Whether the first line of a table is skipped where columns are numbers; names need a header."""
    lines: bool = True
    """For `masked-language-modeling` on `text`: whether each line is a text of its own.

    With false the text is cut into pieces as long as the model's context.
    """
    validation_split: Share = 0.05
    """Share of the training text that becomes the validation split where no validation file is given.

    A hash of the text decides, for pairs that of the source, so that all copies of a text are on one side.
    Labelled examples are stratified: each label gives its share and keeps an example for training. Of
    running text it is the end. A split that leaves fewer examples for training is refused.
    """
    max_validation_examples: Annotated[int, Field(ge=1)] = 1000
    """Largest number of examples, copies included, in this split; it does not apply to running text."""
    weights: tuple[Annotated[float, Field(gt=0, le=1000)], ...] | None = None
    """How often an epoch has each example, by corpus: a number for each entry of the list of training files.

    With `source = ["news.en", "talks.en"]` and `weights = [0.5, 3]` an epoch has half of the examples of
    `news.en`, the next epoch the other half, and each epoch those of `talks.en` three times. The files of one
    pattern have one weight. The validation split and the tokenizer are those of the text without weights.
    """
    filters: Filters = Filters()
    """A table that says which training examples are left out."""

    @field_validator("weights", mode="before")
    @classmethod
    def _numbers(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("columns", mode="before")
    @classmethod
    def _two(cls, value: object) -> object:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"columns ({value}) must be two: the source's and the target's")
        return tuple(value)


class TokenizerTable(Settings):
    """[tokenizer]: how text becomes ids. A tokenizer is trained on the training split only."""

    init_from: str | None = None
    """Folder of a model or a run whose tokenizer is used, in place of a new one with the settings below."""
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


class ModelTable(Settings):
    """[model]: the size of the model, and the model that training starts with."""

    size: Annotated[str | None, NamedIn("regard.model.config", "SIZES")] = None
    """A size known by name. Settings beside it replace its values. If not set, the defaults below hold."""
    init_from: str | None = None
    """Folder of a trained model whose weights and tokenizer training starts with (fine-tuning).

    A model with another output, or with other labels, gets a new head.
    """


# The settings of ModelConfig that are in [model]; [architecture] has the others.
MODEL_KEYS = ("layers", "width", "heads", "feed_forward_width", "context", "dropout")


class TrainingTable(LoopSettings):
    """[training]: the length of training, its batches and its loss, and where it is computed."""

    minutes: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Time that the whole run may take, in place of `steps`.

    The machine is measured, and model size, vocabulary, batch, steps, regularisation and validation interval
    are chosen so that the run ends in that time. Settings that are given are kept. recipe.toml then has the
    chosen numbers and no `minutes`.
    """
    batch_tokens: Annotated[int, Field(ge=1, le=1 << 30)] | Annotated[float, Field(ge=1, le=1 << 30)] = 4096
    """Largest micro-batch in tokens, padding, start and end tokens included.

    Source and target are counted apart, each up to this number. A longer example is a batch of its own.
    """
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Label smoothing (section 5.4): the share of the target's probability that is spread over all tokens."""
    r_drop: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Weight of R-Drop (Liang et al. 2021): the divergence of two predictions with different dropout.

    It needs `model.dropout` above 0 and halves the number of texts per second.
    """
    class_weights: Literal["none", "balanced"] = "none"
    """For `classification`: whether the loss of a rare label counts more.

    `balanced` multiplies the loss of a text by texts / (labels x texts of its label), so that all labels have
    the same total. Validation is not weighted.
    """
    threads: Annotated[int, Field(ge=0, le=4096)] = 0
    """Number of CPU threads; 0 takes torch's default. Another number can change results in the last bits."""
    device: str = "auto"
    """Where the model is computed: `cpu`, `cuda`, `mps`; `auto` takes an accelerator if there is one."""

    @property
    def step_tokens(self) -> int:
        """Largest batch of a step in tokens: its micro-batches together."""
        return round(self.batch_tokens * self.gradient_accumulation)


class AugmentTable(Settings):
    """[augment]: random changes of the training text, different in every epoch."""

    word_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of input tokens that are replaced by the mask token (Sennrich and Zhang 2019).

    It is for all tasks but `masked-language-modeling`.
    """
    bpe_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability that a token is split into the two that it was merged from, and these in turn.

    It differs from BPE-dropout of Provilkov et al. (2020), which leaves out merges while a word is encoded:
    here the tokens of the complete encoding are split, so that the same probability gives other splits.
    A text that would become longer than `model.context` is not split. It is for `translation` and
    `classification` with a `bpe` tokenizer.
    """
    bpe_dropout_epochs: Annotated[int, Field(ge=0)] = 0
    """Number of first epochs with `bpe_dropout`; 0 means all epochs."""
    bidirectional_epochs: Annotated[int, Field(ge=0)] | Literal["all"] = 0
    """Number of first epochs in which each pair is also learned from target to source (Ding et al. 2021).

    `"all"` means all epochs: the model then translates both ways, which `validation.channel_weight` needs.
    It is for `translation` and needs `tokenizer.joint`.
    """

    @field_validator("bidirectional_epochs", mode="before")
    @classmethod
    def _number_or_all(cls, value: object) -> object:
        if value != "all" and (type(value) is not int or value < 0):
            raise ValueError(f"bidirectional_epochs ({value}) must be a number of first epochs, or all")
        return value


class ValidationTable(ValidationSchedule):
    """[validation]: when the model is validated, what is measured, and which metric chooses the best."""

    monitor: str = "loss"
    """The metric by which the best checkpoint is chosen: `loss`, or another metric of the task.

    `bleu` and `chrf` are for `translation`, `accuracy` for `masked-language-modeling` and `classification`,
    `f1` (the mean over labels) for `classification`.
    """
    sentences: Annotated[int, Field(ge=0)] = 500
    """Largest number of validation sentences that are translated for BLEU and chrF; 0 translates none.

    They are taken evenly over the validation split.
    """
    beams: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of beams for these translations; 1 is greedy search."""
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 0.6
    """Exponent alpha of the length penalty of beam search (section 6.1); 0 ranks by log-probability alone."""
    channel_weight: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Weight of the log-probability of the source given the translation in ranking beams (noisy channel).

    It is for translation models with `augment.bidirectional_epochs = "all"`, and needs two or more beams.
    """
    samples: Annotated[int, Field(ge=0, le=100)] = 3
    """Number of outputs that are shown and logged at each validation."""
    sample_tokens: Annotated[int, Field(ge=1, le=10_000)] = 100
    """For `language-modeling`: length of a sample in tokens."""
    prompt: str = ""
    """For `language-modeling`: the text that samples continue; an empty one starts a new line."""
    temperature: Annotated[float, Field(ge=0, le=100)] = 0.8
    """For `language-modeling`: temperature of sampling; 0 always takes the most probable token."""


# What a resumed run may change, by table. Files may have moved: a run knows its text by its content, and
# other content is refused.
RESUMABLE: dict[str, tuple[str, ...]] = {
    "data": tuple(name for name, field in DataTable.model_fields.items() if field.annotation == Files),
    "training": (*(name for name in MAY_CHANGE if "." not in name), "threads", "device"),
    **{
        table: tuple(name.partition(".")[2] for name in MAY_CHANGE if name.startswith(f"{table}."))
        for table in ("optimizer", "schedule", "checkpoints", "distributed")
    },
    "validation": tuple(ValidationTable.model_fields),
}
