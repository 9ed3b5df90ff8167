"""A certificate in words: a verdict, the numbers that were computed, and a line on those missing.

Bounds are rounded up.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from html import escape
from math import inf, isinf
from typing import TYPE_CHECKING, NamedTuple

from aesvm.kernels import DEFINITE, NOT_DEFINITE

if TYPE_CHECKING:
    from aesvm.certificate.certificate import Certificate

#: The model may be far from the exact SVM above this relative gap, or where the last round changed
#: more than this fraction of the predictions.
POOR_GAP, POOR_CHANGE = 0.1, 0.01

#: A model of all rows is called exact up to this relative gap, which the exact solver aims at.
EXACT_GAP = 1e-3

#: The verdict names the worst pair of classes where its relative gap is as many times that of all.
_MUCH_WORSE = 10.0

#: Above this multiple of the exact SVM's objective the verdict says "times", not a percentage.
_MOST_TIMES = 10.0

#: The largest estimated bound that is shown, as a fraction of the exact SVM's objective. With few
#: vectors such bounds far exceed the truth.
_TELLING = 1.0

#: What is said in its place.
_TOO_WIDE = f"its objective may be over {_TELLING:.0%} above the exact SVM's (estimated)"

#: A number is lowered by this before it is rounded up: 0.1, which in binary is slightly more than
#: 0.1, is shown as 0.1 and not as 0.11.
_HAIR = 1 - Decimal("1e-12")

#: The numbers that are shown, in this order, with their labels.
_LABELS = {
    "objective": "objective on all rows",
    "dual_objective": "dual objective",
    "gap": "duality gap",
    "relative_gap": "relative duality gap",
    "worst_pair_gap": "gap of the worst pair of classes",
    "estimated_gap": "relative duality gap, estimated",
    "estimated_gap_error": "two standard errors of the estimate",
    "violators": "rows that violate optimality",
    "changed": "predictions changed by last round",
    "norm": "norm of w",
    "hull_tol": "hull tolerance",
    "max_residual": "largest residual",
    "mean_residual": "mean residual",
    "reduced_objective": "objective on representatives",
    "theorem_2_bound": "excess on all rows, at most",
    "paper_bound": "the paper's bound (Corollary 3)",
}

#: Shown only where rows are represented by others.
_OF_REPRESENTATIVES = {
    "hull_tol",
    "max_residual",
    "mean_residual",
    "reduced_objective",
    "paper_bound",
    "theorem_2_bound",
}

#: Colours of the stripe beside a certificate: good, poor, distance unknown.
_GOOD, _POOR, _UNKNOWN = "#2e9e5b", "#d9822b", "#8a8f98"


class Text(NamedTuple):
    """The parts of a certificate's text."""

    verdict: str
    remarks: list[str]  #: how the model was trained, and why it may be far from the exact SVM
    numbers: list[tuple[str, str]]  #: labels and values
    notes: list[str]  #: what was not computed, or not proven


def text_of(certificate: Certificate) -> Text:
    """The text of a certificate."""
    remarks = [_how(certificate)]
    if certificate.kernel != DEFINITE:
        remarks.append(f"kernel {certificate.kernel}")
    if caveat := caveat_of(certificate):
        remarks.append(f"may be far from the exact SVM: {caveat}")
    elif _is_loosely_solved(certificate):
        remarks.append(f'solved to tol or gap_tol; refine="exact" aims at a gap of {EXACT_GAP:g}')
    numbers = [
        (label, f"{getattr(certificate, name):.6g}")
        for name, label in _labels(certificate).items()
        if _is_shown(certificate, name)
    ]
    notes = [_not_computed(certificate)]
    if not certificate.proven and certificate.gap is not None:
        notes.append("not proven: computed during training, with rounding; certify(X, y) proves it")
    return Text(verdict_of(certificate), remarks, numbers, [note for note in notes if note])


def plain(text: Text) -> str:
    """The text for a terminal."""
    width = max([34, *(len(label) + 2 for label, _ in text.numbers)])
    numbers = [f"{label:<{width}}{value}" for label, value in text.numbers]
    return "\n  ".join([text.verdict, *text.remarks, *numbers, *text.notes])


