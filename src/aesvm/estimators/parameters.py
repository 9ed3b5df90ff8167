"""Parameters of an estimator as settings of its parts; and checks of how they are passed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from sklearn.base import ClassifierMixin

from aesvm.gpu.forms import check_kernel
from aesvm.kernels import KernelSpec
from aesvm.machines.plan import Exact, Facts, Rounds, Span, plan
from aesvm.machines.training import SolverOptions
from aesvm.out_of_core.merge_tree import bytes_of
from aesvm.runtime.errors import ParameterError
from aesvm.sets.derive import ReductionSettings

#: Parameters that a model and its certificate depend on; an estimator has some of them.
_DEPENDS_ON = (
    "kernel",
    "degree",
    "coef0",
    "C",
    "nu",
    "epsilon",
    "class_weight",
    "hull_tol",
    "max_vectors",
    "tol",
)


#: What the error says of parameters that scikit-learn's estimators have and ours do not.
_INSTEAD = {
    "probability": "CalibratedClassifierCV(model, ensemble=False) of sklearn.calibration, fitted "
    "in its place, has predict_proba",
    "random_state": "fits are deterministic and do not depend on a seed, leave it out",
}

#: Parameters that a number passed by position is likely meant for.
_NUMBERS_FIRST = ("C", "nu", "hull_tol")

#: The largest number of iterations, and of bytes, that compiled code can count.
_MOST = 2**60


def kernel_spec(estimator: Any, gamma: float) -> KernelSpec:
    device = getattr(estimator, "device", "cpu")
    check_kernel(estimator.kernel, device)  # first: another device may not help
    return KernelSpec(estimator.kernel, gamma, estimator.degree, float(estimator.coef0), device)


def reduction_settings(estimator: Any) -> ReductionSettings:
    settings = ReductionSettings(
        float(estimator.hull_tol),
        int(estimator.subset_size),
        int(estimator.partition_size),
        estimator.partition,
    )
    settings.check()
    return settings


def solver_options(estimator: Any) -> SolverOptions:
    return SolverOptions(
        float(estimator.tol),
        min(estimator.max_iter, _MOST),
        cache_bytes(estimator) / 1e6,
        estimator.shrinking,
    )


def check_span(estimator: Any) -> None:
    """Refuse ``max_vectors`` where w cannot be restricted to a span."""
    if estimator.max_vectors is None:
        return
    if estimator.refine != "auto":
        raise ParameterError(
            "max_vectors",
            f"max_vectors={estimator.max_vectors} trains on all rows, and "
            f'refine={estimator.refine!r} says how rows are represented: use refine="auto".',
        )
    if not kernel_spec(estimator, 1.0).is_definite:
        raise ParameterError(
            "max_vectors",
            f"max_vectors={estimator.max_vectors} needs a positive semidefinite kernel, and "
            f"kernel={estimator.kernel!r} with coef0={estimator.coef0} is not: use another kernel, "
            "or max_vectors=None.",
        )


def with_parameters(estimator: Any, facts: Facts) -> Facts:
    """Counts, and what an estimator's parameters say of the plan that is made from them."""
    refine, max_vectors = estimator.refine, estimator.max_vectors
    return replace(
        facts,
        refine=refine if isinstance(refine, str) else int(refine),
        settings=reduction_settings(estimator),
        max_vectors=None if max_vectors is None else int(max_vectors),
        gap_tol=float(estimator.gap_tol),
        most_bytes=bytes_of_values(estimator),
        device="cpu" if estimator.device == "cpu" else "cuda",
    )


def plan_elsewhere(estimator: Any, asked_again: bool = True) -> Rounds | Span:
    """The plan of a fit to rows that are not in memory; rounds are made where they can be asked."""
    check_span(estimator)
    facts = Facts(n_rows=0, in_memory=False, asked_again=asked_again)
    found = plan(with_parameters(estimator, facts))
    assert not isinstance(found, Exact)  # that needs all rows in one place
    return found


def bytes_of_values(estimator: Any) -> float | None:
    """What kernel values of rows and a basis may take; None where no budget says so."""
    return None if estimator.memory_budget is None else bytes_of(estimator.memory_budget)


def cache_bytes(estimator: Any) -> int:
    return int(min(estimator.cache_size * 1e6, _MOST))


def trained_with(estimator: Any) -> dict[str, Any]:
    """The parameters that a certificate depends on, to be kept with the model."""
    return {name: getattr(estimator, name) for name in _DEPENDS_ON if hasattr(estimator, name)}


def check_unchanged(estimator: Any, before: dict[str, Any]) -> None:
    """Refuse to certify a model whose parameters were changed after training."""
    for name, value in before.items():
        now = getattr(estimator, name)
        if now is not value and now != value:
            raise ValueError(
                f"{name}={now!r} was {value!r} when the model was trained: certify wants the same "
                "parameters."
            )


def by_name(init: Callable) -> Any:
    """Decorate an ``__init__`` of keywords: errors of wrong calls say what to pass instead."""
    known = [name for name in inspect.signature(init).parameters if name != "self"]

    @functools.wraps(init)
    def initialize(self: Any, *values: Any, **parameters: Any) -> None:
        _check_call(type(self), values, parameters, known)
        init(self, **parameters)

    return initialize


def _check_call(kind: type, values: tuple, parameters: Iterable[str], known: Sequence[str]) -> None:
    """Refuse parameters by position, and unknown ones."""
    name = kind.__name__
    if values:
        meant = _meant_by(values[0], known)
        example = f", as in {name}({meant}={values[0]!r})" if meant else ""
        raise TypeError(
            f"{name} takes its parameters by name alone (they are keyword-only){example}."
        )
    for one in parameters:
        if one not in known:
            instead = f"get_params() of {name}() shows those it has"
            if one != "probability" or issubclass(kind, ClassifierMixin):
                instead = _INSTEAD.get(one, instead)
            raise TypeError(f"{name} has no parameter {one!r}: {instead}.")


def _meant_by(value: Any, known: Sequence[str]) -> str | None:
    """The parameter that a value passed by position is likely meant for."""
    if isinstance(value, str):
        return "kernel" if "kernel" in known else None
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return next((one for one in known if is_number and one in _NUMBERS_FIRST), None)


def with_parameters_of(
    other: type, without: tuple[str, ...] = ()
) -> Callable[[Callable], Callable]:
    """Decorate an ``__init__`` that ends in ``**others``: it takes the parameters of ``other`` too.

    They have the same defaults; those in ``without`` are left out. scikit-learn reads the
    parameters of an estimator from its signature, which names them all.
    """
    others = {
        name: parameter
        for name, parameter in inspect.signature(other).parameters.items()
        if name not in without
    }

    def decorate(init: Any) -> Any:
        own = list(inspect.signature(init).parameters.values())[:-1]
        known = [*(one.name for one in own if one.name != "self"), *others]

        def initialize(self: Any, *values: Any, **parameters: Any) -> None:
            _check_call(type(self), values, parameters, known)
            for name, parameter in others.items():
                setattr(self, name, parameters.pop(name, parameter.default))
            init(self, **parameters)

        signature: Any = initialize
        signature.__signature__ = inspect.Signature([*own, *others.values()])
        return initialize

    return decorate
