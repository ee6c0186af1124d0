"""The built-in corpus, made once for all tests of the room."""

from __future__ import annotations

import pytest

from regard.demo.corpus import built_in


@pytest.fixture(scope="session")
def built():
    return built_in()


@pytest.fixture(scope="session")
def everything(built):
    """Every pair that training or a held-out part holds."""
    return [*built.train, *built.valid, *built.test]
