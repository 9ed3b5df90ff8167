"""Progress goes through scikit-learn's callbacks; an interrupt is answered within a second."""

from __future__ import annotations

import statistics
import subprocess
import time

import numpy as np
import pytest

from aesvm import AESVC, RepresentativeSet
from aesvm.estimators.fitting import fit_task
from aesvm.machines import trainer
from aesvm.runtime.progress import Ending
from tests import children
from tests.plans import set_limits, set_table
from tests.progress_bar import ProgressBar


class Recorder:
    """Counts tasks begun and ended, by name."""

    def __init__(self):
        self.begun, self.ended, self.expected = {}, {}, {}

    def setup(self, estimator, context):
        self.torn_down = False

    def on_fit_task_begin(self, estimator, context):
        self.begun[context.task_name] = self.begun.get(context.task_name, 0) + 1
        self.expected[context.task_name] = context.max_subtasks

    def on_fit_task_end(self, estimator, context):
        self.ended[context.task_name] = self.ended.get(context.task_name, 0) + 1

    def teardown(self, estimator, context):
        self.torn_down = True


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_partition_and_subsets_are_reported_as_tasks(n_jobs):
    X = np.random.default_rng(0).uniform(size=(9000, 2))
    recorder = Recorder()
    rs = RepresentativeSet(gamma=1.0, subset_size=200, partition_size=3000, n_jobs=n_jobs)
    rs.set_callbacks(recorder).fit(X, X[:, 0] > 0.5)
    assert recorder.begun == recorder.ended
    assert recorder.begun["fit"] == recorder.begun["partition"] == recorder.begun["subsets"] == 1
    assert recorder.expected["fit"] == 2
    assert recorder.begun["piece"] == recorder.expected["partition"] == 4
    assert recorder.begun["batch"] == recorder.expected["subsets"] == rs.n_subsets_
    assert recorder.torn_down


def test_there_are_never_too_many_tasks_to_show():
    X = np.random.default_rng(0).uniform(size=(30_000, 1))
    recorder = Recorder()
    rs = RepresentativeSet(gamma=0.1, subset_size=20).set_callbacks(recorder)
    rs.fit(X, groups=np.arange(30_000) // 20)
    assert rs.reduced_
    assert rs.n_subsets_ == 1500
    assert recorder.begun["piece"] == recorder.expected["partition"] == 256
    assert recorder.begun["batch"] == recorder.expected["subsets"] == 264


def test_the_progress_bar_of_scikit_learn_shows_them(capsys):
    X = np.random.default_rng(0).uniform(size=(5000, 2))
    RepresentativeSet(gamma=1.0).set_callbacks(ProgressBar()).fit(X)
    shown = capsys.readouterr().out
    assert "partition" in shown
    assert "subsets" in shown


def test_callbacks_are_torn_down_where_a_fit_fails():
    recorder = Recorder()
    rs = RepresentativeSet(kernel=lambda A, B: np.zeros((1, 1))).set_callbacks(recorder)
    with pytest.raises(ValueError, match="shape"):
        rs.fit(np.ones((5, 2)) * np.arange(5)[:, None])
    assert recorder.torn_down


class Bars:
    """What scikit-learn's bars show, by name, whenever that changes."""

    def __init__(self):
        self.shown, self.done, self.total = {}, {}, {}
        self.before = {}  # how far the fit's own bar was when another began

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        if context.max_subtasks != 0:
            assert context.task_name not in self.shown
            self.before[context.task_name] = self.shown.get("fit", [0.0])[-1]
            self.shown[context.task_name] = [0.0]
            self.done[context.task_name] = 0
            self.total[context.task_name] = context.max_subtasks

    def on_fit_task_end(self, estimator, context):
        if context.max_subtasks != 0:
            self.shown[context.task_name].append(1.0)
        if context.parent is not None:
            name = context.parent.task_name
            self.done[name] += 1
            self.shown[name].append(self.done[name] / self.total[name])


def noisy_classes(n_classes, n_rows=3000):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_rows, 2))
    return X, ((X[:, 0] + 0.2 * rng.normal(size=n_rows)).clip(0, 0.999) * n_classes).astype(int)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"refine": 0}, ["fit", "representatives", "training"]),
        ({"refine": 1}, ["fit", "representatives", "training"]),
        ({"refine": 3}, ["fit", "representatives", "training"]),
        ({"refine": "exact"}, ["fit", "training"]),
        ({"max_vectors": 30}, ["fit", "few vectors"]),
    ],
    ids=str,
)
def test_three_bars_at_most_that_only_rise(n_classes, parameters, names):
    X, y = noisy_classes(n_classes)
    bars = Bars()
    AESVC(gamma=1.0, subset_size=200, **parameters).set_callbacks(bars).fit(X, y)
    assert list(bars.shown) == names
    for shown in bars.shown.values():
        assert (np.diff(shown) >= 0).all()
        assert shown[-1] == 1.0
        assert max(shown[:-1]) <= 1.0
    assert len(bars.shown["fit"]) > 10


