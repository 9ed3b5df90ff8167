"""Where results are written: never over what is read, and into what is open already."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import children
from tests.command.files import PROGRAM, csv_text, done, heart_like, run


@pytest.fixture
def inputs(heart, capsys):
    """A data file, models of it, a table, a range and weights, in the current folder."""
    path, *_ = heart
    folder = path.parent
    X, y = heart_like()
    done(capsys, "train", "-q", path, "m")
    done(capsys, "train", "-q", path, "m.aesvm")
    done(capsys, "scale", "-s", "range", "-o", "scaled", path)
    (folder / "rows.csv").write_text(csv_text(X, y))
    (folder / "rows.html").write_text(csv_text(X, y))
    (folder / "few.weights").write_text("1\n" * len(y))
    (folder / "link").symlink_to("heart")
    os.link(path, folder / "twin")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        "train heart heart",
        "train heart link",
        "train link twin",
        "train -W few.weights heart few.weights",
        "predict heart m heart",
        "predict heart m m",
        "predict heart m ./twin",
        "scale heart -o heart",
        "scale heart -r range -o range",
        "scale heart -o new -s new",
        "fit rows.csv --target kind -o rows.csv",
        "fit rows.csv --target kind --report rows.csv",
        "fit rows.html --target kind -o rows.aesvm",
        "convert heart heart",
        "convert m m",
    ],
)
def test_no_command_writes_over_what_it_reads(arguments, inputs, capsys):
    before = {path.name: path.read_bytes() for path in inputs.iterdir()}
    code, _, err = run(capsys, *arguments.split())
    assert code == 2
    assert len(err.splitlines()) == 1
    assert "use another name" in err
    assert {path.name: path.read_bytes() for path in inputs.iterdir()} == before


def ended(*arguments, **options):
    """The exit code of the program as a process, and what it said on standard error."""
    command = children.code(PROGRAM, *arguments)
    with children.started(command, stderr=subprocess.PIPE, **options) as process:
        _, err = process.communicate(timeout=children.LIMIT)
    return process.returncode, err


@pytest.mark.parametrize("name", ["/dev/fd/1", "/dev/stdout", "/proc/self/fd/1"])
def test_a_file_that_is_open_is_written_to_where_it_is(name, inputs):
    n_rows = len((inputs / "heart").read_text().splitlines())
    with open("out", "wb") as out:
        out.write(b"before\n")
        out.flush()
        assert ended("predict", "-q", "heart", "m", name, stdout=out) == (0, "")
        out.seek(0, os.SEEK_CUR)
        os.write(out.fileno(), b"after\n")
    found = (inputs / "out").read_text().split()
    assert (found[0], found[-1]) == ("before", "after")
    assert len(found) == n_rows + 2


def test_a_pipe_that_is_open_is_written_to(inputs):
    """As ``>(wc -l)`` of a shell is."""
    reading, writing = os.pipe()
    with ThreadPoolExecutor(1) as readers, os.fdopen(reading) as lines:
        text = readers.submit(lines.read)
        name = f"/dev/fd/{writing}"
        said = ended("train", "-q", "heart", name, pass_fds=[writing])
        os.close(writing)
        assert said == (0, "")
        assert text.result(60) == (inputs / "m").read_text()


def test_a_full_disk_is_said_of_which_file(inputs, capsys):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no full device")
    for arguments in ("predict -q heart m", "train -q heart", "scale heart -o"):
        code, _, err = run(capsys, *arguments.split(), "/dev/full")
        assert (code, err) == (1, "aesvm: /dev/full: No space left on device\n")
    with open("/dev/full", "wb") as full:
        for arguments in ("predict -q heart m", "info heart", "info heart --json"):
            said = ended(*arguments.split(), stdout=full)
            assert said == (1, "aesvm: standard output: No space left on device\n")


def test_what_cannot_be_opened_is_named_as_it_was_given(inputs, capsys):
    for name in ("/dev/fd/999", "/proc/self/fd/none"):
        code, _, err = run(capsys, "predict", "-q", "heart", "m", name)
        assert code == 1
        assert err.startswith(f"aesvm: {name}: ")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no folder takes no files")
def test_what_cannot_be_written_is_refused_before_the_work(inputs, capsys):
    code, out, err = run(capsys, "fit", "rows.csv", "--target", "kind", "-o", "/proc/new.aesvm")
    assert (code, out) == (1, "")
    assert re.fullmatch("aesvm: /proc/new.aesvm: .*\n", err)  # and no note of the work


def test_a_full_folder_for_copies_is_named(heart, capsys, monkeypatch):
    """Standard input is copied there."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("shutil.copyfileobj", full)
    folder = heart[0].parent
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    ended = run(capsys, "train", "-", "model", stdin=b"1 1:1\n", monkeypatch=monkeypatch)
    assert ended.code == 1
    assert re.fullmatch(rf"aesvm: {folder}/aesvm-\w+: No space left on device\n", ended.err)
    assert [one.name for one in folder.iterdir()] == ["heart"]
