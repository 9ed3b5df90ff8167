from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

from tests import children

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "demo.py"


def test_make_demo_installs_what_it_imports():
    (extra,) = re.findall(r"^demo: \.venv/\.with-(\w+)$", (ROOT / "Makefile").read_text(), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"][extra]]
    installed = {re.match(r"[\w-]+", one)[0].replace("scikit-learn", "sklearn") for one in needed}
    imported = set()
    for node in ast.walk(ast.parse(DEMO.read_text())):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.partition(".")[0])
    assert "rich" in imported
    installed.add("PIL")  # comes with Matplotlib
    assert imported - set(sys.stdlib_module_names) - {"aesvm"} <= installed


def test_the_demo_runs_and_stops_svc_in_time(tmp_path):
    command = children.script(DEMO, "--rows", 20_000, "--limit", 0.5)
    printed = children.run(command, cwd=tmp_path, env={"COLUMNS": "120"})
    assert "20,000 rows" in printed
    assert "AESVC" in printed
    assert "over 0.5, stopped" in printed
    assert (tmp_path / "representatives.png").stat().st_size > 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["representatives.png"]
