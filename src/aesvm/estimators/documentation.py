"""Links from scikit-learn's HTML diagrams of estimators to their pages of the API reference."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

#: The entry of ``[project.urls]`` that says where the site is.
_ENTRY = "Documentation"


class LinkedToDocumentation:
    """An estimator whose name in a diagram is a link, where the package says where its site is."""

    _doc_link_module = "aesvm"

    @property
    def _doc_link_template(self) -> str:
        site = _site()
        return f"{site.rstrip('/')}/generated/{{page}}.html" if site else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        cls = type(self)
        folder = cls.__module__.split(".")[1:-1]  # dask, model_selection; none of ``aesvm.svc``
        return {"page": ".".join(["aesvm", *folder, cls.__name__])}


@cache
def _site() -> str:
    """The address of the site, as the installed package has it; "" where it has none."""
    try:
        entries = metadata("aesvm").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a folder
        return ""
    urls = dict(entry.split(", ", 1) for entry in entries)
    return urls.get(_ENTRY, "")
