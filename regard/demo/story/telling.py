"""The demo's story in the terminal: two sentences, what "it" looks at, one cell in numbers, and what next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.markup import escape
from rich.text import Text

from regard.demo.glossary import gloss
from regard.demo.lectures import REVERSED, Lecture
from regard.demo.story.links import FEW, Finding, Scene, Without, decisive, find_heads, pronoun, scenes_of
from regard.demo.story.promises import counted, lectures_for, translate
from regard.demo.story.sentence import interlinear, literal
from regard.demo.story.training import Demo
from regard.inspection.by_hand.board import Board
from regard.inspection.ranking import Ranked
from regard.inspection.steps import Steps
from regard.inspection.terminal import row_of, word_row
from regard.runs.display import duration

SHOWN_NUMBERS = 3  # of a vector
NEXT = {
    "demo": (
        ('regard demo "My cat is small."', "a sentence of your own"),
        ('regard look demo "I am a student"', "every head of a layer"),
        ('regard translate demo "I am a student"', "the model at work"),
        ("regard demo --reverse", "French to English"),
        ("regard demo writing", "a model that goes on writing"),
        ("regard demo --show-corpus", "what it learned from"),
        ("regard train --help", "a model of your own files"),
    ),
    "demo-reverse": (
        ('regard translate demo-reverse "Je suis étudiant"', "the model at work"),
        ("regard demo", "English to French"),
    ),
}


def tell(board: Board, demo: Demo) -> None:
    """The whole story of a translation model."""
    if demo.facts["name"] == "demo":
        scenes = list(scenes_of(demo.model, demo.facts))
        told = scenes[:2]
        _show_pair(board, told)
        nouns, adjectives = (find_heads(demo.model, scenes, told, word) for word in ("noun", "adjective"))
        _show_finding(board, nouns, told, "What it is: from “it” to its noun", len(scenes))
        _show_finding(board, adjectives, told, "How it feels: from “it” to the adjective", len(scenes))
        _show_decisive(board, told)
        _show_steps(board, told[0], nouns.heads[0])
    _show_lectures(board, demo)
    _show_score(board, demo)
    _show_next(board, demo.facts["name"])


def _show_pair(board: Board, told: Sequence[Scene]) -> None:
    """The two sentences side by side, and what the French says word by word."""
    board.title("One word changes, and “it” means something else")
    english = [_with_bold(each.linked.text, (each.linked.noun, "it", each.linked.adjective)) for each in told]
    french = [_with_bold(each.translation, (pronoun(each.translation),), "output.bold") for each in told]
    board.table([english, ["", ""], french], gap=4)
    for each in told:
        board.lines(interlinear(gloss(each.translation, each.linked.text), board.width))


def _with_bold(text: str, words: Sequence[str], style: str = "key.bold") -> Text:
    shown = Text(text)
    shown.highlight_words([rf"\b{word}\b" for word in words if word], style)
    return shown


def _show_finding(board: Board, finding: Finding, told: Sequence[Scene], title: str, many: int) -> None:
    """The head or heads of one link: how strong, what they look at, what happens without them."""
    board.title(title)
    best = finding.heads[0]
    if finding.is_clean:
        board.say(
            f"The best of {len(finding.heads)} heads is {_name(best)}: {share(best.weight)} of what “it” "
            f"looks at, over {many} sentences (an even look would be {share(best.uniform)})."
        )
    else:
        names = ", ".join(f"{_name(each)} ({share(each.weight)})" for each in finding.shown)
        board.say(
            f"No head is clean here; an even look would be {share(best.uniform)}, and the best {FEW} of "
            f"{len(finding.heads)} share the work, over {many} sentences: {names}."
        )
    for ranked in finding.shown:
        _show_rows(board, ranked, told, len(finding.shown) > 1)
    one = len(finding.shown) == 1
    board.say(f"[soft]Percents of what “it” looks at. Now with {'this head' if one else 'these'} off:")
    board.table([_told_without(each) for each in finding.without], gap=2)


def share(part: float) -> str:
    """A part of one as a whole percent."""
    return f"{100 * part:.0f} %"


def _name(ranked: Ranked) -> str:
    return f"{ranked.kind} layer {ranked.layer} head {ranked.head}"


def _show_rows(board: Board, ranked: Ranked, told: Sequence[Scene], named: bool) -> None:
    """Each sentence as a row of words, painted by how much "it" looks at them."""
    board.gap()
    if named:
        board.say(f"[bold]{_name(ranked)}")
    for each in told:
        queries, keys = each.seen.sides(ranked.kind)
        places = queries.find("it")
        weights = row_of(each.seen, ranked.kind, ranked.layer, ranked.head, places, False)
        board.lines(word_row(keys.labels(), weights, board.width, {*places}))


def _show_decisive(board: Board, told: Sequence[Scene]) -> None:
    """Where the decoder looks in the English while it writes il or elle."""
    board.title("While it writes “il” or “elle”")
    for each in told:
        found = decisive(each)
        if found is None:
            board.say(f"[soft]Neither is written for “{escape(each.linked.text)}”.")
            continue
        weights = row_of(each.seen, "cross", found.layer, found.head, [found.position], False)
        board.say(
            f"“{found.word}” needs cross layer {found.layer} head {found.head} most "
            f"({share(found.before)}, without it {share(found.after)}), which looks at:"
        )
        board.lines(word_row(each.seen.sides("cross")[1].labels(), weights, board.width))


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


def _show_steps(board: Board, told: Scene, best: Ranked) -> None:
    """The six steps of one cell, with the model's own numbers."""
    noun = told.linked.noun
    steps = told.seen.steps(best.kind, best.layer, best.head, "it")
    (key, *_) = told.seen.sides(best.kind)[1].find(noun)
    board.title(f"One cell of it in six steps: from “it” to “{escape(noun)}” in {_name(best)}")
    board.table(six_steps(steps, key), gap=2)
    checked = "all equal to the model's own" if steps.agree else "not all equal to the model's own"
    board.say(f"[soft]Worked out anew from the model's weights, and {checked}.")


