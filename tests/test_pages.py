"""README and documentation: their code runs as it stands, and what they refer to is there."""

from __future__ import annotations

import re
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

import aesvm
from aesvm.runtime.progress import Limit
from benchmarks.pages import address, blocks, renew, run, same
from benchmarks.records import TABLES, with_tables

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

#: Pages whose blocks run one after the other, and what they need. No page has blocks that do not.
PAGES: dict[str, tuple[str, ...]] = {
    "README.md": (),
    "docs/accelerate.md": (),
    "docs/explaining.md": ("matplotlib", "pandas"),
    "docs/few_vectors.md": (),
    "docs/getting_started.md": (),
    "docs/how_close.md": (),
    "docs/index.md": (),
    "docs/large_data.md": ("distributed", "pandas", "pyarrow"),
    "docs/migrating.md": (),
    "docs/parameter_search.md": ("matplotlib", "pandas", "rich"),
    "docs/rivals.md": (),
    "docs/saving.md": ("skl2onnx", "onnxruntime"),
    "docs/tables.md": ("pandas",),
    "docs/time_limit.md": (),
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


def pages() -> list[Path]:
    return [ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("paper/**/*.md")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_run_and_print_what_the_page_shows(name, tmp_path, monkeypatch):
    for needed in PAGES[name]:
        pytest.importorskip(needed)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    # a page shows fits that end in time, which on a busy machine they may not
    monkeypatch.setattr("aesvm.estimators.fitting.Limit", partial(Limit, clock=lambda: 0.0))
    found = list(run(ROOT / name, tmp_path))
    assert found
    for block, printed in found:
        assert same(block.shown or "", printed), f"{block.code}\nmake docs-figures renews outputs"


def test_no_page_has_blocks_that_are_not_run():
    with_blocks = {str(page.relative_to(ROOT).as_posix()) for page in pages() if blocks(page)}
    assert with_blocks == set(PAGES)


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("score 0.9734", "score 0.9741", True),
        ("score 0.9734", "score 0.8734", False),
        ("score 0.9734", "scores 0.9734", False),
        ("exact to 8e-8", "exact to 2e-7", True),
        ("exact to 8e-8", "exact to 2e-3", False),
        ("1,234 rows", "1,235   rows", True),
        ("one\ntwo", "one", False),
        ("first\n...\nlast", "first\nmiddle\nmiddle\nlast", True),
        ("first\n...\nlast", "first\nmiddle", False),
        ("calls seconds\n3 0.1", "calls seconds\n3 20.5", True),
        ("calls seconds\n3 0.1", "calls seconds\n9 0.1", False),
        ("", "something", False),
    ],
)
def test_outputs_are_compared_but_for_last_digits(shown, printed, expected):
    assert same(shown, printed) is expected


def test_outputs_that_differ_are_renewed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("A\n\n```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\nB\n")
    assert renew(page, tmp_path)
    assert page.read_text() == "A\n\n```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n\nB\n"
    assert not renew(page, tmp_path)


def test_tables_are_made_from_the_recorded_runs():
    page = (DOCS / "benchmarks.md").read_text("utf-8")
    assert all(f"<!-- {name} -->" in page for name in TABLES)
    assert with_tables(page) == page


def test_links_of_readme_are_absolute_and_lead_to_files_of_the_repository():
    text = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 10
    for link in links:
        place = re.fullmatch(rf"{re.escape(address())}/(?:blob|raw)/main/([^#]+)(?:#.*)?", link)
        assert place, link
        assert (ROOT / place[1]).exists(), link


def test_the_layers_are_read_from_the_page_that_lists_them():
    pytest.importorskip("matplotlib")
    from benchmarks.pictures import layers_of

    found = layers_of((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert found[0] == ["command"]
    assert found[-1] == ["runtime"]
    source = Path(aesvm.__file__).parent
    for name in (name for layer in found for name in layer):
        assert (source / name).is_dir() or (source / f"{name}.py").exists(), name


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
