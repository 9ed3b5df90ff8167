"""The ways in: a call, a ``with`` statement, a program, a notebook, and child processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import runpy
import signal
import sys
import threading
import time

import numpy as np
import pytest
import sklearn
import sklearn.svm._base as base
from joblib import Parallel, delayed
from numpy.testing import assert_array_equal
from sklearn.datasets import make_classification, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

from aesvm import accel
from aesvm.accel import seam
from aesvm.accel.seam import GIVEN, LIBSVM, OURS, SMALL, calls
from tests import children

THEIRS = base.libsvm, base.libsvm_sparse
MOONS = make_moons(4000, noise=0.2, random_state=0)

PROGRAM = """
import sys
from sklearn.datasets import make_moons
from sklearn.svm import SVC
import sklearn.svm._base as base
if __name__ == "__main__":
    X, y = make_moons(4000, noise=0.2, random_state=0)
    print(type(base.libsvm).__name__, sys.argv[1:], SVC().fit(X, y).score(X, y) > 0.9)
"""


def is_installed(_=None):
    return isinstance(base.libsvm, seam.StandIn) and isinstance(base.libsvm_sparse, seam.StandIn)


def assert_as_before():
    assert (base.libsvm, base.libsvm_sparse) == THEIRS
    assert accel.VARIABLE not in os.environ
    assert accel._IN_CHILDREN not in os.environ.get("PYTHONPATH", "")


def test_install_and_uninstall_leave_nothing():
    model = SVC()
    accel.install()
    assert is_installed()
    model.fit(*MOONS)
    accel.uninstall()
    assert_as_before()
    assert model.score(*MOONS) > 0.9


def test_a_with_statement_uninstalls_after_an_error():
    with pytest.raises(ZeroDivisionError), accel.install():
        raise ZeroDivisionError
    assert_as_before()


def test_the_models_are_scikit_learns_and_pickle_without_us():
    with accel.install():
        model = SVC().fit(*MOONS)
    assert type(model) is SVC
    assert b"aesvm" not in pickle.dumps(model)
    X = MOONS[0]
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_a_notebook_loads_and_unloads_it():
    accel.load_ipython_extension(None)
    assert is_installed()
    accel.unload_ipython_extension(None)
    assert_as_before()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["script", "module"])
def test_a_program_runs_unchanged(tmp_path, how):
    (tmp_path / "program.py").write_text(PROGRAM)
    name = [str(tmp_path / "program.py")] if how == "script" else ["-m", "program"]
    command = [sys.executable, "-m", "aesvm.accel", "--n-jobs", "1", *name, "one", "--report"]
    path = os.pathsep.join([*filter(None, sys.path), str(tmp_path)])
    printed = children.run(command, env={"PYTHONPATH": path})
    assert printed == "StandIn ['one', '--report'] True\n"


ENDS = """
import atexit, pickle, signal, sys

class Mine:
    pass

def divide(number):
    return 1 / number

print(__name__, __file__, sys.argv, sys.path[0], flush=True)
atexit.register(lambda: print(pickle.loads(pickle.dumps(Mine())).__module__, flush=True))
how = sys.argv[1]
if how == "interrupt":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & has it ignored
    signal.raise_signal(signal.SIGINT)
