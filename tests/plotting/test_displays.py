"""What the displays of representatives and certificates draw."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from aesvm import AESVC, RepresentativeSet
from aesvm.model_selection import AEGridSearchCV
from aesvm.plotting import CertificateDisplay, RepresentativeSetDisplay
from tests import children

plt, pd = pytest.importorskip("matplotlib.pyplot"), pytest.importorskip("pandas")
plt.switch_backend("Agg")
to_hex = pytest.importorskip("matplotlib.colors").to_hex

X, Y = make_moons(3000, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def chosen():
    return RepresentativeSet(gamma=1.0, hull_tol=1e-2).fit(X, Y)


@pytest.fixture(scope="module")
def model():
    return AESVC(gamma=1.0, refine=3, subset_size=500).fit(X, Y)


def test_rows_are_dots_and_representatives_circles_by_weight(chosen):
    shown = RepresentativeSetDisplay.from_estimator(chosen, X, Y)
    at = chosen.sample_indices_
    assert_allclose(shown.rows_.get_offsets(), X)
    assert_allclose(shown.representatives_.get_offsets(), X[at])
    sizes = shown.representatives_.get_sizes()
    assert_array_equal(np.argsort(sizes, kind="stable"), np.argsort(chosen.weights_, kind="stable"))
    assert sizes.min() > shown.rows_.get_sizes().max()
    assert_array_equal(shown.representatives_.get_array(), Y[at])
    assert_array_equal(shown.rows_.get_array(), Y)
    assert shown.ax_.get_title().startswith(f"{len(at):,} representatives of 3,000 rows (")
    assert (shown.ax_.get_xlabel(), shown.ax_.get_ylabel()) == ("feature 0", "feature 1")
    assert shown.figure_ is shown.ax_.figure


def test_without_classes_all_are_alike(chosen):
    shown = RepresentativeSetDisplay.from_estimator(chosen, X)
    (dots,), (circles,) = shown.rows_.get_facecolor(), shown.representatives_.get_facecolor()
    assert to_hex(dots) != to_hex(circles)


def test_features_are_chosen_by_number_and_by_name():
    frame = pd.DataFrame({"a": X[:, 0], "b": np.arange(3000.0), "c": X[:, 1]})
    fitted = RepresentativeSet(gamma=1e-6).fit(frame)
    by_name = RepresentativeSetDisplay.from_estimator(fitted, frame, features=["c", "a"])
    assert_allclose(by_name.rows, X[:, [1, 0]])
    assert by_name.ax_.get_xlabel() == "c"
    by_number = RepresentativeSetDisplay.from_estimator(fitted, frame, features=(2, 0))
    assert_allclose(by_number.rows, by_name.rows)


@pytest.mark.parametrize("sparse", [False, True])
def test_more_features_are_projected_to_where_rows_differ_most(sparse):
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(400, 5)) * [9.0, 0.1, 5.0, 0.1, 0.1]
    data = sp.csr_array(wide) if sparse else wide
    shown = RepresentativeSetDisplay.from_estimator(AESVC().fit(data, wide[:, 0] > 0), data)
    centred = wide if sparse else wide - wide.mean(axis=0)
    values = np.linalg.svd(centred, compute_uv=False)[:2]
    assert_allclose(np.linalg.norm(shown.rows, axis=0), values, rtol=1e-6)
    assert "singular direction" in shown.ax_.get_xlabel()


@pytest.mark.parametrize("rows", [np.ones((9, 3)), np.eye(2, 6), np.ones((1, 4))])
@pytest.mark.filterwarnings("error")
def test_rows_that_differ_in_fewer_directions_than_are_drawn(rows):
    fitted = RepresentativeSet(gamma=1.0).fit(rows)
    for data in (rows, sp.csr_array(rows)):
        shown = RepresentativeSetDisplay.from_estimator(fitted, data)
        assert shown.rows.shape == (len(rows), 2)
        centred = rows - rows.mean(axis=0) if data is rows else rows
        assert_allclose(shown.rows @ shown.rows.T, centred @ centred.T, atol=1e-12)


def test_the_estimator_within_a_search_or_a_pipeline_is_drawn():
    model = AESVC(gamma=1.0, refine=1, subset_size=100)
    search = AEGridSearchCV(model, {"C": [1.0, 2.0]}, cv=2).fit(X[:500], Y[:500])
    best = search.best_estimator_
    pipe = Pipeline([("same", "passthrough"), ("svc", best)])
    for wrapped in (search, pipe, Pipeline([("search", search)])):
        shown = CertificateDisplay.from_estimator(wrapped)
        assert shown.verdict == best.certificate_.verdict()
        drawn = RepresentativeSetDisplay.from_estimator(wrapped, X[:500])
        assert len(drawn.representatives) == len(best.representative_set_.sample_indices_)
    without = AEGridSearchCV(model, {"C": [1.0, 2.0]}, cv=2, refit=False).fit(X[:500], Y[:500])
    with pytest.raises(ValueError, match=r"no best_estimator_ \(refit=False\)"):
        CertificateDisplay.from_estimator(without)
    with pytest.raises(TypeError, match="SVC has no certificate_"):
        CertificateDisplay.from_estimator(SVC().fit(X[:50], Y[:50]))
    with pytest.raises(NotFittedError):
        CertificateDisplay.from_estimator(AEGridSearchCV(model, {"C": [1.0]}))


def test_few_rows_are_drawn_where_there_are_many_and_all_representatives(chosen):
    figure, ax = plt.subplots()
    shown = RepresentativeSetDisplay.from_estimator(chosen, X, Y, max_rows=100, ax=ax)
    assert shown.figure_ is figure
    assert len(shown.rows_.get_offsets()) == len(shown.rows) == 100
    assert len(shown.representatives_.get_offsets()) == len(chosen.sample_indices_)
    assert len(RepresentativeSetDisplay.from_estimator(chosen, X, max_rows=0).rows) == 0


def test_the_set_of_a_machine_and_of_a_stream_is_drawn(model):
    of_model = RepresentativeSetDisplay.from_estimator(model, X, Y)
    assert_allclose(of_model.representatives, X[model.representative_set_.sample_indices_])
    streamed = RepresentativeSet(gamma=1.0).fit_stream(
        [(X[:2000], None, None), (X[2000:], None, None)]
    )
    found = RepresentativeSetDisplay.from_estimator(streamed, X)
    assert_allclose(found.representatives, X[streamed.sample_indices_])


def test_what_cannot_be_drawn_of_representatives_is_named(chosen):
    draw = RepresentativeSetDisplay.from_estimator
    with pytest.raises(NotFittedError):
        draw(RepresentativeSet(), X)
    with pytest.raises(ValueError, match=r"X has 10 rows, and .* 3,000"):
        draw(chosen, X[:10])
    with pytest.raises(ValueError, match="y has 3 values"):
        draw(chosen, X, Y[:3])
    for wrong in (-1, 10.5, "all"):
        with pytest.raises(ValueError, match=f"max_rows={wrong!r}"):
            draw(chosen, X, max_rows=wrong)
    with pytest.raises(ValueError, match=r"1\.5 is no feature of X"):
        draw(chosen, X, features=(0, 1.5))
    with pytest.raises(TypeError, match="SVC has no representative_set_"):
        draw(SVC().fit(X, Y), X)
    with pytest.raises(ValueError, match="2 is no feature of X, which has 2"):
        draw(chosen, X, features=(0, 2))
    for wrong in ((0,), 1):
        with pytest.raises(ValueError, match="two are needed"):
            draw(chosen, X, features=wrong)
    with pytest.raises(ValueError, match="'a' is no feature, X has no names"):
        draw(chosen, X, features=("a", 1))
    with pytest.raises(ValueError, match="X has one feature"):
        draw(RepresentativeSet().fit(X[:, :1]), X[:, :1])


def test_the_gap_is_drawn_against_seconds_with_what_the_certificate_says(model):
    shown = CertificateDisplay.from_estimator(model)
    steps = model.certificate_.history
    assert_array_equal(shown.line_.get_xdata(), [step.seconds for step in steps])
    assert_array_equal(shown.line_.get_ydata(), [step.relative_gap for step in steps])
    assert set(shown.last_line_.get_ydata()) == {model.certificate_.relative_gap}
    assert shown.ax_.get_yscale() == "log"
    assert "seconds" in shown.ax_.get_xlabel()
    assert shown.ax_.get_xlim()[0] == 0.0
    assert shown.ax_.get_ylabel() == "relative duality gap"
    assert shown.ax_.get_title() == model.certificate_.verdict()


def test_rounds_objectives_and_axes_of_ones_own(model):
    figure, ax = plt.subplots()
    shown = CertificateDisplay.from_estimator(model, x="rounds", y="objective", ax=ax, color="red")
    assert shown.figure_ is figure
    assert_array_equal(shown.line_.get_xdata(), np.arange(len(shown.across)))
    assert shown.line_.get_ydata()[-1] == model.certificate_.history[-1].objective
    assert to_hex(shown.line_.get_color()) == to_hex("red")
    assert shown.ax_.get_yscale() == "linear"
    assert all(float(tick).is_integer() for tick in shown.ax_.get_xticks())


def test_models_of_few_vectors_and_of_streams_are_drawn():
    few = AESVC(gamma=1.0, max_vectors=20).fit(X, Y)
    assert CertificateDisplay.from_estimator(few, x="n_vectors").across[-1] == 20
    streamed = AESVC(gamma=1.0, refine=1).fit_stream([(X, Y, None)])
    shown = CertificateDisplay.from_estimator(streamed, y="objective")
    assert len(shown.across) == 2
    with pytest.raises(ValueError, match='use y="objective"'):
        CertificateDisplay.from_estimator(streamed)


def test_what_cannot_be_drawn_of_a_certificate_is_named(model):
    with pytest.raises(ValueError, match=r"x='time' .* \['seconds', 'rounds', 'n_vectors'\]"):
        CertificateDisplay.from_estimator(model, x="time")
    with pytest.raises(ValueError, match="y='gap' cannot be drawn"):
        CertificateDisplay.from_estimator(model, y="gap")
    with pytest.raises(ValueError, match="x='n_vectors' is not known"):
        CertificateDisplay.from_estimator(model, x="n_vectors")
    alone = AESVC(gamma=1.0, refine=0).fit_stream([(X, Y, None)])
    with pytest.raises(ValueError, match="without a look at all rows"):
        CertificateDisplay.from_estimator(alone)
    with pytest.raises(NotFittedError):
        CertificateDisplay.from_estimator(AESVC())


def test_without_matplotlib_it_is_said_what_to_install(model, monkeypatch):
    found = builtins.__import__

    def missing(name, *others):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return found(name, *others)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(
        ImportError, match=r'CertificateDisplay needs matplotlib: .*"aesvm\[plot\]"'
    ):
        CertificateDisplay.from_estimator(model)


def test_matplotlib_is_imported_only_to_draw():
    code = "import sys, aesvm.plotting; print('matplotlib' in sys.modules)"
    assert children.run(children.code(code)).strip() == "False"
