"""What a certificate says in words: the verdict first, then what was computed."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import make_moons

from aesvm import AESVC, AENuSVC, AEOneClassSVM
from aesvm.certificate.certificate import certificate_of
from aesvm.certificate.history import FitHistory
from aesvm.certificate.records import Record, Records
from aesvm.certificate.text import at_most, text_of
from aesvm.kernels import DEFINITE, NOT_DEFINITE, TAKEN
from aesvm.machines import rounds


def certificate(objective, dual, kernel=DEFINITE, **others):
    """Of one machine of ten rows."""
    known = {"exact": False, "n_rows": 10, "total_cost": 10.0, "worst_optimum": 20.0}
    known |= {"loss": objective, "loss_reduced": objective, "dual_objective": dual, "proven": True}
    one = replace(Record.of_nothing(), **{**known, **others})
    return certificate_of(Records.of([one]), 10, 4, 1e-3, kernel, n_vectors=one.n_vectors)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (certificate(101.3, 100.0), "objective at most 1.3% above the exact SVM's"),
        (certificate(300.0, 100.0), "objective at most 200% above the exact SVM's"),
        (certificate(7001.0, 100.0), "objective at most 71 times the exact SVM's"),
        (certificate(-100.0, -101.0), "objective at most 1% above the exact SVM's"),
        (certificate(2.0, -1.0), "objective 2, at most 3 above the exact SVM's"),
        (certificate(5.0, 5.0), "objective equal to the exact SVM's"),
        (
            certificate(101.3, 100.0, proven=False),
            "objective at most about 1.3% above the exact SVM's (not proven)",
        ),
        (certificate(1.0, 1.0 - 2.91e-6, exact=True), "exact to 3e-6"),
        (
            certificate(1.0, 1.0 - 2.91e-6, exact=True, proven=False),
            "exact to about 3e-6 (not proven)",
        ),
        (certificate(1.0, 0.9995, exact=True), "exact to 0.0005"),
        (certificate(1.0, 0.97, exact=True), "objective at most 3.1% above the exact SVM's"),
        (certificate(1.0, 1.0, exact=True), "exact"),
        (certificate(1.0, 1.0, exact=True, proven=False), "exact (not proven)"),
        (certificate(1.0, None, exact=True), "trained on every row; its duality gap"),
        (certificate(1.0, 0.5, exact=True), "objective at most 100% above the exact SVM's"),
        (certificate(1.0, None), "how close it is to the exact SVM was not computed"),
        (certificate(1.0, None, changed=0.004), "; the last round changed 0.40% of the pred"),
        (
            certificate(1.0, None, n_vectors=3, estimated_dual=0.8, estimated_error=0.032),
            "objective at most about 31% above the exact SVM's (estimated)",
        ),
        (
            certificate(1.0, None, n_vectors=3, estimated_dual=0.49, estimated_error=0.0),
            "may be far from the exact SVM: its objective may be over 100% above the exact",
        ),
        (
            certificate(-1.0, None, n_vectors=3, estimated_dual=-1.9, estimated_error=0.09),
            "objective at most about 50% above the exact SVM's (estimated)",
        ),
        (certificate(1.0, None, NOT_DEFINITE), "the kernel is not positive semidefinite"),
        (
            certificate(1.0, 0.99, max_residual=np.inf, squared_norm_bound=1.0),
            "the SVM of a random sample of the rows",
        ),
    ],
)
def test_the_first_line_is_a_verdict_in_words(found, verdict):
    assert verdict in found.verdict()
    assert str(found).splitlines()[0] == found.verdict()


@pytest.mark.parametrize(
    ("dual", "proven", "verdict"),
    [
        (9.9, True, "exact to 2e-5 (worst pair of classes: at most 1.1% above)"),
        (9.995, True, "exact to 5e-6 (worst pair of classes: 0.0005)"),
        (
            5.0,
            False,
            "exact to about 0.0006 (worst pair of classes: at most 100% above; not proven)",
        ),
        (
            -1.0,
            True,
            "at most 0.13% above the exact SVM's (worst pair of classes: the exact SVM's may",
        ),
    ],
)
def test_the_verdict_tells_of_a_pair_that_is_much_worse(dual, proven, verdict):
    good = {"loss": 9000.0, "dual_objective": 9000.0 - 0.04, "proven": proven}
    bad = {"loss": 10.0, "dual_objective": dual, "proven": proven}
    known = {"exact": True, "n_rows": 10, "total_cost": 10.0, "worst_optimum": 20.0}
    both = [replace(Record.of_nothing(), **known, **one) for one in (good, bad)]
    assert verdict in certificate_of(Records.of(both), 10, 10, 1e-3, DEFINITE).verdict()


def test_a_large_gap_is_one_percentage_wherever_it_is_said():
    found = certificate(118.0, 100.0)
    assert found.verdict() == "objective at most 18% above the exact SVM's"
    assert "its objective may be 18% above the exact SVM's" in found.caveat()
    of_zero = certificate(1, -1).caveat()
    assert "its objective may be 2 above the exact SVM's, which may be zero" in of_zero
    of_nu = certificate(-100.0, -118.0)
    assert of_nu.verdict() == "objective at most 16% above the exact SVM's"  # 18 of 118
    assert "may be 16% above" in of_nu.caveat()
    estimated = certificate(1.0, None, n_vectors=3, estimated_dual=0.8, estimated_error=0.01)
    assert "by an estimate its objective is at most 27% above the exact SVM's" in estimated.caveat()
    useless = certificate(1.0, None, n_vectors=3, estimated_dual=-7.0, estimated_error=0.01)
    for found, known in (
        (useless, "may be over 100% above the exact SVM's (estimated)"),
        (estimated, "is at most 27% above the exact SVM's"),
    ):
        advice = 'more vectors (now 3), or refine="exact" without max_vectors, come closer'
        assert f"{known}; {advice}" in found.caveat()
    assert "estimated  " in str(estimated)
    assert "estimated  " not in str(useless)  # no number of 800 %


@pytest.mark.parametrize("objective", [-0.01, -1.0, -275.0])
def test_of_a_negative_objective_the_share_holds_wherever_the_optimum_is(objective):
    """As those of nu-SVMs: the exact SVM's is farther from zero, by as much as the gap."""
    dual = objective - 509.0
    verdict = certificate(objective, dual).verdict()
    share = float(re.search(r"at most (.*)% above the exact SVM's", verdict)[1]) / 100.0
    optima = np.linspace(objective, dual, 100)
    assert (objective - optima <= share * np.abs(optima)).all()
    assert share <= 1.01 * 509.0 / -dual


