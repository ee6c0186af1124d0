"""kNN-MT: the formula by hand, its effect on translations, and folders that are verified."""

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
from regard.inference.rescoring import building
from regard.inference.rescoring.building import (
    EncodedPair,
    build_datastore,
    context_paths,
    count_followers,
    in_order,
    merge_equal,
    tune_datastore,
)
from regard.inference.rescoring.datastore import CONFIG, TENSORS, Datastore, KnnParameters, fingerprint
from regard.inference.rescoring.noisy_channel import NoisyChannel
from regard.inference.translator import Translator
from regard.text.tokenizer import Tokenizers

pytestmark = pytest.mark.xdist_group("toy-models")


@pytest.fixture(scope="module")
def known(toy_pairs):
    return toy_pairs(120, 55)


@pytest.fixture(scope="module")
def datastore(guesser, known):
    return build_datastore(guesser, known)


@pytest.fixture(scope="module")
def sources(toy_pairs):
    return [source for source, _ in toy_pairs(25, 78)]


def made(keys, ids, parameters=None, model="mine"):
    """A datastore from keys and the token that followed each."""
    merged, numbers = merge_equal(keys.half())
    found = count_followers(numbers, np.asarray(ids), np.ones(len(ids), np.int64))
    values = (torch.from_numpy(x) for x in (found.lengths, found.ids, found.counts))
    return Datastore(merged, *values, model, parameters or KnnParameters())


def blend_by_hand(keys, ids, parameters, hidden, chances):
    """The formula at the top of the file, a row and a token at a time, in float64."""
    keys = keys.half().double().numpy()
    unit = ((keys - keys.mean(0)) ** 2).sum(1).mean()
    found = (1 - parameters.lambda_) * np.exp(chances.double().numpy())
    for row, query in enumerate(hidden.double().numpy()):
        distances = np.array([((query - key) ** 2).sum() for key in keys]) / unit
        limit = np.unique(distances)[: parameters.k].max()
        nearest = np.flatnonzero(distances <= limit)
        weights = np.exp(-(distances[nearest] - distances.min()) / parameters.temperature)
        for place, weight in zip(nearest, weights / weights.sum(), strict=True):
            found[row, ids[place]] += parameters.lambda_ * weight
    return found


@pytest.mark.parametrize("met", [1, 7])
@pytest.mark.parametrize("parameters", [dict(), dict(lambda_=0.9, k=1), dict(k=500, temperature=2.0)])
def test_the_blend_is_the_formula(parameters, met):
    """Also where keys were met several times, with other tokens after them."""
    draw = torch.Generator().manual_seed(5)
    parameters = KnnParameters(**parameters)
    keys, ids = torch.randn(300, 8, generator=draw), torch.randint(0, 11, (300 * met,), generator=draw)
    again = torch.randint(0, 300, (300 * (met - 1),), generator=draw)  # some more often than others
    keys = torch.cat([keys, keys[again]])
    hidden = torch.randn(9, 8, generator=draw)
    chances = torch.randn(9, 11, generator=draw).log_softmax(-1)
    by_hand = blend_by_hand(keys, ids, parameters, hidden, chances)
    datastore = made(keys.clone(), ids, parameters)
    assert (len(datastore), len(datastore.keys)) == (300 * met, 300)
    found = datastore(hidden, chances).exp().double().numpy()
    np.testing.assert_allclose(found, by_hand, atol=1e-5)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("neighbours", [1, 4, 64])
def test_tokens_after_one_context_have_the_share_of_their_lines(guesser, neighbours):
    """Nine of twenty lines say one thing, so its share is 0.45, however few neighbours have a say."""
    lines = [("the cat", "le chat")] * 9 + [("the cat", "un chien")] * 11
    datastore = build_datastore(guesser, lines).changed(lambda_=0.99, k=neighbours, temperature=0.001)
    chances = guesser.alternatives("the cat", 0, translation="", blend=datastore, top=2)
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
    one, other = build_datastore(guesser, lines), build_datastore(guesser, iter(mixed))
    assert same(one, other)
    judges = toy_pairs(60, 91)
    assert (
        tune_datastore(one, guesser, judges).parameters
        == tune_datastore(other, guesser, judges[::-1]).parameters
    )
    texts = [[each.text for each in guesser.translate(sources, blend=each)] for each in (one, other)]
    assert texts[0] == texts[1]


