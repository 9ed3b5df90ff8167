"""``python -m benchmarks.pages [PAGES]``: what the code of README and of the site's pages prints.

A page's blocks of Python run one after the other. What a block prints stands below it, in a block
of text. This program runs the pages and renews the outputs that differ; ``tests/test_pages.py``
runs them too, and fails where an output differs. Links of README to the repository begin with the
address that pyproject.toml has.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.records import with_tables
from benchmarks.report import replace_file

ROOT = Path(__file__).parents[1]

#: A block of Python, and the output below it.
_BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE
)

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?")

#: A line that stands for any lines, of outputs that are never twice the same.
ANYTHING = "..."

#: Numbers are the same within this share. Where a solve ends is a matter of rounding, so that gaps,
#: and counts of rows at the margin, may differ by this factor; their lines have one of these words.
SHARE, FACTOR = 0.1, 30.0
_LOOSE = ("gap", "exact to", "above the exact", "violate", "changed", "change by")


class Block(NamedTuple):
    """A block of Python on a page, the output that the page shows, and where both end."""

    code: str
    shown: str | None
    start: int
    end: int


class Ran(NamedTuple):
    block: Block
    printed: str

    @property
    def agrees(self) -> bool:
        return same(self.block.shown or "", self.printed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="all pages that have code, by default")
    pages = parser.parse_args().pages or [page for page in all_pages() if blocks(page)]
    os.environ["MPLBACKEND"] = "Agg"
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            renewed = renew(page.resolve(), Path(folder))
        print(page, "renewed" if renewed else "as it was", flush=True)
    readme, page = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
    replace_file(readme, with_address(readme.read_text("utf-8")))
    replace_file(page, with_tables(page.read_text("utf-8")))


def all_pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    found = _BLOCK.finditer(page.read_text("utf-8"))
    return [Block(match[1], match[2], *match.span()) for match in found]


def run(page: Path, folder: Path) -> Iterator[Ran]:
    """Run the page's blocks in a folder. Warnings are errors: a page shows none."""
    known: dict[str, Any] = {"__name__": "__main__"}
    with chdir(folder):
        for block in blocks(page):
            out = io.StringIO()
            with redirect_stdout(out), warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                exec(compile(block.code, str(page), "exec"), known)
            yield Ran(block, out.getvalue())


def renew(page: Path, folder: Path) -> bool:
    """Write what the blocks print below them, where that differs from what is there."""
    text = page.read_text("utf-8")
    found = list(run(page, folder))
    for ran in reversed(found):
        if not ran.agrees:
            output = f"\n```text\n{ran.printed.strip()}\n```\n" if ran.printed.strip() else ""
            code = f"```python\n{ran.block.code}```\n"
            text = text[: ran.block.start] + code + output + text[ran.block.end :]
    if renewed := not all(ran.agrees for ran in found):
        replace_file(page, text)
    return renewed


def same(shown: str, printed: str) -> bool:
    """The same lines, last digits of numbers aside, and decimals of a table of seconds."""
    if "seconds" in shown:
        shown, printed = (re.sub(r"\d+\.\d+", "0.1", text) for text in (shown, printed))
    parts = [part.strip().splitlines() for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)]
    lines = printed.strip().splitlines()
    if len(parts) == 1:
        return _same_lines(parts[0], lines)
    first, last = parts[0], parts[-1]
    fits = len(first) + len(last) <= len(lines)
    end = len(lines) - len(last)
    return fits and _same_lines(first, lines[: len(first)]) and _same_lines(last, lines[end:])


def _same_lines(shown: list[str], printed: list[str]) -> bool:
    if len(shown) != len(printed):
        return False
    return all(_same_line(a, b) for a, b in zip(shown, printed, strict=True))


def _same_line(shown: str, printed: str) -> bool:
    words = [" ".join(_NUMBER.sub("0", line).split()) for line in (shown, printed)]
    if words[0] != words[1]:
        return False
    numbers = (_NUMBER.findall(shown), _NUMBER.findall(printed))
    loose = any(word in shown for word in _LOOSE)
    return all(_near(a, b, loose) for a, b in zip(*numbers, strict=True))


def _near(shown: str, printed: str, loose: bool) -> bool:
    """Whether two numbers are close, or differ by one in the last decimal that is shown."""
    a, b = (float(number.replace(",", "")) for number in (shown, printed))
    decimals = re.search(r"\.(\d+)$", shown)
    last = 1.001 * 10.0 ** -len(decimals[1]) if decimals else 0.0
    if loose and max(a, last) > 0 and max(b, last) > 0:
        return 1 / FACTOR <= max(a, last) / max(b, last) <= FACTOR
    return abs(a - b) <= max(SHARE * max(abs(a), abs(b)), last)


def address() -> str:
    """Where the repository is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project["urls"]["Repository"]


def with_address(text: str) -> str:
    """Links and pictures of the repository, wherever it was before, begin with its address."""
    return re.sub(
        r"https://github\.com/[\w.-]+/[\w.-]+(?=/(?:blob|raw|tree)/main\b)", address(), text
    )


if __name__ == "__main__":
    main()
