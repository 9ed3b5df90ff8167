"""A search that was interrupted goes on from its file, and ends as an undisturbed one."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
import warnings
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import KFold
from sklearn.preprocessing import FunctionTransformer

from aesvm import AESVC, AESVR
from aesvm.model_selection import AEGridSearchCV, AEHalvingGridSearchCV, evaluation
from aesvm.model_selection.checkpoint import Checkpoint
from aesvm.model_selection.digests import digest_of
from tests import children

GRID = {"C": [0.1, 1.0, 10.0], "gamma": [0.3, 1.0, 3.0]}

PROGRAM = """
import sys
from sklearn.datasets import make_moons
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import KFold
from aesvm import AESVC
from aesvm.model_selection import AEGridSearchCV, evaluation

path, pause = sys.argv[1:]
if pause == "pause":
    import time
    plain, calls = evaluation._fitted, []
    def until_killed(*args):
        calls.append(args)
        if len(calls) > 10:
            time.sleep(3600)
        return plain(*args)
    evaluation._fitted = until_killed
X, y = make_moons(300, noise=0.25, random_state=0)
grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.3, 1.0, 3.0]}
search = AEGridSearchCV(AESVC(), grid, cv=3, resume=path).fit(X, y)
print(search.cv_results_["mean_test_score"].tolist())
"""


@pytest.fixture(scope="module")
def moons():
    return make_moons(300, noise=0.25, random_state=0)


def search(path, **options):
    options = {"cv": 3, "refit": False, **options}
    return AEGridSearchCV(AESVC(), GRID, resume=path, **options)


def n_kept(path):
    return len(json.loads(path.read_bytes().splitlines()[1])["results"])


@pytest.mark.slow
def test_a_killed_search_ends_with_the_scores_of_an_undisturbed_one(tmp_path):
    undisturbed = children.run(children.code(PROGRAM, tmp_path / "whole", "no"))
    path = tmp_path / "killed"
    with children.started(
        children.code(PROGRAM, path, "pause"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        ends = time.monotonic() + children.LIMIT
        while not path.exists() or n_kept(path) < 9:
            assert process.poll() is None
            assert time.monotonic() < ends
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert n_kept(path) == 9  # the fits of every chain that was done
    assert children.run(children.code(PROGRAM, path, "no")) == undisturbed
    assert n_kept(path) == 27
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "whole"]  # nothing half-written


def test_what_is_known_is_not_fitted_again(moons, tmp_path, monkeypatch):
    path = tmp_path / "file"
    first = search(path, return_train_score=True).fit(*moons)
    monkeypatch.setattr(evaluation, "_fitted", lambda *_: pytest.fail("it was fitted again"))
    again = search(str(path), return_train_score=True).fit(*moons)
    for name in first.cv_results_:
        if name != "params":
            assert_array_equal(
                np.ma.getdata(first.cv_results_[name]), np.ma.getdata(again.cv_results_[name])
            )


def test_an_interrupted_search_keeps_every_chain_that_is_done(moons, tmp_path, monkeypatch):
    path, plain, calls = tmp_path / "file", evaluation._fitted, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return plain(*args)

    monkeypatch.setattr(evaluation, "_fitted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search(path).fit(*moons)
    assert n_kept(path) == 6
    monkeypatch.setattr(evaluation, "_fitted", plain)
    resumed = search(path).fit(*moons)
    whole = AEGridSearchCV(AESVC(), GRID, cv=3, refit=False).fit(*moons)
    assert_array_equal(resumed.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"])


@pytest.mark.parametrize("name", ["C", "gamma"])
def test_candidates_may_be_added(moons, tmp_path, monkeypatch, name):
    path, plain, fits = tmp_path / "file", evaluation._fitted, []
    search(path).fit(*moons)
    monkeypatch.setattr(evaluation, "_fitted", lambda *args: fits.append(1) or plain(*args))
    wider = search(path).set_params(param_grid={**GRID, name: [*GRID[name], 100.0]})
    assert len(wider.fit(*moons).cv_results_["params"]) == 12
    assert len(fits) == 9
    assert n_kept(path) == 36


def test_what_is_known_from_the_file_is_said(moons, tmp_path, capsys):
    path = tmp_path / "file"
    search(path).fit(*moons)
    wider = search(path, verbose=1).set_params(param_grid={**GRID, "gamma": [*GRID["gamma"], 9.0]})
    wider.fit(*moons)
    assert f"27 of 36 fits are known from {path}" in capsys.readouterr().out


def test_a_file_of_other_folds_is_said(moons, tmp_path):
    path = tmp_path / "file"
    for seed in (0, 1):
        folds = KFold(3, shuffle=True, random_state=seed)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            search(path, cv=folds).fit(*moons)
        told = [one for one in said if "none of these candidates" in str(one.message)]
        assert len(told) == seed


def test_folds_that_differ_in_their_test_rows_alone_are_told_apart(moons, tmp_path):
    train, path = np.arange(100), tmp_path / "search.json"
    cv = [(train, np.arange(100, 200)), (train, np.arange(200, 260))]
    whole = search(None, cv=cv).fit(*moons).cv_results_
    for _ in range(2):  # fitted, and read from the file
        found = search(path, cv=cv).fit(*moons).cv_results_
        for name in ("split0_test_score", "split1_test_score"):
            assert_array_equal(found[name], whole[name])
    assert (whole["split0_test_score"] != whole["split1_test_score"]).any()


def test_threads_may_change(moons, tmp_path, monkeypatch):
    path = tmp_path / "file"
    search(path).fit(*moons)
    monkeypatch.setattr(evaluation, "_fitted", lambda *_: pytest.fail("it was fitted again"))
    search(path).set_params(estimator__n_jobs=2, estimator__verbose=1).fit(*moons)


def test_halving_is_resumed_too(moons, tmp_path, monkeypatch):
    path = tmp_path / "file"
    options = {"cv": 3, "refit": False, "resume": path, "random_state": 0}
    first = AEHalvingGridSearchCV(AESVC(), GRID, **options).fit(*moons)
    monkeypatch.setattr(evaluation, "_fitted", lambda *_: pytest.fail("it was fitted again"))
    again = AEHalvingGridSearchCV(AESVC(), GRID, **options).fit(*moons)
    assert_array_equal(first.cv_results_["mean_test_score"], again.cv_results_["mean_test_score"])


def test_fits_that_failed_are_tried_again(moons, tmp_path, monkeypatch):
    path, plain = tmp_path / "file", AESVC.fit
    options = {"cv": 3, "refit": False, "resume": path}

    def short_of_memory(self, *args, **params):
        if self.C == 1.0:
            raise MemoryError("for a while")
        return plain(self, *args, **params)

    monkeypatch.setattr(AESVC, "fit", short_of_memory)
    with pytest.warns(FitFailedWarning, match="3 fits failed"):
        found = AEGridSearchCV(AESVC(), {"C": [0.1, 1.0]}, **options).fit(*moons)
    assert_array_equal(np.isnan(found.cv_results_["mean_test_score"]), [False, True])
    fits = []
    monkeypatch.setattr(AESVC, "fit", lambda self, *args: fits.append(self.C) or plain(self, *args))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = AEGridSearchCV(AESVC(), {"C": [0.1, 1.0]}, **options).fit(*moons)
    assert fits == 3 * [1.0]
    assert not np.isnan(found.cv_results_["mean_test_score"]).any()


def test_two_searches_that_write_one_file_keep_the_results_of_both(moons, tmp_path, monkeypatch):
    path, plain, begun = tmp_path / "file", evaluation._fitted, []

    def meanwhile(*args):
        if not begun:  # a search of other candidates has come and gone before this fit is done
            begun.append(1)
            other = search(path).set_params(param_grid={"C": [5.0], "gamma": [1.0]})
            other.fit(*moons)
        return plain(*args)

    monkeypatch.setattr(evaluation, "_fitted", meanwhile)
    search(path).fit(*moons)
    assert n_kept(path) == 30


def test_the_file_of_another_search_that_came_meanwhile_is_left(moons, tmp_path, monkeypatch):
    path, plain, content = tmp_path / "file", evaluation._fitted, []

    def meanwhile(*args):
        if not content:
            content.append(b"")
            search(path, scoring="roc_auc").fit(*moons)
            content[0] = path.read_bytes()
        return plain(*args)

    monkeypatch.setattr(evaluation, "_fitted", meanwhile)
    with pytest.raises(ValueError, match="another search, with another scoring"):
        search(path).fit(*moons)
    assert path.read_bytes() == content[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": 1}, "another X"),
        ({"y": 1}, "another y"),
        ({"estimator__tol": 1e-5}, "another value of the estimator's tol"),
        ({"estimator": AESVR()}, "another estimator: name"),  # and not all of its parameters
        (
            {f"estimator__{name}": 2 for name in ("tol", "degree", "coef0", "subset_size")},
            "another value of the estimator's coef0, the estimator's degree, .* and 1 more",
        ),
        ({"scoring": "roc_auc"}, "another scoring"),
        ({"return_train_score": True}, "return_train_score"),
        ({"sample_weight": 1}, "other parameters of fit"),
    ],
)
def test_the_file_of_another_search_is_refused(moons, tmp_path, change, message):
    path = tmp_path / "file"
    search(path).fit(*moons)
    before = path.read_bytes()
    X, y = moons
    params = {}
    if "X" in change:
        X = X + 1e-9
    elif "y" in change:
        y = 1 - y
    elif "sample_weight" in change:
        params = {"sample_weight": np.ones(len(y))}
    other = search(path)
    if not {"X", "y", "sample_weight"} & set(change):
        other.set_params(**change)
    with pytest.raises(ValueError, match=f"another search, with .*{message}"):
        other.fit(X, y, **params)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04\x95", b"{}", b"a,b\n1,2\n", b"[1]\n{}", b"3", 200_000 * b"["]
)
def test_a_foreign_file_is_refused_and_left(moons, tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="was not written by a search"):
        search(path).fit(*moons)
    assert path.read_bytes() == content


def test_every_corrupt_file_is_refused(moons, tmp_path):
    path = tmp_path / "file"
    search(path).fit(*moons)
    content = path.read_bytes()
    draw = np.random.default_rng(0)
    for _ in range(200):
        at = int(draw.integers(len(content)))
        spoiled = bytearray(content)
        spoiled[at] ^= int(draw.integers(1, 256))
        for other in (bytes(spoiled), content[:at]):
            path.write_bytes(other)
            if other.removesuffix(b"\n") == content.removesuffix(b"\n"):
                continue
            with pytest.raises(ValueError, match=r"resume=.*(corrupt|not written|version)"):
                Checkpoint(path, {})


def test_a_newer_file_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text(json.dumps({"format": "aesvm search", "version": 2}) + "\n{}\n")
    with pytest.raises(ValueError, match="version 2 of the format, and this is 1"):
        Checkpoint(path, {})


def functions_of(text, name="score"):
    """A function of a module that was edited."""
    module = {"__name__": "edited"}
    exec(text, module)
    return module[name]


SCORE = "def score(model, X, y):\n    return {}\n"


def test_a_scoring_function_that_was_edited_is_another_scoring(moons, tmp_path):
    path = tmp_path / "file"
    for _ in range(2):
        first = search(path, scoring=functions_of(SCORE.format(0.25))).fit(*moons)
        assert (first.cv_results_["mean_test_score"] == 0.25).all()
    with pytest.raises(ValueError, match="another scoring"):
        search(path, scoring=functions_of(SCORE.format(0.75))).fit(*moons)


HELPER = "def helper(x):\n    return x {}\n\ndef score(x):\n    return helper(x)\n"
LIMIT = "LIMIT = {}\n\ndef score(x):\n    return x > LIMIT\n"
DEFAULT = "def score(x, least={}):\n    return x > least\n"
CLOSURE = "def make(n):\n    return lambda x: x + n\n\nscore = make({})\n"
CLASS = "class Score:\n    def __call__(self, x):\n        return x {}\n\nscore = Score()\n"
NESTED = "def score(x):\n    return [one {} for one in x]\n"


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (HELPER, "+ 1", "- 1"),
        (LIMIT, 0.5, 0.6),
        (DEFAULT, 1, 1.5),
        (CLOSURE, 1, 2),
        (CLASS, "+ 1", "+ 2"),
        (NESTED, "+ 1", "* 1"),
        (SCORE, "y in {'a', 'b'}", "y in {'a', 'c'}"),
    ],
)
def test_functions_are_told_by_what_they_do(text, one, other):
    kept, edited = (functions_of(text.replace("{}", str(value))) for value in (one, other))
    moved = functions_of("# a comment\n\n\n" + text.replace("{}", str(one)))
    for wrapped in (lambda f: f, FunctionTransformer, partial):
        digests = [digest_of("a function", wrapped(f)) for f in (kept, moved, edited)]
        assert digests[0] == digests[1] != digests[2]


def test_digests_are_the_same_in_every_process():
    code = (
        "from aesvm.model_selection.digests import digest_of\n"
        "names = frozenset(map(str, range(9)))\n"
        "def score(x): return x in {'a', 'b', 'c', 'd'} and names\n"
        "print(digest_of('scoring', score))"
    )
    found = {
        children.run(children.code(f"SEED = {seed}\n" + code), env={"PYTHONHASHSEED": str(seed)})
        for seed in (1, 2)
    }
    assert len(found) == 1


def test_what_cannot_be_told_apart_is_refused(moons, tmp_path):
    scoring = functions_of("def make(lock):\n    return lambda *_: lock", "make")(Lock())
    with pytest.raises(ValueError, match="scoring holds something that cannot be pickled"):
        search(tmp_path / "file", scoring=scoring).fit(*moons)


@pytest.mark.parametrize(
    "body",
    [
        {"search": [1], "results": 3},
        {"search": {}, "results": {"key": {}}},
        {"search": {}, "results": {"key": {"fit_error": None, "test_scores": "high"}}},
    ],
)
def test_a_body_of_another_form_is_refused(tmp_path, body):
    text = json.dumps(body)
    head = {"format": "aesvm search", "version": 1}
    head["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (tmp_path / "file").write_text(f"{json.dumps(head)}\n{text}\n")
    with pytest.raises(ValueError, match="corrupt"):
        Checkpoint(tmp_path / "file", {})


def test_a_file_that_cannot_be_written_is_said_before_any_fit(moons, tmp_path, monkeypatch):
    def refused(self, *_):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(evaluation, "_fitted", lambda *_: pytest.fail("it was fitted"))
    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(ValueError, match=r"resume=.* cannot be written to: .*Permission denied"):
        search(tmp_path / "file").fit(*moons)


def test_a_folder_and_a_missing_folder_are_named(moons, tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        search(tmp_path).fit(*moons)
    with pytest.raises(ValueError, match="there is no folder"):
        search(Path(tmp_path) / "none" / "file").fit(*moons)
