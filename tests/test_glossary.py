"""Words have the meaning that the glossary gives them, and the names in it are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from sklearn.datasets import make_moons

import aesvm
from aesvm import AESVC

GLOSSARY = (Path(__file__).parents[1] / "docs" / "glossary.md").read_text()
PACKAGE = Path(aesvm.__file__).parent
TERMS = re.findall(r"^\*\*(.+)\*\*$", GLOSSARY, re.MULTILINE)


def messages():
    """The text of every verbose line, with what is put into it left out."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in ("say", "say_now_and_then", "cut_short"):
                    parts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                    yield path, " ".join(part for part in parts if isinstance(part, str))


@pytest.mark.parametrize(
    "term",
    [
        "representative",
        "round",
        "stratum",
        "duality gap",
        "KKT violation",
        "hull tolerance",
        "residual",
        "vector",
        "look",
        "pair of classes",
    ],
)
def test_words_that_are_used_are_explained_once(term):
    assert TERMS.count(term) == 1


def test_attributes_that_the_glossary_names_are_there():
    X, y = make_moons(200, noise=0.2, random_state=0)
    model = AESVC(gamma=1.0).fit(X, y)
    names = re.findall(r"`((?:\w+_\.)?\w+_?)`", GLOSSARY)
    attributes = [name for name in names if "." in name or name.endswith("_")]
    assert len(attributes) > 15
    for name in attributes:
        found = model
        for part in name.split("."):
            assert hasattr(found, part), name
            found = getattr(found, part)
    parameters = {name for name in names if name in ("tol", "hull_tol", "subset_size", "refine")}
    assert parameters <= set(model.get_params())


def test_verbose_lines_use_the_words_of_the_glossary():
    found = list(messages())
    assert len(found) > 25
    for path, text in found:
        for gap in re.finditer(r"(\w+ )?\bgap\b", text):
            assert gap.group(1) == "duality ", (path, text)
        for other in ("F1", "F2", "basis", "epsilon", "tau", "pair update"):
            assert not re.search(rf"\b{other}\b", text), (path, text)
