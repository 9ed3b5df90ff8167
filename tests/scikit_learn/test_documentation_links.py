"""Diagrams of estimators link to our pages, where the package says where its site is."""

from __future__ import annotations

from pathlib import Path

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aesvm import AESVC, RepresentativeSet
from aesvm.estimators import documentation
from aesvm.model_selection import AEGridSearchCV, calibrated

ESTIMATORS = {
    "aesvm.AESVC": AESVC(),
    "aesvm.RepresentativeSet": RepresentativeSet(),
    "aesvm.model_selection.AEGridSearchCV": AEGridSearchCV(AESVC(), {}),
    "aesvm.model_selection.SharedCalibration": calibrated(AESVC()),
}
API = Path(__file__).parents[2] / "docs" / "api.rst"


@pytest.fixture(params=["", "https://aesvm.test/docs/"])
def site(request, monkeypatch):
    class Metadata:
        def get_all(self, name):
            assert name == "Project-URL"
            if not request.param:
                return None
            return ["Homepage, https://aesvm.test", f"Documentation, {request.param}"]

    monkeypatch.setattr(documentation, "metadata", lambda name: Metadata())
    documentation._site.cache_clear()
    yield request.param
    documentation._site.cache_clear()


@pytest.mark.parametrize("page", ESTIMATORS)
def test_a_diagram_links_to_the_page_of_each_estimator(page, site):
    linked = f"https://aesvm.test/docs/generated/{page}.html"
    diagram = make_pipeline(StandardScaler(), ESTIMATORS[page])._repr_html_()
    assert (linked in diagram) == bool(site)
    assert "scikit-learn.org" in diagram  # that of the scaler is scikit-learn's own
    assert "scikit-learn.org" not in ESTIMATORS[page]._get_doc_link()


@pytest.mark.parametrize("page", ESTIMATORS)
def test_the_reference_has_these_pages(page):
    module, _, name = page.rpartition(".")
    parts = API.read_text().split(".. currentmodule:: ")
    assert any(part.split()[0] == module and f"   {name}\n" in part for part in parts)


def test_subclasses_of_others_link_nowhere(site):
    class Theirs(AESVC):
        pass

    assert Theirs()._get_doc_link() == ""


def test_the_page_of_a_dask_estimator():
    dask = pytest.importorskip("aesvm.dask")
    model = dask.DaskAESVC()
    assert model._doc_link_url_param_generator() == {"page": "aesvm.dask.DaskAESVC"}
