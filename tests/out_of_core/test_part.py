"""Rows in several places: what parts answer, and answers merged, against brute force."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from aesvm.formulations.hinge import Hinge
from aesvm.kernels import KernelSpec
from aesvm.kernels.gamma import Variance
from aesvm.machines.plan import COARSER
from aesvm.machines.problem import ClassPair
from aesvm.machines.rounds import WIDEST, Cut
from aesvm.out_of_core import merge_tree, part
from aesvm.out_of_core.merge_tree import folded
from aesvm.out_of_core.part import (
    SHIFT,
    STEPS,
    LastRound,
    Part,
    PartLooks,
    RowScores,
    SentMachine,
    SentMachines,
    look,
    merged_looks,
    score,
    stratify,
    stratum_tolerances,
)
from aesvm.out_of_core.reducer import RowReducer
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads
from aesvm.sets.derive import Combinations, ReductionSettings
from tests import oracles

GAMMA = 0.5
RUN = Threads(1)
SPEC = KernelSpec("rbf", gamma=GAMMA)
REDUCER = RowReducer(SPEC, ReductionSettings(1e-3, 30, 100_000, "distance"))
SEEDS = st.integers(0, 10**6)
TOLERANCES = st.sampled_from([1e-3, 1e-2, 0.1, 0.3])
TOL = 1e-3
reduce = REDUCER.at_levels(RUN, Silence())


def weighted(X, y, weights=None, first=0):
    weights = np.ones(len(y)) if weights is None else weights
    return WeightedRows(X, y, y, weights, np.arange(first, first + len(y)), 0.0, whole=True)


def part_of(rows, tolerance):
    return reduce.part(rows, tolerance)


def sent_machines(vectors, machines, spec=SPEC):
    return SentMachines(vectors, machines, spec, Hinge(), TOL)


def sent_machine(classes, support, coefs, offset, norm, costs=(0.7, 2.0)):
    return SentMachine(ClassPair(classes, costs, 0), support, coefs, (offset,), norm)


def merged_strata(several, level, hull_tol, reduce):
    return part.merged_strata(several, level, stratum_tolerances(Hinge(), hull_tol), reduce)


def clusters(rng, n, n_classes=2):
    y = rng.permutation(np.arange(n) % n_classes)
    centres = 1.5 * np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.5]])
    X = centres[y] + rng.uniform(0.3, 1.0) * rng.normal(size=(n, 2))
    X[n // 2 : n // 2 + 10] = X[:10]
    y[n // 2 : n // 2 + 10] = y[:10]
    return X, y, rng.uniform(0.1, 3.0, n)


def some_machines(rng, X, y, definite=True):
    """Expansions over rows of both classes, that are rather right about them."""
    at = rng.permutation(len(y))[:40]
    vectors, classes = X[at] + 0.1 * rng.normal(size=(len(at), 2)), y[at]
    of = {}
    for number, (i, j) in enumerate(combinations(np.unique(y), 2)):
        support = np.flatnonzero((classes == i) | (classes == j))
        coefs = np.where(classes[support] == i, 1.0, -1.0) * rng.uniform(0.0, 1.0, len(support))
        coefs *= rng.choice([0.3, 1.0, 3.0])
        K = oracles.kernel(vectors[support], gamma=GAMMA)
        norm = np.sqrt(coefs @ K @ coefs) if definite else np.inf
        of[number] = sent_machine((i, j), support, coefs, rng.normal(scale=0.2), norm)
    return sent_machines(vectors, of)


def true_scores(machines, number, X):
    machine = machines.machines[number]
    return oracles.kernel(X, machines.vectors[machine.support], gamma=GAMMA) @ machine.coefs


def looked_at(rng, n, scale=1.0, on_steps=False):
    """What parts of the rows see, and the losses of all of them at an offset."""
    y = rng.integers(0, 2, n)
    signs = np.where(y == 0, 1.0, -1.0)
    values = scale * rng.normal(size=n)
    machine = sent_machine((0, 1), np.arange(0), np.empty(0), 0.25, 1.0)
    if on_steps:
        values = signs - 0.25 - rng.choice(np.linspace(-SHIFT, SHIFT, STEPS + 1)[::64], n)
    weights = rng.uniform(0.1, 3.0, n)

    def seen_of(mine):
        own = np.flatnonzero(mine)
        rows = weighted(np.zeros((len(own), 1)), y[own], weights[own])
        found = RowScores(
            np.arange(len(own)), values[own], len(own), float(len(own)) ** 2, len(own)
        )
        one = Part(rows, Combinations.identity(len(own)))
        return look(one, {0: found}, sent_machines(np.zeros((0, 1)), {0: machine}), None)

    bounds = np.where(y == 0, 0.7, 2.0) * weights
    return seen_of, lambda b: float(bounds @ np.maximum(0.0, 1.0 - signs * (values + b))), bounds


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """So that sets of a few rows are reduced."""
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 20)


@given(SEEDS, st.integers(1, 60), st.sampled_from([0.1, 1.0, 30.0]), st.booleans())
@settings(max_examples=60)
def test_no_offset_near_the_present_one_is_better_than_the_best_step(seed, n, scale, on_steps):
    seen_of, losses, bounds = looked_at(np.random.default_rng(seed), n, scale, on_steps)
    own = seen_of(np.ones(n, dtype=bool)).one(0)
    (offset,), least = own.best((0.25,))
    assert abs(offset - 0.25) <= SHIFT
    assert least == pytest.approx(losses(offset), rel=1e-9, abs=1e-9)
    others = [losses(b) for b in np.linspace(0.25 - SHIFT, 0.25 + SHIFT, 3001)]
    assert least <= min(others) + SHIFT / STEPS * bounds.sum() + 1e-9


@given(SEEDS, st.integers(1, 60), st.integers(1, 5))
@settings(max_examples=30)
def test_looks_at_some_of_the_rows_add_up(seed, n, n_parts):
    rng = np.random.default_rng(seed)
    seen_of, _, _ = looked_at(rng, n)
    whole = seen_of(np.ones(n, dtype=bool)).one(0)
    places = rng.integers(0, n_parts, n)
    parts = [seen_of(places == place) for place in range(n_parts)]
    merged = merged_looks([PartLooks.of([]), *parts]).one(0)
    assert_allclose(merged.sums, whole.sums, rtol=1e-12, atol=1e-12)
    assert merged.here((0.0,)) == pytest.approx(whole.here((0.0,)), rel=1e-9, abs=1e-9)
    assert_allclose(merged.losses((0.0,)), whole.losses((0.0,)), rtol=1e-9, atol=1e-9)
    assert merged.n_values == merged.n_wrong == n
    assert merged.squared_error == sum(np.bincount(places) ** 2)
    both = merged_looks([PartLooks.of([(number, whole)]) for number in (1, 0)])
    assert both.numbers.tolist() == [0, 1]
    for number in (0, 1):
        assert_array_equal(both.one(number).sums, whole.sums)
        assert both.one(number)[2:] == whole[2:]


def test_doubt_is_half_as_much_again_as_the_error_and_ends_at_the_boundary():
    seen = looked_at(np.random.default_rng(0), 5)[0](np.ones(5, dtype=bool)).one(0)
    same = seen.here((0.0,))
    assert seen._replace(squared_error=0.12, n_wrong=3).doubt(same, (0.0,)) == pytest.approx(0.3)
    assert seen._replace(squared_error=12.0, n_wrong=3).doubt(same, (0.0,)) == WIDEST
    assert seen._replace(squared_error=0.0, n_wrong=0).doubt(same, (0.0,)) == 0.0


def test_doubt_is_no_less_than_what_the_trained_set_gets_wrong_on_average():
    rng = np.random.default_rng(1)
    machine = sent_machine((0, 1), np.empty(0, np.intp), np.empty(0), 0.25, 1.0)
    values, y, weights = rng.normal(size=40), rng.integers(0, 2, 40), rng.uniform(0.5, 2.0, 40)
    found = RowScores(np.arange(40), values, 40, 0.0, 0)
    one = Part(weighted(np.zeros((40, 1)), y, weights), Combinations.identity(40))
    seen = look(one, {0: found}, sent_machines(np.zeros((0, 1)), {0: machine}), None).one(0)
    bounds = np.where(y == 0, 0.7, 2.0) * weights
    margins = np.where(y == 0, 1.0, -1.0) * (values + 0.25)
    within = bounds[margins < 1.0].sum()
    for wrong in (-0.2, 0.1):
        expected = 1.5 * abs(wrong)
        assert seen.doubt(seen.here((0.0,)) + wrong * within, (0.0,)) == pytest.approx(
            expected, rel=1e-9
        )


@given(SEEDS, TOLERANCES, st.integers(2, 3), st.booleans())
@settings(max_examples=60)
def test_scores_are_right_or_proven_to_be_far_outside(seed, tolerance, n_classes, definite):
    rng = np.random.default_rng(seed)
    X, y, weights = clusters(rng, int(rng.integers(40, 150)), n_classes)
    machines = some_machines(rng, X, y, definite)
    own = part_of(weighted(X, y, weights), tolerance)
    found = score(own, machines, RUN)
    assert sorted(found) == sorted(machines.machines)
    for number, machine in machines.machines.items():
        at, values = found[number].at, found[number].values
        assert_array_equal(at, np.flatnonzero(np.isin(own.rows.targets, machine.selection.classes)))
        signs = np.where(own.rows.targets == machine.selection.classes[0], 1.0, -1.0)
        true = true_scores(machines, number, own.rows.X)
        margins = signs * (true + machine.offsets[0])
        right = np.isclose(values, true[at], rtol=1e-9, atol=1e-9)
        assert right[np.isin(at, own.combinations.members)].all()
        bound = (signs[at] * (values + machine.offsets[0]))[~right]
        assert (margins[at][~right] >= bound - 1e-9).all()
        assert (bound >= 1.0 + WIDEST + SHIFT - 1e-9).all()
        n_asked, rest = divmod(found[number].n_values, len(machine.support))
        assert rest == 0
        assert (~right).sum() <= len(at) - n_asked
        assert definite or (right.all() and n_asked == len(at))
        losses = np.maximum(0.0, 1.0 - margins)
        wrong = (own.combinations.spread(losses[own.combinations.members]) - losses)[at]
        assert_allclose(found[number].squared_error, wrong @ wrong, rtol=1e-6, atol=1e-12)
        assert found[number].n_wrong == (np.abs(wrong) > 1e-9).sum()


def test_rows_proven_to_be_far_outside_are_not_computed():
    linear = KernelSpec("linear")
    X = np.array([3.0, 2.0, 6.0, 5.0, 7.0, -6.0, -5.0, -2.0])[:, None]
    y = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    members, stands_for = np.array([0, 2, 5]), np.array([0, 0, 1, 1, 1, 2, 2, 2])
    shares = sp.csr_array(np.eye(3)[stands_for])
    combinations = Combinations(members, shares, (X - X[members][stands_for])[:, 0] ** 2)
    one = sent_machine((0, 1), np.arange(1), np.ones(1), 0.1, 1.0, costs=(1.0, 1.0))
    for norm, values in ((1.0, [3.0, 2.0, 6.0, 5.0, 5.0, -6.0, -5.0, -2.0]), (np.inf, X[:, 0])):
        machines = sent_machines(np.ones((1, 1)), {0: one._replace(norm=norm)}, linear)
        found = score(Part(weighted(X, y), combinations), machines, RUN)[0]
        assert_allclose(found.values, values)
        assert found.n_values == (5 if norm == 1.0 else 8)


def test_a_part_that_has_no_rows_of_a_pair_says_nothing_of_it():
    rng = np.random.default_rng(0)
    X, y, weights = clusters(rng, 90, 3)
    machines = some_machines(rng, X, y)
    own = part_of(weighted(X[y == 2], y[y == 2], weights[y == 2]), 1e-2)
    found = score(own, machines, RUN)
    assert {number: len(scores.at) for number, scores in found.items()} == {
        1: len(own.rows),
        2: len(own.rows),
    }
    assert look(own, found, machines, None).numbers.tolist() == [1, 2]
    cuts = {number: Cut(one.offsets, 0.1) for number, one in machines.machines.items()}
    assert sorted(stratify(own, found, cuts, machines, 1e-2, reduce)) == [1, 2]
    nobody = part_of(weighted(X, y, np.zeros(90)), 1e-2)
    assert score(nobody, machines, RUN) == {}
    assert not len(look(nobody, {}, machines, None).numbers)
    assert stratify(nobody, {}, cuts, machines, 1e-2, reduce) == {}


def distances(K, rows, members):
    own = np.append(members, rows)
    at = np.arange(len(own))
    return oracles.hull_distances(K[np.ix_(own, own)], at[len(members) :], at[: len(members)])


def same(X, y, i):
    return np.flatnonzero((X[i] == X).all(axis=1) & (y == y[i]))


@given(SEEDS, TOLERANCES, st.integers(2, 3), st.integers(1, 6), st.booleans())
@settings(max_examples=40)
def test_strata_hold_all_weights_and_reach_all_rows(seed, hull_tol, n_classes, n_parts, at_end):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 140))
    X, y, weights = clusters(rng, n, n_classes)
    machines = some_machines(rng, X, y)
    doubt = rng.uniform(0.05, WIDEST)
    cuts = {
        number: Cut((one.offsets[0] + rng.uniform(-SHIFT, SHIFT),), doubt)
        for number, one in machines.machines.items()
    }

    def answers():
        for rows in np.array_split(np.arange(n), n_parts):
            here = weighted(X[rows], y[rows], weights[rows], rows[0])
            found = score(part_of(here, hull_tol), machines, RUN)
            yield stratify(part_of(here, 0.0), found, cuts, machines, hull_tol, reduce)

    strata = folded(answers(), lambda two, level: merged_strata(two, level, hull_tol, reduce))
    strata = merged_strata([strata], None, hull_tol, reduce) if at_end else strata
    K = oracles.kernel(X, gamma=GAMMA)
    for number, cut in cuts.items():
        signs = np.where(y == machines.machines[number].selection.classes[0], 1.0, -1.0)
        margins = signs * (true_scores(machines, number, X) + cut.offsets[0])
        sides = (np.abs(margins - 1.0) <= doubt, margins < 1.0 - doubt, margins > 1.0 + doubt)
        tolerances = (0.0, hull_tol, COARSER * hull_tol)
        for stratum, side, tolerance in zip(strata[number], sides, tolerances, strict=True):
            assert_array_equal(stratum.X, X[stratum.indices])
            assert_array_equal(stratum.targets, y[stratum.indices])
            assert side[stratum.indices].all()
            assert stratum.reach**2 <= tolerance * (1 + 1e-9)
            for c in machines.machines[number].selection.classes:
                mine = stratum.targets == c
                total = weights[side & (y == c)].sum()
                assert stratum.weights[mine].sum() == pytest.approx(total, rel=1e-12)
                others = np.setdiff1d(np.flatnonzero(side & (y == c)), stratum.indices)
                found = distances(K, others[::20], stratum.indices[mine])
                assert (found <= stratum.reach**2 + 1e-7).all()
        band, inside, outside = strata[number]
        for near in (band, inside):
            assert_allclose(near.positions, margins[near.indices], rtol=1e-9, atol=1e-9)
        assert (outside.positions <= margins[outside.indices] + 1e-9).all()
        assert (outside.positions > 1.0 + doubt).all()
        pair = np.isin(y, machines.machines[number].selection.classes)
        firsts = {same(X, y, i)[0] for i in np.flatnonzero(sides[0] & pair)}
        assert_array_equal(band.indices, sorted(firsts))
        alone = [weights[same(X, y, i)].sum() for i in band.indices]
        assert_allclose(band.weights, alone, rtol=1e-12)


def test_sides_are_reduced_and_the_band_is_not():
    rng = np.random.default_rng(0)
    X, y, weights = clusters(rng, 400)
    machines = some_machines(rng, X, y)
    found = score(part_of(weighted(X, y, weights), 0.1), machines, RUN)
    cuts = {0: Cut(machines.machines[0].offsets, 0.3)}
    strata = stratify(part_of(weighted(X, y, weights), 0.0), found, cuts, machines, 0.1, reduce)
    band, inside, outside = merged_strata([strata], None, 0.1, reduce)[0]
    margins = np.where(y == 0, 1.0, -1.0) * (true_scores(machines, 0, X) + cuts[0].offsets[0])
    assert len(band) == len(np.unique(X[np.abs(margins - 1.0) <= 0.3], axis=0)) > 20
    assert 0 < len(inside) < 0.8 * (margins < 0.7).sum()
    assert 0 < len(outside) < 0.2 * (margins > 1.3).sum()
    assert band.reach == 0.0 < inside.reach**2 <= 0.1 < outside.reach**2


@given(SEEDS, st.sampled_from([0.0, 1e-3, 1e-2, 0.1, 0.3]))
@settings(max_examples=30)
def test_a_part_is_its_distinct_rows_of_some_weight(seed, tolerance):
    rng = np.random.default_rng(seed)
    X, y, weights = clusters(rng, 100)
    weights[rng.uniform(size=100) < 0.2] = 0.0
    own = part_of(weighted(X, y, weights, first=1000), tolerance)
    used = np.flatnonzero(weights)
    firsts = sorted({np.intersect1d(same(X, y, i), used)[0] for i in used})
    assert_array_equal(own.rows.indices, 1000 + np.array(firsts))
    assert_array_equal(own.rows.X, X[firsts])
    assert_allclose(own.rows.weights, [weights[same(X, y, i)].sum() for i in firsts], rtol=1e-12)
    few = own.representatives()
    K = oracles.kernel(X, gamma=GAMMA)
    for c in (0, 1):
        members = few.indices[few.targets == c] - 1000
        assert few.weights[few.targets == c].sum() == pytest.approx(
            weights[y == c].sum(), rel=1e-12
        )
        others = np.setdiff1d(np.flatnonzero((y == c) & (weights > 0)), members)
        assert (distances(K, others[::9], members) <= few.reach**2 + 1e-7).all()
    assert few.reach**2 <= tolerance * (1 + 1e-9)
    if tolerance == 0.0:
        assert_array_equal(few.indices, own.rows.indices)


def test_a_part_without_any_weight_is_empty():
    X, y, _ = clusters(np.random.default_rng(0), 30)
    for rows in (X, sp.csr_array(X)):
        own = part_of(weighted(rows, y, np.zeros(30)), 1e-2)
        assert len(own.rows) == len(own.representatives()) == own.rows.X.shape[0] == 0


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@given(data=st.data())
@settings(max_examples=30)
def test_the_variance_of_pieces_is_that_of_all_values(make, data):
    rng = np.random.default_rng(data.draw(SEEDS))
    n, n_features = data.draw(st.integers(2, 60)), data.draw(st.integers(1, 4))
    X = rng.normal(rng.normal(scale=2.0), rng.uniform(0.1, 10.0), size=(n, n_features))
    X[rng.uniform(size=X.shape) < data.draw(st.sampled_from([0.0, 0.6]))] = 0.0
    X[0, 0] = 5.0
    before = X.copy()
    variance = Variance()
    for rows in pieces(make(X), rng):
        variance |= Variance.of(rows)
    assert variance.n_values == X.size
    assert variance.values.variance == pytest.approx(np.var(X), rel=1e-12)
    assert variance.gamma("scale") == pytest.approx(1.0 / (n_features * np.var(X)), rel=1e-12)
    assert variance.gamma("auto") == 1.0 / n_features
    assert_array_equal(X, before)


def pieces(X, rng):
    edges = [0, *np.sort(rng.integers(0, X.shape[0] + 1, 4)), X.shape[0]]
    return [X[first:last] for first, last in pairwise(edges)]


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_variance_of_values_far_from_the_origin_is_kept(make):
    X = np.random.default_rng(0).normal(size=(200, 3)) + 1e8
    whole = Variance.of(make(X))
    assert whole.values.variance == pytest.approx(np.var(X), rel=1e-12)
    merged = Variance.of(make(X[:70])) | Variance.of(make(X[70:]))
    # a mean of 1e8 is known to eight decimals
    assert merged.values.variance == pytest.approx(np.var(X), rel=1e-7)


def test_nothing_adds_nothing_to_a_variance():
    some, none = Variance.of(np.array([[1.0, 2.0, 4.0]])), Variance.of(np.empty((0, 3)))
    assert some | Variance() == Variance() | some == some | none == none | some == some


@given(SEEDS, st.integers(1, 60))
@settings(max_examples=30)
def test_rows_that_have_crossed_the_margin_are_counted(seed, n):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    signs = np.where(y == 0, 1.0, -1.0)
    machine = sent_machine((0, 1), np.arange(0), np.empty(0), 0.25, 1.0)
    sent = sent_machines(np.zeros((0, 1)), {0: machine})
    one = Part(weighted(np.zeros((n, 1)), y), Combinations.identity(n))
    before, now = (RowScores(np.arange(n), 2.0 * rng.normal(size=n), n, 0.0, 0) for _ in range(2))
    cut = Cut((0.1,), rng.uniform(0.0, WIDEST))
    seen = look(one, {0: now}, sent, LastRound({0: before}, {0: cut})).one(0)
    then, here = signs * (before.values + 0.1), signs * (now.values + 0.25)
    inside, outside = then < 1.0 - cut.doubt, then > 1.0 + cut.doubt
    crossed = (inside & (here > 1.0 + TOL)) | (outside & (here < 1.0 - TOL))
    assert seen.n_crossed == crossed.sum()
    assert look(one, {0: now}, sent, None).one(0).n_crossed == 0
