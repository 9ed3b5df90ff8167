from __future__ import annotations

from pathlib import Path

from tests import children

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_runs_and_stops_svc_in_time(tmp_path):
    command = children.script(DEMO, "--rows", 20_000, "--limit", 0.5)
    printed = children.run(command, cwd=tmp_path, env={"COLUMNS": "120"})
    assert "20,000 rows" in printed
    assert "AESVC" in printed
    assert "over 0.5, stopped" in printed
    assert (tmp_path / "representatives.png").stat().st_size > 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["representatives.png"]
