"""Files that commands are tried on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.command import files


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of names, with features on very different scales."""
    monkeypatch.chdir(tmp_path)
    X, y = files.heart_like(200)
    X = X * [1, 1, 1, 1, 1000, 1] + [0, 0, 0, 0, 5000, 0]
    path = tmp_path / "rows.csv"
    path.write_text(files.csv_text(X, np.where(y > 0, "sick", "well")))
    return path, X, np.where(y > 0, "sick", "well")


@pytest.fixture
def heart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = files.heart_like()
    path = tmp_path / "heart"
    path.write_text(files.libsvm_text(X, y))
    return path, X, y


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, which programs start in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
