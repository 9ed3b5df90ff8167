"""The program as it is started: what it imports, how it ends, what it leaves behind."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import children
from tests.command import files
from tests.command.files import PROGRAM, run

#: Modules that take a while to import.
HEAVY = ("numpy", "scipy", "sklearn", "numba", "pandas", "matplotlib", "pyarrow")


def started(*arguments, **options):
    return children.started(
        children.code(PROGRAM, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.fixture
def heart(tmp_path):
    path = tmp_path / "heart"
    path.write_text(files.libsvm_text(*files.heart_like()))
    return path


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from aesvm.command.main import main; main(['train', '--help']); "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert children.run(children.code(program)).splitlines()[-1] == "[]"


def test_names_of_the_package_are_imported_when_they_are_asked_for():
    program = (
        "import sys, aesvm; before = 'numpy' in sys.modules; "
        "from aesvm import AESVC, load; import pickle; "
        "same = pickle.loads(pickle.dumps(AESVC(C=3))).C == 3; "
        "print(before, same, set(aesvm.__all__) == set(aesvm._MODULES), hasattr(aesvm, 'nothing'))"
    )
    assert children.run(children.code(program)).split() == ["False", "True", "True", "False"]


def test_the_package_is_the_program():
    with children.started(
        [sys.executable, "-m", "aesvm", "--version"], stdout=subprocess.PIPE
    ) as process:
        out, _ = process.communicate(timeout=children.LIMIT)
    assert out.startswith("aesvm ")


def test_without_typer_a_line_says_what_to_install():
    program = "import sys; sys.modules['typer'] = None; " + PROGRAM
    with children.started(
        children.code(program, "--help"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        out, err = process.communicate(timeout=children.LIMIT)
    assert process.returncode == 4
    assert out == ""
    assert err == "aesvm: import of typer halted; None in sys.modules: pip install 'aesvm[cli]'\n"
    with children.started(
        children.code(program, "info", "--json", "x"), stdout=subprocess.PIPE
    ) as process:
        out, _ = process.communicate(timeout=children.LIMIT)
    assert json.loads(out)["exit_code"] == 4


def test_ctrl_c_ends_with_130_and_leaves_no_file(tmp_path):
    (tmp_path / "many").write_text(files.libsvm_text(*files.heart_like(20_000)))
    command = children.code(PROGRAM, "train", "--memory", "500 kB", "-c", "1e4", "many")
    with children.started(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert "it is streamed" in children.line(process)  # and training begins
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=children.LIMIT)
    assert process.returncode == 130
    assert printed.splitlines()[-1] == "aesvm: interrupted"
    assert [path.name for path in tmp_path.iterdir()] == ["many"]


def test_a_signal_to_end_leaves_no_file(tmp_path):
    (tmp_path / "many").write_text(files.libsvm_text(*files.heart_like(20_000)))
    command = children.code(PROGRAM, "train", "--memory", "500 kB", "-c", "1e4", "-", "model")
    with (
        (tmp_path / "many").open() as rows,
        children.started(
            command,
            cwd=tmp_path,
            stdin=rows,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"TMPDIR": str(tmp_path)},
        ) as process,
    ):
        assert "it is streamed" in children.line(process)
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=children.LIMIT)
    assert process.returncode == 143
    assert printed.splitlines()[-1] == "aesvm: terminated"
    assert [path.name for path in tmp_path.iterdir()] == ["many"]


def test_closed_outputs_are_no_fault(heart, tmp_path):
    program = "import sys; sys.stdout = sys.stderr = None; " + PROGRAM
    children.run(children.code(program, "train", heart, tmp_path / "model"))
    assert (tmp_path / "model").exists()


def test_a_reader_that_ends_early_is_no_error(heart, tmp_path):
    with started("scale", str(heart)) as process:
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=children.LIMIT)
    assert process.returncode in (0, 141)
    assert err == ""


def test_bars_on_a_terminal_and_none_in_a_pipe(heart, tmp_path):
    with started("train", str(heart), "model", cwd=tmp_path) as process:
        _, err = process.communicate(timeout=children.LIMIT)
    assert process.returncode == 0
    assert err == ""
    ours, its = pty.openpty()
    command = children.code(PROGRAM, "train", str(heart), "model")
    with children.started(
        command, stdout=subprocess.PIPE, stderr=its, cwd=tmp_path, env={"TERM": "xterm"}
    ) as process:
        os.close(its)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # the terminal was closed
            pass
        process.wait(timeout=children.LIMIT)
    os.close(ours)
    assert process.returncode == 0
    assert "AESVC" in shown.decode()
    assert "%" in shown.decode()


class TestExitCodes:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["train"],
            ["train", "--no-such-option", "rows"],
            ["unknown"],
            ["train", "-s", "7", "heart"],
            ["train", "-c", "0", "heart"],
            ["train", "-c", "many", "heart"],
            ["train", "-b", "1", "heart"],
            ["train", "-b", "7", "heart"],
            ["train", "--drop", "0", "heart"],
            ["train", "--header", "heart"],
            ["train", "--delimiter", ",,", "heart"],
            ["train", "--max-vectors", "0", "heart"],
            ["train", "--jobs", "0", "heart"],
            ["train", "--time-limit", "0", "heart"],
            ["train", "--time-limit", "nan", "heart"],
            ["train", "--refine", "²", "heart"],
            ["train", "heart", "-"],
            ["fit", "heart", "-o", "a.html"],
            ["fit", "heart", "-o", "a", "--report", "a"],
            ["scale", "-s", "heart", "heart"],
            ["scale", "-s", "a", "-o", "a", "heart"],
            ["scale", "-u", "inf", "heart"],
            ["scale", "--json", "heart"],
            ["scale", "--json", "-o", "-", "heart"],
            ["convert", "--json", "heart", "-"],
            ["train", "-v", "1", "heart"],
            ["train", "-w1", "none", "heart"],
            ["train", "--format", "word", "heart"],
            ["train", "--target", "x", "heart"],
            ["scale", "-l", "1", "-u", "0", "heart"],
            ["scale", "-s", "a", "-r", "b", "heart"],
            ["fit", "heart", "--test", "2"],
            ["fit", "heart", "--task", "guess"],
        ],
        ids=" ".join,
    )
    def test_usage(self, arguments, heart, capsys, monkeypatch):
        monkeypatch.chdir(heart.parent)
        ended = run(capsys, *arguments)
        assert ended.code == 2
        assert len(ended.err.splitlines()) == 1
        assert ended.err.startswith("aesvm: ")
        assert [path.name for path in heart.parent.iterdir()] == ["heart"]

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["train", "missing"], "there is no such file"),
            (["train", "heart", "no/folder/model"], "no folder"),
            (["train", "bad"], "bad, line 2"),
            (["train", "one"], "classes"),
            (["train", "empty"], "empty"),
            (["predict", "heart", "heart"], "heart, line 1"),
            (["predict", "heart", "missing"], "there is no such file"),
            (["info", "cut.aesvm"], "no model file"),
            (["fit", "one"], "class"),
        ],
        ids=lambda one: " ".join(one) if isinstance(one, list) else "",
    )
    def test_data_or_model_cannot_be_used(self, arguments, said, heart, capsys, monkeypatch):
        folder = heart.parent
        monkeypatch.chdir(folder)
        (folder / "bad").write_text("1 1:2\n-1 1:two\n")
        (folder / "one").write_text("1 1:2\n1 1:3\n" * 20)
        (folder / "empty").write_text("")
        (folder / "cut.aesvm").write_text("aesvm-mo")
        before = sorted(path.name for path in folder.iterdir())
        ended = run(capsys, *arguments)
        assert ended.code == 1
        assert len(ended.err.splitlines()) == 1
        assert said in ended.err
        assert sorted(path.name for path in folder.iterdir()) == before

    def test_a_fault_of_the_program_is_called_one(self, heart, capsys, monkeypatch):
        import aesvm.command.train

        def fail(*_):
            raise RuntimeError("oh")

        monkeypatch.setattr(aesvm.command.train, "estimator_of", fail)
        ended = run(capsys, "train", heart)
        assert ended.code == 3
        assert "a fault of aesvm, RuntimeError: oh" in ended.err

    def test_debug_shows_where(self, heart, capsys):
        with pytest.raises(ValueError, match="line 1"):
            run(capsys, "train", "--debug", Path(__file__), "--format", "libsvm")

    def test_a_missing_library_is_named(self, tmp_path, capsys, monkeypatch):
        for name in [one for one in sys.modules if re.match("pyarrow", one)]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        (tmp_path / "rows.parquet").write_bytes(b"PAR1")
        ended = run(capsys, "train", tmp_path / "rows.parquet", "--target", "x")
        assert ended.code == 4
        assert 'pip install "aesvm[io]"' in ended.err


def test_no_arguments_show_help(capsys):
    ended = run(capsys)
    assert ended.code == 2
    assert "Usage: aesvm" in ended.out + ended.err
    assert run(capsys, "--version").out.startswith("aesvm ")