def test_auto_that_does_not_train_on_few_vectors_has_three_bars_too(monkeypatch):
    set_limits(monkeypatch, exact=10.0, machine_in_span=0.0)
    set_table(monkeypatch, left=0.0, worth=np.inf, pilot_rows=200)
    X, y = noisy_classes(2)
    bars = Bars()
    model = AESVC(gamma=1.0, subset_size=200).set_callbacks(bars).fit(X, y)
    assert model.certificate_.rounds
    assert list(bars.shown) == ["fit", "representatives", "training"]
    assert bars.before["representatives"] < 0.3  # the pilots do not fill the bar of the fit


def test_parts_of_the_work_have_the_shares_that_are_expected_of_them():
    bars = Bars()
    with fit_task(AESVC().set_callbacks(bars), weighted=True) as progress:
        with progress.task("first", 4, share=0.2, bar=True) as task:
            for step in range(1, 5):
                task.step()
                assert bars.shown["first"][-1] == step / 4
                assert bars.shown["fit"][-1] == pytest.approx(0.2 * step / 4, abs=0.02)
        with progress.task("second", None, share=1.0, bar=True) as task:
            with task.share(0.5) as part, part.task("inner", 2, share=0.5) as inner:
                inner.step()
                assert bars.shown["second"][-1] == pytest.approx(0.125, abs=0.01)
            assert bars.shown["second"][-1] == 0.5
            task.reach(0.75)
            task.reach(0.6)
            assert bars.shown["second"][-1] == 0.75
            for _ in range(6):  # more parts than there is room for
                with task.task("more", share=0.05):
                    pass
            assert 0.9 < bars.shown["second"][-1] < 1.0
            with task.task("no fourth", 3, bar=True) as inner:
                inner.step()
        assert bars.shown["fit"][-1] == pytest.approx(1.0, abs=0.03)
    assert list(bars.shown) == ["fit", "first", "second"]


def test_a_long_solve_is_told_by_its_kernel_values(monkeypatch):
    """With half of the kernel values that it takes, the bar is about half way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = X[:, 0] + rng.normal(size=6000) > 0
    values, shown = [], []
    bars, done_of = Bars(), trainer.done_of

    def counted(n_values, n_expected):
        values.append(n_values)
        shown.append(bars.shown["training"][-1])
        return done_of(n_values, n_expected)

    monkeypatch.setattr(trainer, "done_of", counted)
    AESVC(gamma=1.0, refine="exact").set_callbacks(bars).fit(X, y)
    assert 0.25 < shown[np.searchsorted(values, values[-1] / 2)] < 0.9


def test_the_progress_bar_shows_what_is_inside_a_classifier(capsys):
    X = np.random.default_rng(0).uniform(size=(5000, 2))
    AESVC(gamma=1.0, refine=1).set_callbacks(ProgressBar()).fit(X, X[:, 0] > 0.5)
    shown = capsys.readouterr().out
    for name in ("AESVC - fit", "AESVC - representatives #1", "AESVC - training #2"):
        assert name in shown


def test_progress_of_a_certificate_is_not_titled_fit(capsys):
    X = np.random.default_rng(0).uniform(size=(3000, 2))
    y = X[:, 0] > 0.5
    in_memory = AESVC(gamma=1.0, refine=1).fit(X, y)
    streamed = AESVC(gamma=1.0, refine=0).fit_stream([(X, y, None)])
    ways = (
        (in_memory, in_memory.certify, (X, y)),
        (streamed, streamed.certify_stream, ([(X, y, None)],)),
    )
    for model, certify, rows in ways:
        recorder = Recorder()
        model.set_callbacks(recorder, ProgressBar())
        certify(*rows)
        assert recorder.begun["certify"] == recorder.ended["certify"] == 1
        assert "fit" not in recorder.begun
        shown = capsys.readouterr().out
        assert "AESVC - certify" in shown
        assert "AESVC - fit" not in shown


def test_verbose_tells_what_a_round_did(capsys):
    X = np.random.default_rng(0).uniform(size=(5000, 2))
    y = X[:, 0] + 0.1 * np.random.default_rng(1).normal(size=5000) > 0.5
    AESVC(gamma=1.0, refine=2, verbose=1).fit(X, y)
    printed = capsys.readouterr().out.splitlines()
    lines = [line for line in printed if "compiling" not in line]  # said by the first of all fits
    rounds = [line for line in lines if "violators" in line]
    assert len(rounds) == 2
    for word in ("violators", "objective", "duality gap", "rows in the band", "solved for"):
        assert word in rounds[0]
    assert len(lines) <= 9


@pytest.mark.parametrize("n_classes", [2, 12])
def test_verbose_prints_a_few_lines_however_many_classes(capsys, n_classes):
    X = np.random.default_rng(0).uniform(size=(600, 2))
    AESVC(gamma=1.0, verbose=1).fit(X, (X[:, 0] * n_classes).astype(int))
    lines = capsys.readouterr().out.splitlines()
    assert 2 <= len(lines) <= 6
    n_pairs = n_classes * (n_classes - 1) // 2
    assert f"solve: {n_pairs} SVM" in lines[-2]
    assert "(exact), 600 rows solved for" in lines[-2]  # each once, however many pairs it is in
    assert "certificate: exact to" in lines[-1]


LONG_FITS = {
    "RepresentativeSet": """
