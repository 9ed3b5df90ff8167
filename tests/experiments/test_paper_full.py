"""The full scale: LIBSVM estimated from a sample, runs of several machines, order, claims."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import SVC

from experiments.paper import __main__ as command
from experiments.paper import (
    campaign,
    claims,
    exact,
    grids,
    published,
    readings,
    report,
    sets,
    solvers,
)
from experiments.paper.campaign import Campaign
from experiments.paper.comparison import AESVM, EXACT, LIBSVM, compare, grid, to_make, twin
from experiments.paper.estimates import Law, WithLibsvm, law_of
from experiments.paper.runs import Ledger, Outcome, Run, key_of
from experiments.paper.scales import FULL, QUICK
from experiments.paper.tables import TABLES, in_order

HERE = {
    "seed": 0,
    "threads": 1,
    "runs at a time": 1,
    "time limit": 1.0,
    "reduction limit": 2.0,
    "machine": "this machine",
    "python": "3",
    "date": "2030-01-02",
    "command": "python -m experiments.paper --scale full --workers 1 --datasets D5",
    "versions": {"numpy": "2"},
}
ELSEWHERE = HERE | {"machine": "another machine", "clock": "processor"}

LIBSVM_S = Run("D5", LIBSVM, all_test_rows=True)


def measured(C, rows, vectors, seconds):
    return replace(LIBSVM_S, C=C), Outcome("ok", seconds, support_vectors=vectors, rows=rows)


def law(rows, vectors, C):
    return 3e-6 * (rows * vectors) ** 0.9 * C**0.2


POINTS = [(C, v) for C in (0.1, 1.0, 10.0, 60.0) for v in (500, 4_000)]


def test_a_law_that_seconds_obey_is_found():
    found = law_of([measured(C, 1_000, v, law(1_000, v, C)) for C, v in POINTS])
    seconds, factor = found.predicted(5_000, 2_000, 4.0)
    assert seconds == pytest.approx(law(5_000, 2_000, 4.0), rel=1e-9)
    assert factor == pytest.approx(1.0, abs=1e-6)
    assert found.coefficients[1:] == pytest.approx([0.9, 0.2])


def test_the_error_of_an_estimate_is_that_of_its_law():
    """Over many samples with a known scatter, nearly two thirds lie within one standard error."""
    rng = np.random.default_rng(0)
    inside, errors = [], []
    for _ in range(300):
        noise = np.exp(0.3 * rng.standard_normal(len(POINTS) + 1))
        sample = [
            measured(C, 1_000, v, law(1_000, v, C) * e)
            for (C, v), e in zip(POINTS, noise, strict=False)
        ]
        found = law_of(sample)
        seconds, factor = found.predicted(3_000, 2_000, 4.0)
        true = law(3_000, 2_000, 4.0) * noise[-1]
        inside.append(seconds / factor <= true <= seconds * factor)
        errors.append(found.error**2)
    assert 0.55 < np.mean(inside) < 0.75
    assert math.sqrt(np.mean(errors)) == pytest.approx(0.3, rel=0.1)


def test_too_few_measurements_or_all_alike_give_no_law():
    assert law_of([measured(C, 1_000, v, 1.0) for C, v in POINTS[:4]]) is None
    assert law_of([measured(1.0, 1_000, 500, 1.0 + k) for k in range(8)]) is None
    assert isinstance(law_of([measured(C, 1_000, v, 2.0) for C, v in POINTS]), Law)


def sampled(tmp_path):
    """LIBSVM at the sample, our exact SVM and AESVM everywhere: on D5."""
    ledger = Ledger.open(tmp_path / "runs.jsonl")
    for at, run in enumerate(to_make(FULL, grid(FULL, "D5", LIBSVM))):
        outcome = Outcome("ok", 0.5, support_vectors=1_000 + at, accuracy=0.9, rows=10_000)
        if run.solver == LIBSVM:
            outcome = replace(outcome, seconds=law(10_000, 1_000 + at, run.C), accuracy=0.91)
        ledger.add(run, outcome, HERE)
    for run in grid(FULL, "D5", AESVM):
        ledger.add(run, Outcome("ok", 0.1, 0.2, 500, 0.87, kept=900, rows=10_000), HERE)
    return ledger


def test_our_exact_svm_stands_for_libsvm_where_that_was_not_run(tmp_path):
    ledger = sampled(tmp_path)
    filled = WithLibsvm(ledger)
    solvers_of = [run.solver for run in to_make(FULL, grid(FULL, "D5", LIBSVM))]
    assert (solvers_of.count(EXACT), solvers_of.count(LIBSVM)) == (84, len(FULL.sample))
    for run in grid(FULL, "D5", LIBSVM):
        one = filled[run]
        assert one.ok
        if (run.C, run.gamma) in FULL.sample:
            assert (one.accuracy, one.factor) == (0.91, None)
        else:
            assert one.accuracy == 0.9
            assert one.seconds == pytest.approx(law(10_000, one.support_vectors, run.C))
            assert one.factor == pytest.approx(1.0, abs=1e-3)
    compared = compare(filled, grid(FULL, "D5", LIBSVM), grid(FULL, "D5", AESVM))
    assert compared.shared == compared.timed == compared.wanted == 84
    assert compared.spread == pytest.approx(1.0, abs=1e-3)
    assert filled[replace(LIBSVM_S, dataset="D6")].reason == "not run"


def test_an_exact_svm_of_a_gpu_counts_too(tmp_path):
    ledger = Ledger.open(tmp_path / "runs.jsonl")
    run = replace(LIBSVM_S, solver=EXACT, device="cuda")
    ledger.add(run, Outcome("ok", 0.1, support_vectors=7, accuracy=0.6, rows=100), HERE)
    assert WithLibsvm(ledger)[LIBSVM_S].accuracy == 0.6
    assert WithLibsvm(ledger)[LIBSVM_S].seconds is None  # LIBSVM's are not known
    assert WithLibsvm(ledger)[replace(run, device="cpu")].seconds is None  # nor a processor's


def test_seconds_of_another_machine_are_not_compared(tmp_path):
    ledger = sampled(tmp_path)
    many = grid(FULL, "D5", "AESVM 1e-4")
    for run in many:
        where = ELSEWHERE if run == many[0] else HERE
        ledger.add(run, Outcome("ok", 9.0, 9.0, 500, 0.5, kept=900, rows=10_000), where)
    one = compare(WithLibsvm(ledger), [twin(many[0])], many[:1])
    assert (one.shared, one.timed) == (1, 0)
    assert one.values["RMSE"] is not None
    assert one.values["ETS"] is None
    assert compare(WithLibsvm(ledger), [twin(r) for r in many], many).of("OTS") == 83
    said = "timed beside LIBSVM at 0 of 1 points; made on another machine than LIBSVM's"
    assert claims._lacks(one, "OTS") == said
    assert claims.Pair(None, 1.0, metric="OTS", lacks=said).outcome == claims.UNTIMED


def test_speedups_are_over_the_24_points_where_the_84_were_not_all_timed(tmp_path):
    ledger = sampled(tmp_path)
    last = next(r for r in grid(FULL, "D5", AESVM) if (r.C, r.gamma) not in FULL.small_points)
    outcome = ledger.outcomes.pop(last.key)
    ledger.lines = [line for line in ledger.lines if key_of(line[0]) != last.key]
    ledger.add(replace(last, device="cuda"), outcome, HERE)
    filled = WithLibsvm(ledger)
    one = grids.widest(FULL, filled)["D5"][AESVM]
    few = grids.everything(FULL, filled)["D5"][AESVM]
    assert (one.wanted, one.values["OTS"], one.part) == (84, few.values["OTS"], ("ETS", "OTS"))
    assert one.values["RMSE"] != few.values["RMSE"]
    assert claims._marks(one, "OTS") == "†"
    assert claims._marks(one, "RMSE") == ""
    assert filled[last].reason == "made on a GPU"
    ledger.add(last, Outcome("timeout", reason="training took over 60 s"), HERE)
    alone = compare(WithLibsvm(ledger), [twin(last)], [last])
    said = "timed beside LIBSVM at 0 of 1 points; over 60 s at others tried on a CPU"
    assert claims._lacks(alone, "OTS") == said


def test_of_a_run_of_several_machines_the_one_counts_where_libsvm_was_timed(tmp_path):
    ledger = sampled(tmp_path)
    here, there = grid(FULL, "D5", AESVM)[0], grid(FULL, "D5", "AESVM 1e-4")[0]
    ledger.add(here, Outcome("ok", 9.0, accuracy=0.5), ELSEWHERE)
    ledger.add(there, Outcome("ok", 9.0, accuracy=0.5), ELSEWHERE)
    ledger.add(there, Outcome("ok", 3.0, accuracy=0.6), HERE)
    filled = WithLibsvm(ledger)
    assert (filled[here].seconds, filled[here].accuracy) == (0.1, 0.87)
    assert (filled[there].seconds, filled[there].accuracy) == (3.0, 0.6)


def test_aesvm_of_a_gpu_counts_where_no_processor_made_it(tmp_path):
    ledger = sampled(tmp_path)
    point = grid(FULL, "D5", "AESVM 1e-4")[0]
    ledger.add(replace(point, device="cuda"), Outcome("ok", 1.0, accuracy=0.4), HERE)
    assert WithLibsvm(ledger)[point].accuracy == 0.4
    assert WithLibsvm(ledger)[point].seconds is None
    ledger.add(point, Outcome("ok", 2.0, accuracy=0.4), HERE)
    assert WithLibsvm(ledger)[point].seconds == 2.0


def test_a_run_that_a_gpu_was_too_slow_for_was_begun(tmp_path):
    ledger = Ledger.open(tmp_path / "runs.jsonl")
    late = Outcome("timeout", reason="training took over 60 s")
    point = grid(FULL, "D6", AESVM)[0]
    ledger.add(replace(point, device="cuda"), late, ELSEWHERE)
    assert WithLibsvm(ledger)[point] == late
    ledger.add(point, Outcome("ok", 1.0, support_vectors=5, accuracy=0.5, rows=10), HERE)
    exact = replace(twin(point), solver=EXACT, device="cuda")
    assert claims._lacks(compare(WithLibsvm(ledger), [twin(point)], [point]), "RMSE").endswith(
        "0 of 1 points"
    )
    ledger.add(exact, late, ELSEWHERE)
    compared = compare(WithLibsvm(ledger), [twin(point)], [point])
    said = "the exact SVM at 0 of 1 points; over 60 s at others tried"
    assert claims._lacks(compared, "RMSE") == said
    assert claims.Pair(None, 1.0, lacks=said).outcome == claims.LATE
    broken = replace(point, solver="LASVM", epsilon=0.0)
    ledger.add(broken, Outcome("error", reason="out of memory"), HERE)
    failed = compare(WithLibsvm(ledger), [twin(broken)], [broken])
    failed = failed._replace(finished=1, wanted=2)
    assert claims._lacks(failed, "RMSE") == "1 of 2 points; failed at others"


def test_what_a_gpu_alone_made_is_named(tmp_path):
    ledger = sampled(tmp_path)
    assert report._on_a_gpu_alone(ledger) == ""
    made_here, other = grid(FULL, "D5", AESVM)[0], grid(FULL, "D8", AESVM)[0]
    for run in (made_here, other, replace(other, kernel="poly", degree=2)):
        ledger.add(replace(run, device="cuda"), Outcome("ok", 1.0, accuracy=0.5), ELSEWHERE)
    assert report._on_a_gpu_alone(ledger) == "D8 AESVM 1e-3 and AESVM 1e-3 (polynomial)"


def test_runs_of_other_machines_are_added_once(tmp_path):
    here, there = Ledger.open(tmp_path / "a.jsonl"), Ledger.open(tmp_path / "b.jsonl")
    runs = [replace(LIBSVM_S, C=C) for C in (1.0, 2.0, 3.0)]
    here.add(runs[0], Outcome("ok", 1.0), HERE)
    here.add(runs[1], Outcome("timeout"), HERE)
    there.add(runs[0], Outcome("ok", 5.0), ELSEWHERE)
    there.add(runs[1], Outcome("ok", 6.0), ELSEWHERE)
    there.add(runs[2], Outcome("timeout"), ELSEWHERE)
    there.add(replace(runs[2], gamma=9.0), Outcome("error"), ELSEWHERE)
    assert here.merge(there) == 3
    assert replace(runs[2], gamma=9.0) not in here
    assert here.merge(there) == 0
    again = Ledger.open(here.path)
    for ledger in (here, again):
        assert [ledger[run].seconds for run in runs] == [1.0, 6.0, None]
        assert ledger.environments == [HERE, ELSEWHERE]
        assert [env["machine"] for _, env in ledger.lines[-3:]] == ["another machine"] * 3


def test_solvers_come_in_the_order_asked_for():
    every = TABLES["tables_4_5"].runs(FULL)
    solvers = ["LASVM", "BVM", "AESVM 1e-4", "AESVM 1e-3"]
    chosen = [run for run in in_order(FULL, every, solvers) if run.solver in solvers]
    assert list(dict.fromkeys(run.solver for run in chosen[: 2 * 24 * 5])) == solvers[2:]
    assert list(dict.fromkeys(run.solver for run in chosen[-2 * 24 * 5 :])) == solvers[:2]


def test_what_is_worth_most_comes_first():
    every = [run for table in TABLES.values() for run in table.runs(FULL)]
    runs = list(Ledger(command.ROOT / "none.jsonl").missing(in_order(FULL, every)))
    first = [run for run in runs if run.dataset == "D5"][: 24 * 5]
    assert {run.solver for run in first} == {EXACT, *(f"AESVM 1e-{k}" for k in (2, 3, 4, 5))}
    assert {(run.C, run.gamma) for run in first} == set(FULL.small_points)
    kinds = [(run.dataset, run.gamma, run.epsilon) for run in runs[:200] if "AESVM" in run.solver]
    changes = sum(a != b for a, b in zip(kinds[1:], kinds[:-1], strict=True))
    assert changes == len(set(kinds)) - 1  # no set is computed twice
    assert runs[0].C == 1.0
    quick = [run for table in TABLES.values() for run in table.runs(QUICK)]
    datasets = [run.dataset for run in in_order(QUICK, quick)]
    assert datasets == sorted(datasets)


def toy(n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] ** 2 + 0.5 * rng.normal(size=n) > 0.5, 7, 3)
    return X, y


@pytest.mark.parametrize(
    "run", [Run("D7", LIBSVM, gamma=0.7, C=2.0), Run("D7", LIBSVM, C=0.3, kernel="poly", degree=2)]
)
def test_the_objective_is_that_of_the_primal_and_labels_are_svcs(run):
    """At the optimum the dual's is the primal's, which needs neither coefficients nor kernel."""
    X, y = toy()
    model = SVC(C=run.C, tol=1e-8, **solvers._kernel(run)).fit(X, y)
    signs = np.where(y == 7, 1, -1)
    losses = np.maximum(0.0, 1.0 - signs * model.decision_function(X)).sum()
    a = np.ravel(model.dual_coef_)
    scores = model.decision_function(model.support_vectors_) - model.intercept_[0]
    primal = 0.5 * float(a @ scores) + run.C * losses
    assert solvers.dual_objective(model, run) == pytest.approx(-primal, rel=1e-6)
    assert np.array_equal(solvers._labels(run, model, X), model.predict(X))


def test_libsvms_outcome_says_how_ours_differs():
    X, y = toy()
    rows = solvers.Part(X[:200], y[:200], X[200:], y[200:])
    outcome = solvers.carry_out(Run("D7", LIBSVM, gamma=0.5), rows, solvers.Conditions(1))
    assert outcome.agreement >= 0.98
    assert abs(outcome.excess) < 1e-3
    assert outcome.objective < 0.0 < outcome.exact_seconds


@pytest.mark.weekly
def test_a_set_is_computed_once_for_every_c():
    X, y = toy(1500)
    rows = solvers.Part(X, y, X[:10], y[:10])
    run = Run("D7", AESVM, gamma=0.5, epsilon=1e-2)
    conditions = solvers.Conditions(1)
    sets = [solvers._shared_set(replace(run, C=C), rows, conditions) for C in (1.0, 2.0)]
    assert sets[0] is sets[1]
    fewer = solvers.Part(X[:900], y[:900], X[:10], y[:10])
    others = [(replace(run, gamma=0.6), rows), (replace(run, epsilon=1e-1), rows), (run, fewer)]
    for other, part in others:
        assert solvers._shared_set(other, part, conditions) is not sets[0]


def test_a_campaign_ends_after_its_seconds(tmp_path, monkeypatch):
    """A run that is under way is finished, the others are left for the next time."""
    monkeypatch.setattr(campaign, "Worker", Instant)
    monkeypatch.setattr(campaign, "wait_for", lambda workers, seconds: None)
    ledger = Ledger.open(tmp_path / "runs.jsonl")
    runs = [Run("D7", LIBSVM, C=float(C)) for C in range(1, 9)]
    Campaign(ledger, None, 1, 1, 60.0, 60.0, seconds=0.0).make(runs)
    assert ledger.outcomes == {}
    Campaign(ledger, None, 1, 1, 60.0, 60.0).make(runs[:3])
    assert all(ledger[run].ok for run in runs[:3])
    orphan = Run("D7", "subsample, same M", like=Run("D7", AESVM, C=99.0))
    Campaign(ledger, None, 1, 1, 60.0, 60.0).make([orphan, runs[3]])
    assert orphan not in ledger  # what it is measured against is not there
    assert ledger[runs[3]].ok


class Instant:
    """A worker whose runs take no time."""

    def __init__(self, *_):
        self.run = None

    def begin(self, run, like, limit):
        self.run = run

    def outcome(self):
        self.run = None
        return Outcome("ok", 1.0, spent=2.0)

    def stop(self):
        pass


def test_the_time_left_is_that_of_like_runs(tmp_path):
    ledger = Ledger.open(tmp_path / "runs.jsonl")
    progress = campaign._Progress(ledger, 5, 2)
    runs = [Run("D7", LIBSVM), Run("D8", LIBSVM), Run("D8", "CVM")]
    assert progress.left(runs) is None
    progress.ended(runs[0], Outcome("ok", spent=10.0))
    progress.ended(runs[1], Outcome("ok", spent=30.0))
    assert progress.left(runs) == pytest.approx((10.0 + 30.0 + 20.0) / 2)
    ledger.add(runs[2], Outcome("ok", spent=100.0), HERE)
    assert campaign._Progress(ledger, 1, 1).left(runs[2:]) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("ours", "paper", "same"),
    [
        (11.4, 10, True),
        (11.6, 10, False),
        (8.6, 10, True),
        (0.025, 0.02, True),
        (0.026, 0.02, False),
        (0.6, 0.1, False),
        (98.4, 99, True),
        (0.0, 0, True),
        (1.4, 1, True),
    ],
)
def test_a_cell_is_reproduced_within_fifteen_per_cent_or_its_last_digit(ours, paper, same):
    assert claims.reproduced(ours, paper) == same


def test_the_papers_cells_are_each_found():
    cells = claims.table_of("RMSE")
    assert sorted(cells) == [f"D{k}" for k in range(1, 10)]
    assert cells["D5"] | {"CPSP": 0.26, "RfeatSVM": 5.3, AESVM: 0.99} == cells["D5"]
    assert claims.table_of("OTS")["D8"]["CPSP"] == 23.8
    pairs = claims.pairs_of({}, ["RMSE"], published.AESVM.values())
    assert [pair.outcome for pair in pairs] == [claims.OPEN] * 19


def claim_of(ledger, words):
    found = claims.every_claim(FULL, WithLibsvm(ledger))
    return next(claim for claim in found if words in claim.short)


@pytest.mark.weekly
def test_claims_hold_where_the_figures_say_so(tmp_path):
    ledger = sampled(tmp_path)  # an RMSE of 3, the paper's is 0.99
    near = claim_of(ledger, "nearly LIBSVM's accuracies")
    assert near.verdict == "does not hold"
    assert claim_of(ledger, "faster than LIBSVM").verdict == "holds"
    assert claim_of(ledger, "lowest RMSE").verdict == "not judged"
    assert claim_of(ledger, "our exact SVM").verdict == "holds"
    (d5,) = near.found
    assert (d5.dataset, d5.figures[0].text[:2], d5.figures[0].paper) == ("D5", "3.", "0.99")
    assert near.pairs.count((None, 0.28, "D1", AESVM, "RMSE", "")) == 1
    for run in grid(FULL, "D9", AESVM) + to_make(FULL, grid(FULL, "D9", LIBSVM)):
        ledger.add(run, Outcome("ok", 0.5, None, 1_000, 0.9, rows=10_000), HERE)
    near = claim_of(ledger, "nearly LIBSVM's accuracies")
    assert near.verdict == "holds in part"
    assert [(one.dataset, one.figures[0].text) for one in near.found if one.holds] == [
        ("D9", "0.00")
    ]


@pytest.mark.weekly
def test_the_24_points_do_where_the_84_are_not_complete(tmp_path):
    ledger = sampled(tmp_path)
    last = next(r for r in grid(FULL, "D5", AESVM) if (r.C, r.gamma) not in FULL.small_points)
    del ledger.outcomes[last.key]
    near = claim_of(ledger, "nearly LIBSVM's accuracies")
    (row,) = near.table().rows
    assert row[0] == "D5†"


@pytest.mark.weekly
def test_the_checks_are_shown_and_so_is_who_measured_when(tmp_path, monkeypatch):
    ledger = sampled(tmp_path)
    assert "No run of LIBSVM" in exact.section(FULL, WithLibsvm(ledger)).markdown()
    run = grid(FULL, "D5", LIBSVM)[0]
    outcome = Outcome(
        "ok", 9.0, None, 10, 0.9, rows=500, agreement=0.9987, excess=-2e-7, exact_seconds=3.0
    )
    ledger.add(run, outcome, HERE)
    shown = exact.section(FULL, WithLibsvm(ledger)).markdown()
    assert "99.870 %" in shown
    assert "-2e-07" in shown
    monkeypatch.setattr("experiments.paper.pages.pngs", lambda pictures: {})
    markdown, _ = report.write(list(TABLES.values()), FULL, ledger, tmp_path / "out")
    text = markdown.read_text()
    assert text.index("What the paper claims") < text.index("What explains ijcnn1")
    (row,) = (line for line in text.splitlines() if line.startswith("| this machine"))
    words = [word.strip() for word in row.split("|")[1:-1]]
    assert words[1:] == ["the clock's", "D5", "2030-01-02", "177", "1"]
    assert "AESVM, LIBSVM, exact 1 s" in text


def test_the_command_says_what_does_not_go_together(monkeypatch, capsys, tmp_path):
    for given, words in (
        (["--device", "cuda"], "with --scale full only"),
        (["--scale", "full", "--folds", "7"], "use 1 to 5"),
        (["--scale", "full", "--processor-time", "--threads", "2"], "one thread"),
        (["--merge", str(tmp_path / "none")], "there is no file"),
    ):
        monkeypatch.setattr("sys.argv", ["experiments.paper", "--no-runs", *given])
        with pytest.raises(SystemExit):
            command.main()
        assert words in capsys.readouterr().err


def test_the_command_merges_and_writes_no_report_where_none_is_wanted(monkeypatch, tmp_path):
    other, results = tmp_path / "other.jsonl", tmp_path / "runs.jsonl"
    exact = replace(LIBSVM_S, solver=EXACT, gamma=0.25)
    runs = [*TABLES["table_1"].runs(FULL), exact, replace(exact, device="cuda")]
    Ledger.open(other).add(replace(exact, C=0.3), Outcome("ok", 1.0), ELSEWHERE)  # of no table
    for run in runs:
        Ledger.open(other).add(run, Outcome("ok", 1.0, kept=1, rows=10, reduced=True), ELSEWHERE)
    words = ["--scale", "full", "--tables", "table_1", "--results", str(results), "--no-report"]
    monkeypatch.setattr("sys.argv", ["experiments.paper", *words, "--merge", str(other)])
    assert command.main() == 0
    assert all(Ledger.open(results)[run].ok for run in runs)
    assert len(Ledger.open(results).outcomes) == len(runs)
    assert sorted(tmp_path.iterdir()) == [other, results]


def test_the_command_makes_runs_of_some_points_alone(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(Campaign, "make", lambda self, runs: made.extend(runs))
    words = ["--scale", "full", "--tables", "tables_4_5", "--no-report", "--common-points"]
    words += ["--results", str(tmp_path / "runs.jsonl"), "--gammas", "0.25", "4"]
    monkeypatch.setattr("sys.argv", ["experiments.paper", *words])
    assert command.main() == 0
    assert {run.gamma for run in made} == {0.25, 4.0}
    for solver in (AESVM, "CVM"):
        found = [run for run in made if (run.dataset, run.solver) == ("D5", solver)]
        assert {run.C for run in found} == set(published.SMALL_C_GRID)
        assert len(found) == 2 * 6


def test_the_command_is_written_down_without_a_machines_folders(monkeypatch):
    words = [
        "--scale",
        "full",
        "--data-dir",
        "/a/b",
        "--merge",
        "/c",
        "/d",
        "--solvers",
        "AESVM 1e-3",
    ]
    monkeypatch.setattr("sys.argv", ["experiments.paper", *words])
    said = command._command()
    assert said == "python -m experiments.paper --scale full --solvers 'AESVM 1e-3'"


def test_folds_are_taken_in_the_order_that_begins_with_the_one_taken_alone(monkeypatch):
    parser = command.arguments()
    scale = command._scale(parser, parser.parse_args(["--scale", "full", "--folds", "3"]))
    assert scale.folds == {"D2": (0, 1, 2), "D3": (4, 0, 1), "D4": (0, 1, 2)}
    sampled_folds = {
        r.fold for r in to_make(scale, grid(scale, "D3", LIBSVM)) if r.solver == LIBSVM
    }
    assert sampled_folds == {4}


def with_sizes(tmp_path, epsilon, gamma, factor=1.1):
    """A ledger whose sets are the paper's at another epsilon and g."""
    ledger = Ledger(tmp_path / "made_up.jsonl")
    for of_ours in sorted({sets.COARSEST, *published.EPSILONS}):
        theirs_at = readings.known_epsilon(of_ours / epsilon)
        for of_g in published.GAMMA_GRID:
            at_g = of_g / gamma
            share = 33.0
            if theirs_at in published.TABLE_2 and at_g in published.GAMMA_GRID:
                row = published.TABLE_2[theirs_at]["D5"]
                share = factor * row[published.GAMMA_GRID.index(at_g)][0]
            for run in sets.reduction(FULL, "D5", of_ours, of_g):
                outcome = Outcome("ok", 1.0, kept=round(1e4 * share), rows=1_000_000, reduced=True)
                ledger.outcomes[run.key] = outcome
    return ledger


