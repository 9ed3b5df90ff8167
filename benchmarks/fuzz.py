"""``python -m benchmarks.fuzz --seconds 60 --seed 0 files``: random trials that look for faults.

Each kind of fuzzing is a function that makes one trial from a random generator in an empty folder
and says how it went; an exception is a fault. A trial is known by its seed and number:
``--trial`` makes one again, and ``--keep`` leaves its files.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks import fuzz_files

#: Makes one trial, and names what it was and how it went.
Trial = Callable[[np.random.Generator, Path], str]

KINDS: dict[str, Trial] = {
    "files": fuzz_files.trial,
}

#: Bytes that a damaged file may make a library ask for.
_MOST_MEMORY = 16 << 30


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=", ".join(KINDS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int, help="make only this one")
    parser.add_argument("--keep", type=Path, help="folder for the files of faulty trials")
    options = parser.parse_args(arguments)
    unknown = set(options.kinds) - set(KINDS)
    if unknown:
        parser.error(f"unknown kind {', '.join(sorted(unknown))}: use {', '.join(KINDS)}")
    n_faults = 0
    for kind in options.kinds or KINDS:
        deadline = time.monotonic() + options.seconds
        number = options.trial or 0
        outcomes: Counter[str] = Counter()
        while time.monotonic() < deadline:
            outcome = _made(KINDS[kind], kind, options.seed, number, options.keep)
            outcomes[outcome] += 1
            number += 1
            if options.trial is not None:
                break
        n_faults += outcomes["fault"]
        print(f"{kind}, seed {options.seed}: {outcomes.total()} trials")
        for outcome, times in sorted(outcomes.items()):
            print(f"  {times:7d}  {outcome}")
    return 1 if n_faults else 0


def _made(trial: Trial, kind: str, seed: int, number: int, keep: Path | None) -> str:
    with _folder(keep, f"{kind}-{seed}-{number}") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outcome = trial(np.random.default_rng([seed, number]), folder)
        except Exception:
            print(f"fault: {kind} --seed {seed} --trial {number}", file=sys.stderr)
            traceback.print_exc(limit=-3)
            return "fault"
        for path in sorted(folder.rglob("*"), reverse=True) if keep else ():
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        return outcome


@contextmanager
def _folder(keep: Path | None, name: str) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    path = keep / name
    path.mkdir(parents=True, exist_ok=True)
    yield path
    if not any(path.iterdir()):
        path.rmdir()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, resource.RLIM_INFINITY))
    sys.exit(main())
