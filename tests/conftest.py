from __future__ import annotations

import os
import random
from pathlib import Path

from tests.children import BLAS_THREADS

# BLAS on one thread: its threads spin while they wait, for minutes where others compute as well.
# It reads this when NumPy is imported, here and in all processes that tests start.
os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))

import hypothesis
import pytest
import threadpoolctl

# The first example of a test may compile: no deadline. Examples are the same in every run.
hypothesis.settings.register_profile("aesvm", deadline=None, derandomize=True, max_examples=150)
hypothesis.settings.load_profile("aesvm")

#: Whole files that start clusters, and those in which rounding has a part. A test that is slow by
#: itself says so where it stands.
SLOW = {"test_backends", "test_dask", "test_demo"}
NUMERICAL = {
    *("test_baselines", "test_cpsp", "test_dask", "test_expansion", "test_hull", "test_kernels"),
    *("test_lasvm", "test_partition", "test_parts", "test_primal", "test_refine"),
    *("test_representative", "test_rounds", "test_smo", "test_streamed_svc", "test_streaming"),
    "test_svc",
}
assert all(Path(__file__).with_name(f"{name}.py").exists() for name in SLOW | NUMERICAL)


def pytest_addoption(parser):
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="files, and the tests in each, in another order"
    )


def pytest_collection_modifyitems(config, items):
    seed = config.getoption("--shuffle")
    if seed is not None:
        draw = random.Random(seed)
        draw.shuffle(items)
        places = {path: draw.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: places[item.path])
    for item in items:
        for names, marker in ((SLOW, pytest.mark.slow), (NUMERICAL, pytest.mark.numerical)):
            if item.path.stem in names:
                item.add_marker(marker)


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """Where NumPy was imported before this file."""
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        yield
