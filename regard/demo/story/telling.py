"""The demo's story in the terminal: two sentences, the heads of "it", one cell in numbers, what to try."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.markup import escape
from rich.text import Text

from regard.demo.glossary import Glossed, gloss
from regard.demo.lectures import REVERSED, Lecture
from regard.demo.story.links import (
    BEFORE,
    SENSES,
    UNFINISHED,
    Finding,
    Scene,
    bank_meanings,
    expected_order,
    find_heads,
    least_linked,
    pronoun,
    scenes_of,
)
from regard.demo.story.looks import (
    REFERENTS,
    name_of,
    share,
    show_finding,
    show_heads,
    show_resolution,
    show_switch,
    show_trials,
)
from regard.demo.story.promises import counted, lectures_for, translate
from regard.demo.story.referents import Switch, resolutions
from regard.demo.story.sentence import interlinear, literal
from regard.demo.story.training import Demo
from regard.demo.story.trials import try_without
from regard.inference.translator import Translator
from regard.inspection.analysis.steps import Steps
from regard.inspection.render.board import Board
from regard.runs.display import duration

SHOWN_NUMBERS = 3  # of a vector
WORDS = {
    "noun": "What it is: from “it” to its noun",
    "adjective": "How it feels: from “it” to the adjective",
}
NEXT = {
    "demo": (
        ('regard demo "My cat is small."', "a sentence of your own"),
        ('regard inspect demo "My cat is small."', "every head of a layer"),
        ('regard inspect demo "My cat is small." --query small', "what one word looks at"),
        ("regard studio", "all of it on a page, to click"),
        ('regard translate demo "I am a student"', "the model at work"),
        ("regard demo --reverse", "French to English"),
        ("regard demo language-model", "a model that writes on"),
        ("regard demo --show-corpus", "what it learned from"),
        ("regard train translation --source A --target B", "two files of your own"),
    ),
    "demo-reverse": (
        ('regard demo --reverse "Mon chat est petit."', "a sentence of your own"),
        ('regard inspect demo-reverse "Mon chat est petit."', "every head of a layer"),
        ('regard translate demo-reverse "Je suis étudiant"', "the model at work"),
        ("regard demo", "English to French"),
    ),
}


def tell(board: Board, demo: Demo) -> None:
    """The whole story of a translation model."""
    if demo.facts["name"] == "demo":
        _tell_it(board, demo)
        _show_bank(board, demo.model)
    else:
        _show_way_back(board, demo.model)
    _show_lectures(board, demo)
    _show_score(board, demo)
    _show_next(board, demo.facts["name"])


def _tell_it(board: Board, demo: Demo) -> None:
    """Show two sentences that differ in one word, the heads that link "it", and one cell of one head."""
    scenes = scenes_of(demo.model, demo.facts)
    main, findings = scenes[:2], [find_heads(scenes, word) for word in WORDS]
    idle = least_linked(findings)
    _show_pair(board, main)
    show_heads(board, main[0])
    _show_referents(board, demo)
    for finding in findings:
        board.title(WORDS[finding.word])
        show_finding(board, finding, main)
        show_trials(board, try_without(demo.model, scenes, finding, idle))
    _show_expected(board, scenes)
    _show_steps(board, main[0], findings)


def _show_pair(board: Board, scenes: Sequence[Scene]) -> None:
    """Show the two sentences side by side, with glosses of the French."""
    board.title("One word changes, and “it” means something else")
    linked = [scene.linked for scene in scenes]
    english = [_with_bold(it.text, (it.noun, "it", it.adjective)) for it in linked]
    french = [_with_bold(it.translation, (pronoun(it.translation),), "output.bold") for it in scenes]
    board.table([english, ["", ""], french], gap=4)
    board.say(
        "French cannot leave it open: il stands for a masculine noun (un animal), elle for a feminine one "
        "(une rue). Word by word:"
    )
    first, second = (gloss(scene.translation, scene.linked.text) for scene in scenes)
    board.lines(interlinear(first, board.width))
    board.lines(interlinear(_from_divergence(first, second), board.width))


def _show_referents(board: Board, demo: Demo) -> None:
    """Show what the encoder links "it", "she" and "bank" with, as measured after training."""
    for found in resolutions(demo.facts):
        board.title(f"English attends to English: from “{found.word}” to {REFERENTS[found.word]}")
        show_resolution(board, demo.model, found)
        if found.word == "it" and not found.is_clear:
            show_switch(board, demo.model, Switch(**demo.facts["switch"]))


def _from_divergence(first: Sequence[Glossed], second: Sequence[Glossed]) -> list[Glossed]:
    """The words of the second from its first difference on."""
    same = next((n for n, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), 0)
    return [Glossed("…", "…"), *second[same:]] if same else list(second)


def _with_bold(text: str, words: Sequence[str], style: str = "key.bold") -> Text:
    highlighted = Text(text)
    highlighted.highlight_regex("|".join(rf"\b{re.escape(word)}\b" for word in words if word) or r"$^", style)
    return highlighted


def _show_expected(board: Board, scenes: Sequence[Scene]) -> None:
    """Compare a lecture's expectation about raw scores with the model."""
    order = expected_order(scenes)
    board.gap()
    board.say(
        "[soft]A lecture expects the raw scores of “it” to be highest for its noun, moderate for itself and "
        f"lower for the others. Over {order.cases} cases (the encoder's heads times {len(scenes)} sentences) "
        f"the noun is highest in {order.noun_highest}, and “it” next in {order.whole} of them; by chance it "
        f"would be highest in {order.by_chance:.0f}."
    )


