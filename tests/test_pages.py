"""The code of the documentation's pages, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"

#: Pages whose blocks run one after the other, and what they need.
PAGES = {
    "files.md": ("skl2onnx", "onnxruntime", "skops"),
    "parameter_search.md": ("matplotlib", "pandas"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_run_one_after_the_other(name, tmp_path, monkeypatch):
    for needed in PAGES[name]:
        pytest.importorskip(needed)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    page = DOCS / name
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) > 5
    known: dict = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), known)