def as_html(certificate: Certificate) -> str:
    """The text for a notebook, in the notebook's colours."""
    text = text_of(certificate)
    poor = bool(caveat_of(certificate))
    known = certificate.gap is not None or certificate.estimated_gap is not None
    stripe = _POOR if poor else _GOOD if known else _UNKNOWN
    faint = "opacity:.75;font-size:90%"
    remarks = "".join(f'<div style="{faint}">{escape(one)}</div>' for one in text.remarks)
    rows = "".join(
        f'<tr style="background:none"><td style="text-align:left">{escape(label)}</td>'
        f'<td style="text-align:right;font-variant-numeric:tabular-nums">{escape(value)}</td></tr>'
        for label, value in text.numbers
    )
    notes = "".join(f'<div style="{faint}">{escape(one)}</div>' for one in text.notes)
    return (
        f'<div class="aesvm-certificate" style="border-left:4px solid {stripe};'
        f'padding:.3em .9em;color:inherit"><strong>{escape(text.verdict)}</strong>{remarks}'
        f'<table style="margin:.5em 0;border-collapse:collapse;color:inherit">{rows}</table>'
        f"{notes}</div>"
    )


def verdict_of(certificate: Certificate) -> str:
    """How close the model is to the exact SVM, in one line; of a fit in time, what it reached."""
    verdict = _verdict_of(certificate)
    if certificate.stopped_after is None:
        return verdict
    verdict = f"stopped after {in_digits(certificate.stopped_after)}: {verdict}"
    if certificate.exact_after is None:
        return verdict
    return f"{verdict}; the exact SVM takes {duration(certificate.exact_after)}"


def _verdict_of(certificate: Certificate) -> str:
    if certificate.kernel == NOT_DEFINITE:
        return "the kernel is not positive semidefinite: no theorem says how close the model is"
    if isinf(certificate.max_residual):
        return "the SVM of a random sample of the rows: nothing bounds how close the model is"
    if certificate.gap is not None and certificate.objective is not None:
        return _of_gap(certificate)
    if certificate.exact:
        return "trained on every row; its duality gap was not computed"
    estimate, error = certificate.estimated_gap, certificate.estimated_gap_error
    if estimate is not None and error is not None:
        share = _share_above(estimate + error, certificate.objective)
        if _is_too_wide(certificate):
            return f"may be far from the exact SVM: {_TOO_WIDE}"
        return f"objective at most about {_times_or_percent(share)} the exact SVM's (estimated)"
    changed = "" if certificate.changed is None else _changed(certificate.changed)
    return f"how close it is to the exact SVM was not computed{changed}"


def caveat_of(certificate: Certificate) -> str:
    """Why the model may be far from the exact SVM; empty where nothing says so."""
    if certificate.kernel == NOT_DEFINITE:
        return ""
    if isinf(certificate.max_residual):
        return "it was trained on a random sample of the rows; a larger memory_budget avoids that"
    gap, worst, objective = (
        certificate.relative_gap,
        certificate.worst_pair_gap,
        certificate.objective,
    )
    if gap is not None and worst is not None:
        if certificate.negligible:
            return ""
        if gap > POOR_GAP:
            assert certificate.gap is not None
            known = _far("its objective may be", gap, objective, certificate.gap)
        elif worst > POOR_GAP:
            known = _far_pair(worst)
        else:
            return ""
        if certificate.remedy:
            return f"{known}: the fit was cut short; to go further, {certificate.remedy}"
        if certificate.exact and _is_mostly_rounding(certificate):
            return f"{known}: the bound counts in rounding errors; scale the data"
        if certificate.exact:
            return f'{known}; a smaller tol lowers it, and so does refine="exact"'
    elif (estimate := certificate.estimated_gap) is not None and estimate > POOR_GAP:
        share = _share_above(estimate + (certificate.estimated_gap_error or 0.0), objective)
        known = (
            f"by an estimate its objective is at most {_times_or_percent(share)} the exact SVM's"
        )
        if _is_too_wide(certificate):
            known = _TOO_WIDE
    elif certificate.changed is not None and certificate.changed > POOR_CHANGE:
        known = f"the last round changed {certificate.changed:.1%} of the predictions"
    else:
        return ""
    if certificate.remedy:
        return f"{known}: the fit was cut short; to go further, {certificate.remedy}"
    if certificate.n_vectors is not None:
        return (
            f'{known}; more vectors (now {certificate.n_vectors:,}), or refine="exact" without '
            "max_vectors, come closer"
        )
    return (
        f"{known}; refine={certificate.rounds + 1} or more, a smaller hull_tol or, with rows in "
        'memory, refine="exact" come closer'
    )


def _is_mostly_rounding(certificate: Certificate) -> bool:
    """Whether more of the gap is a bound on rounding than a difference of objectives."""
    gap, objective, dual = certificate.gap, certificate.objective, certificate.dual_objective
    if gap is None or objective is None or dual is None:
        return False
    return gap > 2.0 * (objective - dual)


