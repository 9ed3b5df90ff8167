"""A report in two forms: Markdown with pictures beside it, and one HTML page that needs nothing.

Sections hold blocks: texts, lists, tables and pictures. Words are Markdown; ``escaped`` makes
anything else so. The page is that Markdown, in a template and with its pictures inside. The same
sections give the same bytes, so a report that is written again differs only where results do.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from experiments.paper.pictures import Bars, Picture, Scatter, pngs

_PICTURE = re.compile(r"!\[[^]]*\]\(([\w.-]+\.png)\)")
_PAPERS_OWN = re.compile(r" ?\[([^][]*)\]</td>")
_FIGURE = re.compile(r"[^A-Za-z]*\d")


@dataclass(frozen=True)
class Cell:
    """What was measured, and the paper's own figure for the same thing.

    ``mark``: "best" of its row, or "missing": a run not made, or past its time limit.
    """

    text: str
    paper: str = ""
    mark: str = ""

    def __post_init__(self) -> None:
        if self.mark not in ("", "best", "missing"):
            raise ValueError(f"mark {self.mark!r} of a cell: '', 'best' or 'missing'")

    def markdown(self) -> str:
        star = {"": "", "best": "**", "missing": "*"}[self.mark] if self.text.strip("–") else ""
        paper = f"[{self.paper}]" if self.paper else ""
        return f"{star}{self.text}{star} {paper}".strip().replace("|", r"\|")


@dataclass(frozen=True)
class Text:
    """Paragraphs, with an empty line between them."""

    text: str

    def markdown(self) -> str:
        return self.text


@dataclass(frozen=True)
class Points:
    items: Sequence[str]

    def markdown(self) -> str:
        return "\n".join(f"- {item}" for item in self.items)


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first column names the rows."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        for at, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.caption!r}: row {at} has {len(row)} cells "
                    f"for {len(self.columns)} columns"
                )

    def cells(self) -> list[list[Cell]]:
        return [[c if isinstance(c, Cell) else Cell(c) for c in row] for row in self.rows]

    def markdown(self) -> str:
        import pandas as pd  # a machine that only makes runs need not have it

        if not self.rows:
            return "\n\n".join(filter(None, [f"**{self.caption}**", self.note]))
        rows = [[cell.markdown() for cell in row] for row in self.cells()]
        table = pd.DataFrame(rows, columns=list(self.columns)).to_markdown(
            index=False, disable_numparse=True, colalign=self._alignments()
        )
        return "\n\n".join(filter(None, [f"**{self.caption}**", table, self.note]))

    def _alignments(self) -> list[str]:
        """To the right where every cell that has a value has a figure before a word."""
        found = ["left"]
        for column in list(zip(*self.cells(), strict=True))[1:]:
            texts = [cell.text for cell in column if cell.text and cell.mark != "missing"]
            found.append("right" if all(map(_FIGURE.match, texts)) else "left")
        return found


Block = Text | Points | Table | Picture


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]
    anchor: str

    def markdown(self) -> str:
        parts = [f'<a id="{self.anchor}"></a>', f"## {self.title}"]
        for block in self.blocks:
            if isinstance(block, Scatter | Bars):
                parts += [f"**{block.caption}**", f"![{block.caption}]({block.name}.png)"]
            else:
                parts.append(block.markdown())
        return "\n\n".join(parts)


def escaped(text: str) -> str:
    """Words that are not ours, as an error's, so that Markdown shows them as they are."""
    return re.sub(r"[\\`*_\[\]<&~$#]", r"\\\g<0>", " ".join(text.split()))


def write(
    title: str, lead: str, sections: Sequence[Section], folder: Path, stem: str = "report"
) -> tuple[Path, Path]:
    """Write the report into a folder; the paths of the Markdown and of the HTML file.

    A file is replaced by a whole one or not at all. Pictures of this report's earlier version
    that are no longer in it are removed.
    """
    from benchmarks.report import replace_file

    markdown, page = folder / f"{stem}.md", folder / f"{stem}.html"
    pictures = pngs(b for s in sections for b in s.blocks if isinstance(b, Scatter | Bars))
    earlier = set(_PICTURE.findall(markdown.read_text("utf-8"))) if markdown.exists() else set()
    foreign = [name for name in pictures if (folder / name).exists() and name not in earlier]
    if foreign:
        raise FileExistsError(f"{folder / foreign[0]} is not of this report: rename the picture")
    text = "\n\n".join([f"# {title}", lead, *(section.markdown() for section in sections)]) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        replace_file(folder / name, picture)
    replace_file(page, _page(title, text, sections, pictures))
    replace_file(markdown, text)
    for name in earlier - set(pictures):
        (folder / name).unlink(missing_ok=True)
    return markdown, page


def _page(title: str, text: str, sections: Sequence[Section], pictures: dict[str, bytes]) -> str:
    """The Markdown as one page: contents after the lead, pictures inside, tables that scroll."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark").enable("table").render(text)
    for name, picture in pictures.items():
        code = base64.b64encode(picture).decode()
        body = body.replace(f'src="{name}"', f'src="data:image/png;base64,{code}"')
    body = _PAPERS_OWN.sub(r"<small>\1</small></td>", body)
    body = body.replace("<table>", '<div class="scroll"><table>')
    body = body.replace("</table>", "</table></div>")
    links = "".join(f'<a href="#{s.anchor}">{escape(s.title)}</a>' for s in sections)
    contents = (
        "<p>Small grey figures are the paper's own.</p>\n"
        f'<nav aria-label="Contents">{links}</nav>\n<p><a id='
    )
    body = body.replace("<p><a id=", contents, 1)
    template = Template(Path(__file__).with_name("page.html").read_text("utf-8"))
    return template.substitute(title=escape(title), body=body)