def six_steps(steps: Steps, key: int) -> list[list[Text]]:
    """Number, name and arithmetic of each step for one cell."""
    word, other = steps.word, steps.keys[key]
    value = {name: steps[name].value for name in ("scores", "scaled", "exponentials", "weights")}
    score, scaled, power, weight = (float(each[key]) for each in value.values())
    told = {
        "make q, k, v": f"q({word}) = {_vector(steps['query'].value)}\n"
        f"k({other}) = {_vector(steps['keys'].value[key])}\n"
        f"v({other}) = {_vector(steps['values'].value[key])}",
        "score": f"q · k = {score:.2f}",
        "divide": f"{score:.2f} / {steps.divisor:.2f} = {scaled:.2f}",
        "softmax": f"e^({scaled:.2f} - largest) / sum = {power:.3f} / "
        f"{float(steps['sum'].value):.3f} = {weight:.3f}",
        "weight the value": f"{weight:.3f} v({other}) = {_vector(steps['weighted'].value[key])}",
        "sum": f"all {len(steps.keys)} weighted values = {_vector(steps['head'].value)}",
    }
    rows = enumerate(told.items(), 1)
    return [[Text(str(number), "bold"), Text(name, "bold"), Text(said)] for number, (name, said) in rows]


def _vector(numbers: np.ndarray) -> str:
    return f"({', '.join(f'{number:.2f}' for number in numbers[:SHOWN_NUMBERS])}, …)"


def _show_lectures(board: Board, demo: Demo) -> None:
    """Every sentence of the lectures with its translation and a tick or a cross."""
    lectures = lectures_for(demo.facts)
    answers = translate(demo.model, [lecture.source for lecture in lectures])
    board.title("The lectures' sentences")
    signs = ("-", "+") if board.ascii else ("✗", "✓")
    rows: list[list[Text]] = []
    for lecture, answer, counts in zip(lectures, answers, counted(lectures, answers), strict=True):
        rows += _lecture_rows(lecture, answer, counts, signs[counts])
    board.table(rows)
    note = " The fox is the only one met in training." if any(one.in_training for one in lectures) else ""
    board.say(f"[soft]Two sentences that differ in a word count only if both are right.{note}")


def _lecture_rows(lecture: Lecture, answer: str, counts: bool, sign: str) -> list[list[Text]]:
    """The sentence, its translation, and where that is French the same word for word."""
    half_right = lecture.accepts(answer) and not counts
    partner = Text(" (right; its partner is not)" if half_right else "", "soft")
    first = [Text(sign, "value.bold" if counts else "key.bold"), Text(lecture.source)]
    told = [first, [Text(), Text(answer, "bold") + partner]]
    if lecture not in REVERSED:
        told.append([Text(), Text(literal(answer, lecture.source), "soft")])
    return told


def _show_score(board: Board, demo: Demo) -> None:
    board.title("How good it is")
    for line in score_lines(demo.facts):
        board.say(line)
    board.say(
        f"[soft]It is in {escape(str(demo.folder))}: model/, and in weights/ as it was "
        f"{len(demo.snapshots)} times on the way."
    )


def score_lines(facts: Mapping[str, Any]) -> list[str]:
    """What is known of a model, in two sentences."""
    right, total = facts["lectures_right"], facts["lectures_total"]
    return [
        f"Of {facts['tested']:,} sentences that it never met, more than half with words that never met each "
        f"other in training, it translates [bold]{100 * facts['exact_match']:.1f} %[/] to the "
        f"letter; of the lectures' {total}, [bold]{right}[/] are right.",
        f"It learned from {facts['pairs']:,} pairs in {facts['steps']:,} steps, "
        f"{duration(facts['seconds'])}.",
    ]


def _show_next(board: Board, name: str) -> None:
    board.title("What to try next")
    board.table([[Text(call, "bold"), Text(why, "soft")] for call, why in NEXT[name]], gap=2)
