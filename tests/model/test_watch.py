"""watch: everything by name, nothing changed by looking, parts switched off, values put in place."""

import threading

import pytest
import torch
from torch.nn import functional as F

from regard.errors import SettingError, UsageError
from regard.model.config import ModelConfig
from regard.model.masks import Mask
from regard.model.parts import parts_of
from regard.model.transformer import build_model
from regard.model.watch import UNWATCHED, ablatable_parts, replace_row, watch, watchable, watching

V = 30
SMALL = dict(vocabulary=V, width=16, layers=2, heads=4, feed_forward_width=24)
KINDS = {
    "paper": dict(),
    "pre": dict(residual="pre", positions="learned", feed_forward="swiglu"),
    "llama": dict(residual="pre", positions="rotary", norm="rms", key_value_heads=2),
    "cosine": dict(similarity="cosine"),
    "additive": dict(similarity="additive"),
    "wide": dict(key_width=6, value_width=3),
}


def make(kind="paper", **changes):
    torch.manual_seed(0)
    model = build_model(ModelConfig(**{**SMALL, **KINDS[kind], **changes})).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


SOURCE = torch.randint(0, V, (2, 6), generator=torch.Generator().manual_seed(1))
TARGET = torch.randint(0, V, (2, 5), generator=torch.Generator().manual_seed(2))
PADDED = Mask(keys=torch.arange(6)[None] < torch.tensor([[6], [4]]))


@torch.no_grad()
def run(model):
    return model(SOURCE, TARGET, PADDED)