def test_the_order_of_the_tuning_pairs_does_not_matter(guesser, datastore, toy_pairs, monkeypatch):
    monkeypatch.setattr(building, "TUNING_TOKENS", 50)
    judges, asked = toy_pairs(60, 91), []
    monkeypatch.setattr(
        building, "best_parameters", lambda evidence: asked.append(evidence) or KnnParameters()
    )
    for pairs in (judges, judges[::-1]):
        tune_datastore(datastore, guesser, pairs)
    first, second = (torch.cat([each.probabilities for each in some]) for some in asked)
    assert torch.equal(first, second)
    assert 50 <= len(first) < 100


def test_a_context_is_held_once(guesser, known):
    """Twice the lines are the same keys, met twice as often."""
    one, two = build_datastore(guesser, known), build_datastore(guesser, [*known, *known])
    assert torch.equal(one.keys, two.keys)
    assert torch.equal(2 * one.counts, two.counts)
    assert len(two) == 2 * len(one)
    assert len({row.tobytes() for row in one.keys.numpy()}) == len(one.keys)


def test_contexts_are_those_of_source_and_beginning():
    a, b = (np.array(ids, ">u4").tobytes() for ids in ([1, 9], [2, 9]))
    targets = [np.array(ids, ">u4").tobytes() for ids in ([3, 4, 5, 9], [3, 4, 9], [3, 6, 9])]
    counts = Counter(EncodedPair(source, target) for source in (b, a) for target in targets)
    found = [(path.contexts.tolist(), path.shared) for path in context_paths(in_order(counts))]
    one = [([0, 1, 2, 3], 0), ([0, 1, 2], 3), ([0, 1, 4], 2)]
    assert found == [*one, *(([5 + place for place in places], shared) for places, shared in one)]


def test_other_contexts_with_the_same_key_are_one_key(toy_model, toy_tokenizer):
    """A model that does not look at its source stands in one place, whatever the source is."""
    model = toy_model(3)
    for block in model.decoder.blocks:
        block.cross.output.weight.data.zero_()
    blind = Translator(model.eval(), Tokenizers.joint(toy_tokenizer))
    one = build_datastore(blind, [("the cat", "le chat")])
    two = build_datastore(blind, [("the cat", "le chat"), ("a dog", "le chat"), ("a cat", "le chat")])
    assert torch.equal(one.keys, two.keys)
    assert torch.equal(3 * one.counts, two.counts)


