"""Inspection: the model's own numbers under the names a person asks for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import RegardError
from regard.inspection.inspection import Inspection, inspect
from regard.inspection.record.recording import Recording
from regard.inspection.record.tokens import Side
from regard.model.watch import replace_row, watch

from .conftest import ENGLISH, FAMILIES, FRENCH, inspected, make_model, subject

KINDS = {
    "encoder-decoder": ["encoder", "decoder", "cross"],
    "decoder-only": ["decoder"],
    "encoder-only": ["encoder"],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_numbers_are_those_of_a_plain_forward_pass(words, family):
    seen = inspected(words, family=family)
    ids = [torch.as_tensor(side.ids)[None] for side in (seen.source, seen.target) if side is not None]
    with torch.no_grad(), watch(seen.model) as plain:
        logits = seen.model(*ids)
    assert seen.kinds == KINDS[family]
    assert np.array_equal(seen.logits, logits[0])
    assert np.allclose(seen.probabilities, logits[0].softmax(-1), atol=1e-6)
    for kind, name in (("encoder", "attention"), ("decoder", "attention"), ("cross", "cross")):
        if kind in seen.kinds:
            place = f"{'decoder' if kind == 'cross' else kind}.1.{name}.weights"
            assert np.array_equal(seen.attention(kind, 1), plain[place][0])
            assert np.array_equal(seen.attention(kind, 1, head=2), plain[place][0, 2])
            assert np.array_equal(seen[place], plain[place][0])
    side = "source" if seen.source else "target"
    assert np.array_equal(seen.embeddings(side), plain[f"{side}.tokens"][0])
    assert np.array_equal(seen.positions(side), plain[f"{side}.positions"])


@pytest.mark.parametrize("tokens", ["words", "pieces"])
def test_what_was_translated_is_what_was_read(request, tokens):
    tokenizer = request.getfixturevalue(tokens)
    translator = subject(tokenizer)
    seen, translation = inspect(translator, ENGLISH), translator.translate(ENGLISH)
    assert seen.source.text == ENGLISH
    assert seen.target.text == translation.text
    assert seen.tokens("target")[0].special == "start"
    ids = [
        number for number in translation.tokens.ids.tolist() if number not in (tokenizer.end, tokenizer.pad)
    ]
    assert seen.target.ids[1:].tolist() == ids


@pytest.mark.parametrize("tokens", ["words", "pieces"])
@pytest.mark.parametrize(
    ("family", "target", "changes"),
    [
        ("encoder-decoder", None, {}),
        ("encoder-decoder", "L'[MASK] </s>", {}),
        ("decoder-only", " </s> [MASK]", {}),
        ("encoder-only", None, dict(output="classes", classes=2)),
    ],
)
def test_a_special_token_written_in_a_text_is_read_as_text(request, tokens, family, target, changes):
    tokenizer, text = request.getfixturevalue(tokens), "The [MASK] street </s>"
    seen = inspect(subject(tokenizer, family=family, **changes), text, target=target)
    read = seen.side("source" if family.startswith("encoder") else "target")
    whole = text if family.startswith("encoder") else text + target
    written = [token for token in read.tokens if token.start is not None]
    assert [token.id for token in written] == tokenizer.encode(whole)
    assert not {"mask", "end"} & {token.special for token in written}
    if family == "encoder-decoder" and target is not None:
        assert seen.side("target").ids[1:].tolist() == tokenizer.encode(target)


def test_a_head_off_is_off_while_translating_too(words):
    translator, ablate = subject(words), [("cross", n, h) for n in range(2) for h in range(4)]
    plain, without = inspect(translator, ENGLISH), inspect(translator, ENGLISH, ablate=ablate)
    assert (without["decoder.0.cross.heads"] == 0).all()
    assert without.target.text == translator.translate(ENGLISH, ablate=ablate).text
    assert not np.array_equal(plain.logits[0], without.logits[0])


def test_attention_can_be_pulled_by_hand(words):
    plain = inspected(words)
    row = np.zeros(len(plain.source))
    row[5] = 1.0
    name = "encoder.0.attention.weights"
    pulled = plain.again(patch={name: replace_row(query=7, row=row, head=1)})
    assert np.array_equal(pulled.attention("encoder", 0, 1)[7], row)
    assert not np.array_equal(pulled.logits, plain.logits)


def test_the_next_tokens_are_the_likeliest(words):
    seen = inspected(words)
    found = seen.next(4, top=5)
    chances = torch.as_tensor(seen.logits[4]).softmax(-1)
    assert [each.id for each in found] == chances.topk(5).indices.tolist()
    assert [each.probability for each in found] == pytest.approx(chances.topk(5).values.tolist(), rel=1e-5)
    assert found[0].text == words.decode([found[0].id])
    assert len(seen.next(0, top=10**6)) == words.vocabulary


def test_the_probability_of_the_output_counts_its_end(words):
    seen = inspected(words)
    chances = torch.as_tensor(seen.logits).double().log_softmax(-1)
    ids = [*seen.target.ids[1:], words.end]
    assert seen.log_probability == pytest.approx(sum(chances[n, i].item() for n, i in enumerate(ids)))
    writer = inspected(words, family="decoder-only")
    chances = torch.as_tensor(writer.logits).double().log_softmax(-1)
    assert writer.log_probability == pytest.approx(
        sum(chances[n, i].item() for n, i in enumerate(writer.target.ids[1:]))
    )


def test_words_and_what_may_be_seen(pieces):
    seen = inspected(pieces)
    merged = seen.attention("decoder", 1, 0, words=True)
    assert merged.shape == (len(seen.words("target")),) * 2
    assert merged.sum(-1) == pytest.approx(1.0, abs=1e-6)
    assert (merged[~seen.visible("decoder", 1, words=True)] == 0).all()
    assert np.array_equal(seen.visible("decoder", 1), np.tri(len(seen.target), dtype=bool))
    assert seen.visible("cross", 0).all()


def test_a_recording_too_large_to_hold_is_computed_block_by_block(words):
    whole = inspected(words)
    ids = [whole.source.ids, whole.target.ids]
    small = Recording(whole.model, ids, budget=1)
    assert not small._parts
    for name in whole.recording.names:
        assert torch.equal(small[name], whole.recording[name])
        assert len(small._parts) == 1
    assert torch.equal(small.output, whole.recording.output)


def test_where_the_weights_alone_fit_one_pass_records_them(words, monkeypatch):
    whole = inspected(words)
    ids = [whole.source.ids, whole.target.ids]
    weights = [name for name in whole.recording.names if name.endswith(".weights")]
    vectors = [name for name in whole.recording.names if name.endswith(".around_feed_forward.after")]
    held = sum(whole.recording[name].nbytes for name in [*weights, *vectors])
    passes = []
    monkeypatch.setattr(
        Recording, "run", lambda self, only, real=Recording.run: passes.append(only) or real(self, only)
    )
    some = Recording(whole.model, ids, budget=held)
    assert some.holds_weights
    assert whole.recording.holds_weights
    masks = [name for name in whole.recording.names if name.endswith(".mask")]
    assert all(torch.equal(some[name], whole.recording[name]) for name in [*weights, *masks, *vectors])
    assert len(passes) == 1  # the logit lens reads the vectors of every layer
    assert torch.equal(some["encoder.1.attention.scores"], whole.recording["encoder.1.attention.scores"])
    assert len(passes) == 2
    assert not Recording(whole.model, ids, budget=held - 1).holds_weights
    assert torch.equal(some.output, whole.recording.output)


def test_dropout_is_off_while_looking(words):
    model = subject(words, dropout=0.5, attention_dropout=0.5)
    model.model.train()
    assert np.array_equal(inspect(model, ENGLISH, FRENCH).logits, inspect(model, ENGLISH, FRENCH).logits)
    assert model.model.training


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda seen: seen.attention("encoder", 2),
            "no layer 2 of encoder attention; there are 2, counted from 0",
        ),
        (lambda seen: seen.attention("encoder", -1), "no layer -1 of encoder attention"),
        (lambda seen: seen.attention("cross", 0, 4), "no head 4; there are 4, counted from 0"),
        (lambda seen: seen.attention("crss", 0), "unknown kind of attention 'crss'; did you mean cross"),
        (lambda seen: seen.tokens("sources"), "unknown side 'sources'; did you mean source"),
        (lambda seen: seen.tokens(), "unknown side None"),
        (lambda seen: seen.next(99), "no token 99 in the target"),
        (
            lambda seen: seen["encoder.0.attention.wights"],
            "no value 'encoder.0.attention.wights' was recorded",
        ),
        (lambda seen: seen["nowhere"], "no value 'nowhere' was recorded"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(words, ask, message):
    with pytest.raises(RegardError, match=message) as raised:
        ask(inspected(words))
    assert "\n" not in str(raised.value)


def test_models_that_say_no_words(words):
    seen = inspect(subject(words, family="encoder-only", output="classes", classes=3), ENGLISH)
    assert seen.attention("encoder", 1).shape == (4, len(seen.source), len(seen.source))
    with pytest.raises(RegardError, match="gives classes, not words"):
        seen.next(0)
    with pytest.raises(RegardError, match="has no target"):
        inspect(subject(words, family="encoder-only"), ENGLISH, target="x")
    with pytest.raises(RegardError, match="EncoderDecoder cannot be inspected; give a Translator"):
        inspect(subject(words).model, ENGLISH)
    with pytest.raises(RegardError, match="the target has no tokens"):
        Inspection(make_model(words, family="decoder-only"), target=Side.of_text("target", words, ""))
    assert inspected(words, "llama").positions("source") is None


def test_an_empty_text_begins_as_a_writer_begins(words):
    writer = subject(words, family="decoder-only")
    assert inspect(writer, "").probabilities[-1] == pytest.approx(
        writer.next_words("").probabilities, rel=1e-4
    )


def test_inference_says_the_same(words):
    """What is inspected is what translating, completing and filling read."""
    translator, writer, reader = (subject(words, family=family) for family in FAMILIES)
    seen = inspect(translator, ENGLISH, FRENCH)
    assert seen.log_probability == pytest.approx(translator.score(ENGLISH, FRENCH).score, rel=1e-5)
    following = writer.next_words("The animal was")
    assert inspect(writer, "The animal was").probabilities[-1] == pytest.approx(
        following.probabilities, rel=1e-4
    )
    masked = inspect(reader, "The [MASK] was tired.")
    (best, *_), *_ = reader.fill("The [MASK] was tired.").masks
    place = [token.special for token in masked.tokens()].index("mask")
    assert masked.next(place, top=1)[0].probability == pytest.approx(best.probability, rel=1e-5)