def test_rows_of_samples_are_not_said_to_be_solved_for():
    found = certificate(118.0, 100.0, n_vectors=3)
    assert "solved for" in str(found)
    in_time = str(replace(found, stopped_after=2.0))
    assert "rows used, the exact SVM not reached" in in_time
    assert "solved for" not in in_time


def test_the_caveat_of_a_fit_that_was_cut_short_is_its_remedy():
    for exact in (True, False):
        done = certificate(118.0, 100.0, exact=exact)
        assert 'refine="exact"' in done.caveat()
        cut = replace(done, remedy="raise the limit").caveat()
        assert cut.endswith("the fit was cut short; to go further, raise the limit")


def test_where_rounding_is_most_of_a_gap_a_smaller_tol_is_not_advised():
    rounded = certificate(100.0, 99.0, exact=True, proof_rounding=50.0).caveat()
    assert rounded.endswith("scale the data")
    assert "tol" not in rounded
    assert "a smaller tol" in certificate(100.0, 50.0, exact=True, proof_rounding=1.0).caveat()


def test_an_estimated_gap_is_shown_only_where_none_was_computed():
    few = {"n_vectors": 3, "estimated_dual": 0.98, "estimated_error": 0.01}
    assert "estimated" in str(certificate(1.0, None, **few))
    computed = certificate(1.0, 0.97, **few)
    assert "estimated" not in str(computed)
    assert computed.estimated_gap == pytest.approx(0.02)


def test_no_label_runs_into_its_number():
    for found in (
        certificate(1.0, 0.9, violators=0),
        certificate(1.0, None, n_vectors=3, estimated_dual=0.98, estimated_error=0.01),
        replace(certificate(1.0, 0.9, violators=0), n_machines=3),
    ):
        for label, value in text_of(found).numbers:
            assert re.search(rf"^  {re.escape(label)}\s+{re.escape(value)}$", str(found), re.M)


