"""Datasets that the paper does not have: regressions, more than two classes, and noisier ones.

``load`` of ``benchmarks.datasets`` knows those of the paper; ``load`` here knows these, from the
same folder, verified in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler, minmax_scale, scale

from benchmarks import datasets
from benchmarks.datasets import REGISTRY, Arrays, Dataset, Entry


def load(name: str, data_dir: Path | None) -> Dataset:
    entry = OTHERS[name]
    return entry.prepare(datasets.arrays_of(entry, data_dir))


def _regression(name: str, arrays: Arrays) -> Dataset:
    """Features and target of mean 0 and variance 1, missing features 0; a tenth for testing."""
    X, y = arrays["X"].astype(np.float64), scale(arrays["y"].astype(np.float64))
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    return Dataset(name, np.ascontiguousarray(scale(X)), y).split(9 * len(y) // 10)


def _digits(arrays: Arrays) -> Dataset:
    return Dataset(
        "mnist, ten digits",
        arrays["X_train"] / 255.0,
        arrays["y_train"],
        arrays["X_test"] / 255.0,
        arrays["y_test"],
    )


def _seven_covers(arrays: Arrays) -> Dataset:
    X = np.ascontiguousarray(minmax_scale(arrays["X"].astype(np.float64)))
    return Dataset("covtype, seven classes", X, arrays["y"])


#: Test rows of flights, and the seed of its split.
FLIGHTS_TEST, FLIGHTS_SEED = 20_000, 1


def _flights(arrays: Arrays) -> Dataset:
    """Four fifths of the rows, in random order, and some of the others for testing."""
    X, y = arrays["X"].astype(np.float64), arrays["y"]
    order = np.random.default_rng(FLIGHTS_SEED).permutation(len(y))
    n_train = 4 * len(y) // 5
    train, test = order[:n_train], order[n_train : n_train + FLIGHTS_TEST]
    scaler = StandardScaler().fit(X[train])
    return Dataset(
        "flights", scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]
    )


def _heart(arrays: Arrays) -> Dataset:
    return Dataset("heart2020", scale(arrays["X"].astype(np.float64)), arrays["y"])


def _usps(arrays: Arrays) -> Dataset:
    return Dataset("usps", scale(arrays["X"].astype(np.float64)), arrays["y"])


def _entry(name: str, title: str, size: str, origin: str, checksum: str) -> Entry:
    return Entry(
        name=name,
        paper="",
        title=title,
        size=size,
        origin=origin,
        preprocessing="Features and target of mean 0 and variance 1.",
        split="A random tenth for testing.",
        traps="It is not fetched: pass a folder that has it.",
        prepare=lambda arrays: _regression(title, arrays),
        file=f"reg_{name}",
        arrays=("X", "y"),
        checksum=checksum,
    )


OTHERS: dict[str, Entry] = {
    "kin40k": _entry(
        "kin40k",
        "kin40k",
        "40,000 × 8",
        "https://github.com/trungngv/fgp",
        "04012a6b8ed70d49470c904d6767fca2a75dbea67d81f866883b31297b0eebf1",
    ),
    "california_housing": _entry(
        "california_housing",
        "california_housing",
        "20,640 × 8",
        "https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.html",
        "002abd4f365ccbf85f1f234d55f637271789a00ed0b4d813d8baf5f593f4ae82",
    ),
    "flights": Entry(
        name="flights",
        paper="",
        title="Departures from New York in 2013, late by over 15 minutes or not",
        size="255,847 / 20,000 × 33",
        origin="https://github.com/tidyverse/nycflights13",
        preprocessing="Features of mean 0 and variance 1 over the training rows.",
        split="The first four fifths of a random order; tested with the next 20,000.",
        traps="23.8 % are late: an accuracy of 76 % is nothing. Nearly half of the rows are "
        "support vectors. Rows are ordered in time, and the split is random: neighbours leak. It "
        "is not fetched: pass a folder that has it.",
        prepare=_flights,
        file="flights",
        arrays=("X", "y"),
        checksum="7e8fe00a7cd5a9b17d7a3f5028898e03d4bef6fbbf64f8f6f63a19e1de9e3551",
    ),
    "heart2020": Entry(
        name="heart2020",
        paper="",
        title="A health survey of 2020: heart disease or not",
        size="319,795 × 25",
        origin="https://www.cdc.gov/brfss/annual_data/annual_2020.html",
        preprocessing="Features of mean 0 and variance 1.",
        split="None.",
        traps="8.6 % are ill: an accuracy of 91 % is nothing. Nearly half of the support vectors "
        "are free. It is not fetched: pass a folder that has it.",
        prepare=_heart,
        file="heart2020",
        arrays=("X", "y"),
        checksum="19bed1f16dfed24c5e904dd73c182f7d0ed1d24feea79c0e7a37b35a6f157061",
    ),
    "usps": Entry(
        name="usps",
        paper="",
        title="Handwritten digits of letters' addresses",
        size="9,298 × 256",
        origin="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
        preprocessing="Features of mean 0 and variance 1.",
        split="None.",
        traps="It is not fetched: pass a folder that has it.",
        prepare=_usps,
        file="usps",
        arrays=("X", "y"),
        checksum="3947bd5bb893edf79e55932de65d5ff86cd0d714a4bb5a87653e9fab362983cc",
    ),
    "mnist_digits": replace(REGISTRY["mnist"], prepare=_digits),
    "covtype_7": replace(REGISTRY["covtype"], prepare=_seven_covers),
}
