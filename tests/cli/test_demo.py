"""`regard demo`: a forward pass, and no claim that it knows anything."""

from __future__ import annotations

from regard.cli.app import run


def test_the_demo_shows_a_forward_pass_and_says_it_is_untrained(capsys):
    assert run(["demo"]) == 0
    printed = capsys.readouterr().out
    assert "(1, 6, 1000)" in printed
    assert "random and know nothing" in printed
