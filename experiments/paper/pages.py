"""A report in two forms: Markdown with SVG files beside it, and one HTML page that needs nothing.

Sections hold blocks: texts, lists, tables and charts. The same sections give the same bytes, so a
report that is written again shows up in a diff only where the results are other ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from experiments.paper import drawings, prose
from experiments.paper.charts import Bars, Chart, Panels, Scatter, file_stem
from experiments.paper.marks import DARK, LIGHT, apart, in_page, key, numbered

_ORIGIN = "Chart of the report {}; written again with it, removed when it is no longer in it."
_PAPERS_OWN = "Small figures in grey: the paper's own."
_ANCHOR = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
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


@dataclass(frozen=True)
class Text:
    """Paragraphs, with an empty line between them."""

    text: str


@dataclass(frozen=True)
class Points:
    items: Sequence[str]


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


Block = Text | Points | Table | Chart


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]
    anchor: str


def write(
    title: str, lead: str, sections: Sequence[Section], folder: Path, stem: str = "report"
) -> tuple[Path, Path]:
    """Write the report into a folder; the paths of the Markdown and of the HTML file.

    A file is replaced by a whole one or not at all. SVG files of this report's earlier versions
    that are no longer in it are removed.
    """
    _check_anchors(sections)
    charts = [
        b for section in sections for b in section.blocks if isinstance(b, Scatter | Panels | Bars)
    ]
    numbers = numbered(name for chart in charts for name in chart.measured())
    origin = _ORIGIN.format(file_stem(stem))
    images = _images(charts, numbers, origin)
    texts = images | {
        f"{stem}.md": _markdown_page(title, lead, sections),
        f"{stem}.html": _html_page(title, lead, sections, numbers),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name in images:
        if (folder / name).exists() and not _is_ours(folder / name, origin):
            raise FileExistsError(
                f"{folder / name} is not of this report: name the chart otherwise"
            )
    for name, text in texts.items():
        _replace(folder / name, text)
    for image in sorted(folder.glob("*.svg")):
        if image.name not in images and _is_ours(image, origin):
            image.unlink()
    return folder / f"{stem}.md", folder / f"{stem}.html"


def _check_anchors(sections: Sequence[Section]) -> None:
    seen = set()
    for section in sections:
        if not _ANCHOR.fullmatch(section.anchor):
            raise ValueError(
                f"anchor {section.anchor!r} of section {section.title!r}: "
                "a letter, then letters, digits, '_' and '-'"
            )
        if section.anchor in seen:
            raise ValueError(f"anchor {section.anchor!r} is that of two sections")
        seen.add(section.anchor)


def _images(charts: Iterable[Chart], numbers: Mapping[str, int], origin: str) -> dict[str, str]:
    images: dict[str, str] = {}
    for chart in charts:
        for name, image in drawings.files(chart, numbers, origin).items():
            if name in images:
                raise ValueError(f"chart {chart.name!r}: another chart is {name} already")
            images[name] = image
    return images


def _is_ours(image: Path, origin: str) -> bool:
    with image.open("rb") as file:
        return f"<!-- {origin} -->".encode() in file.read(2000)


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8", newline="\n")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _aligned_right(table: Table) -> list[bool]:
    """Columns of numbers: every cell that is not missing or empty has a figure before a word."""
    right = []
    for at in range(len(table.columns)):
        column = [row[at] for row in table.cells()]
        texts = [prose.plain(c.text) for c in column if c.text.strip() and c.mark != "missing"]
        right.append(at > 0 and all(_FIGURE.match(text) for text in texts))
    return right


# Markdown


def _markdown_page(title: str, lead: str, sections: Sequence[Section]) -> str:
    parts = [f"# {prose.markdown(title)}", *_markdown_paragraphs(lead)]
    for section in sections:
        parts.append(f'<a id="{section.anchor}"></a>\n\n## {prose.markdown(section.title)}')
        parts += [part for block in section.blocks for part in _markdown_block(block)]
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Block) -> list[str]:
    match block:
        case Text():
            return _markdown_paragraphs(block.text)
        case Points():
            return ["\n".join(f"- {prose.markdown(item, opening=True)}" for item in block.items)]
        case Table():
            body = _markdown_table(block)
        case Scatter() | Bars():
            body = _markdown_image(block.caption, block.name)
        case Panels():
            body = "\n".join(
                _markdown_image(f"{block.caption}: {title}", block.panel_name(title))
                for title in block.panels
            )
            said = {title: _about_panel(title, panel) for title, panel in block.panels.items()}
            about = [
                f"- {prose.bold_markdown(t)}: {prose.markdown(w)}" for t, w in said.items() if w
            ]
            body += "\n\n" + "\n".join(about) if about else ""
    return [prose.bold_markdown(block.caption), body, *_markdown_paragraphs(block.note)]


def _markdown_paragraphs(text: str) -> list[str]:
    return [prose.markdown(part, opening=True) for part in prose.paragraphs(text)]


def _markdown_image(caption: str, name: str) -> str:
    return f"![{prose.markdown(prose.plain(caption))}]({name}.svg)"


def _markdown_table(table: Table) -> str:
    head = [_in_table(prose.markdown(column)) for column in table.columns]
    rows = [[_in_table(_markdown_cell(cell)) for cell in row] for row in table.cells()]
    widths = [max(3, *(len(row[at]) for row in [head, *rows])) for at in range(len(head))]
    right = _aligned_right(table)
    rule = ["-" * (w - r) + ":" * r for w, r in zip(widths, right, strict=True)]
    return "\n".join(
        f"| {' | '.join(_pad(*cell) for cell in zip(row, widths, right, strict=True))} |"
        for row in [head, rule, *rows]
    )


def _pad(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _in_table(text: str) -> str:
    return text.replace("|", r"\|")


def _markdown_cell(cell: Cell) -> str:
    text = prose.markdown(cell.text)
    if text and cell.mark:
        text = prose.bold_markdown(cell.text) if cell.mark == "best" else f"*{text}*"
    return f"{text} (paper {prose.markdown(cell.paper)})".strip() if cell.paper else text


def _about_panel(title: str, panel: Scatter) -> str:
    caption = "" if panel.caption == title else panel.caption
    return " ".join(words for words in (caption, panel.note) if words)


# HTML


def _html_page(
    title: str, lead: str, sections: Sequence[Section], numbers: Mapping[str, int]
) -> str:
    contents = "".join(
        f'<li><a href="#{section.anchor}">{prose.html(section.title)}</a></li>'
        for section in sections
    )
    body = "".join(
        f'<section id="{section.anchor}">\n<h2>{prose.html(section.title)}</h2>\n'
        + "".join(f"{_html_block(block, numbers)}\n" for block in section.blocks)
        + "</section>\n"
        for section in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(prose.plain(title))}</title>\n<style>\n{_style()}</style>\n</head>\n"
        f"<body>\n<main>\n<header>\n<h1>{prose.html(title)}</h1>\n"
        f'<div class="lead">{_html_paragraphs(lead)}</div>\n'
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav>\n</header>\n'
        f"{body}</main>\n</body>\n</html>\n"
    )


def _style() -> str:
    sheet = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    light, dark = (
        "".join(f" --c{look}: {colour};" for look, colour in enumerate(colours))
        for colours in (LIGHT, DARK)
    )
    classes = "".join(f".c{look} {{ color: var(--c{look}); }}\n" for look in range(len(LIGHT)))
    night = f"@media (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n"
    return f"{sheet}:root {{{light} }}\n{night}{classes}"


def _html_block(block: Block, numbers: Mapping[str, int]) -> str:
    match block:
        case Text():
            return _html_paragraphs(block.text)
        case Points():
            return f"<ul>{''.join(f'<li>{prose.html(item)}</li>' for item in block.items)}</ul>"
        case Table():
            return _html_table(block)
        case Scatter():
            count, body = 1, _html_scatter(block, apart(block.measured(), numbers))
        case Panels():
            count, body = len(block.panels), _html_panels(block, apart(block.measured(), numbers))
        case Bars():
            count, body = len(block.groups), _html_bars(block, apart(block.measured(), numbers))
    css = "figure wide" if _across(count) > 2 else "figure"
    caption = f"<figcaption>{prose.html(block.caption)}</figcaption>"
    return (
        f'<figure class="{css}" id="figure-{block.name}">{caption}{body}'
        f"{_html_note(block.note)}</figure>"
    )


def _html_paragraphs(text: str) -> str:
    return "".join(f"<p>{prose.html(part)}</p>" for part in prose.paragraphs(text))


def _html_note(text: str) -> str:
    parts = prose.paragraphs(text)
    return "".join(f'<p class="note">{prose.html(part)}</p>' for part in parts)


def _html_table(table: Table) -> str:
    right = _aligned_right(table)
    kinds = ["figures" if is_right else "words" for is_right in right]
    cells = table.cells()
    for at, kind in enumerate(kinds):
        if at and kind == "words" and max((len(row[at].text) for row in cells), default=0) > 24:
            kinds[at] = "words long"
    head = "".join(
        f'<th scope="col" class="{kind}">{prose.html(column)}</th>'
        for column, kind in zip(table.columns, kinds, strict=True)
    )
    body = "\n".join(f"<tr>{_html_row(row, kinds)}</tr>" for row in cells)
    has_paper = any(cell.paper for row in cells for cell in row)
    note = f"{_PAPERS_OWN} {table.note}".strip() if has_paper else table.note
    return (
        f'<div class="table wide"><div class="scroll" role="region" tabindex="0" '
        f'aria-label="{escape(prose.plain(table.caption))}"><table>\n'
        f"<caption><span>{prose.html(table.caption)}</span></caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
        f"{_html_note(note)}</div>"
    )


def _html_row(row: Sequence[Cell], kinds: Sequence[str]) -> str:
    first = f'<th scope="row">{_html_cell(row[0])}</th>' if row else ""
    rest = zip(row[1:], kinds[1:], strict=True)
    return first + "".join(f'<td class="{kind}">{_html_cell(cell)}</td>' for cell, kind in rest)


def _html_cell(cell: Cell) -> str:
    text = prose.html(cell.text)
    if cell.mark == "best":
        text = f"<strong>{text}</strong>"
    elif cell.mark == "missing":
        text = f'<span class="missing">{text}</span>'
    if not cell.paper:
        return text
    paper = f'<span class="aside">paper </span>{prose.html(cell.paper)}'
    return f'{text}<span class="paper">{paper}</span>'


def _html_scatter(chart: Scatter, looks: Mapping[str, int]) -> str:
    drawing = drawings.scatter(chart, looks)
    legend = _html_legend(looks, chart.connect)
    return legend + in_page(drawing, f"figure-{chart.name}", "single")


def _html_panels(chart: Panels, looks: Mapping[str, int]) -> str:
    panels = []
    for title, panel in chart.panels.items():
        drawing = drawings.scatter(panel, looks, title=title)
        about = _html_note(_about_panel(title, panel))
        panels.append(f"<div>{in_page(drawing, f'figure-{chart.panel_name(title)}')}{about}</div>")
    lined = any(panel.connect for panel in chart.panels.values())
    return _html_legend(looks, lined) + _html_panes(panels)


def _html_bars(chart: Bars, looks: Mapping[str, int]) -> str:
    blocks = [
        f"<div>{in_page(block, f'figure-{chart.name}.{at}')}</div>"
        for at, block in enumerate(drawings.bar_blocks(chart, looks))
    ]
    if not blocks:
        return in_page(drawings.bars(chart, looks), f"figure-{chart.name}.0")
    return f'<p class="scale">{escape(drawings.scale(chart))}</p>{_html_panes(blocks)}'


def _html_panes(parts: Sequence[str]) -> str:
    return f'<div class="panes across-{_across(len(parts))}">{"".join(parts)}</div>'


def _across(count: int) -> int:
    """How many charts stand side by side where there is room: two rows of two look better."""
    return 2 if count == 4 else min(count, 3)


def _html_legend(looks: Mapping[str, int], lined: bool) -> str:
    signs = "".join(
        f'<li><svg class="chart key" viewBox="0 0 22 12" aria-hidden="true">{key(look, lined)}'
        f"</svg>{escape(name)}</li>"
        for name, look in looks.items()
    )
    return f'<ul class="legend">{signs}</ul>' if signs else ""
