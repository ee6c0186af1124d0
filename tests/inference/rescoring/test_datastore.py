"""Known translations that have a say: the formula by hand, what they bring, and folders to be trusted."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.checkpoints.atomic_folders import new_folder, write_json, write_tensors
from regard.errors import CheckpointError, DataError, SettingError
from regard.inference.rescoring import datastore as room
from regard.inference.rescoring.contexts import Known, in_order, walks
from regard.inference.rescoring.datastore import Datastore, fingerprint
from regard.inference.rescoring.nearest import followed, merge_equal
from regard.inference.rescoring.tuning import Recall
from regard.inference.translator import Translator
from regard.text.tokenizer import Tokenizers

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


def made(keys, ids, recall=None, model="mine"):
    """Something remembered from keys and the token that followed each."""
    merged, numbers = merge_equal(keys.half())
    found = followed(numbers, np.asarray(ids), np.ones(len(ids), np.int64))
    values = (torch.from_numpy(x) for x in (found.lengths, found.ids, found.counts))
    return Datastore(merged, *values, model, recall or Recall())


def blend_by_hand(keys, ids, recall, hidden, chances):
    """The formula at the top of the file, a row and a token at a time, in float64."""
    keys = keys.half().double().numpy()
    unit = ((keys - keys.mean(0)) ** 2).sum(1).mean()
    found = (1 - recall.weight) * np.exp(chances.double().numpy())
    for row, query in enumerate(hidden.double().numpy()):
        distances = np.array([((query - key) ** 2).sum() for key in keys]) / unit
        limit = np.unique(distances)[: recall.neighbours].max()
        nearest = np.flatnonzero(distances <= limit)
        weights = np.exp(-(distances[nearest] - distances.min()) / recall.temperature)
        for place, weight in zip(nearest, weights / weights.sum(), strict=True):
            found[row, ids[place]] += recall.weight * weight
    return found


@pytest.mark.parametrize("met", [1, 7])
@pytest.mark.parametrize(
    "recall", [dict(), dict(weight=0.9, neighbours=1), dict(neighbours=500, temperature=2.0)]
)
def test_the_blend_is_the_formula(recall, met):
    """Also where keys were met several times, with other tokens after them."""
    draw = torch.Generator().manual_seed(5)
    recall = Recall(**recall)
    keys, ids = torch.randn(300, 8, generator=draw), torch.randint(0, 11, (300 * met,), generator=draw)
    again = torch.randint(0, 300, (300 * (met - 1),), generator=draw)  # some more often than others
    keys = torch.cat([keys, keys[again]])
    hidden = torch.randn(9, 8, generator=draw)
    chances = torch.randn(9, 11, generator=draw).log_softmax(-1)
    by_hand = blend_by_hand(keys, ids, recall, hidden, chances)
    remembered = made(keys.clone(), ids, recall)
    assert (len(remembered), len(remembered.keys)) == (300 * met, 300)
    found = remembered(hidden, chances).exp().double().numpy()
    np.testing.assert_allclose(found, by_hand, atol=1e-5)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("neighbours", [1, 4, 64])
def test_tokens_after_one_context_have_the_share_of_their_lines(guesser, neighbours):
    """Nine of twenty lines say one thing, so its share is 0.45, however few neighbours have a say."""
    lines = [("the cat", "le chat")] * 9 + [("the cat", "un chien")] * 11
    remembered = guesser.remember(lines).changed(weight=0.99, neighbours=neighbours, temperature=0.001)
    chances = guesser.alternatives("the cat", 0, translation="", remembered=remembered, top=2)
    model = {
        choice.id: choice.probability
        for choice in guesser.alternatives("the cat", 0, translation="", top=300)
    }
    assert chances[0].probability == pytest.approx(0.99 * 0.55 + 0.01 * model[chances[0].id], abs=1e-3)
    assert chances[1].probability == pytest.approx(0.99 * 0.45 + 0.01 * model[chances[1].id], abs=1e-3)


def same(one, other):
    names = ("keys", "followers", "ids", "counts")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


def test_the_order_of_lines_does_not_matter(guesser, known, sources, toy_pairs):
    draw = np.random.default_rng(4)
    lines = [*known, *known[:30], *((source, known[0][1]) for source, _ in known[:40])]
    mixed = [lines[place] for place in draw.permutation(len(lines))]
    one, other = guesser.remember(lines), guesser.remember(iter(mixed))
    assert same(one, other)
    judges = toy_pairs(60, 91)
    assert guesser.tuned(one, judges).recall == guesser.tuned(other, judges[::-1]).recall
    texts = [[each.text for each in guesser.translate(sources, remembered=each)] for each in (one, other)]
    assert texts[0] == texts[1]


def test_judges_are_chosen_whatever_their_order(guesser, remembered, toy_pairs, monkeypatch):
    monkeypatch.setattr(room, "JUDGED", 50)
    judges, asked = toy_pairs(60, 91), []
    monkeypatch.setattr(room, "choose", lambda evidence: asked.append(evidence) or Recall())
    for pairs in (judges, judges[::-1]):
        guesser.tuned(remembered, pairs)
    first, second = (torch.cat([each.chances for each in some]) for some in asked)
    assert torch.equal(first, second)
    assert 50 <= len(first) < 100


def test_a_context_is_held_once(guesser, known):
    """Twice the lines are the same keys, met twice as often."""
    one, two = guesser.remember(known), guesser.remember([*known, *known])
    assert torch.equal(one.keys, two.keys)
    assert torch.equal(2 * one.counts, two.counts)
    assert len(two) == 2 * len(one)
    assert len({row.tobytes() for row in one.keys.numpy()}) == len(one.keys)


def test_contexts_are_those_of_source_and_beginning():
    a, b = (np.array(ids, ">u4").tobytes() for ids in ([1, 9], [2, 9]))
    targets = [np.array(ids, ">u4").tobytes() for ids in ([3, 4, 5, 9], [3, 4, 9], [3, 6, 9])]
    counts = Counter(Known(source, target) for source in (b, a) for target in targets)
    found = [(walk.places.tolist(), walk.shared) for walk in walks(in_order(counts))]
    one = [([0, 1, 2, 3], 0), ([0, 1, 2], 3), ([0, 1, 4], 2)]
    assert found == [*one, *(([5 + place for place in places], shared) for places, shared in one)]


def test_other_contexts_with_the_same_key_are_one_key(toy_model, toy_tokenizer):
    """A model that does not look at its source stands in one place, whatever the source is."""
    model = toy_model(3)
    for block in model.decoder.blocks:
        block.cross.output.weight.data.zero_()
    blind = Translator(model.eval(), Tokenizers.joint(toy_tokenizer))
    one = blind.remember([("the cat", "le chat")])
    two = blind.remember([("the cat", "le chat"), ("a dog", "le chat"), ("a cat", "le chat")])
    assert torch.equal(one.keys, two.keys)
    assert torch.equal(3 * one.counts, two.counts)


def test_keys_that_are_alike_become_one_at_their_first_place():
    draw = np.random.default_rng(2)
    rows = draw.integers(0, 3, (500, 4)).astype(np.float16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.inference.rescoring.nearest.ROWS", 7)
        keys, numbers = merge_equal(torch.from_numpy(rows.copy()))
    first = sorted({tuple(row): place for place, row in reversed(list(enumerate(rows.tolist())))}.values())
    assert np.array_equal(keys.numpy(), rows[first])
    assert np.array_equal(keys.numpy()[numbers], rows)


def test_two_keys_of_one_hash_stay_apart(monkeypatch):
    monkeypatch.setattr(
        "regard.inference.rescoring.nearest._hashes", lambda keys: np.zeros(len(keys), np.int64)
    )
    keys, numbers = merge_equal(torch.tensor([[1.0], [2.0], [1.0]]).half())
    assert keys[numbers].flatten().tolist() == [1.0, 2.0, 1.0]


class Largest(TorchDispatchMode):
    """The bytes of the largest tensor that anything made, apart from views of one that was there."""

    def __init__(self, known):
        super().__init__()
        self.known, self.bytes = known.untyped_storage().data_ptr(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.untyped_storage().data_ptr() != self.known:
            self.bytes = max(self.bytes, found.nbytes)
        return found


def test_nothing_is_as_large_as_the_keys(monkeypatch):
    """No copy of them is made where they are merged, measured, compared or saved."""
    for module in ("nearest.ROWS", "datastore.ROWS", "nearest.VECTORS"):
        monkeypatch.setattr(f"regard.inference.rescoring.{module}", 64)
    draw = torch.Generator().manual_seed(1)
    keys = torch.randn(20_000, 32, generator=draw).half()
    keys[10_000:] = keys[:10_000].clone()
    ids = np.zeros(20_000, np.int64)
    whole = keys.nbytes
    with Largest(keys) as largest:
        remembered = made(keys, ids)
        remembered(torch.randn(5, 32), torch.zeros(5, 3).log_softmax(-1))
    assert len(remembered.keys) == 10_000
    assert largest.bytes < whole / 4


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
    ablate = [("cross", 0, 0)]
    found = guesser.translate(
        sources[0], remembered=remembered, backwards=0.5, n_best=3, alignment=True, tree=True, ablate=ablate
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
    blank = [(" ", "le chat"), ("the cat", "\u3000"), ("\t\u00a0", "le chat"), ("the cat", " \n"), (" ", " ")]
    odd = [
        *blank,
        ("", "le chat"),
        ("the cat", ""),
        ("the cat " * 60, "le chat"),
        ("the cat", "le chat " * 60),
    ]
    assert len(guesser.remember([*odd, *known[:5]])) == len(guesser.remember(known[:5]))
    with pytest.raises(DataError, match="nothing to remember"):
        guesser.remember(odd)
    with pytest.raises(DataError, match="nothing to judge by"):
        guesser.tuned(guesser.remember(known[:5]), odd)


def test_far_too_much_is_refused(guesser, known, monkeypatch):
    monkeypatch.setattr("regard.inference.rescoring.contexts.MOST", 100)
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


@pytest.mark.parametrize("name", ["source.weight", "encoder.blocks.0.attention.output.weight"])
def test_one_number_of_any_matrix_makes_another_model(toy_model, name):
    model = toy_model(3)
    before = fingerprint(model)
    assert fingerprint(toy_model(3)) == before
    parameter = dict(model.named_parameters())[name]
    assert parameter.ndim == 2
    with torch.no_grad():
        parameter[-1, -1] += 1e-3
    assert fingerprint(model) != before


def test_the_same_weights_in_another_shape_are_another_model(toy_model):
    one, other = toy_model(3), toy_model(3)
    other.config = one.config.changed(heads=1)
    assert fingerprint(one) != fingerprint(other)


def test_a_model_that_has_lost_its_senses_is_not_remembered(toy_model, toy_tokenizer, known):
    model = toy_model(3)
    model.target.weight.data.fill_(torch.nan)
    with pytest.raises(CheckpointError, match="damaged"):
        Translator(model, Tokenizers.joint(toy_tokenizer)).remember(known)


def test_a_folder_gives_the_same_back(guesser, remembered, sources, tmp_path):
    mine = remembered.changed(weight=0.4, neighbours=5, temperature=0.3)
    mine.save(tmp_path / "kept")
    again = Datastore.load(tmp_path / "kept")
    assert same(again, mine)
    assert (again.recall, again.model) == (mine.recall, mine.model)
    assert [each.text for each in guesser.translate(sources, remembered=again)] == [
        each.text for each in guesser.translate(sources, remembered=mine)
    ]
    with pytest.raises(CheckpointError, match="exists already"):
        mine.save(tmp_path / "kept")
    remembered.save(tmp_path / "kept", overwrite=True)
    assert Datastore.load(tmp_path / "kept").recall == remembered.recall


@pytest.mark.parametrize("name", [room.ABOUT, room.STORED])
def test_a_flipped_bit_is_found_and_named(remembered, tmp_path, name):
    remembered.save(tmp_path / "kept")
    file = tmp_path / "kept" / name
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        Datastore.load(tmp_path / "kept")


ABOUT = {"format": 2, "model": "mine", "recall": Recall().model_dump()}
ONES = np.ones(4, np.int32)
GOOD = {"keys": np.zeros((4, 8), np.float16), "followers": ONES, "ids": ONES, "counts": ONES}


def test_what_is_good_is_loaded(tmp_path):
    with new_folder(tmp_path / "kept") as making:
        write_json(making / room.ABOUT, ABOUT)
        write_tensors(making / room.STORED, GOOD)
    assert len(Datastore.load(tmp_path / "kept")) == 4


@pytest.mark.parametrize(
    ("about", "arrays", "line"),
    [
        ({**ABOUT, "format": 1}, GOOD, "of an earlier version of regard; build it again: regard remember"),
        ({**ABOUT, "format": 3}, GOOD, "another format"),
        ({**ABOUT, "format": [1]}, GOOD, "another format"),
        ({**ABOUT, "model": 5}, GOOD, "another format"),
        ({**ABOUT, "recall": {"weight": 7}}, GOOD, "weight"),
        ({**ABOUT, "recall": None}, GOOD, "must be a table"),
        (ABOUT, {"keys": GOOD["keys"]}, "not a sound key"),
        (ABOUT, {**GOOD, "more": ONES}, "not a sound key"),
        (ABOUT, {**GOOD, "ids": np.zeros(3, np.int32)}, "not a sound key"),
        (ABOUT, {**GOOD, "followers": np.ones(3, np.int32)}, "not a sound key"),
        (ABOUT, {**GOOD, "followers": np.array([0, 1, 1, 2], np.int32)}, "not a sound key"),
        (ABOUT, {**GOOD, "followers": np.array([1, 1, 1, 2], np.int32)}, "not a sound key"),
        (ABOUT, {**GOOD, "followers": np.array([-1, 1, 2, 2], np.int32)}, "not a sound key"),
        (ABOUT, {**GOOD, "counts": np.zeros(4, np.int32)}, "not a sound key"),
        (ABOUT, {**GOOD, "counts": np.ones(4, np.int64)}, "not a sound key"),
        (ABOUT, {**GOOD, "ids": ONES[:, None], "counts": ONES[:, None]}, "not a sound key"),
        (ABOUT, {**GOOD, "keys": np.zeros(4, np.float16)}, "not a sound key"),
        (ABOUT, {**GOOD, "keys": np.zeros((4, 8), np.float32)}, "not a sound key"),
        (ABOUT, {name: array[:0] for name, array in GOOD.items()}, "not a sound key"),
        (ABOUT, {**GOOD, "ids": np.zeros(4, np.float32)}, "not a sound key"),
        (ABOUT, {**GOOD, "keys": np.full((4, 8), np.nan, np.float16)}, "not a sound key"),
    ],
)
def test_a_folder_of_a_stranger_is_refused_in_one_line(tmp_path, about, arrays, line):
    with new_folder(tmp_path / "kept") as making:
        write_json(making / room.ABOUT, about)
        write_tensors(making / room.STORED, arrays)
    with pytest.raises(CheckpointError, match=line) as caught:
        Datastore.load(tmp_path / "kept")
    assert "\n" not in str(caught.value)


def test_ids_beyond_the_vocabulary_are_refused(guesser, remembered):
    strange = replace(remembered, ids=remembered.ids + 100_000)
    with pytest.raises(SettingError, match="another model"):
        guesser.translate("the cat", remembered=strange)
    narrow = replace(remembered, keys=remembered.keys[:, :4])
    with pytest.raises(SettingError, match="another model"):
        guesser.translate("the cat", remembered=narrow)


def test_a_folder_of_something_else_is_refused(tmp_path, model_folders):
    with pytest.raises(CheckpointError, match="holds nothing remembered"):
        Datastore.load(model_folders["translate"])
    with pytest.raises(CheckpointError, match="is no folder"):
        Datastore.load(tmp_path / "nowhere")


def test_what_is_saved_says_what_it_is(remembered, tmp_path):
    told = json.loads((remembered.save(tmp_path / "kept") / room.ABOUT).read_bytes())
    assert told["recall"] == remembered.recall.model_dump()
