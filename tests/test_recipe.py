"""The recipe for conda-forge needs what pyproject.toml says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import aesvm

ROOT = Path(__file__).parents[1]


def test_the_recipe_has_the_version_and_the_requirements_of_the_package():
    recipe = pytest.importorskip("yaml").safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert recipe["context"]["version"] == aesvm.__version__
    assert project["requires-python"] == f">={recipe['context']['python_min']}"
    needed = {one.replace(" ", "") for one in recipe["requirements"]["run"][1:]}
    assert needed == set(project["dependencies"])
