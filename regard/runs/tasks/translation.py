"""Translation: pairs of sentences, judged by BLEU and chrF on decoded text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.inference.rescoring.datastore import Datastore
from regard.inference.rescoring.noisy_channel import NoisyChannel
from regard.inference.translator import Translator
from regard.runs.corpora import Corpora, first_examples, parallel
from regard.runs.tables import DataTable, TokenizerTable, ValidationTable
from regard.runs.tasks.task import SCORING_TOKENS, Findings, Held, Sample, learn_one
from regard.runs.trained import Trained, Vocabularies
from regard.text.batches import Batches, parallel_batches
from regard.text.collate import Batch
from regard.text.corpus import Pair
from regard.text.encoding import encode_parallel
from regard.text.scores import bleu, chrf
from regard.text.splitting import Corpus
from regard.text.token_files import Data
from regard.text.tokenizer import Tokenizers


class TranslationTask:
    """See Task."""

    def corpora(self, data: DataTable, folder: Path | None = None) -> Corpora:
        """Pairs from two files or a table."""
        return parallel(data, folder)

    def learn(self, corpus: Corpus[Pair], settings: TokenizerTable) -> Tokenizers:
        """One tokenizer for both sides, or one each."""
        if settings.joint:
            return Tokenizers.joint(learn_one((text for pair in corpus for text in pair), settings))
        source = learn_one((pair.source for pair in corpus), settings)
        return Tokenizers(source, learn_one((pair.target for pair in corpus), settings))

    def labels(self, corpus: Corpus[Pair]) -> tuple[str, ...]:
        """None."""
        return ()

    def decided(self, words: Vocabularies) -> Mapping[str, Any]:
        """Sizes of the vocabularies; embeddings are shared where the vocabulary is."""
        source, target = words.tokenizers.source, words.tokenizers.target
        if words.tokenizers.are_joint:
            return {"vocabulary": source.vocabulary}
        sizes = {"vocabulary": source.vocabulary, "target_vocabulary": target.vocabulary}
        return {**sizes, "share_embeddings": False}

    def encode(self, corpus: Corpus[Pair], words: Vocabularies, context: int, cache: Path | None) -> Data:
        """Pairs of ids, without those longer than the model's context."""
        return encode_parallel(corpus, words.tokenizers, context, cache)

    def reopen(self, stored: Data, table: DataTable, context: int) -> Data:
        """As they are."""
        return stored

    def batches(self, data: Data, words: Vocabularies, context: int, tokens: int, seed: int) -> Batches:
        """Pairs of about one length."""
        return parallel_batches(data, words.tokenizers, tokens, seed)

    def hold(self, corpus: Corpus[Pair], data: Data, most: int | None = None) -> Held:
        """The pairs as text too, long ones included."""
        return Held(data, first_examples(corpus, most) if most != 0 else [])

    def in_order(self, held: Held, words: Vocabularies, context: int) -> Iterator[Batch]:
        """Every pair once."""
        return iter(parallel_batches(held.data, words.tokenizers, SCORING_TOKENS))

    def judge(self, trained: Trained, held: Held, settings: ValidationTable) -> Findings:
        """BLEU and chrF of what the model says, lower-cased where it knows no capital letters."""
        if not held.examples:
            return Findings()
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
        return Findings(scores, [Sample(*texts) for texts in shown])


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
