"""Display of the heads that link "it": their attention as rows of words, and the effect of ablating them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from regard.demo.story.links import FEW, TIRED, UNFINISHED, WIDE, Finding, Scene, pronoun
from regard.demo.story.referents import Resolution, Switch
from regard.demo.story.trials import Trial, Trials, Without
from regard.inference.translator import Translator
from regard.inspection.analysis.ranking import Ranked
from regard.inspection.inspection import Inspection, inspect
from regard.inspection.render.board import Board
from regard.inspection.render.terminal import row_of, word_row

# The query of each kind of attention, in the words of the story.
LOOKING = {
    "encoder": "“it”, as it is read,",
    "cross": "the decoder, as it writes il or elle,",
    "decoder": "the decoder, as it writes il or elle, looks back at its own French and",
}
# What each measured word refers to, and the lectures' sentences that show it.
REFERENTS = {"it": "its noun", "she": "the name", "bank": "what was crossed"}
EXAMPLES = {
    "it": (TIRED.text, WIDE.text),
    "she": (
        "Fatima accepted a job in deep learning because she loves the topic",
        "Paul called Fatima because she understands deep learning",
    ),
    "bank": tuple(f"{UNFINISHED} {place}" for place in ("river", "street")),
}


def show_heads(board: Board, scene: Scene) -> None:
    """Explain heads and their number."""
    seen = scene.seen
    board.gap()
    board.say(
        f"The encoder reads the English in {_layers(seen, 'encoder')}. The decoder writes the French in "
        f"{_layers(seen, 'decoder')}. It attends to the French so far (decoder attention) and to the English "
        f"(cross-attention). Each layer has {seen.heads} heads, counted from 0. The weights of a head over "
        "the words add up to 100 percent."
    )


def _layers(seen: Inspection, kind: str) -> str:
    count = seen.layers(kind)
    return f"{count} layer" if count == 1 else f"{count} layers"


def show_finding(board: Board, finding: Finding, scenes: Sequence[Scene]) -> None:
    """Show the head or heads of one link: its strength, and their attention in the two sentences."""
    best, many = finding.best, f"over {finding.sentences} sentences"
    even = f"an even look would be {share(best.uniform)}"
    if finding.is_clean:
        board.say(
            f"Of {len(finding.heads)} heads, [bold]{name_of(best)}[/] does it best: {LOOKING[best.kind]} "
            f"gives {_looked_at(best, finding.word)} {share(best.weight)} of its look, {many} ({even})."
        )
    else:
        board.say(
            f"No head does it by itself: none of {len(finding.heads)} gives the {finding.word} half of its "
            f"look, {many} ({even}). The best {FEW}, one by one:"
        )
    for ranked in finding.shown:
        _show_rows(board, ranked, scenes, not finding.is_clean)


def show_resolution(board: Board, translator: Translator, found: Resolution) -> None:
    """Show how often the encoder head of a word finds its referent, and its row in examples."""
    head, referent = f"encoder layer {found.layer} head {found.head}", REFERENTS[found.word]
    counted = (
        f"“{found.word}” attends most to {referent} in {found.right} of {found.sentences} sentences that "
        "were not in training"
    )
    if found.is_clear:
        both = f"In {found.flips} of {found.pairs} pairs both sentences are right."
        board.say(f"In [bold]{head}[/], {counted}. {both}")
    else:
        board.say(
            f"No encoder head finds {referent} in every kind of sentence. In [bold]{head}[/], {counted}."
        )
    _show_examples(board, translator, found.word, found.layer, found.head)


def show_switch(board: Board, translator: Translator, found: Switch) -> None:
    """Show the head of "it" that attends to one of the nouns only where "it" is that noun."""
    if not found.is_clear:
        return
    board.say(
        f"Another head switches. In [bold]encoder layer {found.layer} head {found.head}[/], “it” attends "
        f"most to the {found.noun} noun in {found.chosen} of {found.pairs} sentences in which it is that "
        f"noun, and in {found.otherwise} of {found.pairs} in which it is the other noun."
    )
    _show_examples(board, translator, "it", found.layer, found.head)


def _show_examples(board: Board, translator: Translator, word: str, layer: int, head: int) -> None:
    for text in EXAMPLES[word]:
        seen = inspect(translator, text, "")
        query = seen.side("source").find(word)[0]
        weights = row_of(seen, "encoder", layer, head, [query], False)
        board.lines(word_row(seen.side("source").labels(), weights, board.width, {query}))


def show_trials(board: Board, trials: Trials) -> None:
    """Show the effect of ablating the heads, and of ablating more if nothing changed."""
    one = len(trials.shown.heads) == 1
    board.say(
        "Is it needed? The same without this head:" if one else "Are they needed? The same without them:"
    )
    _show_trial(board, trials.shown)
    if trials.more is not None:
        added = trials.more.heads[len(trials.shown.heads) :]
        board.say(f"{'It' if one else 'They'} can be spared. Without the next best too ({names_of(added)}):")
        _show_trial(board, trials.more)
    board.say(_verdict(trials))


def share(part: float) -> str:
    """A fraction as a whole percentage."""
    return f"{100 * part:.0f} %"


def name_of(head: Ranked) -> str:
    """The name of a head in the story."""
    return f"{head.kind} layer {head.layer} head {head.head}"


def names_of(heads: Sequence[Ranked]) -> str:
    """Several heads in the syntax of --ablate."""
    return ", ".join(f"{head.kind}.{head.layer}.{head.head}" for head in heads)


def _show_rows(board: Board, ranked: Ranked, scenes: Sequence[Scene], named: bool) -> None:
    """Show each sentence as a row of words, shaded by attention weight."""
    board.gap()
    if named:
        board.say(f"[bold]{name_of(ranked)}[/], {share(ranked.weight)}: {LOOKING[ranked.kind]} looks at")
    for scene in scenes:
        query = scene.query(ranked.kind)
        if query is None:
            continue
        labels = scene.seen.sides(ranked.kind)[1].labels()
        weights = row_of(scene.seen, ranked.kind, ranked.layer, ranked.head, [query], False)
        own = {query} if ranked.kind == "encoder" else set()
        written = query + 1 if ranked.kind == "decoder" else len(labels)
        board.lines(word_row(labels[:written], weights[:written], board.width, own))


def _looked_at(head: Ranked, word: str) -> str:
    return "the noun and its article" if head.kind == "decoder" else f"the {word}"


def _show_trial(board: Board, trial: Trial) -> None:
    board.table([_outcome_row(sentence) for sentence in trial.main], gap=2)


def _outcome_row(sentence: Without) -> list[Text]:
    """One sentence as a table row: its ending, the change, and both probabilities."""
    before, after = pronoun(sentence.before), pronoun(sentence.after)
    ending = Text(f"… {sentence.text.rpartition(' it ')[2]}:")
    change = f"{before or '?'} → {after or '?'}, it flips" if sentence.flips else f"still {before or '?'}"
    chances = ""
    if sentence.rivals is not None and before:
        at = sentence.rivals.words.index(before)
        chances = f"({before} {share(sentence.rivals.before[at])}, then {share(sentence.rivals.after[at])})"
    also = "" if sentence.flips or sentence.before == sentence.after else "; other words change"
    return [ending, Text(change + also, "bold" if sentence.flips else ""), Text(chances, "soft")]


def _verdict(trials: Trials) -> str:
    """How many sentences flip, compared with the control."""
    trial, control = trials.last, trials.control
    total, count = len(trial.sentences), len(trial.heads)
    if not trial.flipped:
        return f"Even so none of the {total} sentences flips: the model knows it in other ways too."
    these, others = (
        ("it", "the one that looks") if count == 1 else (f"these {count}", f"the {count} that look")
    )
    flip = "flips" if trial.flipped == 1 else "flip"
    summary = f"In all, {trial.flipped} of the {total} sentences {flip} without {these}"
    if control is not None:
        summary += f", and {control.flipped} without {others} least at either word"
    return f"{summary}."