@pytest.mark.parametrize("value", np.geomspace(1e-12, 1e9, 50))
@pytest.mark.parametrize("digits", [1, 2, 3])
def test_what_is_called_at_most_is_rounded_up(value, digits):
    shown = float(at_most(value, digits))
    assert value * (1 - 1e-9) <= shown <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-9)
    assert "+" not in at_most(value, digits)


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e300, np.inf])
def test_numbers_at_the_ends_of_what_there_is_can_be_said(value):
    assert value <= float(at_most(value, 1)) <= 2.0 * value
    assert certificate(value, 0.0).verdict()


def test_only_what_was_computed_is_shown_and_the_rest_is_a_line():
    text = str(certificate(1.0, None))
    assert "duality gap  " not in text
    assert text.count("not computed") == 2  # the verdict, and the line
    assert text.splitlines()[-1].startswith("  not computed: duality gap (takes a pass over all")
    assert "not computed" not in str(certificate(1.0, 0.99))


def test_bounds_that_say_nothing_are_hidden():
    coarse = {"max_residual": 1e-3, "squared_norm_bound": 10.0, "squared_norm": 4.0}
    far = {**coarse, "max_residual": 1.0, "weighted_distances": 9.0}
    vacuous = certificate(None, None, **far, loss_reduced=5.0)
    assert vacuous.paper_bound_is_vacuous
    assert vacuous.theorem_2_bound_is_vacuous
    assert "excess on all rows" not in str(vacuous)
    assert "Corollary 3" not in str(vacuous)
    useful = certificate(None, None, **coarse, loss_reduced=5.0, weighted_distances=0.3)
    assert "excess on all rows, at most       0.6\n" in str(useful)
    assert useful.paper_bound_is_vacuous is False
    assert "Corollary 3" in str(useful)
    known = certificate(6.0, 5.9, **coarse, weighted_distances=0.3)
    assert "excess on all rows" not in str(known)  # for it was computed
    exact = str(certificate(1.0, 1.0, exact=True))
    for of_representatives in ("hull tolerance", "residual", "representatives", "bound"):
        assert of_representatives not in exact


def test_all_rows_solved_for_loosely_are_said_to_be_and_what_solves_them_further():
    loosely = str(certificate(1.0, 0.995, exact=True))
    assert 'solved to tol or gap_tol; refine="exact" aims at a gap of 0.001' in loosely
    assert "aims at" not in str(certificate(1.0, 0.9995, exact=True))
    assert "aims at" not in str(certificate(1.0, 0.995))
    ended = replace(certificate(1.0, 0.995, exact=True), remedy="raise the limit")
    assert "solved to tol" not in str(ended)
    far = str(certificate(1.0, 0.5, exact=True))  # whose caveat says it
    assert far.count('refine="exact"') == 1


def test_equal_rows_of_a_stream_are_said_to_be_why_fewer_were_solved_for():
    found = replace(certificate(1.0, 1.0, exact=True), n_rows=10, n_solved=7, distinct=False)
    assert "all 7 distinct rows of non-zero weight, of 10 rows" in str(found)
    assert "all of 10 rows solved for" in str(replace(found, n_solved=10))


def test_a_kernel_that_was_not_checked_is_said():
    assert "kernel taken to be positive semidefinite" in str(certificate(1.0, 0.99, TAKEN))
    assert "kernel" not in str(certificate(1.0, 0.99))


def test_rows_count_once_and_violations_are_said_to_be_of_pairs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 2)) + y[:, None]
    text = str(AESVC(gamma=1.0).fit(X, y).certificate_)
    assert "all of 300 distinct rows solved for" in text
    assert "violations of optimality, by pairs" in text
    assert "rows that violate optimality" not in text