@pytest.mark.parametrize(
    ("epsilon", "gamma", "words"),
    [(10.0, 1.0, "ten times its epsilon"), (1.0, 0.25, "g/4"), (1.0, 0.125, "g/8")],
)
def test_the_reading_that_explains_the_sizes_is_found(tmp_path, epsilon, gamma, words):
    said = readings.section(FULL, with_sizes(tmp_path, epsilon, gamma)).blocks[0].text
    assert f"**{words}" in said
    assert "by up to 10 %" in said


def test_sizes_that_no_reading_gives_are_not_explained(tmp_path):
    ledger = with_sizes(tmp_path, 1.0, 1.0, factor=3.0)
    assert "None of these readings" in readings.section(FULL, ledger).markdown()
    assert "None of" not in readings.section(FULL, Ledger(tmp_path / "none.jsonl")).markdown()


@pytest.mark.parametrize(("off", "words"), [(0.0, "C' are as written"), (1.0, "they differ")])
def test_the_exact_accuracies_decide_whether_the_kernel_is_as_written(tmp_path, off, words):
    ledger = Ledger(tmp_path / "made_up.jsonl")
    wanted = [98.9, 93.5] * 12  # the mean is 96.2, and the standard deviation 2.7
    for run, accuracy in zip(grid(FULL, "D5", EXACT, FULL.small_points), wanted, strict=True):
        one = Outcome("ok", 1.0, None, 9, (accuracy - off) / 100.0, rows=50)
        ledger.outcomes[run.key] = one
    assert words in readings.section(FULL, WithLibsvm(ledger)).blocks[0].text


