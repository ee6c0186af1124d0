"""The rules of sizing: properties over amounts of text and time, and agreement with the tuned recipes."""

from __future__ import annotations

import math

import pytest

from regard.runs.recipe import Recipe
from regard.runs.sizing import (
    RULES,
    Choices,
    Length,
    Rules,
    Shape,
    Text,
    Tokens,
    best_shape,
    choose_length,
    choose_text,
    choose_training,
    shapes,
    weight_decay,
)

CAPTIONS = Tokens(examples=29_000, count=850_000, vocabulary=5000)


def chosen_shape(rules: Rules, tokens: Tokens, operations: float) -> Shape:
    """The shape for a machine that computes so many operations in the time."""
    return best_shape(
        rules, shapes(rules, {}), tokens, lambda shape: operations / rules.flops(shape, tokens.vocabulary)
    )[0]


@pytest.mark.parametrize("task", RULES)
def test_more_time_and_more_text_give_no_smaller_model(task):
    rules = RULES[task]
    for amount in (1e4, 1e6, 1e8):
        tokens = Tokens(int(amount / 20), int(amount), 4000)
        by_time = [
            rules.weights(chosen_shape(rules, tokens, seconds * 6e10)) for seconds in (10, 100, 1e3, 1e5)
        ]
        assert by_time == sorted(by_time)
    by_text = [
        rules.weights(chosen_shape(rules, Tokens(int(amount / 20), int(amount), 4000), 1e15))
        for amount in (1e4, 1e5, 1e6, 1e7)
    ]
    assert by_text == sorted(by_text)
    assert by_text[0] < by_text[-1]


def test_an_hour_of_captions_gives_about_the_recipe_that_was_tuned_for_them():
    rules, recipe = RULES["translation"], Recipe.load("multi30k")
    shape = chosen_shape(rules, CAPTIONS, 2.2e14)
    choices = Choices({})
    choose_training(choices, rules, shape, CAPTIONS, seen=32e6, is_new=True)
    choose_length(choices, rules, CAPTIONS, Length(8600, 230), 0.008, is_new=True)
    made = {name: choice.value for name, choice in choices.made.items()}
    assert (shape.layers, shape.width, shape.heads) == (4, 160, 4)
    assert shape.feed_forward_width == recipe.model["feed_forward_width"]
    assert made["optimizer.learning_rate"] == recipe.optimizer.learning_rate
    assert made["optimizer.weight_decay"] == pytest.approx(recipe.optimizer.weight_decay, rel=0.1)
    assert made["model.dropout"] == recipe.model["dropout"]
    assert made["augment.bidirectional_epochs"] == recipe.augment.bidirectional_epochs
    assert made["training.batch_tokens"] == recipe.training.batch_tokens
    assert made["schedule.warmup_steps"] == pytest.approx(recipe.schedule.warmup_steps, rel=0.1)


def test_few_labels_give_about_the_recipe_that_was_tuned_for_them():
    rules, recipe, tokens = RULES["classification"], Recipe.load("sst2"), Tokens(6900, 175_000, 6000)
    shape = chosen_shape(rules, tokens, 1e12)
    assert (shape.layers, shape.width) == (recipe.model["layers"], recipe.model["width"])
    choices = Choices({})
    choose_training(choices, rules, shape, tokens, 2.4e6, is_new=True)
    made = {name: choice.value for name, choice in choices.made.items()}
    assert made["model.dropout"] == recipe.model["dropout"]
    assert made["augment.word_dropout"] == recipe.augment.word_dropout
    assert made["training.r_drop"] == recipe.training.r_drop


def test_a_classifier_that_sees_its_text_once_has_more_steps_and_little_regularisation():
    choices, text = Choices({}), Tokens(6900, 175_000, 6000)
    choose_training(choices, RULES["classification"], Shape(2, 64, 2, 256), text, 225_000, is_new=True)
    made = {name: choice.value for name, choice in choices.made.items()}
    assert 225_000 / made["training.batch_tokens"] > 300
    assert made["training.r_drop"] == 0
    assert 0.1 < made["model.dropout"] < 0.2
    assert 0 < made["augment.word_dropout"] < 0.1


