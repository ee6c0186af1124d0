"""describe: the stack as a table, its counts those of the model."""

import pytest
from rich.console import Console

from regard.model.config import SIZES, ModelConfig
from regard.model.describe import describe, rows
from regard.model.transformer import build_model, count_parameters


@pytest.mark.parametrize("name", sorted(SIZES))
def test_the_rows_add_up(name):
    model = build_model(ModelConfig.named(name), device="meta")
    assert sum(row.parameters for row in rows(model)) == count_parameters(model)


def test_equal_blocks_stand_in_one_row_and_shared_weights_count_once():
    found = {row.part: row for row in rows(build_model(ModelConfig.named("tiny"), device="meta"))}
    assert found["encoder attention"].times == 4
    assert found["encoder feed forward"].shape == "expand 256 x 128 + 256, contract 128 x 256 + 128"
    assert found["head"].parameters == 0
    assert found["head"].shape.endswith("(shared)")


def test_the_table_shows_the_count_and_that_a_block_keeps_its_shape():
    console = Console(record=True, width=100)
    console.print(describe(build_model(ModelConfig.named("gpt-3"), device="meta")))
    text = console.export_text()
    assert "174,604,259,328" in text
    assert "N x 12288 in" in text
