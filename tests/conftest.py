from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.children import BLAS_THREADS, LIMIT

# BLAS on one thread: its threads spin while they wait, for minutes where others compute as well.
# It reads this when NumPy is imported, here and in all processes that tests start.
os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))

import hypothesis
import pytest
import threadpoolctl

# What is printed has the colours and the width of a pipe, also where the tests are run by GitHub,
# or by someone who asks for others.
for name in ("COLUMNS", "LINES", "FORCE_COLOR", "GITHUB_ACTIONS", "NO_COLOR", "PY_COLORS"):
    os.environ.pop(name, None)

# The first example of a test may compile: no deadline. Examples are the same in every run, also
# where other modules were imported before: newer versions of Hypothesis would draw the numbers
# that they find in these. On a busy machine they take long to draw.
SLOWLY = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile(
    "aesvm", deadline=None, derandomize=True, max_examples=150, suppress_health_check=SLOWLY
)
#: Of `make fuzz`: other examples in every run, and many of them.
hypothesis.settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=500,
    print_blob=True,
    suppress_health_check=SLOWLY,
)
hypothesis.settings.load_profile("aesvm")
with suppress(ImportError):
    from hypothesis.internal.conjecture import providers

    providers._get_local_constants = lambda: providers._local_constants

HERE = Path(__file__).parent

#: Folders and files whose tests start clusters and programs, and those in which rounding has a
#: part. A test that is slow by itself says so where it stands.
SLOW = (
    *("dask", "runtime/test_backends.py", "benchmarks/test_demo.py", "command/test_program.py"),
    *("out_of_core/test_streamed_family.py", "scikit_learn/test_twins.py"),
)
NUMERICAL = (
    *("bases", "certificate", "formulations", "inspection", "kernels", "machines", "sets"),
    "solver",
    *("out_of_core/test_part.py", "out_of_core/test_streamed_spans.py", "test_svc.py"),
)
assert all((HERE / name).exists() for name in SLOW + NUMERICAL)


def pytest_ignore_collect(collection_path, config):
    """Of `-m "numerical ..."` no other files are imported: that takes as long as some of them."""
    if not config.option.markexpr.startswith("numerical") or collection_path.is_dir():
        return None
    return True if not _is_in(collection_path, NUMERICAL) else None


def pytest_collection_modifyitems(items):
    marked = (
        (SLOW, pytest.mark.slow),
        (NUMERICAL, pytest.mark.numerical),
        (("dask",), pytest.mark.timeout(2 * LIMIT)),  # what is lost on a cluster never comes
    )
    for item in items:
        for names, marker in marked:
            if _is_in(item.path, names):
                item.add_marker(marker)


def _is_in(path, names):
    return any(path.is_relative_to(HERE / name) for name in names)


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """Where NumPy was imported before this file."""
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield
