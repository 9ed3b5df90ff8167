"""The house keeps its order: no folder of the package imports one that is above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import aesvm

PACKAGE = Path(aesvm.__file__).parent

#: The modules of the SVMs. (Searches have a folder.)
ESTIMATORS = {
    module.removeprefix("aesvm.")
    for name, module in aesvm._MODULES.items()
    if name.startswith("AE") and module.count(".") == 1
}

#: From the ground up; what stands together may import each other.
LAYERS = [
    {"runtime"},
    {"kernels"},
    {"sets", "solver"},
    {"gpu"},
    {"formulations"},
    {"certificate"},
    {"machines"},
    {"bases"},
    {"out_of_core", "io"},
    {"estimators", "representative_set"},
    {*ESTIMATORS, "callbacks"},
    {
        "accel",
        "dask",
        "inspection",
        "model_selection",
        "onnx",
        "plotting",
        "tabular",
        "compiling",
        "__init__",
    },
    {"command", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(path):
    """The modules of this package that a file imports, by their place below it."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("aesvm."):
                own = name.split(".")[1]
                # a name that the package itself offers is of the module that it comes from
                yield aesvm._MODULES[own].split(".")[1] if own in aesvm._MODULES else own


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_imports_what_is_above_it(path):
    own = LEVEL[path.relative_to(PACKAGE).parts[0].removesuffix(".py")]
    above = {name for name in imported(path) if LEVEL.get(name, 0) > own}
    assert not above


def test_every_name_is_in_one_layer():
    assert len(LEVEL) == sum(map(len, LAYERS))


def test_estimators_derive_from_at_most_two_classes_of_ours():
    """What is done with rows, and how predictions are made."""
    import aesvm.dask as on_cluster
    from aesvm.estimators.documentation import LinkedToDocumentation
    from aesvm.runtime.scikit_learn import CallbackSupportMixin

    conventions = CallbackSupportMixin, LinkedToDocumentation  # before 1.9 the first is ours, too
    public = [getattr(aesvm, name) for name in aesvm.__all__ if name != "Certificate"]
    ours = [one for one in public if isinstance(one, type)]
    for estimator in (*ours, *(getattr(on_cluster, name) for name in on_cluster.__all__)):
        ours = [base for base in estimator.__mro__[1:] if base.__module__.startswith("aesvm")]
        ours = [base for base in ours if base not in conventions]
        assert len(ours) <= 2
