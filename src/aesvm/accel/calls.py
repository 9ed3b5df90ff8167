"""What ran where: a note of each call, the log, and the report."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

logger = logging.getLogger("aesvm.accel")

OURS, LIBSVM = "aesvm", "LIBSVM"

#: Reasons for LIBSVM that cost nothing: ``strict`` accepts them.
SMALL = "small: LIBSVM takes no longer"
GIVEN = "the kernel matrix is given: LIBSVM is as fast"
HARMLESS = (SMALL, GIVEN)


class NotAcceleratedError(RuntimeError):
    """Raised with ``strict=True`` for a call that would go to LIBSVM.

    Examples
    --------
    >>> import aesvm.accel
    >>> issubclass(aesvm.accel.NotAcceleratedError, RuntimeError)
    True
    """


class Call(NamedTuple):
    """Calls of one kind: what was called, who computed it, and why LIBSVM did."""

    what: str  #: such as "SVC fit"
    where: str  #: "aesvm" or "LIBSVM"
    reason: str  #: "" where aesvm computed it


@dataclass(frozen=True)
class Report:
    """What ran where since ``install``.

    Attributes
    ----------
    counts : dict
        The number of calls of each kind.
    seconds : dict
        Their seconds.
    text : str
        A table of both.

    Examples
    --------
    >>> import aesvm.accel
    >>> aesvm.accel.Report({}, {}).text
    'Nothing of sklearn.svm has run since install().'
    """

    counts: dict[Call, int] = field(repr=False)
    seconds: dict[Call, float] = field(repr=False)

    @property
    def text(self) -> str:
        if not self.counts:
            return "Nothing of sklearn.svm has run since install()."
        head = ("call", "by", "calls", "seconds", "reason")
        order = sorted(self.counts, key=lambda call: -self.seconds[call])
        lines = [
            (*call[:2], f"{self.counts[call]:,}", f"{self.seconds[call]:.3f}") for call in order
        ]
        widths = [max(map(len, column)) for column in zip(head[:4], *lines, strict=True)]
        reasons = (head[4], *(call.reason for call in order))
        return "\n".join(
            "  ".join([*map(str.ljust, line[:2], widths), *map(str.rjust, line[2:], widths[2:])])
            + f"  {reason}".rstrip()
            for line, reason in zip((head[:4], *lines), reasons, strict=True)
        )


class _Calls:
    """The calls since ``install``, in this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()  # a new one: a fork may have copied a lock that is held
        self.counts: Counter[Call] = Counter()
        self.seconds: defaultdict[Call, float] = defaultdict(float)

    def note(self, call: Call, seconds: float, size: str) -> None:
        with self.lock:
            self.counts[call] += 1
            self.seconds[call] += seconds
        because = f" ({call.reason})" if call.reason else ""
        logger.info("%s of %s by %s: %.3f s%s", call.what, size, call.where, seconds, because)

    def so_far(self) -> Report:
        with self.lock:
            return Report(dict(self.counts), dict(self.seconds))


calls = _Calls()


def report() -> Report:
    """Print what ran where since ``install``, with seconds and reasons.

    Worker processes have reports of their own: this one is of this process.

    Returns
    -------
    report : Report
        ``report.text`` is what was printed.

    Examples
    --------
    >>> import aesvm.accel
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> with aesvm.accel.install():
    ...     model = SVC().fit(*load_iris(return_X_y=True))
    >>> len(aesvm.accel.report().counts)  # doctest: +ELLIPSIS
    call     by      calls  seconds  reason
    SVC fit  LIBSVM      1    ...  small: LIBSVM takes no longer
    1
    """
    found = calls.so_far()
    print(found.text)
    return found
