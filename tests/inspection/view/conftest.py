"""The view's modules run by node, so that their numbers can be compared with Python's."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.inspection.render.bundle import VIEW

NODE = shutil.which("node")


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the modules that node takes for what they are."""
    if NODE is None:
        pytest.skip("node is not installed, so the view's arithmetic is not compared with Python's here")
    folder = tmp_path_factory.mktemp("view")
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    shutil.copytree(VIEW, folder, dirs_exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def run(modules: Path) -> Callable[..., Any]:
    """Give a module's names and `asked` to an expression; what it comes to, through JSON.

    An Error that it throws comes back as {"error": its message}.
    """

    def run_it(module: str, expression: str, **asked: Any) -> Any:
        script = f"""
            import * as it from "./{module}";
            const asked = JSON.parse(process.argv.at(-1));
            const spell = (name, value) => ArrayBuffer.isView(value) ? Array.from(value)
              : value instanceof Set ? [...value] : value === -Infinity ? "-inf" : value;
            let told;
            try {{ told = {expression}; }} catch (error) {{ told = {{ error: error.message }}; }}
            console.log(JSON.stringify(told, spell));
        """
        command = [str(NODE), "--input-type=module", "-e", script, "--", json.dumps(asked)]
        done = subprocess.run(command, cwd=modules, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run_it
