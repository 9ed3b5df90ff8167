"""How many examples Hypothesis draws."""

from __future__ import annotations

import hypothesis


def few(max_examples: int) -> hypothesis.settings:
    """So many examples where they are the same in every run; those of the profile otherwise."""
    if hypothesis.settings().derandomize:
        return hypothesis.settings(max_examples=max_examples)
    return hypothesis.settings()
