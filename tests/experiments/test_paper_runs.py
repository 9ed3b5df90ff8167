"""The paper's experiments: metrics, runs that can be taken up again, limits, and the claims."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import numpy as np
import pytest

from experiments.paper import __main__ as command
from experiments.paper import (
    claims,
    comparison,
    grids,
    pages,
    published,
    report,
    sets,
    solvers,
)
from experiments.paper.campaign import Campaign
from experiments.paper.comparison import AESVM, LIBSVM, compare, grid
from experiments.paper.runs import Ledger, Outcome, Run
from experiments.paper.scales import FULL, QUICK, SCALES
from experiments.paper.tables import TABLES
from experiments.paper.worker import Worker
from tests.children import LIMIT

pytestmark = pytest.mark.weekly

ENVIRONMENT = {
    "seed": 0,
    "threads": 1,
    "runs at a time": 1,
    "time limit": 1.0,
    "reduction limit": 2.0,
    "machine": "a machine",
    "python": "3",
    "versions": {"numpy": "2"},
}


def test_metrics_are_their_formulas():
    assert comparison.rmse([0.9, 0.8], [0.8, 0.8]) == pytest.approx(math.sqrt(0.005))
    assert comparison.expected_speedup([10.0, 6.0], [1.0, 3.0]) == pytest.approx(6.0)
    assert comparison.overall_speedup([10.0, 6.0], [1.0, 3.0]) == pytest.approx(4.0)
    assert comparison.overall_speedup([10.0, 6.0], [1.0, 3.0], once=[4.0]) == pytest.approx(2.0)


def test_every_table_and_figure_has_its_module():
    numbers = {name.replace("tables", "table").replace("figures", "figure") for name in TABLES}
    tables = [n for name in numbers if "table" in name for n in _span(name)]
    figures = [n for name in numbers if "figure" in name for n in _span(name)]
    assert sorted(tables) == list(range(1, 12))
    assert sorted(figures) == list(range(1, 8))


def _span(name):
    first, *last = (int(part) for part in name.split("_")[1:])
    return range(first, (last or [first])[0] + 1)


def test_quick_takes_its_points_from_the_papers_grids():
    for C, g in QUICK.points:
        assert C in published.C_GRID
        assert g in published.GAMMA_GRID
    assert len(FULL.points) == 84
    assert len(FULL.small_points) == 24
    assert len(FULL.poly_points) == 12


def test_the_papers_tables_are_whole():
    assert published.TABLE_1[100_000][2][0] == published.TABLE_2[1e-3]["D1"][4][0]
    for metric in published.METRICS:
        assert sorted(published.RBF[metric]) == [f"D{k}" for k in range(1, 10)]
        assert published.RBF[metric]["D4"]["LASVM"] is None
        assert {d for d, row in published.RBF[metric].items() if "CPSP" in row} == set(
            published.WITH_CPSP
        )
    for rows in (*published.TABLE_2.values(), published.TABLE_3):
        assert all(len(row) == len(published.GAMMA_GRID) for row in rows.values())


def test_a_run_is_known_by_what_it_does():
    run = Run("D1", "CVM", gamma=0.5)
    assert run.key == Run("D1", "CVM", gamma=0.5, C=1.0).key
    assert run.key != replace(run, fold=1).key
    assert json.loads(replace(run, like=run).key)["like"] == run.content


def test_a_ledger_is_read_back_as_it_was_written(tmp_path):
    path = tmp_path / "deep" / "runs.jsonl"
    ledger = Ledger.open(path)
    run = Run("D4", "subsample, same M", C=4.0, like=Run("D4", AESVM, epsilon=1e-3))
    outcome = Outcome("ok", 1.5, support_vectors=7, accuracy=0.75, kept=3, rows=100)
    ledger.add(run, outcome, ENVIRONMENT)
    ledger.add(
        replace(run, fold=1), Outcome("timeout", reason="training took over 20 s"), ENVIRONMENT
    )
    again = Ledger.open(path)
    assert again[run] == outcome
    assert again[replace(run, fold=1)].status == "timeout"
    assert again[replace(run, fold=2)].status == "skipped"
    assert again.environments == [ENVIRONMENT]
    assert list(again.missing([run, replace(run, fold=2), replace(run, fold=2)])) == [
        replace(run, fold=2)
    ]


def test_a_spoilt_line_is_named(tmp_path):
    path = tmp_path / "runs.jsonl"
    Ledger.open(path).add(Run("D1", "CVM"), Outcome("ok"), ENVIRONMENT)
    path.write_text(path.read_text() + '{"run": 3}\n')
    with pytest.raises(ValueError, match=r"runs\.jsonl, line 2 is not a run"):
        Ledger.open(path)


def test_a_line_cut_short_is_a_run_that_was_not_made(tmp_path):
    path = tmp_path / "runs.jsonl"
    Ledger.open(path).add(Run("D1", "CVM"), Outcome("ok"), ENVIRONMENT)
    whole = path.read_text()
    path.write_text(whole + '{"run": {"data')
    ledger = Ledger.open(path)
    assert Run("D1", "CVM") in ledger
    assert path.read_text() == whole
    ledger.add(Run("D2", "CVM"), Outcome("ok"), ENVIRONMENT)
    assert len(Ledger.open(path).outcomes) == 2


def test_a_line_says_whose_data_it_is(tmp_path):
    path = tmp_path / "runs.jsonl"
    for dataset in ("D3", "D4"):
        Ledger.open(path).add(Run(dataset, "CVM"), Outcome("ok"), ENVIRONMENT)
    data = [json.loads(line)["data"] for line in path.read_text().splitlines()]
    assert data == [
        {"name": "anom_http", "kind": "stand-in"},
        {"name": "covtype", "kind": "the paper's"},
    ]


def filled(tmp_path, accuracies, scale=QUICK):
    """A ledger with made-up outcomes of every run: seconds and sizes by solver."""
    ledger = Ledger(tmp_path / "made_up.jsonl")
    for table in TABLES.values():
        for run in table.runs(scale):
            ledger.outcomes[run.key] = outcome_of(run, accuracies)
    ledger.environments.append(ENVIRONMENT)
    return ledger


def outcome_of(run, accuracies):
    if run.solver == "DeriveRS":
        return Outcome("ok", 1.0, kept=100, rows=1000, reduced=True)
    accuracy = accuracies.get(run.solver, 0.8)
    seconds = 10.0 if run.solver == LIBSVM else 2.0
    return Outcome("ok", seconds, 0.5, 50, accuracy, kept=100, rows=1000)


def test_a_comparison_is_the_papers_metrics(tmp_path):
    ledger = filled(tmp_path, {LIBSVM: 0.9, AESVM: 0.89})
    one = compare(ledger, grid(QUICK, "D4", LIBSVM), grid(QUICK, "D4", AESVM))
    assert one.values["RMSE"] == pytest.approx(1.0)
    assert one.values["ETS"] == pytest.approx(5.0)
    points = len(QUICK.points)
    sets = len({g for _, g in QUICK.points})
    assert one.values["OTS"] == pytest.approx(10.0 * points / (2.0 * points + 0.5 * sets))
    assert one.values["OCS"] == pytest.approx(1.0)
    assert one.finished == one.shared == one.wanted == points


def test_unfinished_runs_are_left_out_of_a_comparison_and_counted(tmp_path):
    ledger = filled(tmp_path, {})
    runs = grid(QUICK, "D4", "CVM")
    ledger.outcomes[runs[0].key] = Outcome("timeout", reason="training took over 20 s")
    one = compare(ledger, grid(QUICK, "D4", LIBSVM), runs)
    assert (one.finished, one.wanted, one.why) == (len(runs) - 1, len(runs), "over 20 s")
    table = comparison.by_metric("t", ["RMSE"], {"D4": {"CVM": one}}, published.RBF)
    assert table.rows[0][1].text.endswith(f"({len(runs) - 1}/{len(runs)})")
    assert table.rows[0][1].mark == ""  # the best of half a grid is not the best


def test_accuracies_do_not_need_libsvm(tmp_path):
    ledger = filled(tmp_path, {"CVM": 0.7})
    reference = grid(QUICK, "D4", LIBSVM)
    for run in reference[1:]:
        ledger.outcomes[run.key] = Outcome("timeout", reason="training took over 20 s")
    one = compare(ledger, reference, grid(QUICK, "D4", "CVM"))
    assert one.values["max"] == pytest.approx(70.0)
    assert (one.of("max"), one.of("RMSE")) == (len(reference), 1)


def test_the_best_of_a_row_is_marked_and_the_papers_figure_stands_beside(tmp_path):
    ledger = filled(tmp_path, {LIBSVM: 0.9, AESVM: 0.89, "CVM": 0.7})
    found = {
        name: compare(ledger, grid(QUICK, "D4", LIBSVM), grid(QUICK, "D4", name))
        for name in (AESVM, "CVM", LIBSVM)
    }
    row = comparison.by_metric("t", ["RMSE"], {"D4": found}, published.RBF).rows[0]
    assert (row[1].text, row[1].paper, row[1].mark) == ("1.00", "1.08", "best")
    assert (row[2].text, row[2].paper, row[2].mark) == ("20.00", "9.4", "")


def test_sizes_of_folded_datasets_are_over_all_rows():
    outcome = Outcome("ok", 1.0, kept=500, rows=1000)
    assert sets.share("D4", outcome) == pytest.approx(40.0)
    assert sets.share("D5", outcome) == pytest.approx(50.0)
    assert sets.share("D5", Outcome("timeout")) is None


def lowest(ledger):
    return claims.best("", "RMSE", grids.everything(QUICK, ledger), claims.RIVALS)


def test_a_claim_that_the_numbers_bear_out_holds(tmp_path):
    ledger = filled(tmp_path, {LIBSVM: 0.9, **dict.fromkeys(published.AESVM.values(), 0.9)})
    found = lowest(ledger)
    assert found.verdict == "holds"
    assert [one.word for one in found.found] == ["yes"] * 9


def test_a_claim_that_they_do_not_names_who_is_better_and_where(tmp_path):
    ledger = filled(tmp_path, {LIBSVM: 0.9, "LASVM": 0.9})
    found = lowest(ledger)
    assert found.verdict == "does not hold"
    (d4,) = (one for one in found.found if one.dataset == "D4")
    assert [cell.text for cell in d4.figures] == ["10.00", "LASVM 0.00"]
    assert d4.word == "no"


def test_a_tie_is_no_win(tmp_path):
    found = lowest(filled(tmp_path, {}))
    assert [one.word for one in found.found] == ["equal"] * 9
    assert found.verdict == "does not hold"


def test_half_a_grid_does_not_count(tmp_path):
    ledger = filled(tmp_path, {LIBSVM: 0.9, "LASVM": 0.9, AESVM: 0.89})
    for dataset in ("D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8", "D9"):
        ledger.outcomes[grid(QUICK, dataset, "LASVM")[0].key] = Outcome("timeout")
    found = lowest(ledger).found
    assert [one.word for one in found] == ["yes"] * 9
    assert not any("LASVM" in one.figures[1].text for one in found)


def test_nothing_is_claimed_of_nothing(tmp_path):
    found = claims.every_claim(QUICK, Ledger(tmp_path / "none.jsonl"))
    assert {claim.verdict for claim in found} == {"not judged"}
    shown = claims.section(found, "").markdown()
    assert "14 are not judged" in shown
    assert "**holds**" not in shown
    row = next(line for line in shown.splitlines() if "has the highest OTS of them" in line)
    assert "**not judged** (no rival finished a grid)" in row


@pytest.fixture
def no_pictures(monkeypatch):
    """They take seconds to draw."""
    monkeypatch.setattr(pages, "pngs", lambda pictures: {})


def test_the_report_is_made_whatever_was_measured(tmp_path):
    for ledger in (Ledger(tmp_path / "none.jsonl"), filled(tmp_path, {LIBSVM: 0.9})):
        markdown, page = report.write(list(TABLES.values()), QUICK, ledger, tmp_path / "out")
        text = markdown.read_text()
        for number in range(1, 12):
            assert f"Table {number}:" in text
        for number in range(1, 8):
            assert f"Figure {number}:" in text
        assert "stands in for the paper's EEG recordings" in text
        assert page.stat().st_size > 10_000
    assert "runs gave a result" in text


@pytest.mark.usefixtures("no_pictures")
def test_the_report_begins_with_the_claims_and_says_what_holds(tmp_path):
    ledger = filled(tmp_path, {LIBSVM: 0.9, **dict.fromkeys(published.AESVM.values(), 0.9)})
    markdown, _ = report.write(list(TABLES.values()), QUICK, ledger, tmp_path / "out")
    _, *parts = markdown.read_text().split("\n## ")
    assert [part.split("\n")[0] for part in parts[:4]] == [
        *("What the paper claims, and what we find", "What explains ijcnn1"),
        *("How to read the tables", "The figures behind the verdicts"),
    ]
    lowest = next(line for line in parts[0].splitlines() if "has the lowest RMSE of the" in line)
    assert "**holds**" in lowest
    for word in ("OTS", "OCS", "RMSE", "FLS1"):
        assert f"| {word}" in parts[2] or f", {word}" in parts[2]


@pytest.mark.usefixtures("no_pictures")
def test_datasets_and_solvers_that_were_not_run_are_named_once(tmp_path):
    ledger = Ledger(tmp_path / "made_up.jsonl")
    for solver in (LIBSVM, AESVM, "CVM"):
        for run in grid(QUICK, "D4", solver):
            ledger.outcomes[run.key] = outcome_of(run, {})
    late = grid(QUICK, "D4", "BVM")
    ledger.outcomes[late[0].key] = Outcome("timeout", reason="training took over 20 s")
    shown = tables_of(ledger, "tables_4_5")
    head = next(line for line in shown.splitlines() if line.startswith("| "))
    assert [name.strip() for name in head.split("|")[2:-1]] == [AESVM, "CVM", "BVM", LIBSVM]
    assert "*over 20 s* [9.44]" in shown
    assert "Not run yet: D1 (part) (all solvers), D2 (part) (all solvers)" in shown
    assert "D1 (part) RMSE" not in shown


def tables_of(ledger, name):
    return TABLES[name].section(QUICK, ledger).markdown()


@pytest.mark.usefixtures("no_pictures")
def test_what_was_not_finished_is_listed(tmp_path):
    ledger = filled(tmp_path, {})
    run = grid(QUICK, "D8", "CVM")[0]
    ledger.outcomes[run.key] = Outcome("timeout", reason="training took over 20 s")
    markdown, _ = report.write(list(TABLES.values()), QUICK, ledger, tmp_path / "out")
    shown = markdown.read_text().split("What was not run")[1]
    (row,) = (line for line in shown.splitlines() if line.startswith("| CVM"))
    cells = [cell.strip() for cell in row.split("|")[2:-1]]
    assert cells == ["4"] * 7 + ["3 of 4, 1 late", "4"]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("no_data")


def small(solver, **others):
    """A run on the generated dataset, which needs no file."""
    components = 20 if solver in ("CPSP", "Nystroem", "RfeatSVM") else 0
    run = Run("D7", solver, components=components, train_rows=120, test_rows=50, **others)
    if solver in comparison.LIKE_AESVM:
        return replace(run, like=replace(run, solver=AESVM, epsilon=1e-2))
    return replace(run, epsilon=1e-2) if solver.startswith("AESVM") else run


@pytest.mark.parametrize("solver", ["DeriveRS", *solvers.SOLVERS])
def test_every_solver_can_be_run(solver):
    if solver == "intelex":
        pytest.importorskip("sklearnex")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] > 0.1 * rng.normal(size=300)).astype(int)
    rows = solvers.Part(X[:200], y[:200], X[200:], y[200:])
    like = Outcome("ok", 0.01, 0.01, kept=80)
    run = replace(small(solver), epsilon=1e-2, gamma=0.5)
    outcome = solvers.carry_out(run, rows, solvers.Conditions(1, like))
    assert outcome.ok
    assert outcome.rows == 200
    assert outcome.seconds > 0
    if solver == "DeriveRS":
        assert outcome.kept <= 200
    else:
        assert outcome.accuracy > 0.8
    if solver == "subsample, same M":
        assert outcome.kept == 80


@pytest.mark.slow
def test_a_campaign_is_written_down_and_goes_on_where_it_stopped(tmp_path, data_dir, monkeypatch):
    monkeypatch.setenv("AESVM_CACHE", str(tmp_path))
    ledger = Ledger.open(tmp_path / "runs.jsonl")
    runs = [small("subsample, same M"), small(AESVM), Run("D3", "LIBSVM", train_rows=100)]
    Campaign(ledger, data_dir, 1, 1, LIMIT, LIMIT).make(runs)
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert len(lines) == 2  # the data of the third is nowhere: that is no result
    assert ledger[runs[2]].status == "missing"
    assert "anom_http" in ledger[runs[2]].reason
    first = json.loads(lines[0])
    assert first["environment"]["versions"]["numpy"] == np.__version__
    assert first["environment"]["threads"] == 1
    assert ledger[runs[0]].ok
    assert ledger[runs[0]].kept == ledger[runs[1]].kept
    again = Ledger.open(tmp_path / "runs.jsonl")
    Campaign(again, data_dir, 1, 1, LIMIT, LIMIT).make(runs)
    assert (tmp_path / "runs.jsonl").read_text().splitlines() == lines


def test_a_solver_that_is_late_is_not_tried_with_other_c_but_with_other_kernels(tmp_path):
    ledger = Ledger(tmp_path / "runs.jsonl")
    campaign = Campaign(ledger, None, 1, 1, LIMIT, LIMIT)
    run = Run("D7", "CVM", gamma=2.0)
    for C in (1.0, 2.0):
        ledger.outcomes[replace(run, C=C).key] = Outcome("timeout")
    campaign.late = campaign._late([replace(run, C=C) for C in (1.0, 2.0)])
    known = campaign._known(replace(run, C=3.0))
    assert known is not None
    assert known.status == "skipped"
    assert campaign._known(replace(run, C=3.0, gamma=1.0)) is None


@pytest.mark.slow
def test_runs_without_a_result_are_made_again_on_request(tmp_path, data_dir):
    ledger = Ledger.open(tmp_path / "runs.jsonl")
    run = small("LIBSVM")
    ledger.add(run, Outcome("timeout"), ENVIRONMENT)
    Campaign(ledger, data_dir, 1, 1, LIMIT, LIMIT).make([run])
    assert ledger[run].status == "timeout"
    Campaign(ledger, data_dir, 1, 1, LIMIT, LIMIT, retry=True).make([run])
    assert ledger[run].ok
    assert Ledger.open(tmp_path / "runs.jsonl")[run].ok


@pytest.mark.slow
def test_a_process_that_dies_is_recorded_and_replaced(data_dir):
    worker = Worker(data_dir, 1)
    try:
        worker.begin(small(LIBSVM), None, LIMIT)
        worker.process.kill()
        outcome = _ended(worker)
        assert outcome.status == "error"
        assert "exit code -9" in outcome.reason
        worker.begin(small(LIBSVM), None, LIMIT)
        assert _ended(worker).ok
    finally:
        worker.stop()


def _ended(worker):
    limit = time.monotonic() + LIMIT
    while (outcome := worker.outcome()) is None and time.monotonic() < limit:
        time.sleep(0.05)
    return outcome


def test_the_command_makes_some_tables_and_says_what_it_does_not_know(
    tmp_path, monkeypatch, capsys
):
    results = tmp_path / "runs.jsonl"
    arguments = ["experiments.paper", "--results", str(results), "--tables"]
    monkeypatch.setattr("sys.argv", [*arguments, "table_12"])
    with pytest.raises(SystemExit):
        command.main()
    assert "unknown table table_12: use all or figure_1" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", [*arguments, "table_1", "--no-runs"])
    with pytest.raises(SystemExit):
        command.main()
    assert "there are no results" in capsys.readouterr().err
    ledger = Ledger.open(results)
    for run in TABLES["table_1"].runs(QUICK):
        ledger.add(run, Outcome("ok", 1.0, kept=1, rows=10, reduced=True), ENVIRONMENT)
    assert command.main() == 0
    assert "Table 1" in (tmp_path / "runs" / "report.md").read_text()
    assert (tmp_path / "runs" / "runs.jsonl").read_text() == results.read_text()


@pytest.mark.slow
def test_a_run_past_its_limit_is_stopped_and_recorded(data_dir):
    worker = Worker(data_dir, 1)
    try:
        worker.begin(Run("D7", LIBSVM, C=1.0, gamma=1.0, train_rows=4_000, test_rows=50), None, 0.5)
        outcome = _ended(worker)
        assert outcome.status == "timeout"
        assert outcome.reason == "training took over 0.5 s"
        worker.begin(small(LIBSVM), None, LIMIT)  # the process that follows works
        assert _ended(worker).ok
    finally:
        worker.stop()


def test_scales_are_known_by_name():
    assert set(SCALES) == {"quick", "full"}
    assert len(TABLES["table_1"].runs(QUICK)) == 20
    assert len(TABLES["table_2"].runs(QUICK)) == 5 * 28
    assert len(TABLES["table_2"].runs(FULL)) == 5 * 28
