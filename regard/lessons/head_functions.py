"""Functions of heads in the demo's trained model: found on some sentences, judged on others, ablated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch

from regard.demo.corpus import Corpus
from regard.demo.story.contrasts import contrasts
from regard.demo.story.referents import Row, choose_head
from regard.inference.translator import Translator
from regard.model.watch import watch
from regard.text.collate import collate_pairs
from regard.text.tokenizer import Tokenizer
from regard.training.objectives import Translation


class Link(NamedTuple):
    """A sentence and two of its tokens: `query` should attend to `key`."""

    text: str
    query: int
    key: int


class Function(NamedTuple):
    """The head that follows a kind of link best, judged on sentences that did not choose it.

    `share` is the share of sentences in which the key has the largest weight of the query's row, and `others`
    the mean share of all other heads. `cost` is how much the loss of a translation rises without the head, in
    nats per sentence. `needed_layer` and `needed_head` are the head without which it rises most, and
    `needed_cost` is this rise.
    """

    layer: int
    head: int
    share: float
    others: float
    cost: float
    needed_layer: int
    needed_head: int
    needed_cost: float


def find_function(translator: Translator, links: list[Link], ablated: int) -> Function:
    """Choose the head on the first half of the sentences and judge it on the second.

    Every head is ablated alone, for the first `ablated` sentences of the second half.
    """
    rows = [_row(translator, link) for link in links]
    half = len(rows) // 2
    best = choose_head([rows[:half]])
    share = np.mean([row.weights.argmax(-1) == row.referent for row in rows[half:]], axis=0)
    costs = _costs(translator, [link.text for link in links[half : half + ablated]], share.shape)
    others = float((share.sum() - share[best]) / (share.size - 1))
    layer, head = map(int, np.unravel_index(int(costs.argmax()), costs.shape))
    return Function(*best, float(share[best]), others, float(costs[best]), layer, head, float(costs.max()))


def draw_links(function: str, corpus: Corpus, tokenizer: Tokenizer, count: int) -> list[Link]:
    """Links of one kind in sentences that are not in training."""
    return list(islice(FUNCTIONS[function](corpus, tokenizer), count))


def _previous_word(corpus: Corpus, tokenizer: Tokenizer) -> Iterator[Link]:
    """From a token to the one before it."""
    random = np.random.default_rng(1)
    for pair in corpus.test:
        place = int(random.integers(1, len(_words(tokenizer, pair.source))))
        yield Link(pair.source, place, place - 1)


def _same_word(corpus: Corpus, tokenizer: Tokenizer) -> Iterator[Link]:
    """From a word to its first occurrence: "The dog ... the street"."""
    for pair in corpus.test:
        words = _words(tokenizer, pair.source)
        again = [place for place, word in enumerate(words) if word in words[:place]]
        if again:
            yield Link(pair.source, again[0], words.index(words[again[0]]))


def _adjective_to_noun(corpus: Corpus, tokenizer: Tokenizer) -> Iterator[Link]:
    """From an adjective to its noun, one or two tokens later: "a small blue house"."""
    for pair in corpus.test:
        words = _words(tokenizer, pair.source)
        for adjective, _, noun in (one.partition(" ") for one in pair.combinations):
            if adjective in words and noun in words:
                query, key = words.index(adjective), words.index(noun)
                if 0 < key - query <= 2:
                    yield Link(pair.source, query, key)
                    break


def _it_to_noun(corpus: Corpus, tokenizer: Tokenizer) -> Iterator[Link]:
    """From "it" to the noun it stands for."""
    for pair in contrasts(corpus, "it", 200):
        for reference in pair:
            words = _words(tokenizer, reference.text)
            yield Link(reference.text, words.index("it"), words.index(reference.referent))


FUNCTIONS: dict[str, Callable[[Corpus, Tokenizer], Iterator[Link]]] = {
    "previous word": _previous_word,
    "same word": _same_word,
    "adjective to noun": _adjective_to_noun,
    "it to noun": _it_to_noun,
}


def _words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The tokens of a text in lower case; nearly every word of the demo is one token."""
    return [piece.text.strip().lower() for piece in tokenizer.tokens(text)]


@torch.no_grad()
def _row(translator: Translator, link: Link) -> Row:
    """The weights of the query's row in every head, layers x heads x keys."""
    tokenizer, model = translator.tokenizers.source, translator.model
    with watch(model, only="encoder.*.attention.weights") as seen:
        model.encode(torch.tensor([[*tokenizer.encode(link.text), tokenizer.end]]))
    layers = [seen[name][0, :, link.query] for name in sorted(seen)]
    return Row(torch.stack(layers).numpy(), link.key)


@torch.no_grad()
def _costs(translator: Translator, texts: list[str], heads: tuple[int, ...]) -> np.ndarray:
    """How much the loss of the model's translations rises without each head, layers x heads."""
    tokenizers, model = translator.tokenizers, translator.model
    translations = [translation.text for translation in translator.translate(texts, beams=1)]
    sources = list(map(np.array, tokenizers.source.encode_batch(texts)))
    targets = list(map(np.array, tokenizers.target.encode_batch(translations)))
    batch = collate_pairs(sources, targets, tokenizers.source, tokenizers.target)
    objective = Translation(model).eval()
    whole, costs = objective(batch)[0], np.zeros(heads)
    for layer, head in np.ndindex(*heads):
        with watch(model, only=(), ablate=("encoder", layer, head)):
            costs[layer, head] = float(objective(batch)[0] - whole) / len(texts)
    return costs
