from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parent.parent / "examples" / "demo.py"


def test_the_demo_runs_and_stops_svc_in_time(tmp_path):
    result = subprocess.run(
        [sys.executable, str(DEMO), "--limit", "0.5"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "AESVC" in result.stdout
    assert "over 0.5, stopped" in result.stdout
    assert (tmp_path / "representatives.png").stat().st_size > 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["representatives.png"]
