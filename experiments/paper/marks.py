"""What charts are drawn with: colours, markers, text, and the two frames of a drawing.

A series has a number; the number gives it a colour and one of six shapes: circle, square or
triangle, full or hollow. The first six differ in both. The others share a shape with one of the
first, whose colour is far lighter or darker, so that no two series of a chart differ in hue alone.
The colours were chosen to stay apart for the three kinds of colour blindness and to stand out from
the background, light or dark. A drawing names colours by class only: in a page the style sheet of
the page fills them in, a file of its own brings its colours and its background along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from experiments.paper.axes import clip, text_width

LIGHT = (
    *("#0072b2", "#dd6207", "#22262b", "#139a5b", "#ae2d8b", "#7f5f00"),
    *("#8f6ff2", "#960045", "#7d8590", "#00535e", "#602300", "#320b92"),
)
DARK = (
    *("#35a9f5", "#f79a3a", "#eef1f4", "#33cf9a", "#bb70d0", "#e8dc5a"),
    *("#dcc0f5", "#e2596b", "#98a2ae", "#1f9a8e", "#c8842e", "#4276ea"),
)
SIZE = 12.0
RADIUS = 3.8

_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
_SQUARE = [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]
_UP = [(0, -1.2), (1.1, 0.8), (-1.1, 0.8)]
_CIRCLE: list[tuple[float, float]] = []
_SHAPES: list[tuple[str, Sequence[tuple[float, float]]]] = [
    (kind, shape) for kind in ("full", "hollow") for shape in (_CIRCLE, _SQUARE, _UP)
]
#: The shape of each look: those of the second six are chosen by the lightness of their colours.
_SHAPE_OF = (0, 1, 2, 3, 4, 5, 4, 1, 2, 3, 5, 0)


@dataclass(frozen=True)
class Drawing:
    """A chart without its frame: its size, its elements, and its words for who cannot see it."""

    width: float
    height: float
    title: str
    description: str
    body: str


def numbered(names: Iterable[str]) -> dict[str, int]:
    """A number for every series of a report, in order of appearance."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def apart(names: Iterable[str], numbers: Mapping[str, int]) -> dict[str, int]:
    """The numbers of one chart's series: the report's, unless two would look the same."""
    looks: dict[str, int] = {}
    for name in names:
        number = numbers.get(name, len(looks)) % len(LIGHT)
        while number in looks.values() and len(looks) < len(LIGHT):
            number = (number + 1) % len(LIGHT)
        looks[name] = number
    return looks


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def shifted(body: str, x: float, y: float) -> str:
    return f'<g transform="translate({number(x)} {number(y)})">{body}</g>'


def text(x: float, y: float, words: str, css: str = "ink", anchor: str = "start") -> str:
    if not words:
        return ""
    where = f'x="{number(x)}" y="{number(y)}"'
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text {where} class="{css}"{at}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    d = f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}"
    return f'<path class="{css}" d="{d}"/>'


def curve(points: Iterable[tuple[float, float]], look: int) -> str:
    d = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f'<path class="curve c{look}" d="M{d}"/>'


def marker(x: float, y: float, look: int, words: str = "", radius: float = RADIUS) -> str:
    kind, shape = _SHAPES[_SHAPE_OF[look]]
    tip = f"<title>{escape(words)}</title>" if words else ""
    return f'<path class="{kind} c{look}" d="{_outline(shape, x, y, radius)}">{tip}</path>'


def _outline(shape: Sequence[tuple[float, float]], x: float, y: float, radius: float) -> str:
    if not shape:
        r, left = number(radius), number(x - radius)
        across = number(2 * radius)
        return f"M{left} {number(y)}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 -{across} 0Z"
    corners = [f"{x + radius * a:.2f} {y + radius * b:.2f}" for a, b in shape]
    return f"M{'L'.join(corners)}Z"


def key(look: int, lined: bool) -> str:
    """A series' sign in a legend, 22 by 12."""
    through = line(1, 6, 21, 6, f"curve c{look}") if lined else ""
    return through + marker(11, 6, look)


def legend(looks: Mapping[str, int], width: float, lined: bool) -> tuple[str, float]:
    """Signs and names of series in rows of at most ``width``, and the height they take."""
    x, y, parts = 0.0, 0.0, []
    for name, look in looks.items():
        wide = 26 + text_width(name, SIZE)
        if x and x + wide > width:
            x, y = 0.0, y + 17
        parts.append(shifted(key(look, lined), x, y))
        parts.append(text(x + 26, y + 10, clip(name, width - 26, SIZE)))
        x += wide + 14
    return "".join(parts), y + 17


def in_page(drawing: Drawing, name: str, css: str = "") -> str:
    """The drawing for a page whose style sheet knows the classes."""
    return (
        f'<svg class="{f"chart {css}".strip()}" role="img" '
        f'viewBox="0 0 {number(drawing.width)} {number(drawing.height)}" '
        f"{_labelled(name)}>{_words(drawing, name)}{drawing.body}</svg>"
    )


def in_file(drawing: Drawing, name: str, origin: str, margin: float = 12) -> str:
    """The drawing as a file; ``origin``: a comment that says which report it belongs to."""
    width, height = (number(side + 2 * margin) for side in (drawing.width, drawing.height))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" {_labelled(name)}>'
        f"<!-- {origin} -->{_words(drawing, name)}<style>{file_style()}</style>"
        f'<rect class="card" x="0.5" y="0.5" width="{number(drawing.width + 2 * margin - 1)}" '
        f'height="{number(drawing.height + 2 * margin - 1)}" rx="4"/>'
        f"{shifted(drawing.body, margin, margin)}</svg>\n"
    )


def _labelled(name: str) -> str:
    return f'aria-labelledby="{name}-title" aria-describedby="{name}-desc"'


def _words(drawing: Drawing, name: str) -> str:
    return (
        f'<title id="{name}-title">{escape(drawing.title)}</title>'
        f'<desc id="{name}-desc">{escape(drawing.description)}</desc>'
    )


def file_style() -> str:
    """A light card: it reads on a white and on a dark page."""
    paper, ink, muted, grid = "#ffffff", "#1f2328", "#57606a", "#e4e7eb"
    colours = "".join(f".c{look}{{color:{colour}}}" for look, colour in enumerate(LIGHT))
    return (
        f"text{{font-family:{_FONT};font-size:{SIZE:g}px;font-variant-numeric:tabular-nums}}"
        f".ink{{fill:{ink}}}.strong{{fill:{ink};font-weight:600}}.muted{{fill:{muted}}}"
        f".card{{fill:{paper};stroke:#d0d7de}}"
        f".grid{{stroke:{grid};fill:none}}.axis{{stroke:{muted};fill:none}}"
        f".full{{fill:currentColor;stroke:{paper};stroke-width:.8}}"
        f".hollow{{fill:{paper};stroke:currentColor;stroke-width:1.6}}"
        ".curve{fill:none;stroke:currentColor;stroke-width:1.4;stroke-opacity:.75}"
        ".bar{fill:currentColor}" + colours
    )