def at_most(value: float, digits: int = 2) -> str:
    """A positive number to a few digits, rounded up.

    Examples
    --------
    >>> from aesvm.certificate.text import at_most
    >>> at_most(2.91e-6, 1), at_most(0.01301), at_most(67.2, 3), at_most(199.7)
    ('3e-6', '0.014', '67.2', '200')
    >>> at_most(5e-324, 1), at_most(float("inf"))
    ('5e-324', 'inf')
    """
    if isinf(value):
        return "inf"
    exact = Decimal(value)  # also of numbers below the smallest normal one
    unit = exact.adjusted() - digits + 1
    shown = (exact * _HAIR).scaleb(-unit).to_integral_value(ROUND_CEILING).scaleb(unit)
    if -4 <= unit <= 3:
        return f"{shown.normalize():f}"
    return f"{shown:.{digits - 1}e}".replace("e+", "e")


def duration(seconds: float) -> str:
    """A time in words, one digit.

    Examples
    --------
    >>> from aesvm.certificate.text import duration
    >>> duration(42.0), duration(600.0), duration(9000.0)
    ('some 40 seconds', 'some 10 minutes', 'some 2 hours')
    >>> duration(0.3), duration(1.2)
    ('less than a second', 'a second or so')
    """
    if seconds < 1.5:
        return "less than a second" if seconds < 0.75 else "a second or so"
    for unit, name in ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")):
        if seconds >= 1.5 * unit or unit == 1.0:
            return f"some {float(f'{seconds / unit:.1g}'):.0f} {name}"
    raise AssertionError


