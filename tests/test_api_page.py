"""docs/api.md is what docs/api.py writes from the source, and every public name is documented."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import regard

PROJECT = Path(__file__).parents[1]


def load_writer():
    """docs/api.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("api_page", PROJECT / "docs" / "api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


writer = load_writer()


def test_the_page_is_what_the_source_says():
    assert (PROJECT / "docs" / "api.md").read_text(encoding="utf-8") == writer.page(), (
        "run python docs/api.py"
    )


def test_every_public_name_and_method_has_a_docstring():
    owners = {name: getattr(regard, name) for name in regard.__all__}
    methods = {
        f"{name}.{method}": function
        for name, owner in owners.items()
        if inspect.isclass(owner)
        for method, function in writer.public_methods(owner)
    }
    assert [name for name, value in {**owners, **methods}.items() if not inspect.getdoc(value)] == []


def test_a_long_signature_has_a_parameter_on_each_line():
    def function(
        first: int, *, second_with_a_long_name: str = "x", third_with_a_longer_name: int = 0
    ) -> None:
        pass

    shown = writer.shown("a_function_with_a_long_name", inspect.signature(function))
    assert shown.splitlines()[1:3] == ["    first: int,", "    *,"]
    assert shown.endswith(") -> None")
