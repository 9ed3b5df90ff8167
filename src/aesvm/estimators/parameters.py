"""An estimator's parameters as values, and as what a model rests on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from aesvm.kernels import KernelSpec
from aesvm.machines.training import SolverOptions
from aesvm.sets.derive import ReductionSettings

#: Parameters that a model and its certificate rest on.
_RESTS_ON = ("kernel", "degree", "coef0", "C", "class_weight", "hull_tol", "tol")


#: Iterations, and bytes, that compiled code can count: whoever asks for more means no limit.
_MOST = 2**60


def kernel_spec(estimator: Any, gamma: float) -> KernelSpec:
    return KernelSpec(estimator.kernel, gamma, estimator.degree, float(estimator.coef0))


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


def cache_bytes(estimator: Any) -> int:
    return int(min(estimator.cache_size * 1e6, _MOST))


def trained_with(estimator: Any) -> dict[str, Any]:
    """The parameters that a certificate rests on, to be kept with the model."""
    return {name: getattr(estimator, name) for name in _RESTS_ON}


def check_unchanged(estimator: Any, before: dict[str, Any]) -> None:
    """Refuse to certify a model whose parameters are no longer those it was trained with."""
    for name, value in before.items():
        now = getattr(estimator, name)
        if now is not value and now != value:
            raise ValueError(
                f"{name}={now!r} was {value!r} when the model was trained: certify wants the same "
                "parameters."
            )


def with_parameters_of(other: type) -> Callable[[Callable], Callable]:
    """Decorate an ``__init__`` with parameters of its own and ``**others``: name those as well.

    scikit-learn reads the parameters of an estimator from the signature. Those of ``other`` are set
    as it would set them, with its defaults.
    """
    others = inspect.signature(other).parameters

    def decorate(init: Any) -> Any:
        own = list(inspect.signature(init).parameters.values())[:-1]

        def initialize(self: Any, **parameters: Any) -> None:
            unknown = set(parameters) - set(others) - {one.name for one in own}
            if unknown:
                raise TypeError(f"{type(self).__name__} has no parameter {sorted(unknown)[0]!r}.")
            for name, parameter in others.items():
                setattr(self, name, parameters.pop(name, parameter.default))
            init(self, **parameters)

        signature: Any = initialize
        signature.__signature__ = inspect.Signature([*own, *others.values()])
        return initialize

    return decorate
