"""Damaged data files: an error in one line, or the model of what the file says now."""

from __future__ import annotations

import json
from math import isfinite

import numpy as np
import pytest

from aesvm import AESVC
from tests.command import files
from tests.command.files import run

N_FILES = 250  # of each of four formats


def small():
    X, y = files.heart_like(24, seed=5)
    return X[:, 1:4], y


def write_libsvm(path):
    path.write_text(files.libsvm_text(*small()))


def write_csv(path):
    path.write_text(files.csv_text(*small()))


def write_npy(path):
    X, y = small()
    np.save(path, np.column_stack([X, y]))


def write_parquet(path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    X, y = small()
    columns = {f"f{at}": column for at, column in enumerate(X.T)} | {"kind": y}
    pq.write_table(pa.table(columns), path)


def read_libsvm(path):
    """Rows and classes, read in the plainest way."""
    pairs, labels = [], []
    for line in path.read_bytes().decode("latin-1").split("\n"):
        label, *fields = line.split("#")[0].split() or [None]
        if label is None:
            continue
        labels.append(float(label))
        if fields and fields[0].startswith("qid:"):
            fields = fields[1:]
        pairs.append({int(at): float(value) for at, value in (one.split(":") for one in fields)})
    width = max(max(row, default=1) for row in pairs)
    if width > 1000:
        return None, None  # gamma is 1 / width, and the matrix too wide to write down
    X = np.zeros((len(pairs), width))
    for at, row in enumerate(pairs):
        X[at, [index - 1 for index in row]] = list(row.values())
    return X, np.array(labels)


def read_csv(path):
    pd = pytest.importorskip("pandas")
    found = pd.read_csv(path, skipinitialspace=True)
    return found.drop(columns="kind").to_numpy(), found["kind"].to_numpy()


def read_npy(path):
    found = np.load(path)
    return found[:, :3], found[:, 3]


def read_parquet(path):
    pd = pytest.importorskip("pandas")
    found = pd.read_parquet(path)
    return found.drop(columns="kind").to_numpy(), found["kind"].to_numpy()


KINDS = {
    "rows": (write_libsvm, read_libsvm, []),
    "rows.csv": (write_csv, read_csv, ["--target", "kind"]),
    "rows.npy": (write_npy, read_npy, ["--target", "3"]),
    "rows.parquet": (write_parquet, read_parquet, ["--target", "kind"]),
}


def damaged(content: bytes, draw: np.random.Generator) -> bytes:
    """Some bytes flipped, or the file cut short."""
    if draw.random() < 0.3:
        return content[: draw.integers(len(content))]
    changed = bytearray(content)
    for _ in range(draw.integers(1, 4)):
        changed[draw.integers(len(changed))] ^= 1 << draw.integers(8)
    return bytes(changed)


@pytest.mark.weekly
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_errors_or_read_as_they_are(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write, read, target = KINDS[name]
    path = tmp_path / name
    write(path)
    content = path.read_bytes()
    draw = np.random.default_rng(7)
    n_errors = n_right = 0
    for trial in range(N_FILES):
        path.write_bytes(damaged(content, draw))
        ended = run(capsys, "train", "--json", path, "model", *target)
        assert ended.code in (0, 1, 2), (trial, ended.err)
        if ended.code:
            n_errors += 1
            assert [one.name for one in tmp_path.iterdir()] == [name], trial
            *warnings, last = ended.err.splitlines()
            assert last.startswith("aesvm: "), (trial, ended.err)
            assert all(one.startswith("aesvm: warning: ") for one in warnings), (trial, ended.err)
            assert json.loads(ended.out)["exit_code"] == ended.code
            continue
        n_right += 1
        found = json.loads(ended.out)
        (tmp_path / "model").unlink()
        X, y = read(path)
        if X is None:
            continue
        assert np.isfinite(X).all(), trial
        expected = AESVC(gamma=1 / X.shape[1]).fit(X, y)
        ours = sum(machine["obj"] for machine in found["machines"])
        assert isfinite(ours), trial
        assert ours == pytest.approx(-expected.dual_objective_.sum(), rel=1e-2, abs=1e-6), trial
    assert n_errors > N_FILES // 10
    assert n_right > 0
