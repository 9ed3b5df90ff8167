"""Candidates of a search put into chains, whose fits follow each other and share work.

A chain has one kernel: its candidates differ in C, and in whatever else leaves the kernel and the
rows as they are. Each starts from the solution before it, so C rises along a chain.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from aesvm.estimators.machine import KernelMachine

#: Parameters of the SVM that its kernel depends on.
_OF_KERNEL = ("kernel", "gamma", "degree", "coef0")


class Chain(NamedTuple):
    """Candidates with one kernel, in the order in which they are fitted."""

    numbers: list[int]  #: among all candidates
    params: list[dict[str, Any]]
    rows_key: Hashable  #: chains with the same one are fitted to the same rows


def chains_of(estimator: Any, candidates: Sequence[dict[str, Any]]) -> list[Chain]:
    """Every candidate in a chain; those of other estimators than ours in one of their own.

    Examples
    --------
    >>> from aesvm import AESVC
    >>> from aesvm.model_selection.chains import chains_of
    >>> grid = [{"C": C, "gamma": gamma} for C in (10, 1) for gamma in (0.1, 0.2)]
    >>> [chain.numbers for chain in chains_of(AESVC(), grid)]
    [[2, 0], [3, 1]]
    """
    chains: dict[Hashable, list[tuple[float, int, dict[str, Any]]]] = {}
    rows_keys: dict[Hashable, Hashable] = {}
    for number, params in enumerate(candidates):
        prefix, machine = svm_of(estimator, params)
        if machine is None:
            key: Hashable = ("alone", number)
            rows_keys[key] = key
            chains[key] = [(0.0, number, params)]
            continue
        own = {name for name in params if name.startswith(prefix) and _is_own(name, prefix)}
        others = _key({name: params[name] for name in params if name not in own})
        of_kernel = {name: getattr(machine, name) for name in _OF_KERNEL}
        key = others, _key(of_kernel)
        rows_keys[key] = others
        chains.setdefault(key, []).append((_cost(machine), number, params))
    found = []
    for key, members in chains.items():
        members.sort(key=lambda member: member[:2])
        numbers = [number for _, number, _ in members]
        found.append(Chain(numbers, [params for *_, params in members], rows_keys[key]))
    return found


def svm_of(estimator: Any, params: dict[str, Any]) -> tuple[str, Any]:
    """The prefix of the parameters' names of the SVM, and the SVM with its own ones set.

    None where there is none of ours that is fitted to rows in memory: the estimator itself, or the
    last step of a pipeline.
    """
    prefix, machine = "", estimator
    if isinstance(estimator, Pipeline):
        if estimator.transform_input is not None:
            return prefix, None
        name, machine = estimator.steps[-1]
        prefix, machine = f"{name}__", params.get(name, machine)
    if getattr(type(machine), "fit", None) is not KernelMachine.fit:
        return prefix, None
    own = {
        name.removeprefix(prefix): value
        for name, value in params.items()
        if name.startswith(prefix) and _is_own(name, prefix)
    }
    known = machine.get_params(deep=False)
    if not set(own) <= set(known):
        return prefix, None  # to fail as any estimator does that is given unknown parameters
    return prefix, clone(machine).set_params(**own)


def _is_own(name: str, prefix: str) -> bool:
    return "__" not in name.removeprefix(prefix) and (bool(prefix) or "__" not in name)


def _cost(machine: Any) -> float:
    """C, by which a chain is ordered."""
    cost = getattr(machine, "C", 0.0)
    return float(cost) if isinstance(cost, (int, float)) else 0.0


def _key(values: dict[str, Any]) -> Hashable:
    """Equal for equal values; of what cannot be hashed, for the same object."""
    return tuple((name, _hashable(value)) for name, value in sorted(values.items()))


def _hashable(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return "object", id(value)
    return type(value).__name__, value