class Page(HTMLParser):
    """Open tags, text, and the styles of a piece of HTML."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.styles = [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.styles += f"{dict(attributes).get('style')};"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("found", [certificate(2.0, 1.0), certificate(1.0, None)])
def test_a_notebook_shows_the_same_in_its_own_colours(found):
    page = Page(found._repr_html_())
    assert not page.open
    lines = [line.strip() for line in str(found).splitlines()]
    assert page.text[0] == found.verdict()
    shown = "".join(page.text)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", shown)
    colours = re.findall(r"[a-z-]*color:[^;]*|background[a-z-]*:[^;]*", page.styles)
    assert set(colours) <= {"color:inherit", "background:none"}


def test_what_is_shown_in_a_notebook_is_escaped():
    found = replace(certificate(1.0, None), missing={"gap": "<script>"})
    assert "<script>" not in found._repr_html_()


def test_verbose_ends_with_the_verdict_and_says_exact(capsys):
    X, y = make_moons(300, noise=0.2, random_state=0)
    model = AESVC(gamma=1.0, verbose=1).fit(X, y)
    *_, solved, last = capsys.readouterr().out.splitlines()
    assert "solve: 1 SVM (exact), 300 rows solved for, largest KKT violation" in solved
    assert last == f"[AESVC] certificate: {model.certificate_.verdict()}"


def test_the_history_tells_how_the_gap_went():
    X, y = make_moons(3000, noise=0.3, random_state=0)
    model = AESVC(gamma=1.0, refine=3, subset_size=500).fit(X, y)
    steps = model.certificate_.history
    assert [step.rounds for step in steps] == list(range(len(steps)))
    assert len(steps) >= 2
    seconds = [step.seconds for step in steps]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    assert steps[-1].relative_gap < steps[0].relative_gap
    best = min(step.objective for step in steps)
    assert model.certificate_.objective == pytest.approx(best, rel=1e-5)
    assert model.certificate_.as_dict()["history"][0]["rounds"] == 0
    exact = AESVC(gamma=1.0).fit(X, y).certificate_
    (only,) = exact.history
    assert only.relative_gap == pytest.approx(exact.relative_gap, abs=1e-5)


@pytest.mark.parametrize("n_classes", [3, 16])
def test_the_history_is_of_all_pairs_together(n_classes):
    """With sixteen classes they are trained many at a time."""
    rng = np.random.default_rng(0)
    y = np.arange(960) % n_classes
    X = rng.normal(size=(960, 2)) + y[:, None]
    found = AESVC(gamma=1.0).fit(X, y).certificate_
    assert found.history[-1].objective == pytest.approx(found.objective, rel=1e-4)
    assert found.history[-1].dual_objective == pytest.approx(found.dual_objective, rel=1e-4)


def test_few_vectors_streams_and_other_formulations_have_a_history():
    X, y = make_moons(2000, noise=0.3, random_state=0)
    few = AESVC(gamma=1.0, max_vectors=30).fit(X, y).certificate_
    assert few.history[-1].n_vectors == few.n_vectors == 30
    chunks = [(X, y, None)]
    streamed = AESVC(gamma=1.0, refine=1).fit_stream(chunks).certificate_
    assert [step.rounds for step in streamed.history] == [0, 1]
    assert streamed.history[0].relative_gap is None
    assert not AESVC(gamma=1.0, refine=0).fit_stream(chunks).certificate_.history
    for model in (AENuSVC(nu=0.3, gamma=1.0).fit(X, y), AEOneClassSVM(nu=0.1).fit(X)):
        assert model.certificate_.history[-1].relative_gap < 0.1


def test_pairs_that_are_done_wait_for_the_others():
    history = FitHistory(0.0)
    history.note(0, 9.0, 1.0, rounds=0)
    history.note(0, 8.0, 2.0, rounds=1)
    history.note(1, 5.0, None, rounds=0)
    history.note(2, None, None)
    steps = history.steps()
    assert [(step.rounds, step.objective) for step in steps] == [(0, 14.0), (1, 13.0)]
    assert steps[0].dual_objective is None


def test_a_certificate_that_takes_less_than_a_tenth_of_the_fit_is_computed(monkeypatch):
    """Rows far from the margin are represented by few, and the first set took most of the fit."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 6000)
    X = rng.uniform(0.1, 3.0, size=(12_000, 2)) * np.where(y == 1, 1.0, -1.0)[:, None]
    monkeypatch.setattr(rounds, "FREE", 0.0)
    fitted = AESVC(gamma=0.5, C=10.0, refine=0, hull_tol=1e-2).fit(X, y)
    assert fitted.certificate_.gap is not None
    assert fitted.certificate_.proven
    monkeypatch.setattr(rounds, "FREE_SHARE", 0.0)
    fitted.fit(X, y)
    assert fitted.certificate_.gap is None
