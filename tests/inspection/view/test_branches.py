"""A beam's tree laid out in columns, and the alignment's best head, against what inference says of them."""

from __future__ import annotations

import numpy as np

from regard.inference.translation import Alignment


def node(number, parent, step, score, fate, place=None):
    """A node as tree.py tells it."""
    told = {"number": number, "parent": parent, "token": number, "text": f"w{number}", "step": step}
    return {
        **told,
        "log_probability": -0.5,
        "score": score,
        "rank_score": score,
        "fate": fate,
        "place": place,
    }


TREE = [
    node(0, None, 0, 0.0, "kept"),
    node(1, 0, 1, -0.5, "kept"),
    node(2, 0, 1, -1.5, "outranked"),
    node(3, 0, 1, -1.0, "kept"),
    node(4, 1, 2, -0.6, "end", 0),
    node(5, 1, 2, -3.0, "outranked"),
    node(6, 3, 2, -1.2, "abandoned"),
    node(7, 3, 2, -2.0, "outranked"),
]


def test_the_best_score_stands_highest_in_its_column(run):
    told = run("tabs/translate/branches.js", "it.layOut(asked.nodes)", nodes=TREE)
    places = {each["node"]["number"]: (each["column"], each["row"]) for each in told["places"]}
    assert places == {0: (0, 0), 1: (1, 0), 3: (1, 1), 2: (1, 2), 4: (2, 0), 6: (2, 1), 7: (2, 2), 5: (2, 3)}
    assert (told["rows"], told["columns"], told["hidden"]) == (4, 3, [0, 0, 0])


def test_only_dropped_ones_are_left_out(run):
    told = run("tabs/translate/branches.js", "it.layOut(asked.nodes, 1)", nodes=TREE)
    shown = {each["node"]["number"] for each in told["places"]}
    assert shown == {0, 1, 2, 3, 4, 6}
    assert told["hidden"] == [0, 0, 2]


def test_the_way_to_the_best_result(run):
    assert run("tabs/translate/branches.js", "it.bestPath(asked.nodes)", nodes=TREE) == [0, 1, 4]
    assert [
        n["number"] for n in run("tabs/translate/branches.js", "it.pathTo(asked.nodes, 7)", nodes=TREE)
    ] == [0, 3, 7]


def test_every_fate_is_a_sentence(run):
    told = run(
        "tabs/translate/branches.js", "asked.nodes.map((node) => it.explain(node, asked.nodes))", nodes=TREE
    )
    assert told[0].startswith("Here the search begins")
    assert told[1].startswith("Kept")
    assert "-1.00, this one -1.50" in told[2]
    assert told[4] == "Finished with the end sign; the best result, which is the translation."
    assert told[6].startswith("Abandoned")
    lost = [*TREE[:4], node(4, 1, 2, -9.0, "length")]
    assert run("tabs/translate/branches.js", "it.explain(asked.nodes[4], asked.nodes)", nodes=lost) == (
        "Cut off at the longest length; others finished with a better rank."
    )


def test_arrows_find_parents_children_and_neighbours(run):
    walk = "['left', 'right', 'up', 'down'].map((to) => it.neighbour(it.layOut(asked.nodes), asked.at, to))"
    assert run("tabs/translate/branches.js", walk, nodes=TREE, at=3) == [0, 6, 1, 2]
    assert run("tabs/translate/branches.js", walk, nodes=TREE, at=0) == [None, 1, None, None]


def test_the_best_head_is_that_of_the_translator(run):
    weights = np.random.default_rng(5).dirichlet(np.full(7, 0.4), (3, 4, 6))
    python = Alignment(tuple("abcdefg"), tuple("tuvwxy"), weights)
    told = run("core/alignment.js", "it.bestHead(asked.layers)", layers=weights.tolist())
    assert (told["layer"], told["head"]) == (python.layer, python.head)
    assert abs(told["information"] - python.information.max()) < 1e-9


def test_the_average_of_heads_and_the_rows_of_one(run):
    weights = np.arange(12.0).reshape(2, 2, 3)
    told = run("core/alignment.js", "it.average(asked.maps)", maps=weights.tolist())
    assert told == weights.mean(0).tolist()
    one = "it.rowsOf({shape: [2, 2, 3], data: Float32Array.from(asked.flat)}, 1)"
    assert run("core/alignment.js", one, flat=weights.ravel().tolist()) == weights[1].tolist()