def test_a_fit_that_compiles_is_made_again(monkeypatch):
    """Its first one takes 100 seconds on the clock, the second 1."""

    class Model:
        fits = 0

        def fit(self):
            self.fits += 1
            now[0] += 100.0 if self.fits == 1 else 1.0
            if self.fits == 1:
                told("compiling")

    now, told = [0.0], print

    @contextlib.contextmanager
    def listening(tell):
        nonlocal told
        told = tell
        yield

    monkeypatch.setattr(solvers, "compiling_reported_to", listening)
    conditions = solvers.Conditions(1, None, lambda: now[0])
    model = Model()
    assert solvers._seconds_to_fit(conditions, model) == 1.0
    assert (solvers._seconds_to_fit(conditions, model), model.fits) == (1.0, 3)


def test_a_fit_too_short_for_the_clock_is_made_again_until_it_is_seen():
    """The clock ticks in hundredths, and a fit takes four thousandths."""

    class Model:
        fits = 0

        def fit(self):
            self.fits += 1

    model = Model()
    conditions = solvers.Conditions(1, None, lambda: math.floor(0.4 * model.fits) / 100)
    assert solvers._seconds_to_fit(conditions, model) == pytest.approx(0.004, rel=0.2)
    assert model.fits > 10
    standing = solvers.Conditions(1, None, lambda: 0.0)
    assert solvers._seconds_to_fit(standing, Model()) == 0.0


