# Each target makes .venv and installs what it needs, when missing or older than pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin

# Tests run on as many cores as there are, up to four; those of a file one after the other.
PYTEST_ON_CORES := -m pytest -n logical --maxprocesses 4 --dist loadfile

# The processor that other-target compiles for, and whose BLAS it uses: these every x86-64 has.
TARGET ?= generic
BLAS ?= Prescott

.PHONY: demo test test-all quick fuzz test-gpu bench-gpu test-oldest other-target lint format docs docs-figures bench paper dist test-dist clean

demo: .venv/.with-cli
	$(BIN)/python examples/demo.py

test: .venv/.with-dev
	$(BIN)/python $(PYTEST_ON_CORES) -m "not weekly"

# Also the tests that take longest, and prove little that others do not.
test-all: .venv/.with-dev
	$(BIN)/python $(PYTEST_ON_CORES)

# All but the tests that start clusters, long fits and programs.
quick: .venv/.with-dev
	$(BIN)/python $(PYTEST_ON_CORES) -m "not slow and not weekly"

# Tests marked fuzz, again and again for some time: other examples each time, and many. The seed
# that is printed makes them again. A damaged file must not make a library ask for 16 GB.
FUZZ_SECONDS ?= 300
fuzz: .venv/.with-dev
	@ulimit -v 16777216; end=$$(($$(date +%s) + $(FUZZ_SECONDS))); \
	while [ $$(date +%s) -lt $$end ]; do \
		seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); echo "--hypothesis-seed=$$seed"; \
		$(BIN)/python $(PYTEST_ON_CORES) -m fuzz --hypothesis-profile=fuzz --hypothesis-seed=$$seed \
			$(PYTEST) || exit 1; \
	done

# The numerical tests as they run on another processor, whose sums and exponentials have other last
# digits: what NumPy has for newer processors alone is switched off, too.
other-target: .venv/.with-dev
	@case $$(uname -m) in x86_64|amd64) ;; *) echo "other-target: only on x86-64; skipped"; exit 0 ;; esac; \
	cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && \
	newer=$$($(BIN)/python -c "from numpy._core import _multiarray_umath as m; print(*(name for name in \
		m.__cpu_dispatch__ if m.__cpu_features__[name]))") && \
	echo "NUMBA_CPU_NAME=$(TARGET) OPENBLAS_CORETYPE=$(BLAS) NPY_DISABLE_CPU_FEATURES=$$newer" && \
	NUMBA_CPU_NAME=$(TARGET) NUMBA_CPU_FEATURES= OPENBLAS_CORETYPE=$(BLAS) NUMBA_CACHE_DIR="$$cache" \
		NPY_DISABLE_CPU_FEATURES="$$newer" \
		$(BIN)/python $(PYTEST_ON_CORES) -m "numerical and not slow and not weekly" $(or $(PYTEST),tests)

# The quick tests with the oldest versions that pyproject.toml allows, in an environment of their own.
test-oldest: .venv-oldest/.with-dev
	.venv-oldest/bin/python $(PYTEST_ON_CORES) -m "not slow and not weekly" $(PYTEST)

.venv-oldest/.with-dev: pyproject.toml tests/oldest_versions.py
	$(PYTHON) -m venv --clear .venv-oldest
	$(PYTHON) tests/oldest_versions.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint .venv-oldest/constraints.txt --editable ".[dev]"
	touch $@

# The tests that need a GPU, and those that do not, of the code for GPUs; what it takes on one.
test-gpu: .venv/.with-dev .venv/.with-gpu
	$(BIN)/python -m pytest tests/gpu $(PYTEST)

bench-gpu: .venv/.with-bench .venv/.with-gpu
	$(BIN)/python -m benchmarks.gpu $(BENCH)

lint: .venv/.with-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.with-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, in docs/_build/html: every example of the gallery is run, and a warning, as of a link
# that leads nowhere, is an error.
docs: .venv/.with-docs
	rm -rf docs/generated
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Outputs, charts and tables of README and of the site, from runs: the code of pages, recorded
# measurements (benchmarks/recorded), and screens of a terminal in which the program runs.
docs-figures: .venv/.with-dev .venv/.with-docs
	$(BIN)/python -m benchmarks.pictures docs
	$(BIN)/python -m benchmarks.command_screens
	$(BIN)/python -m benchmarks.pages

# What is published: an sdist and a wheel, in dist. The index must be able to render README.
dist: .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# The quick tests with the wheel installed, and nothing of this folder but the tests.
test-dist: dist
	$(PYTHON) -m venv --clear .venv-dist
	.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[dev]"
	.venv-dist/bin/python $(PYTEST_ON_CORES) tests -m "not slow and not weekly" $(PYTEST)

# AESVM_DATA, or BENCH="--data-dir ...", says where the real datasets are.
bench: .venv/.with-bench
	$(BIN)/python -m benchmarks $(BENCH)

# The paper's experiments, and a report in docs/paper/quick; PAPER="--scale full ..." for more.
paper: .venv/.with-bench
	$(BIN)/python -m experiments.paper $(PAPER)

.venv/.with-%: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "aesvm needs Python 3.11 or later: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv .venv-oldest .venv-dist build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/_build docs/gallery docs/generated docs/sg_execution_times.rst
