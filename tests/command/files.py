"""Data files for tests of the command line, and the program run in this process."""

from __future__ import annotations

import io
import json
import sys
from typing import NamedTuple

import numpy as np

from aesvm.command.main import main

#: What runs the program, as a process.
PROGRAM = "from aesvm.command.main import start; start()"


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def run(capsys, *arguments, stdin=None, monkeypatch=None) -> Ended:
    """Run the program, and return what it printed."""
    if stdin is not None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    capsys.readouterr()
    code = main([str(one) for one in arguments])
    out, err = capsys.readouterr()
    return Ended(code, out, err)


def done(capsys, *arguments, **others) -> Ended:
    """Run the program, which must end well."""
    ended = run(capsys, *arguments, **others)
    assert ended.code == 0, ended.err
    return ended


def libsvm_text(X, y) -> str:
    lines = []
    for row, label in zip(X, y, strict=True):
        pairs = " ".join(f"{at + 1}:{value!r}" for at, value in enumerate(row.tolist()) if value)
        lines.append(f"{label:g} {pairs}\n")
    return "".join(lines)


def heart_like(n=120, seed=0):
    """Two classes, +1 and -1, that overlap; whole numbers and measurements, some of them zero."""
    random = np.random.default_rng(seed)
    y = random.choice([-1, 1], n)
    X = random.normal(0.3 * y[:, None], 1.0, (n, 6)).round(4)
    X[:, :2] = random.integers(-1, 2, (n, 2))
    return X, y


def many_classes(n=150, seed=1):
    random = np.random.default_rng(seed)
    y = random.choice([7, 2, -3, 5], n)
    return random.normal(0.4 * y[:, None] * [1, -1, 0.5], 1.0).round(4), y


def values(n=120, seed=2):
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (n, 3)).round(4)
    return X, (np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + random.normal(0, 0.1, n)).round(4)


def sparse_rows(n=120, seed=3):
    random = np.random.default_rng(seed)
    y = random.choice([1, 0], n)
    X = random.normal(y[:, None], 1.0, (n, 40)).round(4)
    return np.where(random.random(X.shape) < 0.15, X, 0.0), y


def outliers(n=120, seed=4):
    X = np.random.default_rng(seed).normal(0, 1, (n, 3)).round(4)
    return X, np.ones(n)


def csv_text(X, y, target="kind", names=None) -> str:
    names = names or [f"f{at}" for at in range(X.shape[1])]
    lines = [",".join([*names, target])]
    lines += [
        ",".join([*map(repr, row), str(label)]) for row, label in zip(X.tolist(), y, strict=True)
    ]
    return "\n".join(lines) + "\n"