def test_seconds_of_others_stand_beside_ours_where_both_are_known(tmp_path):
    ledger = Ledger(tmp_path / "made_up.jsonl")
    (table,) = exact.section(FULL, ledger).blocks[1:]
    assert [row[1:3] for row in table.rows] == [["–", "–"]] * len(exact.SECONDS)
    run = Run("D5", EXACT, gamma=0.25, C=16.0, all_test_rows=True)
    ledger.outcomes[run.key] = Outcome("ok", 0.512)
    ledger.outcomes[replace(run, device="cuda").key] = Outcome("ok", 0.123)
    (table,) = exact.section(FULL, ledger).blocks[1:]
    row = next(row for row in table.rows if row[0] == "D5 (16, 0.25)")
    assert row[1:] == ["0.51", "0.12", "7.9", "5.1", "3.0", "9.6", "0.338", "0.067"]


def test_seconds_of_an_exact_svm_elsewhere_are_not_compared(tmp_path):
    ledger = sampled(tmp_path)
    run = replace(LIBSVM_S, solver=EXACT, C=1.0, gamma=0.25)
    assert WithLibsvm(ledger)[run].seconds == 0.5
    ledger.lines = [(line, where) for line, where in ledger.lines if line["run"] != run.content]
    del ledger.outcomes[run.key]
    ledger.add(run, Outcome("ok", 0.2, None, 1_000, 0.9, rows=10_000), ELSEWHERE)
    assert WithLibsvm(ledger)[run].accuracy == 0.9
    assert claim_of(ledger, "our exact SVM").verdict == "not judged"