def test_keys_that_are_alike_become_one_at_their_first_place():
    draw = np.random.default_rng(2)
    rows = draw.integers(0, 3, (500, 4)).astype(np.float16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.inference.rescoring.building.ROWS", 7)
        keys, numbers = merge_equal(torch.from_numpy(rows.copy()))
    first = sorted({tuple(row): place for place, row in reversed(list(enumerate(rows.tolist())))}.values())
    assert np.array_equal(keys.numpy(), rows[first])
    assert np.array_equal(keys.numpy()[numbers], rows)


def test_two_keys_of_one_hash_stay_apart(monkeypatch):
    monkeypatch.setattr(
        "regard.inference.rescoring.building._hashes", lambda keys: np.zeros(len(keys), np.int64)
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


def test_building_and_searching_hold_no_copy_of_the_keys(monkeypatch):
    """No copy of them is made where they are merged, measured, compared or saved."""
    for module in ("building.ROWS", "datastore.ROWS", "nearest.VECTORS"):
        monkeypatch.setattr(f"regard.inference.rescoring.{module}", 64)
    draw = torch.Generator().manual_seed(1)
    keys = torch.randn(20_000, 32, generator=draw).half()
    keys[10_000:] = keys[:10_000].clone()
    ids = np.zeros(20_000, np.int64)
    whole = keys.nbytes
    with Largest(keys) as largest:
        datastore = made(keys, ids)
        datastore(torch.randn(5, 32), torch.zeros(5, 3).log_softmax(-1))
    assert len(datastore.keys) == 10_000
    assert largest.bytes < whole / 4


def test_a_score_is_that_of_a_forced_pass(guesser, datastore, sources):
    for beams in (1, 4):
        for source, found in zip(
            sources, guesser.translate(sources, beams=beams, blend=datastore), strict=True
        ):
            again = guesser.score(source, found, blend=datastore)
            assert found.score == pytest.approx(again.score, abs=1e-4)
            assert found.rank_score == pytest.approx(again.rank_score, abs=1e-4)
    assert again.score != pytest.approx(guesser.score(source, found).score, abs=1e-3)


def test_the_datastore_overrules_the_model(translator, known):
    """Where a source was met before, what was said then is the nearest at every step."""
    sources, targets = zip(*dict(known).items(), strict=True)
    other = [*targets[1:], targets[0]]  # each has the translation of its neighbour
    by_heart = build_datastore(translator, zip(sources, other, strict=True)).changed(lambda_=0.98, k=1)
    found = [each.text for each in translator.translate(sources, blend=by_heart, beams=1)]
    learned = [each.text for each in translator.translate(sources, beams=1)]
    assert found == other
    assert _equal(learned, targets) > 0.9


def _equal(some, others):
    return np.mean([one == other for one, other in zip(some, others, strict=True)])


def test_weight_zero_leaves_the_model_alone(guesser, datastore, sources):
    nothing = datastore.changed(lambda_=0.0)
    assert [each.text for each in guesser.translate(sources, blend=nothing)] == [
        each.text for each in guesser.translate(sources)
    ]


def test_batches_do_not_change_it(guesser, datastore, sources):
    alone = [guesser.translate(source, blend=datastore).text for source in sources]
    together = [each.text for each in guesser.translate(sources, blend=datastore)]
    one_by_one = [each.text for each in guesser.translate(sources, blend=datastore, batch_tokens=1)]
    assert together == alone == one_by_one
    assert together != [each.text for each in guesser.translate(sources)]


def test_a_datastore_combines_with_the_other_options(guesser, datastore, sources):
    ablate = [("cross", 0, 0)]
    found = guesser.translate(
        sources[0],
        blend=datastore,
        rescorer=NoisyChannel(guesser, 0.5),
        n_best=3,
        alignment=True,
        tree=True,
        ablate=ablate,
    )
    assert len(found.others) == 2
    assert found.alignment is not None
    forbidden = guesser.translate(
        sources[0], blend=datastore, forbidden=["chat", "chien", "le"], max_length=9
    )
    assert not {"chat", "chien", "le"} & set(forbidden.text.split())


def test_alternatives_are_those_of_both(guesser, datastore, sources):
    found = guesser.translate(sources[0], blend=datastore, beams=1)
    choices = guesser.alternatives(sources[0], 0, translation=found, blend=datastore, top=3)
    first = next(iter(found.tokens))
    assert choices[0].text.strip() == first.text.strip()
    assert np.log(choices[0].probability) == pytest.approx(first.log_probability, abs=1e-5)
    alone = guesser.alternatives(sources[0], 0, translation=found, top=3)
    assert choices[0].probability != pytest.approx(alone[0].probability, abs=1e-3)


def test_tuning_raises_the_score_of_other_text(guesser, datastore, toy_pairs):
    other = toy_pairs(60, 91)
    found = tune_datastore(datastore, guesser, iter(other))
    assert found.parameters.lambda_ > 0
    with_it = sum(guesser.score(source, target, blend=found).score for source, target in other)
    without = sum(guesser.score(source, target).score for source, target in other)
    assert with_it > without + len(other)
    slight = found.changed(lambda_=0.05)
    assert with_it > sum(guesser.score(source, target, blend=slight).score for source, target in other)


def test_what_cannot_be_read_is_passed_over(guesser, known):
    blank = [(" ", "le chat"), ("the cat", "\u3000"), ("\t\u00a0", "le chat"), ("the cat", " \n"), (" ", " ")]
    odd = [
        *blank,
        ("", "le chat"),
        ("the cat", ""),
        ("the cat " * 60, "le chat"),
        ("the cat", "le chat " * 60),
    ]
    assert len(build_datastore(guesser, [*odd, *known[:5]])) == len(build_datastore(guesser, known[:5]))
    with pytest.raises(DataError, match="no pair has text"):
        build_datastore(guesser, odd)
    with pytest.raises(DataError, match="no validation pair has text"):
        tune_datastore(build_datastore(guesser, known[:5]), guesser, odd)


def test_far_too_much_is_refused(guesser, known, monkeypatch):
    monkeypatch.setattr("regard.inference.rescoring.building.MAX_KEYS", 100)
    with pytest.raises(DataError, match=r"at most 100 tokens; give fewer lines"):
        build_datastore(guesser, known)


def test_another_model_is_refused(guesser, translator, datastore):
    assert fingerprint(guesser.model) != fingerprint(translator.model)
    for call in (
        lambda: translator.translate("the cat", blend=datastore),
        lambda: translator.score("the cat", "le chat", blend=datastore),
        lambda: tune_datastore(datastore, translator, [("the cat", "le chat")]),
    ):
        with pytest.raises(SettingError, match="another model; build one"):
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


def test_a_datastore_of_nan_is_refused(toy_model, toy_tokenizer, known):
    model = toy_model(3)
    model.target.weight.data.fill_(torch.nan)
    with pytest.raises(CheckpointError, match="damaged"):
        build_datastore(Translator(model, Tokenizers.joint(toy_tokenizer)), known)


def test_a_folder_gives_the_same_back(guesser, datastore, sources, tmp_path):
    mine = datastore.changed(lambda_=0.4, k=5, temperature=0.3)
    mine.save(tmp_path / "kept")
    again = Datastore.load(tmp_path / "kept")
    assert same(again, mine)
    assert (again.parameters, again.model) == (mine.parameters, mine.model)
    assert [each.text for each in guesser.translate(sources, blend=again)] == [
        each.text for each in guesser.translate(sources, blend=mine)
    ]
    with pytest.raises(CheckpointError, match="already exists"):
        mine.save(tmp_path / "kept")
    datastore.save(tmp_path / "kept", overwrite=True)
    assert Datastore.load(tmp_path / "kept").parameters == datastore.parameters


@pytest.mark.parametrize("name", [CONFIG, TENSORS])
def test_a_flipped_bit_is_found_and_named(datastore, tmp_path, name):
    datastore.save(tmp_path / "kept")
    file = tmp_path / "kept" / name
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        Datastore.load(tmp_path / "kept")


ABOUT = {"format": 3, "model": "mine", "parameters": KnnParameters().as_dict()}
ONES = np.ones(4, np.int32)
GOOD = {"keys": np.zeros((4, 8), np.float16), "followers": ONES, "ids": ONES, "counts": ONES}


def test_a_valid_datastore_is_loaded(tmp_path):
    with new_folder(tmp_path / "kept") as making:
        write_json(making / CONFIG, ABOUT)
        write_tensors(making / TENSORS, GOOD)
    assert len(Datastore.load(tmp_path / "kept")) == 4


@pytest.mark.parametrize(
    ("about", "arrays", "line"),
    [
        ({**ABOUT, "format": 2}, GOOD, "of another format; build it again: regard datastore"),
        ({**ABOUT, "format": 4}, GOOD, "another format"),
        ({**ABOUT, "format": [1]}, GOOD, "another format"),
        ({**ABOUT, "model": 5}, GOOD, "another format"),
        ({**ABOUT, "parameters": {"lambda": 7}}, GOOD, "lambda"),
        ({**ABOUT, "parameters": None}, GOOD, "must be a table"),
        (ABOUT, {"keys": GOOD["keys"]}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "more": ONES}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "ids": np.zeros(3, np.int32)}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "followers": np.ones(3, np.int32)}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "followers": np.array([0, 1, 1, 2], np.int32)}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "followers": np.array([1, 1, 1, 2], np.int32)}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "followers": np.array([-1, 1, 2, 2], np.int32)}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "counts": np.zeros(4, np.int32)}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "counts": np.ones(4, np.int64)}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "ids": ONES[:, None], "counts": ONES[:, None]}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "keys": np.zeros(4, np.float16)}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "keys": np.zeros((4, 8), np.float32)}, "invalid keys or ids"),
        (ABOUT, {name: array[:0] for name, array in GOOD.items()}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "ids": np.zeros(4, np.float32)}, "invalid keys or ids"),
        (ABOUT, {**GOOD, "keys": np.full((4, 8), np.nan, np.float16)}, "invalid keys or ids"),
    ],
)
def test_a_folder_of_a_stranger_is_refused_in_one_line(tmp_path, about, arrays, line):
    with new_folder(tmp_path / "kept") as making:
        write_json(making / CONFIG, about)
        write_tensors(making / TENSORS, arrays)
    with pytest.raises(CheckpointError, match=line) as caught:
        Datastore.load(tmp_path / "kept")
    assert "\n" not in str(caught.value)


def test_ids_beyond_the_vocabulary_are_refused(guesser, datastore):
    strange = replace(datastore, ids=datastore.ids + 100_000)
    with pytest.raises(SettingError, match="another model"):
        guesser.translate("the cat", blend=strange)
    narrow = replace(datastore, keys=datastore.keys[:, :4])
    with pytest.raises(SettingError, match="another model"):
        guesser.translate("the cat", blend=narrow)


def test_a_folder_of_something_else_is_refused(tmp_path, model_folders):
    with pytest.raises(CheckpointError, match="holds no datastore"):
        Datastore.load(model_folders["translate"])
    with pytest.raises(CheckpointError, match="is not a folder"):
        Datastore.load(tmp_path / "nowhere")


def test_a_saved_datastore_has_its_parameters(datastore, tmp_path):
    told = json.loads((datastore.save(tmp_path / "kept") / CONFIG).read_bytes())
    assert told["parameters"] == datastore.parameters.as_dict()
