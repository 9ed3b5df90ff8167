"""How the site is built: ``make docs``, or ``python -m sphinx -W docs docs/_build/html``."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.docutils import nodes

import aesvm

# One thread of BLAS, as in the tests: examples are run one after the other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

project = "aesvm"
author = "The aesvm developers"
project_copyright = "The aesvm developers, BSD-3-Clause"
version = release = aesvm.__version__

_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
repository = _PROJECT["project"]["urls"]["Repository"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "generated/backreferences",
    "**/sg_execution_times.rst",
    "sg_execution_times.rst",
]
# Every link inside the site must lead somewhere. Links to other sites are made from their
# inventories; without a network, from small ones that docs/inventories/make.py has made.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"sklearn\..*")]
intersphinx_mapping = {
    name: (address, (None, f"inventories/{name}.inv"))
    for name, address in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "sklearn": "https://scikit-learn.org/stable/",
    }.items()
}
intersphinx_timeout = 5
intersphinx_disabled_reftypes = ["std:*"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"aesvm {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("versions.js", {"defer": "defer"})]
html_theme_options = {
    "source_repository": repository,
    "source_branch": "main",
    "source_directory": "docs/",
    "top_of_page_buttons": ["view"],
    "footer_icons": [{"name": "The repository", "url": repository, "html": "GitHub", "class": ""}],
}
# The code of blocks, without prompts; outputs have no button.
copybutton_selector = (
    "div.highlight-python pre, div.highlight-default pre, div.highlight-pycon pre, "
    "div.highlight-Python pre"
)
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(^|[\\/])(?!plot_)\w+\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "min_reported_time": 1e9,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("aesvm",),
    "plot_gallery": True,
    "remove_config_comments": True,
    "matplotlib_animations": False,
}


def _skip_what_scikit_learn_documents(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Members of scikit-learn's base classes refer to pages of its own site."""
    function = getattr(member, "fget", member)
    return True if str(getattr(function, "__module__", "")).startswith("sklearn") else None


def _mathml(translator: Any, node: Any) -> None:
    """Mathematics as MathML, which browsers draw without a script and without a network."""
    block = isinstance(node, nodes.math_block)
    drawn = tex2mathml(node.astext(), as_block=block)
    translator.body.append(f'<div class="math">{drawn}</div>' if block else drawn)
    raise nodes.SkipNode


def _with_targets(app: Any, docname: str, source: list[str]) -> None:
    """Anchors of the paper's reports are HTML, which MyST does not link to: make them targets."""
    if not docname.startswith("paper/"):
        return
    for name in re.findall(r'^<a id="([\w-]+)"></a>$', source[0], re.MULTILINE):
        target = f"{docname}-{name}".replace("/", "-")
        source[0] = source[0].replace(f'<a id="{name}"></a>', f"({target})=")
        source[0] = source[0].replace(f"](#{name})", f"](#{target})")


def setup(app: Any) -> None:
    app.connect("source-read", _with_targets)
    app.connect("autodoc-skip-member", _skip_what_scikit_learn_documents)
    app.add_html_math_renderer("mathml", (_mathml, None), (_mathml, None))
