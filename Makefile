# Each target makes .venv and installs what it needs, when missing or older than pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint format bench paper clean

demo: .venv/.with-plot
	$(BIN)/python examples/demo.py

test: .venv/.with-dev
	$(BIN)/python -m pytest

lint: .venv/.with-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.with-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# AESVM_DATA, or BENCH="--data-dir ...", says where the real datasets are.
bench: .venv/.with-bench
	$(BIN)/python -m benchmarks $(BENCH)

# The paper's experiments, and a report in docs/paper; PAPER="--scale full ..." for more.
paper: .venv/.with-bench
	$(BIN)/python -m benchmarks.paper $(PAPER)

.venv/.with-%: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "aesvm needs Python 3.11 or later: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
