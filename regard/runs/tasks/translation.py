"""Translation: pairs of sentences, measured by BLEU and chrF of decoded text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.inference.rescoring.datastore import Datastore
from regard.inference.rescoring.noisy_channel import NoisyChannel
from regard.inference.translator import Translator
from regard.runs.corpora import Corpora, first_examples, parallel, parallel_part
from regard.runs.sizing import RULES
from regard.runs.tables import DataTable, TokenizerTable, ValidationTable
from regard.runs.tasks.task import (
    EvaluationData,
    Measurement,
    Sample,
    Task,
    Trained,
    Vocabularies,
    train_tokenizer,
)
from regard.text.batches import Batches, parallel_batches
from regard.text.corpus import Pair, ParallelText
from regard.text.encoding import encode_parallel
from regard.text.scores import bleu, chrf
from regard.text.splitting import Corpus
from regard.text.token_files import Data
from regard.text.tokenizer import Tokenizers
from regard.training.objectives import Translation


class TranslationTask(Task):
    """Translate the source text of a pair into its target text."""

    family = "encoder-decoder"
    output = "words"
    loss = Translation
    sources = (("source", "target"), ("tsv",))
    metrics = ("loss", "bleu", "chrf")
    augmentations = ("word_dropout", "bpe_dropout", "bpe_dropout_epochs", "bidirectional_epochs")
    is_translation = True
    rules = RULES["translation"]

    def corpora(self, data: DataTable, folder: Path | None = None) -> Corpora:
        """Pairs from two files or a table."""
        return parallel(data, folder)

    def corpus(self, data: DataTable) -> ParallelText | None:
        """Pairs from two files or a table."""
        return parallel_part(data, "train")

    def texts(self, example: Pair) -> Iterable[str]:
        """Both sides."""
        return example

    def train_tokenizers(self, corpus: Corpus[Pair], settings: TokenizerTable) -> Tokenizers:
        """One tokenizer for both sides, or one each."""
        if settings.joint:
            return super().train_tokenizers(corpus, settings)
        source = train_tokenizer((pair.source for pair in corpus), settings)
        return Tokenizers(source, train_tokenizer((pair.target for pair in corpus), settings))

    def sizes(self, words: Vocabularies) -> Mapping[str, Any]:
        """The sizes of the vocabularies; embeddings are shared if the vocabulary is joint."""
        if words.tokenizers.are_joint:
            return super().sizes(words)
        target = words.tokenizers.target.vocabulary
        return {**super().sizes(words), "target_vocabulary": target, "share_embeddings": False}

    def encode(self, corpus: Corpus[Pair], words: Vocabularies, context: int, cache: Path | None) -> Data:
        """Pairs of ids, without pairs longer than the context."""
        return encode_parallel(corpus, words.tokenizers, context, cache)

    def batches(self, data: Data, words: Vocabularies, context: int, tokens: int, seed: int) -> Batches:
        """Pairs of similar length."""
        return parallel_batches(data, words.tokenizers, tokens, seed)

    def hold(self, corpus: Corpus[Pair], data: Data, most: int | None = None) -> EvaluationData:
        """The ids, and the pairs as text, also those longer than the context."""
        return EvaluationData(data, first_examples(corpus, most) if most != 0 else [])

    def hold_again(self, data: Data, table: DataTable, words: Vocabularies, folder: Path) -> EvaluationData:
        """The same, with pairs from the files."""
        return self.hold(self.corpora(table, folder).valid, data)

    def measure(self, trained: Trained, held: EvaluationData, settings: ValidationTable) -> Measurement:
        """BLEU and chrF of the translations, lower-cased if the tokenizer lower-cases."""
        if not held.examples:
            return Measurement()
        sources = [pair.source for pair in held.examples]
        outputs = translate(
            trained, sources, settings.beams, settings.length_penalty, settings.channel_weight
        )
        references = [pair.target for pair in held.examples]
        shown = list(zip(sources, outputs, references, strict=True))[: settings.samples]
        lowercase = trained.words.tokenizers.target.is_lowercase
        scores = [
            replace(score(outputs, references, lowercase), name=name)
            for name, score in (("BLEU", bleu), ("chrF2", chrf))
        ]
        return Measurement(scores, [Sample(*texts) for texts in shown])


def translate(
    trained: Trained,
    sentences: Sequence[str],
    beams: int = 1,
    length_penalty: float = 0.6,
    channel_weight: float = 0.0,
    datastore: Datastore | None = None,
) -> list[str]:
    """A translation of each sentence, in order; a text that is too long is split into sentences."""
    module: Any = trained.module
    translator = Translator(module, trained.words.tokenizers)
    translations = translator.translate(
        list(sentences),
        beams=beams,
        length_penalty=length_penalty,
        split="sentences",
        rescorer=NoisyChannel(translator, channel_weight) if channel_weight else None,
        blend=datastore,
    )
    return [translation.text for translation in translations]