def _show_steps(board: Board, scene: Scene, findings: Sequence[Finding]) -> None:
    """Show the six steps of one cell, preferably of an encoder head with a weak link."""
    finding = min(findings, key=lambda finding: (finding.best.kind != "encoder", finding.best.weight))
    best, query = finding.best, scene.query(finding.best.kind)
    if query is None:
        return
    steps = scene.seen.steps(best.kind, best.layer, best.head, query)
    keys = scene.keys(best.kind, finding.word)
    key = max(keys, key=lambda position: steps["weights"].value[position])
    word = steps.keys[key]
    board.title(f"One look in six steps: from “{escape(steps.word)}” to “{escape(word)}” in {name_of(best)}")
    if best.kind != "encoder":
        board.say(f"[soft]Having read “{escape(steps.word)}”, the decoder looks so, and writes il or elle.")
    board.table(six_steps(steps, key), gap=2)
    checked = "all equal to the model's own" if steps.agree else "not all equal to the model's own"
    board.say(f"[soft]Worked out anew from the model's weights, and {checked}.")


def _show_bank(board: Board, translator: Translator) -> None:
    """Show the probabilities of both meanings of "bank" for several endings."""
    board.title("A meaning that is still open")
    board.say(
        f"“{UNFINISHED} …”: which bank? French has two words. How likely each is after “{BEFORE}”, when "
        "the English goes on like this:"
    )
    head = [Text(), *(Text(f"{word} ({sense})", "bold") for word, sense in SENSES.items())]
    rows = [
        [Text(meanings.ending), *map(Text, map(share, meanings.chances.values()))]
        for meanings in bank_meanings(translator)
    ]
    board.table([head, *rows], right=(1, 2), gap=2)


def six_steps(steps: Steps, key: int) -> list[list[Text]]:
    """The number, name and arithmetic of each step of one cell."""
    word, other = steps.word, steps.keys[key]
    names = ("scores", "scaled", "exponentials", "weights")
    score, scaled, power, weight = (float(steps[name].value[key]) for name in names)
    largest = float(steps["masked"].value.max())
    arithmetic = {
        "make q, k, v": f"q({word}) = {_vector(steps['query'].value)}\n"
        f"k({other}) = {_vector(steps['keys'].value[key])}\n"
        f"v({other}) = {_vector(steps['values'].value[key])}",
        "score": f"q · k = {score:.2f}",
        "divide": f"{score:.2f} / {steps.divisor:.2f} = {scaled:.2f}",
        "softmax": f"e^({scaled:.2f} - {largest:.2f}) / sum = {power:.3f} / "
        f"{float(steps['sum'].value):.3f} = {weight:.3f}",
        "weight the value": f"{weight:.3f} v({other}) = {_vector(steps['weighted'].value[key])}",
        "sum": f"all {len(steps.keys)} weighted values = {_vector(steps['head'].value)}",
    }
    rows = enumerate(arithmetic.items(), 1)
    return [[Text(str(number), "bold"), Text(name, "bold"), Text(text)] for number, (name, text) in rows]


def _vector(numbers: np.ndarray) -> str:
    return f"({', '.join(f'{number:.2f}' for number in numbers[:SHOWN_NUMBERS])}, …)"


def _show_way_back(board: Board, translator: Translator) -> None:
    """Show pairs of French words that have one English translation."""
    board.title("Two words become one")
    board.say("French says il or elle, rive or banque. On the way back each pair has one English word:")
    french = [lecture.source for lecture in REVERSED if lecture.pair]
    english = [Text(text, "bold") for text in translate(translator, french)]
    for at in range(0, len(french), 2):
        board.table([french[at : at + 2], ["", ""], english[at : at + 2]], gap=4)


def _show_lectures(board: Board, demo: Demo) -> None:
    """Show each sentence of the lectures with its translation and a tick or a cross."""
    lectures = lectures_for(demo.facts)
    answers = translate(demo.model, [lecture.source for lecture in lectures])
    board.title("The lectures' sentences")
    signs = ("-", "+") if board.ascii else ("✗", "✓")
    rows: list[list[Text]] = []
    for lecture, answer, counts in zip(lectures, answers, counted(lectures, answers), strict=True):
        rows += _lecture_rows(lecture, answer, counts, signs[counts])
    board.table(rows)
    note = (
        " The fox is the only one met in training."
        if any(lecture.in_training for lecture in lectures)
        else ""
    )
    board.say(f"[soft]Two sentences that differ in a word count only if both are right.{note}")


def _lecture_rows(lecture: Lecture, answer: str, counts: bool, sign: str) -> list[list[Text]]:
    """The sentence, its translation and, for French, a word-for-word version."""
    half_right = lecture.accepts(answer) and not counts
    partner = Text(" (right; its partner is not)" if half_right else "", "soft")
    first = [Text(sign, "value.bold" if counts else "key.bold"), Text(lecture.source)]
    rows = [first, [Text(), Text(answer, "bold") + partner]]
    if lecture not in REVERSED:
        rows.append([Text(), Text(literal(answer, lecture.source), "soft")])
    return rows


def _show_score(board: Board, demo: Demo) -> None:
    board.title("How good it is")
    for line in score_lines(demo.facts):
        board.say(line)
    board.say(f"[soft]It is in {escape(str(demo.folder))}{_snapshots_of(demo)}.")


def _snapshots_of(demo: Demo) -> str:
    """The snapshots of a model that was trained on this machine; a shipped one has none."""
    many = len(demo.snapshots)
    return f": model/, and in weights/ as it was {many} times on the way" if many else ""


def score_lines(facts: Mapping[str, Any]) -> list[str]:
    """The facts of a model in two sentences."""
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
