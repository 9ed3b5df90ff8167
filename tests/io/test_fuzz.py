"""The fuzzing of readers: that it runs, finds nothing, and would find something."""

from unittest import mock

import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from aesvm.io import NpyReader
from benchmarks import fuzz, fuzz_files


def test_some_trials_find_nothing(capsys):
    assert fuzz.main(["--seconds", "3", "--seed", "3", "files"]) == 0
    shown = capsys.readouterr().out
    for outcome in ("csv: whole, read", "libsvm: damaged, refused", "folder: whole, read"):
        assert outcome in shown


def test_other_rows_are_a_fault_that_can_be_made_again(capsys, tmp_path):
    chunks = NpyReader._chunks

    def backwards(self, progress):
        for X, y, weights in chunks(self, progress):
            yield X[::-1], y, weights

    with mock.patch.object(NpyReader, "_chunks", backwards):
        options = ["--seconds", "2", "--seed", "0", "--keep", str(tmp_path), "files"]
        assert fuzz.main(options) == 1
        faults = sorted(path.name for path in tmp_path.iterdir())
        number = faults[0].removeprefix("files-0-")
        assert fuzz.main(["--trial", number, "files"]) == 1
    assert "AssertionError: row 0 is" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / faults[0]).iterdir()) == ["X.npy", "y.npy"]
    assert fuzz.main(["--trial", number, "files"]) == 0


def test_damage_is_told_from_what_is_whole():
    rng = fuzz_files.np.random.default_rng(0)
    made = [fuzz_files._damaged(rng, b"1 1:2\n2 2:3\n") for _ in range(50)]
    assert {each.whole for each in made} == {True, False}
    assert all(each.whole == (each.content == b"1 1:2\n2 2:3\n") for each in made)


def test_an_unknown_kind_is_named(capsys):
    with pytest.raises(SystemExit):
        fuzz.main(["flies"])
    assert "unknown kind flies: use files" in capsys.readouterr().err
