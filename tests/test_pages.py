"""README and documentation: their code runs as it stands, and what they refer to is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import aesvm

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

#: Pages whose blocks run one after the other, and what they need. No page has blocks that do not.
PAGES: dict[str, tuple[str, ...]] = {
    "README.md": (),
    "docs/accelerate.md": (),
    "docs/few_vectors.md": (),
    "docs/coming_from_libsvm.md": (),
    "docs/migrating.md": (),
    "docs/coming_from_thundersvm.md": (),
    "docs/command_line.md": ("pandas",),
    "docs/explaining.md": ("matplotlib", "pandas"),
    "docs/saving.md": ("skl2onnx", "onnxruntime"),
    "docs/getting_started.md": ("sklearn.callback",),  # scikit-learn 1.9
    "docs/how_close.md": (),
    "docs/index.md": (),
    "docs/large_data.md": ("distributed", "pandas", "pyarrow"),
    "docs/parameter_search.md": ("matplotlib", "pandas"),
    "docs/probabilities.md": (),
    "docs/progress.md": ("rich", "sklearn.callback"),
    "docs/rivals.md": (),
}

#: Modules whose public names are in the API reference.
PUBLIC = (
    "aesvm",
    "aesvm.accel",
    "aesvm.dask",
    "aesvm.inspection",
    "aesvm.io",
    "aesvm.model_selection",
    "aesvm.plotting",
)


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    return [ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("paper/*.md")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_run_one_after_the_other(name, tmp_path, monkeypatch):
    for needed in PAGES[name]:
        pytest.importorskip(needed)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    known: dict = {}
    for block in blocks(ROOT / name):
        exec(compile(block, name, "exec"), known)
    assert known


def test_no_page_has_blocks_that_are_not_run():
    with_blocks = {str(page.relative_to(ROOT).as_posix()) for page in pages() if blocks(page)}
    assert with_blocks == set(PAGES)


def test_changelog_and_citation_are_of_this_version():
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert changes[0] == aesvm.__version__
    cited = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {aesvm.__version__}\n" in cited


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_links_lead_to_files_that_are_there(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
        if "://" in target or target.startswith("gallery/"):
            continue
        assert (page.parent / target).exists(), target


def test_links_to_the_gallery_lead_to_examples():
    found = {
        t for page in pages() for t in re.findall(r"\(gallery/(\w+)\.rst", page.read_text("utf-8"))
    }
    assert found
    assert all((ROOT / "examples" / f"{name}.py").exists() for name in found)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference_and_has_an_example(module):
    if module == "aesvm.dask":
        pytest.importorskip("distributed")
    reference = (DOCS / "api.rst").read_text("utf-8")
    for name in import_module(module).__all__:
        assert re.search(rf"^(   |.. data:: ){name}$", reference, re.MULTILINE), name
        value = getattr(import_module(module), name)
        if callable(value):
            methods = [member for key, member in vars(value).items() if not key.startswith("_")]
            assert any(">>>" in (one.__doc__ or "") for one in (value, *methods)), name
