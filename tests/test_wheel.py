"""The wheel is what users get: it is built, installed outside the checkout and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from regard.engine.choice import active_engine

PROJECT = Path(__file__).parents[1]
# One worker builds and installs the wheel for all tests of this file.
pytestmark = pytest.mark.xdist_group("wheel")
LIBRARY = f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
WITH_ENGINE = pytest.mark.skipif(active_engine()[0] == "torch", reason="the native engine was not built")
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "regard", "docs", "tests")


def run(*command: str | Path, cwd: Path, **changed: str) -> str:
    """The stdout of a command that must succeed, with nothing of the checkout on its path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | changed
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of a copy of the checkout, so that no build folder is left behind."""
    folder = tmp_path_factory.mktemp("build")
    for name in SOURCES:
        source, target = PROJECT / name, folder / "checkout" / name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    reuse_library(folder / "checkout")
    build = ("-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index")
    run(sys.executable, *build, "--wheel-dir", folder, folder / "checkout", cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def reuse_library(checkout: Path) -> None:
    """Give setuptools the compiled library of this checkout if it is newer than all that it is made of."""
    library = PROJECT / "regard" / "engine" / LIBRARY
    sources = [PROJECT / "pyproject.toml", *(PROJECT / "regard/engine/native").iterdir()]
    if not library.exists() or any(path.stat().st_mtime > library.stat().st_mtime for path in sources):
        return  # setuptools compiles it, which takes most of a minute
    build = f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    target = checkout / "build" / build / "regard" / "engine" / LIBRARY
    target.parent.mkdir(parents=True)
    shutil.copy(library, target)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The scripts folder of a fresh environment with the wheel in it.

    It borrows this environment's dependencies by path; a path added so does not bring in an
    editable install, so the checkout stays out of sight.
    """
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    paths = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    scripts, site = (Path(sysconfig.get_path(name, "venv", paths)) for name in ("scripts", "purelib"))
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "borrowed.pth").write_text("\n".join(sorted(borrowed)), encoding="utf-8")
    python = scripts / Path(sys.executable).name
    install = ("-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run(sys.executable, *install, wheel, cwd=folder)
    return scripts


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {"regard/__init__.py", "regard/py.typed", "regard/cli/app.py"} <= set(names)
    assert {name.split("/")[0] for name in names} == {
        "regard",
        f"regard-{wheel.name.split('-')[1]}.dist-info",
    }
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_every_source_file_is_in_the_wheel(wheel):
    sources = {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "regard").rglob("*.py")}
    assert sources <= set(zipfile.ZipFile(wheel).namelist())


def test_the_trained_models_are_in_the_wheel(wheel):
    models = {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "regard/demo/trained").rglob("*.*")}
    assert len(models) == 15  # three models of five files
    assert models <= set(zipfile.ZipFile(wheel).namelist())


@WITH_ENGINE
def test_the_installed_engine_is_native(wheel, installed, tmp_path):
    assert f"regard/engine/{LIBRARY}" in zipfile.ZipFile(wheel).namelist()
    report = run(installed / "regard", "doctor", cwd=tmp_path, PATH=str(installed))
    assert re.search(r"engine\W+native", report), report


def test_the_installed_demo_answers_without_training_and_without_a_compiler(installed, tmp_path):
    without_compiler = dict(PATH=str(installed), REGARD_CACHE=str(tmp_path))
    translated = run(
        installed / "regard", "translate", "demo", "I am a student", cwd=tmp_path, **without_compiler
    )
    assert translated.strip() == "Je suis étudiant"


def test_the_installed_package_is_not_the_checkout(installed):
    python = installed / Path(sys.executable).name
    printed = run(python, "-c", "import regard; print(regard.__file__, regard.__version__)", cwd=installed)
    place, version = printed.split()
    assert Path(place).is_relative_to(installed.parents[0])
    assert version == "0.1.0"


def test_the_installed_command_works(installed):
    assert "describe" in run(installed / "regard", "--help", cwd=installed)
    assert "encoder" in run(installed / "regard", "describe", "tiny", cwd=installed)