def close(a, b):
    return (a - b).abs().max() <= 1e-5 * b.abs().max()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_watching_changes_no_bit_and_every_name_is_recorded(kind):
    model = make(kind)
    plain = run(model)
    with watch(model) as seen:
        watched = run(model)
    assert torch.equal(plain, watched)
    expected = set(watchable(model))
    if kind == "llama":  # its positions turn queries and keys; nothing is added
        expected -= {"source.positions", "target.positions"}
    assert set(seen) == expected
    assert torch.equal(seen["head.logits"], plain)


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_weights_seen_alone_are_the_same_to_the_bit(kind, blind):
    model = make(kind)
    keys = PADDED.keys & torch.tensor([[True], [False]]) if blind else PADDED.keys  # a source with nothing
    with watch(model) as all_of_it, torch.no_grad():
        model(SOURCE, TARGET, Mask(keys=keys))
    with watch(model, ["weights", "mask"]) as alone, torch.no_grad():
        output = model(SOURCE, TARGET, Mask(keys=keys))
    assert len(alone) == 12
    assert all(torch.equal(value, all_of_it[name]) for name, value in alone.items())
    assert torch.equal(output, all_of_it["head.logits"])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_recorded_steps_agree_with_the_fused_output(kind):
    model = make(kind)
    with watch(model) as seen:
        run(model)
    for place in ("encoder.1.attention", "decoder.0.attention", "decoder.1.cross"):
        weights, value = seen[f"{place}.weights"], seen[f"{place}.value"]
        value = value.repeat_interleave(4 // value.shape[1], dim=1)
        assert close(weights @ value, seen[f"{place}.heads"])
        scaled = seen[f"{place}.scaled"].masked_fill(~seen[f"{place}.mask"], -torch.inf)
        assert close(scaled.softmax(-1), weights)


def test_the_residual_stream_joins_up():
    model = make("pre")
    with watch(model) as seen:
        run(model)
    block = "encoder.0"
    attended = seen[f"{block}.around_attention.before"] + seen[f"{block}.attention.output"]
    assert torch.equal(attended, seen[f"{block}.around_attention.after"])
    assert torch.equal(attended, seen[f"{block}.around_feed_forward.before"])
    assert torch.equal(seen[f"{block}.around_feed_forward.after"], seen["encoder.1.around_attention.before"])
    normed = seen[f"{block}.around_feed_forward.normed"]
    assert torch.equal(
        model.encoder.blocks[0].feed_forward(normed), seen[f"{block}.around_feed_forward.sublayer"]
    )
    assert torch.equal(seen["source.output"], seen[f"{block}.around_attention.before"])


def test_only_what_is_asked_for_is_kept():
    model = make()
    for only, wanted in [
        ("encoder.*.weights", {"encoder.0.attention.weights", "encoder.1.attention.weights"}),
        (["decoder.1.cross.weights"], {"decoder.1.cross.weights"}),
        ("head", {"head.logits"}),
        ((), set()),
    ]:
        with watch(model, only=only) as seen:
            run(model)
        assert set(seen) == wanted


def test_an_unknown_name_is_answered_with_near_ones():
    with (
        pytest.raises(SettingError, match=r"'wieghts' in this model; nearest: .*weights"),
        watch(make(), only="wieghts"),
    ):
        pass
    with watch(make(), only="head") as seen:
        pass
    with pytest.raises(SettingError, match=r"no value was recorded as 'head\.logits'"):
        seen["head.logits"]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_an_ablated_head_contributes_nothing(kind):
    model = make()
    place = {"encoder": "encoder.1.attention", "decoder": "decoder.1.attention", "cross": "decoder.1.cross"}[
        kind
    ]
    with watch(model, ablate={(kind, 1, 2)}) as seen:
        without = run(model)
    heads = seen[f"{place}.heads"]
    assert (heads[:, 2] == 0).all()
    assert (heads[:, [0, 1, 3]] != 0).any()
    assert not torch.equal(without, run(model))
    attention = model.get_submodule(place.replace("coder.", "coder.blocks."))
    with torch.no_grad():
        attention.output.weight[:, 8:12] = 0  # the same head's columns of W^O
    assert close(run(model), without)


def test_heads_are_ablated_without_recording():
    model = make()
    with watch(model, only=(), ablate=[("encoder", 0, 0)]) as seen:
        assert not torch.equal(run(model), make()(SOURCE, TARGET, PADDED))
    assert len(seen) == 0


@pytest.mark.parametrize(
    ("ablate", "message"),
    [
        ({("encoder", 9, 0)}, "no encoder attention in layer 9; there are 2, counted from 0"),
        ({("encoder", 0, 4)}, r"no head 4 in encoder\.0\.attention; it has 4, counted from 0"),
        ({("sideways", 0, 0)}, "unknown kind of attention 'sideways'"),
        ({"scalings"}, "unknown name 'scalings' in this model"),
    ],
)
def test_parts_that_cannot_be_ablated_are_refused(ablate, message):
    with pytest.raises(SettingError, match=message), watch(make(), ablate=ablate):
        pass


def test_scaling_can_be_ablated():
    model = make()
    with watch(model, ablate={"scaling"}) as seen:
        without = run(model)
    assert torch.equal(seen["encoder.0.attention.scaled"], seen["encoder.0.attention.scores"])
    for module in model.modules():
        if hasattr(module, "scale") and hasattr(module, "as_dot"):
            module.scale = 1.0
    assert close(run(model), without)


@pytest.mark.parametrize("kind", ["paper", "llama"])
def test_positions_can_be_ablated(kind):
    model = make(kind, family="encoder-only")
    order = torch.tensor([3, 1, 0, 5, 4, 2])
    with torch.no_grad(), watch(model, ablate={"positions"}):
        assert close(model(SOURCE[:, order]), model(SOURCE)[:, order])


def test_a_residual_and_a_norm_can_be_ablated():
    model = make("pre")
    with watch(model, ablate={"encoder.0.around_attention.residual"}) as seen:
        run(model)
    assert torch.equal(seen["encoder.0.around_attention.after"], seen["encoder.0.around_attention.sublayer"])
    with watch(model, ablate={"encoder.1.around_feed_forward.norm"}) as seen:
        run(model)
    assert "encoder.1.around_feed_forward.normed" not in seen
    layer = model.encoder.blocks[1].feed_forward
    before = seen["encoder.1.around_feed_forward.before"]
    assert torch.equal(layer(before), seen["encoder.1.around_feed_forward.sublayer"])


def test_every_ablation_changes_the_output():
    for kind in ("paper", "pre"):
        model = make(kind, embedding_norm=True)
        plain = run(model)
        for part in ablatable_parts(model):
            if part.endswith("coder.norm") and kind == "paper":
                continue  # no norm stands behind a post-norm stack
            with watch(model, only=(), ablate={part}):
                assert not torch.equal(run(model), plain), part


@pytest.mark.parametrize("name", sorted(set(watchable(make())) - {"encoder.0.attention.mask"}))
def test_any_watched_value_can_be_replaced(name):
    model = make()
    plain = run(model)
    with watch(model, only=name) as seen:
        run(model)
    same = seen[name]
    with watch(model, only=(), patch={name: same}):
        assert close(run(model), plain)
    with watch(
        model, only=name, patch={name: lambda value: ~value if value.dtype == torch.bool else value * -2}
    ) as seen:
        changed = run(model)
    assert not torch.equal(changed, plain)
    assert torch.equal(seen[name], ~same if same.dtype == torch.bool else same * -2)


def test_a_row_of_weights_can_be_replaced():
    model, name = make(), "encoder.0.attention.weights"
    row = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    with watch(model, patch={name: replace_row(query=3, row=row, head=1)}) as seen:
        run(model)
    assert seen[name][0, 1, 3].tolist() == row
    assert torch.allclose(
        seen["encoder.0.attention.heads"][0, 1, 3], seen["encoder.0.attention.value"][0, 1, 2]
    )
    short = {name: replace_row(query=3, row=[0.5, 0.5])}
    with (
        pytest.raises(SettingError, match="a row of 2 numbers must have one for each of 6 keys"),
        watch(model, patch=short),
    ):
        run(model)


def test_a_patch_that_does_not_fit_is_refused():
    model = make()
    wrong, message = (
        {"encoder.0.attention.heads": torch.zeros(3, 3)},
        r"must broadcast to \(2, 4, 6, 4\), the shape of",
    )
    with pytest.raises(SettingError, match=message), watch(model, patch=wrong):
        run(model)
    unknown, message = {"encoder": torch.zeros(1)}, "unknown name 'encoder' in this model"
    with pytest.raises(SettingError, match=message), watch(model, patch=unknown):
        pass


def test_gradients_of_a_chosen_number_reach_the_weights():
    model, name = make(), "encoder.1.attention.weights"
    with watch(model, only=name, gradients=[name, "source.tokens"]) as seen:
        chosen = model(SOURCE, TARGET, PADDED)[0, 2, 7]
        found = seen.gradients(chosen)
    assert found[name].shape == (2, 4, 6, 6)
    step = torch.zeros(2, 4, 6, 6)
    step[0, 1, 2, 3] = 1e-2
    ends = []
    for sign in (1, -1):
        with torch.no_grad(), watch(model, only=(), patch={name: lambda w, s=sign: w + s * step}):
            ends.append(model(SOURCE, TARGET, PADDED)[0, 2, 7].item())
    slope = (ends[0] - ends[1]) / 2e-2
    assert slope == pytest.approx(found[name][0, 1, 2, 3].item(), rel=2e-2, abs=1e-4)
    assert (found["source.tokens"][1] == 0).all()


def test_gradients_need_to_be_asked_for_and_to_be_on():
    model = make()
    with watch(model) as seen:
        chosen = model(SOURCE, TARGET)[0, 0, 0]
    with pytest.raises(UsageError, match="no gradient was requested"):
        seen.gradients(chosen)
    with pytest.raises(UsageError, match="outside no_grad"), watch(model, gradients="head"):
        run(model)


def test_two_threads_watching_one_model_do_not_meet():
    model = make()
    sources = [torch.randint(0, V, (2, 6), generator=torch.Generator().manual_seed(n)) for n in range(2)]
    alone = []
    for n, source in enumerate(sources):
        with torch.no_grad(), watch(model, ablate={("encoder", 0, n)}) as seen:
            model(source, TARGET)
        alone.append(dict(seen))
    barrier, found, wrong = threading.Barrier(3), {}, []

    def look(n):
        barrier.wait()
        for _ in range(15):
            with torch.no_grad(), watch(model, ablate={("encoder", 0, n)}) as seen:
                model(sources[n], TARGET)
            found[n] = dict(seen)
            wrong.extend(k for k in seen if not torch.equal(seen[k], alone[n][k]))

    def pass_by():
        barrier.wait()
        for _ in range(30):
            with torch.no_grad():
                model(sources[0], TARGET)

    threads = [threading.Thread(target=look, args=(n,)) for n in range(2)] + [
        threading.Thread(target=pass_by)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert set(found) == {0, 1}


def test_a_thread_does_not_inherit_the_watch():
    model, outcome = make(), []
    with watch(model) as seen:
        thread = threading.Thread(target=lambda: outcome.append(watching(model) is UNWATCHED))
        thread.start()
        thread.join()
        assert watching(model) is not UNWATCHED
    assert outcome == [True]
    assert len(seen) == 0


def test_another_model_is_not_watched():
    model, other = make(), make()
    with watch(model) as seen:
        run(other)
    assert len(seen) == 0


def test_an_exception_ends_the_watch():
    model = make()
    with pytest.raises(ZeroDivisionError), watch(model):
        raise ZeroDivisionError
    assert watching(model) is UNWATCHED


def test_a_compiled_model_is_watched_as_it_was_written():
    model = make()
    plain = run(model)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert close(run(compiled), plain)
    with watch(compiled) as seen:
        watched = run(compiled)
    assert torch.equal(watched, plain)
    assert set(seen) == set(watchable(model))
    with watch(compiled, only=(), ablate={("encoder", 0, 0)}):
        assert not torch.equal(run(compiled), plain)
    assert close(run(compiled), plain)


def test_forward_has_no_parameter_for_watching():
    import inspect

    for module in make().modules():
        names = inspect.signature(module.forward).parameters
        assert not {"watch", "see", "seen", "output_attentions"} & set(names)


def test_changing_a_recorded_value_leaves_the_model_alone():
    model = make()
    with watch(model) as seen:
        run(model)
    before = seen["encoder.output"].clone()
    with torch.no_grad():
        F.relu_(seen["encoder.output"])
        assert torch.equal(run(model), make()(SOURCE, TARGET, PADDED))
    assert not torch.equal(seen["encoder.output"], before)


@pytest.mark.parametrize("part", [5, None, 2.5, [5], [("encoder", 0)], [("encoder", "0", 1)], [None]])
def test_a_value_that_is_no_part_is_refused(part):
    with pytest.raises(SettingError, match="a part is a name"):
        parts_of(part)


def test_one_ablated_part_needs_no_list():
    assert parts_of("scaling") == parts_of(["scaling"]) == ("scaling",)
    assert parts_of(("encoder", 0, 1)) == parts_of([("encoder", 0, 1)]) == (("encoder", 0, 1),)
    assert parts_of(iter(["norm", ("cross", 1, 0)])) == ("norm", ("cross", 1, 0))
    assert parts_of(()) == ()


def test_a_mask_is_put_in_place_where_the_model_has_none():
    model, weights = make(family="encoder-only").eval(), "encoder.0.attention.weights"
    patch = {"encoder.0.attention.mask": torch.eye(3, dtype=torch.bool)}
    with torch.no_grad(), watch(model, only=weights, patch=patch) as seen:
        model(torch.tensor([[1, 2, 3]]))
    assert torch.equal(seen[weights][0, 0], torch.eye(3))
