"""The code of docs/files.md, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "files.md"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_blocks_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    for name in ("skl2onnx", "onnxruntime", "skops"):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 8
    known: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), known)
    assert capsys.readouterr().out == "SVC(C=10.0, gamma=1.0)\n"
