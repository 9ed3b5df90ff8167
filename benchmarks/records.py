"""Runs that were recorded: what the charts and the tables of docs/benchmarks.md are made from.

``python -m benchmarks front`` writes ``recorded/front.json``, and ``python -m
benchmarks.time_limit --record`` ``recorded/time_limit.json``. ``recorded/gpu.json`` holds runs of
``python -m benchmarks.gpu`` and of the rivals' programs on a GPU. ``make docs-figures`` makes the
charts and the tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

FOLDER = Path(__file__).parent / "recorded"

#: Names of datasets on charts and in tables.
TITLES = {
    "a9a": "a9a",
    "covtype": "covertype",
    "heart2020": "heart2020",
    "ijcnn1": "ijcnn1",
    "kdd99": "KDD99",
    "letters": "as of letters, 26 classes",
    "mnist": "mnist, 0 or not",
    "usps": "usps, ten classes",
    "w8a": "w8a",
    "flights": "flights",
    "mnist_digits": "mnist, ten digits",
    "sines": "sines, regression",
    "moons": "moons",
    "hypercube": "hypercube",
}


def recorded(name: str) -> tuple[dict[str, Any], pd.DataFrame]:
    """What is known of the runs, and a line for each of them."""
    content = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    lines = pd.DataFrame(content.pop("rows"))
    return content, lines


def front_table() -> str:
    about, lines = recorded("front")
    head = [
        "data, rows × features (C, gamma)",
        "fit: SVC, s",
        "intelex, s",
        "aesvm, s",
        "predict: SVC, s",
        "intelex, s",
        "aesvm, s",
        "labels as SVC's",
    ]
    body = []
    for _, group in lines.groupby(["data", "rows"], sort=False):
        by = group.set_index("program")
        programs = ("SVC", "intelex", "aesvm")
        body.append(
            [
                _title(group.iloc[0]),
                *(_seconds(by.loc[name, "fit s"]) for name in programs),
                *(_seconds(by.loc[name, "predict s"]) for name in programs),
                f"{by.loc['SVC', 'same labels as ours %']:.2f} %",
            ]
        )
    return f"{_table(head, body)}\n\n{about['machine']}, {about['date']}."


def gpu_table() -> str:
    _, lines = recorded("gpu")
    head = [
        "exact SVM, rows × features (C, gamma)",
        "ThunderSVM, s",
        "cuML, s",
        "aesvm, s",
        "support vectors",
        "accuracy",
    ]
    body = []
    for _, group in lines.groupby(["data", "rows", "dense", "C", "gamma"], sort=False):
        by = group.set_index("program")
        seconds = [
            _seconds(by.loc[name, "fit s"]) if name in by.index else ""
            for name in ("ThunderSVM", "cuML", "aesvm")
        ]
        ours = by.loc["aesvm"]
        vectors = ours["support vectors"]
        known = ["" if pd.isna(vectors) else f"{vectors:,.0f}", f"{ours['accuracy']:.4f}"]
        body.append([_title(group.iloc[0]), *seconds, *known])
    return _table(head, body)


#: What ``time_limit.json`` calls the ways to use some seconds, and their titles.
WAYS = {
    "time_limit": "time_limit",
    "sample": "exact SVM of a sample, aesvm",
    "intelex": "exact SVM of a sample, intelex",
    "Nystroem": "Nystroem + linear",
}


def time_limit_table() -> str:
    """The objective above the optimum and the labels of each way; of several seeds, the worst."""
    _, lines = recorded("time_limit")
    head = ["data, rows", "limit, s", *WAYS.values(), "took, s"]
    body = []
    limited = lines[lines["how"] != "exact"]
    for (data, rows), group in limited.groupby(["data", "rows"], sort=False):
        for limit, own in group.groupby("limit s"):
            each = [_bought(own[own["how"] == way]) for way in WAYS]
            took = own[own["how"] == "time_limit"]["seconds"].max()
            body.append([f"{TITLES[data]}, {rows:,}", f"{limit:g}", *each, _seconds(took)])
    exact = lines[lines["how"] == "exact"]
    runs = []
    for run, own in exact.groupby(["machine", "date", "clock"], sort=False):
        known = "; ".join(
            f"{TITLES[line.data]} {line.rows:,}: {_seconds(line.seconds)} s"
            for line in own.itertuples()
        )
        runs.append(f"{known} ({', '.join(run)}).")
    return f"{_table(head, body)}\n\nExact SVMs: {' '.join(runs)}"


def _bought(lines: pd.DataFrame) -> str:
    """What a way gave: above the optimum, as the exact SVM's; the worst of several runs."""
    if not len(lines):
        return "–"
    above, same = lines["above %"].max(), lines["same %"].min()
    parts = [] if pd.isna(above) else [_percent(max(above, 0.0))]
    return "; ".join([*parts, f"{same:.2f}"])


def _percent(value: float) -> str:
    return f"{value:.2g} %" if value < 10 else f"{value:.0f} %"


#: Tables of docs/benchmarks.md, by the name that marks their place.
TABLES: dict[str, Callable[[], str]] = {
    "front": front_table,
    "gpu": gpu_table,
    "time_limit": time_limit_table,
}


def with_tables(text: str) -> str:
    """The page with its tables as the records have them."""
    for name, table in TABLES.items():
        begin = f"<!-- {name} -->\n"
        before, found, rest = text.partition(begin)
        if found:
            _, end, after = rest.partition("<!-- end -->")
            text = f"{before}{begin}\n{table()}\n\n{end}{after}"
    return text


def _title(line: pd.Series) -> str:
    gamma = Fraction(line["gamma"]).limit_denominator(256)
    dense = " made dense" if line.get("dense", False) else ""
    size = f"{line['rows']:,} × {line['features']}{dense}"
    return f"{TITLES[line['data']]}, {size} ({line['C']:g}, {gamma})"


def _seconds(value: float) -> str:
    """To two digits, or as a whole number from ten on; nothing where it was not measured."""
    if pd.isna(value):
        return ""
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _table(head: list[str], body: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
