"""What "it" looks at, on the screen: the best heads as rows of words, and what happens without them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from regard.demo.story.links import FEW, Finding, Scene, pronoun
from regard.demo.story.trials import Trial, Trials, Without
from regard.inspection.analysis.ranking import Ranked
from regard.inspection.render.board import Board
from regard.inspection.render.terminal import row_of, word_row

# Who looks in each kind of attention, and at what.
LOOKING = {
    "encoder": "“it”, as it is read,",
    "cross": "the decoder, as it writes il or elle,",
    "decoder": "the decoder, as it writes il or elle, looks back at its own French and",
}


def show_heads(board: Board, told: Scene) -> None:
    """What a head is, and how many there are."""
    seen = told.seen
    board.say(
        f"The encoder reads the English in {seen.layers('encoder')} layers. The decoder writes the French in "
        f"{seen.layers('decoder')}, each looking back at the French so far (decoder attention) and at the "
        f"English (cross-attention). Each has {seen.heads} heads, counted from 0, and each head shares out "
        "its look over the words, 100 percent in all. Which heads find what “it” is, and which how it feels?"
    )


def show_finding(board: Board, finding: Finding, told: Sequence[Scene]) -> None:
    """The head or heads of one link: how strong, and what they look at in the two sentences."""
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
        _show_rows(board, ranked, told, not finding.is_clean)


def show_trials(board: Board, trials: Trials) -> None:
    """Whether the heads are needed: off by themselves, and where they are not missed with more of them."""
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
    """A part of one as a whole percent."""
    return f"{100 * part:.0f} %"


def name_of(head: Ranked) -> str:
    """A head as a person calls it."""
    return f"{head.kind} layer {head.layer} head {head.head}"


def names_of(heads: Sequence[Ranked]) -> str:
    """Several heads, as --ablate takes them."""
    return ", ".join(f"{head.kind}.{head.layer}.{head.head}" for head in heads)


def _show_rows(board: Board, ranked: Ranked, told: Sequence[Scene], named: bool) -> None:
    """Each sentence as a row of words, painted by how much is looked at them."""
    board.gap()
    if named:
        board.say(f"[bold]{name_of(ranked)}[/], {share(ranked.weight)}: {LOOKING[ranked.kind]} looks at")
    for each in told:
        query = each.query(ranked.kind)
        if query is None:
            continue
        labels = each.seen.sides(ranked.kind)[1].labels()
        weights = row_of(each.seen, ranked.kind, ranked.layer, ranked.head, [query], False)
        own = {query} if ranked.kind == "encoder" else set()
        written = query + 1 if ranked.kind == "decoder" else len(labels)
        board.lines(word_row(labels[:written], weights[:written], board.width, own))


def _looked_at(head: Ranked, word: str) -> str:
    return "the noun and its article" if head.kind == "decoder" else f"the {word}"


def _show_trial(board: Board, trial: Trial) -> None:
    board.table([_told_without(each) for each in trial.told], gap=2)


def _told_without(each: Without) -> list[Text]:
    """What became of one sentence, as a row: the end of it, the change, and the two chances."""
    said, now = pronoun(each.before), pronoun(each.after)
    ending = Text(f"… {each.text.rpartition(' it ')[2]}:")
    change = f"{said or '?'} → {now or '?'}, it flips" if each.flips else f"still {said or '?'}"
    chances = ""
    if each.rivals is not None and said:
        at = each.rivals.words.index(said)
        chances = f"({said} {share(each.rivals.before[at])}, then {share(each.rivals.after[at])})"
    also = "" if each.flips or each.before == each.after else "; other words change"
    return [ending, Text(change + also, "bold" if each.flips else ""), Text(chances, "soft")]


def _verdict(trials: Trials) -> str:
    """How many sentences flip in all, beside what as many other heads do."""
    trial, control = trials.last, trials.control
    total, count = len(trial.sentences), len(trial.heads)
    if not trial.flipped:
        return f"Even so none of the {total} sentences flips: the model knows it in other ways too."
    these, others = (
        ("it", "the one that looks") if count == 1 else (f"these {count}", f"the {count} that look")
    )
    flip = "flips" if trial.flipped == 1 else "flip"
    found = f"In all, {trial.flipped} of the {total} sentences {flip} without {these}"
    if control is not None:
        found += f", and {control.flipped} without {others} least at either word"
    return f"{found}."