sys.exit(7) if how == "exit" else divide(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", ["ends.py error", "ends.py exit", "ends.py interrupt", "-m ends error", "cut.py"]
)
def test_a_program_ends_as_without_us(tmp_path, program):
    """The same output, traceback and exit code; Ctrl-C ends it by its signal."""
    (tmp_path / "ends.py").write_text(ENDS)
    (tmp_path / "cut.py").write_text("x = (")
    path = {"PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path)))}
    found = []
    for door in ([], ["-m", "aesvm.accel"]):
        command = [sys.executable, *door, *program.split()]
        where = {"env": path, "cwd": tmp_path, "stdout": -1, "stderr": -1}
        with children.started(command, **where) as process:
            found.append((*process.communicate(timeout=children.LIMIT), process.wait()))
    assert found[0] == found[1]
    assert found[0][2] == {"exit": 7, "interrupt": -signal.SIGINT}.get(program.split()[-1], 1)


def test_a_program_that_is_not_there_is_named(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["accel", "none.py"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("aesvm.accel", run_name="__main__")
    assert ended.value.code == 2
    assert "none.py': there is none." in capsys.readouterr().err
    accel.uninstall()


@pytest.mark.slow
def test_the_programs_report_goes_to_stderr(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "aesvm.accel", "--report", str(tmp_path / "program.py")]
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with children.started(command, env=path, stdout=-1, stderr=-1) as process:
        printed, complaints = process.communicate(timeout=children.LIMIT)
    assert printed.startswith("StandIn [] True")
    assert "SVC fit      aesvm " in complaints


@pytest.mark.slow
def test_lokys_workers_are_accelerated_while_it_is_installed(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))

    def of_workers():
        return set(Parallel(n_jobs=2)(delayed(is_installed)(number) for number in range(4)))

    assert of_workers() == {False}
    with accel.install(strict=True):
        assert of_workers() == {True}
    assert of_workers() == {False}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_multiprocessing_are_accelerated(method, monkeypatch):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    with accel.install(), multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(is_installed, [0]) == [True]


@pytest.mark.slow
def test_the_environments_sitecustomize_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    program = "import sklearn.svm._base as base; print(type(base.libsvm).__name__)"
    path = os.pathsep.join([accel._IN_CHILDREN, str(tmp_path), *filter(None, sys.path)])
    env = {"PYTHONPATH": path, accel.VARIABLE: "1"}
    assert children.run(children.code(program), env=env) == "theirs\nStandIn\n"
    assert children.run(children.code(program), env={"PYTHONPATH": path}) == "theirs\nmodule\n"


@pytest.mark.slow
def test_a_search_in_processes_finds_what_libsvm_finds(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    search = GridSearchCV(SVC(), {"C": [0.1, 10.0]}, cv=2, n_jobs=2)
    expected = search.fit(*MOONS).cv_results_["mean_test_score"]
    with accel.install(strict=True):
        found = search.fit(*MOONS).cv_results_["mean_test_score"]
    # a row within tol of a margin may change sides
    np.testing.assert_allclose(found, expected, atol=2.0 / len(MOONS[1]) * 2)


def test_installing_twice_is_refused_and_the_first_stays():
    with accel.install():
        with pytest.raises(RuntimeError, match="installed already: call uninstall"):
            accel.install()
        assert is_installed()
    assert_as_before()


def test_uninstalling_nothing_is_refused():
    with pytest.raises(RuntimeError, match="not installed: call install"):
        accel.uninstall()


@pytest.mark.parametrize("version", ["1.5.2", "1.10.0", "2.0.dev0"])
def test_unknown_versions_are_refused_with_those_that_are_known(version, monkeypatch):
    monkeypatch.setattr(sklearn, "__version__", version)
    with pytest.raises(RuntimeError, match=rf"{version} is unknown.* 1\.6, 1\.7, 1\.8, 1\.9"):
        accel.install()
    assert_as_before()


@pytest.mark.parametrize("changed", ["fit", "predict", "libsvm_sparse_train"])
def test_unknown_signatures_are_refused(changed, monkeypatch):
    name = "libsvm_sparse" if "sparse" in changed else "libsvm"

    class Other:
        def __getattr__(self, asked):
            return (
                (lambda X, *, new: X) if asked == changed else getattr(THEIRS["_" in name], asked)
            )

    with monkeypatch.context() as patch:
        patch.setattr(base, name, Other())
        with pytest.raises(RuntimeError, match=rf"{name}\.{changed} of scikit-learn .* expected"):
            accel.install()
    assert_as_before()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_jobs": 0}, "n_jobs=0 must be"),
        ({"n_jobs": "2"}, "n_jobs='2' must be"),
        ({"n_jobs": True}, "n_jobs=True must be"),
        ({"strict": "yes"}, "strict='yes' must be"),
        ({"device": "abacus"}, "device='abacus'"),
    ],
)
def test_bad_settings_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        accel.install(**given)
    assert_as_before()


def test_the_number_of_threads_may_be_numpys():
    with accel.install(n_jobs=np.int64(2)):
        assert accel._state.settings.threads() == 2
        assert os.environ[accel.VARIABLE] == accel.Settings(n_jobs=2).as_json()


def test_uninstalling_while_a_fit_runs_is_refused(monkeypatch):
    begun, may_end = threading.Event(), threading.Event()

    def slow(*args):
        begun.set()
        assert may_end.wait(children.LIMIT)
        raise seam.Declined(SMALL)

    monkeypatch.setattr(seam.StandIn, "_ours", slow)
    accel.install()
    fit = threading.Thread(target=SVC().fit, args=MOONS)
    fit.start()
    try:
        assert begun.wait(children.LIMIT)
        with pytest.raises(RuntimeError, match=r"while SVC fit runs: aesvm\.accel stays installed"):
            accel.uninstall()
        assert is_installed()
    finally:
        may_end.set()
        fit.join()
        accel.uninstall()
    assert_as_before()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_during_a_fit_neither_waits_nor_uninstalls_for_its_parent():
    with accel.install(), accel._state.call("SVC fit"):
        child = os.fork()
        if not child:
            accel.uninstall()  # no fit runs here
            os._exit(int(is_installed()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert is_installed()


def test_a_forked_process_leaves_the_gpu_alone(monkeypatch, no_size_is_small):
    with accel.install():
        monkeypatch.setattr(accel._state.settings, "device", "cuda:0")
        accel._state.continue_in_child()
        SVC().fit(*MOONS)
        assert reasons() == {"forked after install(device='cuda:0')"}


def reasons():
    return {call.reason for call in calls.so_far().counts if call.where == LIBSVM}


X_SMALL, Y_SMALL = make_classification(200, random_state=0)

HANDED_OVER = {
    "kernel='sigmoid' is not positive semidefinite": SVC(kernel="sigmoid"),
    "kernel='poly' with coef0=-1 is not positive semidefinite": SVC(kernel="poly", coef0=-1.0),
    "max_iter=3 was reached": SVC(max_iter=3),
}


@pytest.mark.parametrize("reason", HANDED_OVER)
@pytest.mark.filterwarnings("ignore:Solver terminated early")
def test_what_is_not_taken_over_is_libsvms_with_a_reason(reason, no_size_is_small, caplog):
    model = HANDED_OVER[reason]
    expected = model.fit(X_SMALL, Y_SMALL).dual_coef_
    with caplog.at_level("INFO", "aesvm.accel"), accel.install():
        assert_array_equal(model.fit(X_SMALL, Y_SMALL).dual_coef_, expected)
        assert reasons() == {reason}
    (record,) = caplog.records
    assert record.getMessage().startswith("SVC fit of 200 x 20 by LIBSVM: ")
    assert reason in record.getMessage()
    with accel.install(strict=True), pytest.raises(accel.NotAcceleratedError, match="strict=True"):
        model.fit(X_SMALL, Y_SMALL)


@pytest.mark.filterwarnings("ignore:.*probability:FutureWarning")
def test_probabilities_are_libsvms(no_size_is_small):
    model = SVC(probability=True, random_state=0)
    expected = model.fit(X_SMALL, Y_SMALL).predict_proba(X_SMALL)
    with accel.install():
        assert_array_equal(model.fit(X_SMALL, Y_SMALL).predict_proba(X_SMALL), expected)
        assert reasons() == {
            "probability=True: LIBSVM draws its folds",
            "predict_proba is LIBSVM's",
        }


def test_weights_that_we_refuse_are_libsvms(no_size_is_small):
    weights = np.where(np.arange(200) < 20, -1.0, 1.0)
    with accel.install():
        SVC().fit(X_SMALL, Y_SMALL, sample_weight=weights)
        assert reasons() == {"sample_weight has negative values"}
        classes = np.arange(200) % 3
        SVC().fit(X_SMALL, classes, sample_weight=(classes != 1).astype(float))
        assert "a class has no rows of positive weight" in reasons()


def test_errors_are_scikit_learns(no_size_is_small):
    with pytest.raises(ValueError, match="weights") as theirs:
        SVC().fit(X_SMALL, Y_SMALL, sample_weight=np.zeros(200))
    with accel.install(), pytest.raises(ValueError, match="weights") as ours:
        SVC().fit(X_SMALL, Y_SMALL, sample_weight=np.zeros(200))
    assert str(ours.value) == str(theirs.value)


def test_where_libsvm_is_as_fast_strict_accepts_it():
    with accel.install(strict=True):
        SVC().fit(X_SMALL, Y_SMALL)
        SVC(kernel=lambda A, B: A @ B.T).fit(*MOONS)
        assert reasons() == {SMALL, GIVEN}


def test_the_report_says_what_ran_where(capsys):
    with accel.install():
        assert "Nothing" in accel.report().text
        SVC().fit(*MOONS)
        SVR().fit(X_SMALL, Y_SMALL)
        capsys.readouterr()
        found = accel.report()
    assert capsys.readouterr().out == found.text + "\n"
    assert {(call.what, call.where) for call in found.counts} == {
        ("SVC fit", OURS),
        ("SVR fit", LIBSVM),
    }
    assert all(found.seconds[call] > 0 for call in found.counts)
    assert SMALL in found.text


@pytest.mark.parametrize(("share", "expected"), [("1", 1), ("1,2", 1), ("rubbish", None)])
def test_threads_are_a_workers_share(share, expected, monkeypatch):
    from joblib import effective_n_jobs

    monkeypatch.setenv("OMP_NUM_THREADS", share)
    assert accel.Settings().threads() == (expected or effective_n_jobs(-1))
    assert accel.Settings(n_jobs=1).threads() == 1


INTERRUPTED = """
import signal
import numpy as np
from aesvm import accel
from sklearn.svm import SVC
rng = np.random.default_rng(0)
X, y = rng.normal(size=(40_000, 20)), np.arange(40_000) % 2
accel.install()
SVC().fit(X[:3000], y[:3000])  # compiles
print("begun", flush=True)
try:
    while True:
        SVC(C=100.0).fit(X, y)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one has come too late
    accel.uninstall()
    print("ended", flush=True)
"""


@pytest.mark.slow
def test_an_interrupt_ends_a_fit_at_once():
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with children.started(children.code(INTERRUPTED), env=path, stdout=-1) as process:
        assert children.line(process) == "begun\n"
        time.sleep(1.0)
        seconds = children.interrupt(process)
        assert children.line(process) == "ended\n"
    assert seconds < 30.0  # a second, and more where an interrupt is lost
