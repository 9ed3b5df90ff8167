"""The fuzzing of model files: that it runs, finds nothing, and would find something."""

from unittest import mock

import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
from benchmarks import fuzz, fuzz_models


def test_trials_of_models_find_nothing(capsys):
    assert fuzz.main(["--seconds", "3", "--seed", "3", "models"]) == 0
    shown = capsys.readouterr().out
    for outcome in ("damaged: refused", "forged: refused", "libsvm: refused"):
        assert outcome in shown


def test_a_damaged_model_that_is_read_is_a_fault(capsys):
    with mock.patch("aesvm.load", return_value=fuzz_models._models()[0]):
        assert fuzz.main(["--seconds", "1", "models"]) == 1
    assert "a damaged file was read" in capsys.readouterr().err


def test_an_unknown_kind_is_named(capsys):
    with pytest.raises(SystemExit):
        fuzz.main(["flies"])
    assert "unknown kind flies: use models" in capsys.readouterr().err