X = np.random.default_rng(0).uniform(size=(600_000, 6)).astype(np.float32)
y = X[:, 0] > 0.5
model = RepresentativeSet(gamma=0.5, n_jobs=int(sys.argv[1]))
""",
    "AESVC": """
rng = np.random.default_rng(0)
X = rng.normal(size=(60_000, 10))
y = X[:, 0] + rng.normal(size=len(X)) > 0
model = AESVC(gamma=0.5, C=10.0, hull_tol=0, n_jobs=int(sys.argv[1]))
""",
    "pairs": """
rng = np.random.default_rng(0)
X = rng.normal(size=(60_000, 5))
y = (2 * X[:, 0] + rng.normal(size=len(X))).round().clip(-2, 2)
model = AESVC(gamma=0.5, C=10.0, hull_tol=0, n_jobs=int(sys.argv[1]))
""",
    "rounds": """
rng = np.random.default_rng(0)
X = rng.uniform(size=(80_000, 4))
y = X[:, 0] + 0.3 * rng.normal(size=len(X)) > 0.5
model = AESVC(gamma=2.0, refine=3, n_jobs=int(sys.argv[1]))
""",
}
LONG_FIT = """
import signal
import sys
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from aesvm import AESVC, RepresentativeSet
from aesvm.estimators.fitting import fit_task
from aesvm.machines import trainer
from aesvm.runtime.progress import Ending
{problem}
done = vars(model.fit(X[:2000], y[:2000])).keys()
for _ in sys.stdin:
    try:
        print("fitting", flush=True)
        while True:
            model = clone(model)
            model.fit(X, y)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one has come too late
        print("interrupted", flush=True)
    try:
        check_is_fitted(model)
        print("fitted", vars(model).keys() == done, flush=True)  # it fell between two fits
    except NotFittedError:
        print("unfitted", vars(model) == model.get_params(), flush=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
"""


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("problem", LONG_FITS)
def test_an_interrupt_is_answered_within_a_second(problem, n_jobs):
    # validation, partition, subsets, solve
    seconds = answers(LONG_FITS[problem], n_jobs, (0.1, 0.4, 0.8, 1.2, 1.6))
    assert statistics.median(seconds) < 1.0, seconds


@pytest.mark.weekly
@pytest.mark.slow
@pytest.mark.parametrize("rival", ["BVM", "CPSP", "CVM", "LASVM"])
def test_the_rivals_answer_an_interrupt_within_a_second(rival):
    problem = f"""
from experiments.rivals import {rival}
rng = np.random.default_rng(0)
X = rng.normal(size=(40_000, 10))
y = X[:, 0] + rng.normal(size=len(X)) > 0
model = {rival}(gamma=0.5, C=10.0, n_jobs=int(sys.argv[1]))
"""
    seconds = answers(problem, 1, (0.3, 0.7, 1.2))
    assert statistics.median(seconds) < 1.0, seconds


def answers(problem, n_jobs, delays):
    """Seconds from Ctrl-C to its answer, so long after a fit has begun."""
    program = children.code(LONG_FIT.format(problem=problem), n_jobs)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with children.started(program, **pipes) as process:
        return [interrupt(process, n_jobs, delay) for delay in delays]


def interrupt(process, n_jobs, delay):
    """Seconds from Ctrl-C to its answer; the estimator must be left as it was."""
    print("fit", file=process.stdin, flush=True)
    assert children.line(process) == "fitting\n"
    time.sleep(delay)
    seconds = children.interrupt(process, n_jobs)
    assert children.line(process) == "interrupted\n"
    assert children.line(process) in ("unfitted True\n", "fitted True\n")
    return seconds


def test_a_fit_that_one_thread_was_asked_to_end_is_over_for_those_asking_meanwhile():
    class Slow:
        """Says no, when another has said yes in the meantime."""

        def is_over(self, context):
            ending.asked_by = "a callback"
            return False

    ending = Ending([Slow()])
    assert ending.is_due(None)
    assert ending.asked_by == "a callback"
