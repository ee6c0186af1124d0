"""Known translations that have a say: the formula by hand, what they bring, and folders to be trusted."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.checkpoints.writing import new_folder, write_json, write_tensors
from regard.errors import CheckpointError, DataError, SettingError
from regard.inference import remembering as room
from regard.inference.recall import Recall
from regard.inference.remembering import Remembered, fingerprint

pytestmark = pytest.mark.xdist_group("toy-models")


@pytest.fixture(scope="module")
def known(toy_pairs):
    return toy_pairs(120, 55)


@pytest.fixture(scope="module")
def remembered(guesser, known):
    return guesser.remember(known)


@pytest.fixture(scope="module")
def sources(toy_pairs):
    return [source for source, _ in toy_pairs(25, 78)]


def blend_by_hand(remembered, hidden, chances):
    """The formula at the top of the file, a row and a key at a time, in float64."""
    keys, recall = remembered.keys.double().numpy(), remembered.recall
    unit = ((keys - keys.mean(0)) ** 2).sum(1).mean()
    found = (1 - recall.weight) * np.exp(chances.double().numpy())
    for row, query in enumerate(hidden.double().numpy()):
        distances = np.array([((query - key) ** 2).sum() for key in keys]) / unit
        nearest = np.argsort(distances, kind="stable")[: recall.neighbours]
        weights = np.exp(-(distances[nearest] - distances[nearest[0]]) / recall.temperature)
        for place, weight in zip(nearest, weights / weights.sum(), strict=True):
            found[row, remembered.ids[place]] += recall.weight * weight
    return found


@pytest.mark.parametrize(
    "recall", [dict(), dict(weight=0.9, neighbours=1), dict(neighbours=500, temperature=2.0)]
)
def test_the_blend_is_the_formula(recall):
    draw = torch.Generator().manual_seed(5)
    keys, ids = torch.randn(300, 8, generator=draw), torch.randint(0, 11, (300,), generator=draw)
    remembered = Remembered(keys, ids, "mine", Recall(**recall))
    hidden = torch.randn(9, 8, generator=draw)
    chances = torch.randn(9, 11, generator=draw).log_softmax(-1)
    found = remembered(hidden, chances).exp().double().numpy()
    np.testing.assert_allclose(found, blend_by_hand(remembered, hidden, chances), atol=1e-5)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


def test_a_score_is_that_of_a_forced_pass(guesser, remembered, sources):
    for beams in (1, 4):
        for source, found in zip(
            sources, guesser.translate(sources, beams=beams, remembered=remembered), strict=True
        ):
            again = guesser.score(source, found, remembered=remembered)
            assert found.score == pytest.approx(again.score, abs=1e-4)
            assert found.rank_score == pytest.approx(again.rank_score, abs=1e-4)
    assert again.score != pytest.approx(guesser.score(source, found).score, abs=1e-3)


def test_a_model_says_what_it_remembers_instead_of_what_it_learned(translator, known):
    """Where a source was met before, what was said then is the nearest at every step."""
    sources, targets = zip(*dict(known).items(), strict=True)
    other = [*targets[1:], targets[0]]  # each has the translation of its neighbour
    by_heart = translator.remember(zip(sources, other, strict=True)).changed(weight=0.98, neighbours=1)
    found = [each.text for each in translator.translate(sources, remembered=by_heart, beams=1)]
    learned = [each.text for each in translator.translate(sources, beams=1)]
    assert found == other
    assert _equal(learned, targets) > 0.9


def _equal(some, others):
    return np.mean([one == other for one, other in zip(some, others, strict=True)])


def test_weight_zero_leaves_the_model_alone(guesser, remembered, sources):
    nothing = remembered.changed(weight=0.0)
    assert [each.text for each in guesser.translate(sources, remembered=nothing)] == [
        each.text for each in guesser.translate(sources)
    ]


def test_batches_do_not_change_it(guesser, remembered, sources):
    alone = [guesser.translate(source, remembered=remembered).text for source in sources]
    together = [each.text for each in guesser.translate(sources, remembered=remembered)]
    one_by_one = [each.text for each in guesser.translate(sources, remembered=remembered, batch_tokens=1)]
    assert together == alone == one_by_one
    assert together != [each.text for each in guesser.translate(sources)]


def test_it_goes_with_the_other_options(guesser, remembered, sources):
    off = [("cross", 0, 0)]
    found = guesser.translate(
        sources[0], remembered=remembered, backwards=0.5, n_best=3, alignment=True, tree=True, off=off
    )
    assert len(found.others) == 2
    assert found.alignment is not None
    forbidden = guesser.translate(
        sources[0], remembered=remembered, forbidden=["chat", "chien", "le"], max_length=9
    )
    assert not {"chat", "chien", "le"} & set(forbidden.text.split())


def test_alternatives_are_those_of_both(guesser, remembered, sources):
    found = guesser.translate(sources[0], remembered=remembered, beams=1)
    choices = guesser.alternatives(sources[0], 0, translation=found, remembered=remembered, top=3)
    first = next(iter(found.tokens))
    assert choices[0].text.strip() == first.text.strip()
    assert np.log(choices[0].probability) == pytest.approx(first.log_probability, abs=1e-5)
    alone = guesser.alternatives(sources[0], 0, translation=found, top=3)
    assert choices[0].probability != pytest.approx(alone[0].probability, abs=1e-3)


def test_tuning_makes_other_text_likelier(guesser, remembered, toy_pairs):
    other = toy_pairs(60, 91)
    found = guesser.tuned(remembered, iter(other))
    assert found.recall.weight > 0
    with_it = sum(guesser.score(source, target, remembered=found).score for source, target in other)
    without = sum(guesser.score(source, target).score for source, target in other)
    assert with_it > without + len(other)
    slight = found.changed(weight=0.05)
    assert with_it > sum(guesser.score(source, target, remembered=slight).score for source, target in other)


def test_what_cannot_be_read_is_passed_over(guesser, known):
    odd = [("", "le chat"), ("the cat", ""), ("the cat " * 60, "le chat"), ("the cat", "le chat " * 60)]
    assert len(guesser.remember([*odd, *known[:5]])) == len(guesser.remember(known[:5]))
    with pytest.raises(DataError, match="nothing to remember"):
        guesser.remember(odd)
    with pytest.raises(DataError, match="nothing to judge by"):
        guesser.tuned(guesser.remember(known[:5]), odd)


def test_far_too_much_is_refused(guesser, known, monkeypatch):
    monkeypatch.setattr(room, "MOST", 100)
    with pytest.raises(DataError, match=r"more than 100 tokens.*give fewer lines"):
        guesser.remember(known)


def test_another_model_is_refused(guesser, translator, remembered):
    assert fingerprint(guesser.model) != fingerprint(translator.model)
    for call in (
        lambda: translator.translate("the cat", remembered=remembered),
        lambda: translator.score("the cat", "le chat", remembered=remembered),
        lambda: translator.tuned(remembered, [("the cat", "le chat")]),
    ):
        with pytest.raises(SettingError, match="another model; remember it anew"):
            call()


def test_a_model_that_has_lost_its_senses_is_not_remembered(toy_model, toy_tokenizer, known):
    from regard.inference.translator import Translator
    from regard.text.pair import Tokenizers

    model = toy_model(3)
    model.target.weight.data.fill_(torch.nan)
    with pytest.raises(CheckpointError, match="damaged"):
        Translator(model, Tokenizers.joint(toy_tokenizer)).remember(known)


def test_a_folder_gives_the_same_back(guesser, remembered, sources, tmp_path):
    mine = remembered.changed(weight=0.4, neighbours=5, temperature=0.3)
    mine.save(tmp_path / "kept")
    again = Remembered.load(tmp_path / "kept")
    assert torch.equal(again.keys, mine.keys)
    assert torch.equal(again.ids, mine.ids)
    assert (again.recall, again.model) == (mine.recall, mine.model)
    assert [each.text for each in guesser.translate(sources, remembered=again)] == [
        each.text for each in guesser.translate(sources, remembered=mine)
    ]
    with pytest.raises(CheckpointError, match="exists already"):
        mine.save(tmp_path / "kept")
    remembered.save(tmp_path / "kept", overwrite=True)
    assert Remembered.load(tmp_path / "kept").recall == remembered.recall


@pytest.mark.parametrize("name", [room.ABOUT, room.STORED])
def test_a_flipped_bit_is_found_and_named(remembered, tmp_path, name):
    remembered.save(tmp_path / "kept")
    file = tmp_path / "kept" / name
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        Remembered.load(tmp_path / "kept")


ABOUT = {"format": 1, "model": "mine", "recall": Recall().model_dump()}
GOOD = {"keys": np.zeros((4, 8), np.float16), "ids": np.zeros(4, np.int32)}


@pytest.mark.parametrize(
    ("about", "arrays", "line"),
    [
        ({**ABOUT, "format": 2}, GOOD, "another format"),
        ({**ABOUT, "model": 5}, GOOD, "another format"),
        ({**ABOUT, "recall": {"weight": 7}}, GOOD, "weight"),
        ({**ABOUT, "recall": None}, GOOD, "must be a table"),
        (ABOUT, {"keys": GOOD["keys"]}, "not a sound key"),
        (ABOUT, {**GOOD, "ids": np.zeros(3, np.int32)}, "not a sound key"),
        (ABOUT, {**GOOD, "keys": np.zeros(4, np.float16)}, "not a sound key"),
        (
            ABOUT,
            {"keys": np.zeros((0, 8), np.float16), "ids": np.zeros(0, np.int32)},
            "not a sound key",
        ),
        (ABOUT, {**GOOD, "ids": np.zeros(4, np.float32)}, "not a sound key"),
        (ABOUT, {**GOOD, "keys": np.full((4, 8), np.nan, np.float16)}, "not a sound key"),
    ],
)
def test_a_folder_of_a_stranger_is_refused_in_one_line(tmp_path, about, arrays, line):
    with new_folder(tmp_path / "kept") as making:
        write_json(making / room.ABOUT, about)
        write_tensors(making / room.STORED, arrays)
    with pytest.raises(CheckpointError, match=line) as caught:
        Remembered.load(tmp_path / "kept")
    assert "\n" not in str(caught.value)


def test_ids_beyond_the_vocabulary_are_refused(guesser, remembered):
    strange = Remembered(remembered.keys, remembered.ids + 100_000, remembered.model, remembered.recall)
    with pytest.raises(SettingError, match="another model"):
        guesser.translate("the cat", remembered=strange)
    narrow = Remembered(remembered.keys[:, :4], remembered.ids, remembered.model, remembered.recall)
    with pytest.raises(SettingError, match="another model"):
        guesser.translate("the cat", remembered=narrow)


def test_a_folder_of_something_else_is_refused(tmp_path, model_folders):
    with pytest.raises(CheckpointError, match="holds nothing remembered"):
        Remembered.load(model_folders["translate"])
    with pytest.raises(CheckpointError, match="is no folder"):
        Remembered.load(tmp_path / "nowhere")


def test_what_is_saved_says_what_it_is(remembered, tmp_path):
    told = json.loads((remembered.save(tmp_path / "kept") / room.ABOUT).read_bytes())
    assert told["recall"] == remembered.recall.model_dump()
