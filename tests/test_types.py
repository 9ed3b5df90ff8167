"""What mypy knows of the estimators, in programs that use them."""

from __future__ import annotations

import re

import pytest

api = pytest.importorskip("mypy.api")

SNIPPET = """
import numpy as np
from aesvm import AEGridSearchCV, AENuSVC, AENuSVR, AEOneClassSVM, AESVC, AESVR

X, y = np.zeros((4, 2)), np.zeros(4)
reveal_type(AESVC().fit(X, y))
reveal_type(AESVC(C=1.0).fit(X, y).certificate_)
reveal_type(AENuSVC(nu=0.5, gamma=1.0, break_ties=True).fit(X, y))
reveal_type(AESVR(epsilon=0.1).fit(X, y))
reveal_type(AENuSVR(nu=0.1, C=2.0).fit(X, y))
reveal_type(AEOneClassSVM(nu=0.1).fit(X))
reveal_type(AESVC().certify(X, y))
AESVC(cost=1.0)
AENuSVC(C=1.0)
AESVR(nu=1.0)
AENuSVR(epsilon=1.0)
AEOneClassSVM(C=1.0)
"""


@pytest.mark.slow
def test_mypy_knows_estimators_certificates_and_parameters(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SNIPPET)
    said, _, _ = api.run(["--ignore-missing-imports", "--cache-dir", str(tmp_path), str(program)])
    assert [name.rpartition(".")[2] for name in re.findall(r'Revealed type is "(.*)"', said)] == [
        "AESVC", "Certificate", "AENuSVC", "AESVR", "AENuSVR", "AEOneClassSVM", "Certificate",
    ]  # fmt: skip
    assert re.findall(r'argument "(.*)" for "(.*)"', said) == [
        ("cost", "AESVC"),
        ("C", "AENuSVC"),
        ("nu", "AESVR"),
        ("epsilon", "AENuSVR"),
        ("C", "AEOneClassSVM"),
    ]
