"""LIBSVM's arguments in the form that typer reads."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CLASS_WEIGHT = re.compile(r"-w([-+]?[0-9]+)")


def translated(arguments: Sequence[str]) -> list[str]:
    """Arguments with LIBSVM's ``-wi weight`` written as ``--class-weight i=weight``.

    Examples
    --------
    >>> from aesvm.command.arguments import translated
    >>> translated(["train", "-w-1", "5", "-c", "10", "heart"])
    ['train', '--class-weight', '-1=5', '-c', '10', 'heart']
    """
    if not arguments or arguments[0] != "train":
        return list(arguments)
    found, rest = [], list(arguments)
    while rest:
        one = rest.pop(0)
        match = _CLASS_WEIGHT.fullmatch(one)
        if match and rest:
            found += ["--class-weight", f"{match[1]}={rest.pop(0)}"]
        else:
            found.append(one)
    return found
