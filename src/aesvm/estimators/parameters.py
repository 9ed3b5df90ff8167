"""Parameters of an estimator as settings of its parts; and checks of how they are passed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any, TypedDict, TypeVar, cast

from sklearn.base import ClassifierMixin

from aesvm.gpu.forms import check_kernel
from aesvm.kernels import KernelSpec
from aesvm.machines import plan as plans
from aesvm.machines.plan import Exact, Facts, Ladder, Rounds, Span, plan
from aesvm.machines.processor import kind_of
from aesvm.machines.trainer import SolverOptions
from aesvm.out_of_core.merge_tree import bytes_of
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


Init = TypeVar("Init", bound=Callable[..., None])


class MachineParameters(TypedDict, total=False):
    """Types of the parameters that all SVMs have, for those that take them by ``**parameters``."""

    kernel: str | Callable[[Any, Any], Any]
    degree: int
    gamma: str | float
    coef0: float
    hull_tol: float
    subset_size: int
    partition_size: int
    partition: str
    refine: int | str
    max_vectors: int | None
    gap_tol: float
    time_limit: float | None
    tol: float
    max_iter: int
    cache_size: float | str
    shrinking: bool
    memory_budget: int | str | None
    on_overflow: str
    device: str
    n_jobs: int | None
    verbose: int


class ClassifierParameters(MachineParameters, total=False):
    """Types of the parameters that classifiers have beside."""

    class_weight: dict | str | None
    decision_function_shape: str
    break_ties: bool


class CostParameters(MachineParameters, total=False):
    """Types of the parameters of SVMs with a ``C``."""

    C: float


def kernel_spec(estimator: Any, gamma: float) -> KernelSpec:
    device = getattr(estimator, "device", "cpu")  # rivals compute on the processor alone
    check_kernel(estimator.kernel, device)  # first: another device may not help
    return KernelSpec(estimator.kernel, gamma, estimator.degree, float(estimator.coef0), device)


def reduction_settings(estimator: Any) -> ReductionSettings:
    settings = ReductionSettings(
        float(estimator.hull_tol),
        int(estimator.subset_size),
        int(estimator.partition_size),
        estimator.partition,
        plans.TABLE.most_kept,
        plans.TABLE.n_probes,
    )
    settings.check()
    return settings


def solver_options(estimator: Any) -> SolverOptions:
    return SolverOptions(
        float(estimator.tol),
        min(estimator.max_iter, _MOST),
        cache_bytes(estimator),
        estimator.shrinking,
    )


def facts_of(estimator: Any, **counts: Any) -> Facts:
    """What a plan is made from: an estimator's parameters, and counts of its rows."""
    refine, max_vectors = estimator.refine, estimator.max_vectors
    budget = estimator.memory_budget
    return Facts(
        **{"n_rows": 0, **counts},
        kernel=f"kernel={estimator.kernel!r} with coef0={estimator.coef0}",
        definite=kernel_spec(estimator, 1.0).is_definite,
        device=kind_of(estimator.device),
        refine=refine if isinstance(refine, str) else int(refine),
        settings=reduction_settings(estimator),
        max_vectors=None if max_vectors is None else int(max_vectors),
        gap_tol=float(estimator.gap_tol),
        most_bytes=None if budget is None else bytes_of(budget),
    )


def plan_elsewhere(estimator: Any, asked_again: bool = True) -> Rounds | Span:
    """The plan of a fit to rows that are not in memory; rounds are made where they can be asked."""
    found = plan(facts_of(estimator, in_memory=False, asked_again=asked_again))
    assert not isinstance(found, Exact | Ladder)  # these need all rows in one place
    return found


def cache_bytes(estimator: Any) -> int | None:
    """Bytes for kernel rows; None leaves them to the solver."""
    size = estimator.cache_size
    return None if isinstance(size, str) else int(min(size * 1e6, _MOST))


def trained_with(estimator: Any) -> dict[str, Any]:
    """The parameters that a certificate depends on, to be kept with the model."""
    return {name: getattr(estimator, name) for name in _DEPENDS_ON if hasattr(estimator, name)}


def check_unchanged(estimator: Any, before: dict[str, Any]) -> None:
    """Refuse to certify a model whose parameters were changed after training."""
    for name, value in before.items():
        now = getattr(estimator, name)
        if now is not value and now != value:
            raise ValueError(
                f"{name}={now!r} was {value!r} when the model was trained: certify needs the same "
                "parameters."
            )


def by_name(init: Init) -> Init:
    """Decorate an ``__init__`` of keywords, which become attributes of the same names.

    Only its signature is used: its own code is never run. Errors of wrong calls say what to pass
    instead.
    """
    own = inspect.signature(init).parameters
    defaults = {name: one.default for name, one in own.items() if name != "self"}

    @functools.wraps(init)
    def initialize(self: Any, *values: Any, **parameters: Any) -> None:
        _check_call(type(self), values, parameters, [*defaults])
        for name, default in defaults.items():
            setattr(self, name, parameters.get(name, default))

    return cast(Init, initialize)


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


def with_parameters_of(other: type, without: tuple[str, ...] = ()) -> Callable[[Init], Init]:
    """Decorate an ``__init__`` that ends in ``**others``: it takes the parameters of ``other`` too.

    They have the same defaults; those in ``without`` are left out. scikit-learn reads the
    parameters of an estimator from its signature, which names them all.
    """
    others = {
        name: parameter
        for name, parameter in inspect.signature(other).parameters.items()
        if name not in without
    }

    def decorate(init: Init) -> Init:
        own = list(inspect.signature(init).parameters.values())[:-1]
        known = [*(one.name for one in own if one.name != "self"), *others]

        def initialize(self: Any, *values: Any, **parameters: Any) -> None:
            _check_call(type(self), values, parameters, known)
            for name, parameter in others.items():
                setattr(self, name, parameters.pop(name, parameter.default))
            init(self, **parameters)

        signature: Any = initialize
        signature.__signature__ = inspect.Signature([*own, *others.values()])
        return cast(Init, initialize)

    return decorate