def test_many_labels_are_not_augmented():
    choices = Choices({})
    choose_training(
        choices, RULES["classification"], Shape(2, 128, 4, 512), Tokens(500_000, 1 << 23, 8000), 1e8, True
    )
    made = {name: choice.value for name, choice in choices.made.items()}
    assert made["augment.word_dropout"] == made["augment.bpe_dropout"] == made["training.r_drop"] == 0


def test_a_given_setting_is_kept_and_what_follows_from_it_follows():
    given = {"model.width": 256, "optimizer.learning_rate": 0.002, "training.batch_tokens": 999}
    choices, rules = Choices(given), RULES["translation"]
    assert {shape.width for shape in shapes(rules, given)} == {256}
    choose_training(choices, rules, shapes(rules, given)[0], CAPTIONS, 1e7, is_new=True)
    choose_length(choices, rules, CAPTIONS, Length(1000, 230), 0.002, is_new=True)
    assert not given.keys() & choices.made.keys()
    assert choices.made["optimizer.weight_decay"].value == weight_decay(Length(1000, 230), 0.002)


def test_weight_decay_forgets_in_a_tenth_of_the_steps_but_not_within_three_passes():
    for steps in (4000, 8000, 32_000):  # 40 passes and more
        assert 1 / (0.008 * weight_decay(Length(steps, 100), 0.008)) == pytest.approx(steps / 10, rel=0.05)
    for steps in (400, 1000, 3000):  # 1 to 7 passes
        assert 1 / (0.008 * weight_decay(Length(steps, 400), 0.008)) == pytest.approx(3.3 * 400, rel=0.05)
    assert weight_decay(Length(100_000, 100_000), 0.008) == 0.01
    assert weight_decay(Length(100, 1), 0.001) == 1.0


@pytest.mark.parametrize("scale", [1, 100])
def test_embeddings_decay_where_the_text_is_read_many_times_however_long_a_pass_is(scale):
    def made(epochs: int) -> float:
        choices = Choices({})
        length = Length(epochs * 100 * scale, 100 * scale)
        choose_length(choices, RULES["language-modeling"], CAPTIONS, length, 0.006, is_new=True)
        return choices.made["optimizer.embedding_decay"].value

    assert made(2) == 0
    assert made(30) > 0


def test_a_step_of_few_tokens_is_not_divided_among_cores():
    for seen, replicas in ((5e5, 1), (1e8, None)):
        choices = Choices({})
        rules, text = RULES["language-modeling"], Tokens(1, 10**6, 65)
        choose_training(choices, rules, Shape(4, 128, 4, 512), text, seen, is_new=True)
        made = {name: choice.value for name, choice in choices.made.items()}
        assert made.get("training.replicas") == replicas


def test_vocabulary_grows_with_the_text_and_stays_within_its_limits():
    sizes = []
    for characters in (1e4, 1e6, 4e6, 1e9):
        choices = Choices({})
        choose_text(choices, RULES["translation"], Text(1, int(characters), 0), 1e18, "bpe")
        sizes.append(choices.made["tokenizer.vocabulary"].value)
    assert sizes == [400, 2500, 5000, 32_000]
    choices = Choices({})
    choose_text(choices, RULES["language-modeling"], Text(1, 10**6, 0), 1e13, "character")
    assert list(choices.made) == ["model.context"]


@pytest.mark.parametrize("task", RULES)
def test_every_length_of_run_is_valid(task):
    for steps in (20, 300, 10**6):
        choices = Choices({})
        choose_length(choices, RULES[task], CAPTIONS, Length(steps, 50), 0.005, is_new=True)
        made = {name: choice.value for name, choice in choices.made.items()}
        assert 0 < made["schedule.warmup_steps"] < steps
        assert math.ceil(steps / made["validation.validate_every"]) <= 5


def test_heads_divide_the_width():
    for rules in RULES.values():
        for shape in shapes(rules, {}):
            assert shape.width % shape.heads == 0
            assert 16 <= shape.width // shape.heads <= 64
        for given in ({"model.heads": 6}, {"model.width": 100}, {"architecture.key_value_heads": 3}):
            for shape in shapes(rules, given):
                assert shape.width % (2 * shape.heads) == 0
                assert shape.heads % given.get("architecture.key_value_heads", 1) == 0
                assert given.get("model.heads", shape.heads) == shape.heads
                assert given.get("model.width", shape.width) == shape.width
