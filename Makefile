# make demo    see the model work        make test    lint, types and every test
# Both make .venv on first use. PYTHON=python3.12 chooses another Python.

PYTHON ?= python3
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif
PIP := $(BIN)/python -m pip install -c constraints.txt

.PHONY: demo test lint format browser coverage

demo: .venv/installed
	$(BIN)/regard demo

test: lint browser
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# The share of lines that the tests run, child processes included; slower than make test.
coverage: .venv/installed-for-tests browser
	$(BIN)/python -m coverage run -m pytest -n 2 --dist loadgroup
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --skip-covered --sort=cover

browser: .venv/installed-for-tests
	@$(BIN)/python -m tests.studio.chromium

lint: .venv/installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python tools/view/check.py

format: .venv/installed-for-tests
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch comes first and alone, so that a build of it that you put into .venv yourself is kept.
.venv/installed: pyproject.toml constraints.txt $(wildcard regard/engine/native/*)
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Regard needs Python 3.11 or newer, and $(PYTHON) is %d.%d; try make PYTHON=python3.11' % sys.version_info[:2])"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) torch setuptools
	$(PIP) --no-build-isolation -e .
	@touch $@

.venv/installed-for-tests: .venv/installed
	$(PIP) --no-build-isolation -e ".[test]"
	@touch $@
