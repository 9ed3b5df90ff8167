"""``python -m benchmarks.tables``: ``aesvm fit`` on a table beside gradient boosting, one split.

The table is the public hotel booking demand data (a sample of 20,000 rows): text, numbers, gaps.
Both models learn from the same 16,000 rows, and are tested on the other 4,000. Gradient boosting
has scikit-learn's defaults and the table's types; ``aesvm fit`` searches for C and gamma.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from aesvm.command.main import main as aesvm

NAME, TARGET = "hotel_bookings_20k.csv.gz", "is_canceled"

#: Columns that are known only once the booking was kept or not.
LATER = ("reservation_status", "reservation_status_date")

SCORES = ("accuracy", "balanced_accuracy", "roc_auc", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA", "."))
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    path = Path(given.data_dir, NAME)
    found = []
    for seed in range(given.seeds):
        found += [{"model": "aesvm fit", "seed": seed, **fitted(path, seed)}]
        found += [{"model": "HistGradientBoosting", "seed": seed, **boosted(path, seed)}]
    table = pd.DataFrame(found)
    print(table.groupby("model", sort=False)[list(SCORES)].mean().round(4).to_string())


def fitted(path: Path, seed: int) -> dict[str, float]:
    """What ``aesvm fit`` says of the rows that it held out."""
    drop = [one for name in LATER for one in ("--drop", name)]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as out:
        model = str(Path(folder, "hotel.aesvm"))
        command = ["fit", str(path), "--target", TARGET, *drop, "--seed", str(seed), "--json"]
        if aesvm([*command, "-o", model]):
            raise RuntimeError("aesvm fit has failed.")
    seconds = time.perf_counter() - began
    found = json.loads(out.getvalue())["test"]
    return {**{name: found[name] for name in SCORES[:-1]}, "seconds": seconds}


def boosted(path: Path, seed: int) -> dict[str, float]:
    """Gradient boosting on the same rows."""
    table = pd.read_csv(path).drop(columns=list(LATER))
    y = table.pop(TARGET).to_numpy()
    texts = table.select_dtypes(exclude="number").columns
    table = table.astype(dict.fromkeys(texts, "category"))
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.2, random_state=seed, stratify=y
    )  # as aesvm fit draws them
    began = time.perf_counter()
    model = HistGradientBoostingClassifier(random_state=seed).fit(table.iloc[train], y[train])
    predicted = model.predict(table.iloc[test])
    return {
        "accuracy": accuracy_score(y[test], predicted),
        "balanced_accuracy": balanced_accuracy_score(y[test], predicted),
        "roc_auc": roc_auc_score(y[test], model.predict_proba(table.iloc[test])[:, 1]),
        "seconds": time.perf_counter() - began,
    }


if __name__ == "__main__":
    main()