def between(least: float, most: float) -> str:
    """A range of seconds in words, each end to one digit.

    Examples
    --------
    >>> from aesvm.certificate.text import between
    >>> between(23.0, 61.0), between(140.0, 530.0), between(0.05, 0.3)
    ('20 to 60 seconds', '2 to 9 minutes', 'less than a second')
    """
    if most < 1.0:
        return "less than a second"
    units = (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")
    unit, name = next(one for one in units if least >= 1.5 * one[0] or one[0] == 1.0)
    first, last = (float(f"{value / unit:.1g}") for value in (least, most))
    return f"{first:g} to {last:g} {name}"


def in_digits(seconds: float) -> str:
    """A time in seconds, two digits or more.

    Examples
    --------
    >>> from aesvm.certificate.text import in_digits
    >>> in_digits(0.123), in_digits(20.04), in_digits(1234.5)
    ('0.12 s', '20 s', '1,234 s')
    """
    return f"{seconds:,.0f} s" if seconds >= 10.0 else f"{seconds:.2g} s"


def _is_too_wide(certificate: Certificate) -> bool:
    """Whether the estimated bound is so wide that it is no number to show."""
    gap, error = certificate.estimated_gap, certificate.estimated_gap_error or 0.0
    return gap is not None and _share_above(gap + error, certificate.objective) > _TELLING


def _of_gap(certificate: Certificate) -> str:
    """The verdict where the gap is known."""
    gap, objective = certificate.gap, certificate.objective
    relative, worst = certificate.relative_gap, certificate.worst_pair_gap
    assert gap is not None
    assert objective is not None
    assert relative is not None
    about = "" if certificate.proven else "about "
    is_exact = certificate.exact and relative <= EXACT_GAP
    share = _share_above(relative, objective)
    if not gap:
        verdict = "exact" if is_exact else "objective equal to the exact SVM's"
    elif certificate.negligible:
        return f"objective zero to within {at_most(gap)}, as the exact SVM's is"
    elif is_exact:
        verdict = f"exact to {about}{at_most(relative, 1)}"
    elif isinf(share):
        verdict = f"objective {objective:.3g}, at most {about}{at_most(gap)} above the exact SVM's"
    else:
        verdict = f"objective at most {about}{_times_or_percent(share)} the exact SVM's"
    asides = []
    if worst is not None and worst > _MUCH_WORSE * relative:
        asides.append(f"worst pair of classes: {_of_worst(worst, is_exact)}")
    if not certificate.proven:
        asides.append("not proven")
    return f"{verdict} ({'; '.join(asides)})" if asides else verdict


def _of_worst(gap: float, is_exact: bool) -> str:
    if is_exact and gap <= EXACT_GAP:
        return at_most(gap, 1)
    share = _share_above(gap, None)  # the sign of a pair's objective is not known here
    return "the exact SVM's may be zero" if isinf(share) else f"at most {_times_or_percent(share)}"


def _share_above(relative_gap: float, objective: float | None) -> float:
    """How far an objective can be above the exact SVM's, as a fraction of the latter's magnitude.

    The exact SVM's is at least the objective less the gap. Infinite where that may be zero, and the
    objective is not negative: then the exact SVM's is farther from zero, and the share below 1.

    Examples
    --------
    >>> from aesvm.certificate.text import _share_above
    >>> _share_above(0.5, 10.0), _share_above(2.0, 10.0), _share_above(1.5, -10.0)
    (1.0, inf, 0.6)
    """
    if objective is not None and objective < 0.0:
        return 1.0 if isinf(relative_gap) else relative_gap / (1.0 + relative_gap)
    return relative_gap / (1.0 - relative_gap) if relative_gap < 1.0 else inf


def _times_or_percent(share: float) -> str:
    if share > _MOST_TIMES:
        return f"{at_most(1.0 + share)} times"
    return f"{at_most(100.0 * share)}% above"


def _far(subject: str, relative_gap: float, objective: float | None, gap: float) -> str:
    """How far an objective is above the exact SVM's; not as a share where that may be zero."""
    share = _share_above(relative_gap, objective)
    if isinf(share):
        return f"{subject} {at_most(gap)} above the exact SVM's, which may be zero"
    return f"{subject} {_times_or_percent(share)} the exact SVM's"


def _far_pair(relative_gap: float) -> str:
    """The same for the worst pair of classes, whose objective is not known here."""
    share = _share_above(relative_gap, None)
    if isinf(share):
        return "the exact SVM's objective of a pair of classes may be zero, and this one's is not"
    return f"the objective of a pair of classes may be {_times_or_percent(share)} the exact SVM's"


def _changed(share: float) -> str:
    return f"; the last round changed {share:.2%} of the predictions"


def _is_loosely_solved(certificate: Certificate) -> bool:
    """Whether all rows were solved for, to the end, and the gap is above what is called exact."""
    done = certificate.exact and not certificate.negligible and not certificate.remedy
    return done and (certificate.relative_gap or 0.0) > EXACT_GAP


def _how(certificate: Certificate) -> str:
    """How the model was trained."""
    n_rows = f"{certificate.n_rows:,} {'distinct ' if certificate.distinct else ''}rows"
    every = certificate.n_solved == certificate.n_rows
    counted = f"{'all' if every else f'{certificate.n_solved:,}'} of {n_rows}"
    if certificate.exact and not every:  # of a stream: n_rows counts equal and weightless ones too
        return f"all {certificate.n_solved:,} distinct rows of non-zero weight, of {n_rows}"
    if certificate.exact:
        return f"{counted} solved for"
    n_rounds = certificate.rounds
    how = f"{n_rounds} round{'' if n_rounds == 1 else 's'}"
    if n_rounds == 0:
        how = "representatives alone"
    if certificate.n_vectors is not None:
        if certificate.stopped_after is not None:  # of samples that were joined, or a cut solve
            vectors = f"in time, with {certificate.n_vectors:,} support vectors"
            return f"{vectors}: {counted} used, the exact SVM not reached"
        how = f"in the span of {certificate.n_vectors:,} vectors"
        if certificate.max_residual > 0:
            how += ", representatives alone"
    return f"{how}: {counted} solved for"


def _labels(certificate: Certificate) -> dict[str, str]:
    if certificate.n_machines == 1:
        return _LABELS
    return {**_LABELS, "violators": "violations of optimality, by pairs"}


def _is_shown(certificate: Certificate, name: str) -> bool:
    """Whether a number is known and tells something."""
    if getattr(certificate, name) is None:
        return False
    if name in _OF_REPRESENTATIVES and not certificate.max_residual:
        return False
    if name in ("estimated_gap", "estimated_gap_error"):
        # else the computed gap is shown
        return certificate.gap is None and not _is_too_wide(certificate)
    if name == "relative_gap" and certificate.negligible:
        return False  # a quotient of rounding errors
    if name == "worst_pair_gap":
        return certificate.worst_pair_gap != certificate.relative_gap
    if name in ("theorem_2_bound", "paper_bound") and certificate.reduced_objective is None:
        return False  # the objective that they are added to is not known
    if name == "theorem_2_bound":  # of no use where the objective itself is known
        return certificate.objective is None and not certificate.theorem_2_bound_is_vacuous
    return name != "paper_bound" or not certificate.paper_bound_is_vacuous


def _not_computed(certificate: Certificate) -> str:
    """What is missing and why, in one line."""
    by_reason: dict[str, list[str]] = {}
    for name in ("objective", "gap"):
        if name in certificate.missing:
            by_reason.setdefault(certificate.missing[name], []).append(_LABELS[name])
    missing = [f"{', '.join(names)} ({why})" for why, names in by_reason.items()]
    return f"not computed: {'; '.join(missing)}" if missing else ""
