"""The report's two forms, and its charts."""

import os
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from experiments.paper import axes, marks, prose
from experiments.paper.charts import Bars, Panels, Scatter
from experiments.paper.pages import Cell, Points, Section, Table, Text, write

SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "link", "br", "hr", "img"}


def scatter(name="growth", caption="Sizes & <times>", **options):
    series = options.pop("series", {"ours": [(10, 0.5), (1, 0.1)], "theirs": [(5.0, 2.0)]})
    return Scatter(caption, name, "rows", "seconds", series, **options)


def bars(name="speed", **options):
    series = options.pop("series", {"ours": [2.0, 0.25], "theirs": [None, 8.0]})
    return Bars("Ratios", name, ["Adult", 'a "b" <c>'], series, "ratio", **options)


def sections(*blocks):
    return [Section("What was measured", blocks, "measured")]


def everything():
    table = Table(
        "Times",
        ["Data", "ours", "remarks"],
        [
            ["a|b", Cell("22.8", "20.7", "best"), "x < y & z"],
            ["c", Cell("> 24 h", mark="missing"), 'said "so"'],
        ],
        note="In **seconds**.",
    )
    panels = Panels("Both", "both", {"Adult": scatter("", ""), "w8a, small": scatter("", "Web")})
    return [
        Section("First", [Text("One `a < b`.\n\nTwo, [here](#second)."), table], "first"),
        Section(
            "Second",
            [
                Points(["**bold** & plain", "1. [paper](https://example.org/?a=1&b=2)"]),
                scatter(x_log=True, y_log=True, connect=True),
                panels,
                bars(log=True, origin=1.0),
            ],
            "second",
        ),
    ]


def written(folder, blocks=None, title="A report", lead="In short: <nothing>."):
    paths = write(title, lead, everything() if blocks is None else sections(*blocks), folder)
    return tuple(path.read_text(encoding="utf-8") for path in paths)


def elements(image, tag):
    """The attributes of an image's elements of a kind."""
    return [element.attrib for element in ElementTree.parse(image).iter(f"{SVG}{tag}")]


class Page(HTMLParser):
    """Every start tag, and whether each was closed in its turn."""

    def __init__(self, html):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def test_the_same_sections_give_the_same_bytes(tmp_path):
    written(tmp_path / "a")
    written(tmp_path / "b")
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_page_is_well_formed_and_its_ids_are_unique(tmp_path):
    page = Page(written(tmp_path)[1])
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attrs.get(name, ids[0]) in ids


def test_the_page_needs_nothing_from_outside(tmp_path):
    page = Page(written(tmp_path)[1])
    assert not page.all("script")
    assert not page.all("link")
    assert not page.all("img")
    for tag, attrs in page.tags:
        assert "src" not in attrs
        assert tag == "a" or "href" not in attrs
    assert not re.search(r"url\(|@import", written(tmp_path)[1])


def test_contents_lead_to_the_sections(tmp_path):
    page = Page(written(tmp_path)[1])
    targets = {attrs["id"] for attrs in page.all("section")}
    assert {attrs["href"] for attrs in page.all("a")} >= {f"#{target}" for target in targets}


def test_tables_have_captions_and_scopes(tmp_path):
    page = Page(written(tmp_path)[1])
    assert len(page.all("caption")) == len(page.all("table")) == 1
    assert [attrs["scope"] for attrs in page.all("th")] == ["col"] * 3 + ["row"] * 2


def test_charts_are_images_with_a_title_and_a_description(tmp_path):
    written(tmp_path)
    images = sorted(tmp_path.glob("*.svg"))
    assert [image.name for image in images] == [
        *("both-adult.svg", "both-w8a-small.svg", "growth.svg", "speed.svg"),
    ]
    for image in images:
        root = ElementTree.parse(image).getroot()
        assert root.get("role") == "img"
        assert root.findtext(f"{SVG}title")
        assert root.findtext(f"{SVG}desc")
        assert root.findall(f"{SVG}rect[@class='card']")
        assert "var(" not in image.read_text()


def test_every_image_of_the_markdown_exists(tmp_path):
    markdown = written(tmp_path)[0]
    names = re.findall(r"!\[[^]]*\]\(([^)]+)\)", markdown)
    assert sorted(names) == sorted(path.name for path in tmp_path.glob("*.svg"))


def test_cells_in_markdown(tmp_path):
    markdown = written(tmp_path)[0]
    assert "**22.8** (paper 20.7)" in markdown
    assert "*> 24 h*" in markdown
    assert r"a\|b" in markdown
    head = next(line for line in markdown.splitlines() if line.startswith("| Data"))
    row = next(line for line in markdown.splitlines() if line.startswith(r"| a\|b"))
    assert len(re.findall(r"(?<!\\)\|", row)) == len(re.findall(r"(?<!\\)\|", head))


def test_cells_in_the_page(tmp_path):
    html = written(tmp_path)[1]
    assert "<strong>22.8</strong>" in html
    assert '<span class="aside">paper </span>20.7' in html
    assert '<span class="missing">&gt; 24 h</span>' in html


def test_what_is_not_markup_is_escaped(tmp_path):
    words = '<script>alert("x")</script> & [x](javascript:run) *a* "'
    table = Table(words, [words], [[words], [Cell(words, words)]], words)
    points = {words: [(1.0, 2.0)]}
    named = {words: [1.0, 2.0]}
    blocks = [
        *(Text(words), Points([words]), table, bars(series=named)),
        Scatter(words, "one", words, words, points, note=words),
        Panels(words, "many", {words: scatter("", series=points)}),
    ]
    _, html = written(tmp_path, blocks, title=words, lead=words)
    page = Page(html)
    assert not page.all("script")
    assert all(attrs["href"].startswith("#") for attrs in page.all("a"))
    assert '<script>alert("x")</script> & [x](javascript:run) *a* "' in page.texts
    for image in tmp_path.glob("*.svg"):
        ElementTree.parse(image)


@pytest.mark.parametrize(
    ("text", "html", "markdown"),
    [
        ("a < b & c", "a &lt; b &amp; c", r"a \< b & c"),
        ("`x < *y*`", "<code>x &lt; *y*</code>", "`x < *y*`"),
        ("**`fit` now**", "<strong><code>fit</code> now</strong>", "**`fit` now**"),
        ("2 ** 3 ** 4", "2 ** 3 ** 4", r"2 \*\* 3 \*\* 4"),
        ("n_rows _x_", "n_rows _x_", r"n_rows \_x\_"),
        ("&lt;", "&amp;lt;", r"\&lt;"),
        ("[a](b.md) [c]", '<a href="b.md">a</a> [c]', r"[a](b.md) \[c\]"),
        ('[a](http://x/"b")', '<a href="http://x/&quot;b&quot;">a</a>', '[a](http://x/"b")'),
    ],
)
def test_markup_is_code_bold_and_links(text, html, markdown):
    assert prose.html(text) == html
    assert prose.markdown(text) == markdown


@pytest.mark.parametrize("text", ["- 5", "# one", "1. one", "12) twelve", "> more", "+ 1"])
def test_a_paragraph_stays_a_paragraph_in_markdown(text):
    assert "\\" in prose.markdown(text, opening=True)


def test_bold_within_bold_does_not_end_it():
    assert prose.bold_markdown("with **C** and `g`") == "**with C and `g`**"


def test_a_chart_without_points_says_so(tmp_path):
    empty = [
        scatter("none", series={}),
        scatter("bare", series={"ours": []}),
        bars("gaps", series={"ours": [None, None]}, log=True),
        Panels("Two", "two", {"a": scatter("", series={"ours": []}), "b": scatter("")}),
    ]
    _, html = written(tmp_path, empty)
    for name in ("none", "bare", "gaps", "two-a"):
        assert "nothing measured" in (tmp_path / f"{name}.svg").read_text()
    assert html.count(">nothing measured</text>") == 4


def test_an_empty_series_is_left_out(tmp_path):
    _, html = written(tmp_path, [scatter(series={"ours": [(1, 2)], "theirs": []})])
    assert "ours" in html
    assert "theirs" not in html


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("chart", ["growth", "speed"])
def test_values_must_be_finite(chart, value):
    of = {"growth": (scatter, (1.0, value)), "speed": (bars, value)}
    draw, one = of[chart]
    with pytest.raises(ValueError, match=rf"'{chart}'.*'ours'.*finite"):
        draw(series={"ours": [one] if draw is scatter else [one, None]})


@pytest.mark.parametrize("value", [0.0, -1.0])
@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda value: scatter(series={"ours": [(value, 1.0)]}, x_log=True),
            r"'growth'.*x of series 'ours'.*log axis",
        ),
        (
            lambda value: scatter(series={"ours": [(1.0, value)]}, y_log=True),
            r"'growth'.*y of series 'ours'.*log axis",
        ),
        (
            lambda value: bars(series={"ours": [value, None]}, log=True),
            r"'speed'.*'ours'.*log axis",
        ),
        (lambda value: bars(log=True, origin=value), r"'speed'.*origin.*log axis"),
    ],
    ids=["x", "y", "bars", "origin"],
)
def test_a_log_axis_begins_above_zero(draw, value, message):
    with pytest.raises(ValueError, match=message):
        draw(value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: Table("Times", ["a", "b"], [["1"]]), "row 0 has 1 cells for 2 columns"),
        (lambda _: bars(series={"ours": [1.0]}), "'ours' has 1 values for 2 groups"),
        (
            lambda _: Panels("", "x", {"a b": scatter(), "a-b": scatter()}),
            r"two panels would both be x-a-b\.svg",
        ),
        (lambda _: Cell("1", mark="good"), "mark 'good'"),
        (
            lambda folder: written(folder, [scatter(), scatter()]),
            r"'growth': another chart is growth\.svg",
        ),
        (lambda folder: written(folder, [scatter("../growth")]), r"file name '\.\./growth'"),
        (lambda folder: write("", "", [Section("", [], "a b")], folder), "anchor 'a b'"),
        (
            lambda folder: write("", "", [Section("", [], "a"), Section("", [], "a")], folder),
            "anchor 'a' is that of two",
        ),
    ],
    ids=["cells", "groups", "panels", "mark", "charts", "file", "anchor", "anchors"],
)
def test_rows_groups_names_and_anchors_must_agree(tmp_path, make, message):
    with pytest.raises(ValueError, match=message):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_charts_no_longer_in_the_report_are_removed_and_nothing_else(tmp_path):
    written(tmp_path, [scatter(), bars()])
    write("Another", "", sections(scatter("other")), tmp_path, stem="another")
    (tmp_path / "foreign.svg").write_text("<svg/>")
    (tmp_path / "notes.txt").write_text("kept")
    written(tmp_path, [bars()])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("another.html", "another.md", "foreign.svg", "notes.txt"),
        *("other.svg", "report.html", "report.md", "speed.svg"),
    ]


def test_a_foreign_file_is_not_overwritten(tmp_path):
    (tmp_path / "growth.svg").write_text("<svg/>")
    with pytest.raises(FileExistsError, match=r"growth\.svg"):
        written(tmp_path, [scatter()])
    assert [path.name for path in tmp_path.iterdir()] == ["growth.svg"]


def test_an_interrupted_write_leaves_the_old_files(tmp_path, monkeypatch):
    before = written(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path, [Text("new")])
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    after = (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()
    assert after == before


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *((0, "0"), (1, "1"), (1234, "1.23k"), (999.6, "1k"), (0.003, "0.003"), (1e-5, "1e-5")),
        *((2.5e-4, "2.5e-4"), (-1500, "-1.5k"), (2e6, "2M"), (999_999, "1M"), (1e9, "1e9")),
        *((99.96, "100"), (0.1 + 0.2, "0.3"), (1e300, "1e300")),
    ],
)
def test_numbers_are_short(value, words):
    assert axes.short(value) == words


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "values",
    [(1, 1), (1, 2), (3, 1e6), (1e-12, 1e12), (0.5, 0.51), (97.4, 99.9), (1e-5, 3e-5), (90, 110)],
)
@pytest.mark.parametrize("stacked", [False, True])
def test_ticks_have_labels_that_differ_and_do_not_touch(values, log, stacked):
    axis = axes.around(values, log)
    ticks = [tick for tick in axes.ticks(axis, 250, 12, stacked) if tick.label]
    assert 2 <= len(ticks) <= 7
    assert len({tick.label for tick in ticks}) == len(ticks)
    ends = 0.0
    for tick in ticks:
        half = 6 if stacked else axes.text_width(tick.label, 12) / 2
        at = 250 * axis.at(tick.value)
        assert -1 <= at <= 251
        assert at - half > ends - 250 * (tick is ticks[0])
        ends = at + half


@pytest.mark.parametrize(("values", "ends"), [((90, 100), (None, 100)), ((0, 1), (0, None))])
def test_an_axis_ends_where_values_do(values, ends):
    axis = axes.around(values, False, (0, 100))
    for end, found in zip(ends, (axis.low, axis.high), strict=True):
        assert end is None or found == end
    assert axis.low <= values[0] < values[1] <= axis.high


def test_a_value_beyond_its_limits_is_refused():
    with pytest.raises(ValueError, match=r"'ours' is 100\.5, beyond"):
        scatter(series={"ours": [(1.0, 100.5)]}, y_limits=(0.0, 100.0))


def test_a_line_runs_in_order_of_x(tmp_path):
    points = [(3.0, 1.0), (1.0, 2.0), (2.0, 3.0)]
    written(tmp_path, [scatter(series={"ours": points}, connect=True)])
    curves = [e["d"] for e in elements(tmp_path / "growth.svg", "path") if "curve" in e["class"]]
    xs = [float(point.split()[0]) for point in curves[-1].strip("M").split("L")]
    assert len(xs) == 3
    assert xs == sorted(xs)


def test_bars_begin_at_the_origin_and_gaps_have_none(tmp_path):
    written(tmp_path, [bars(log=True, origin=1.0)])
    drawn = [e for e in elements(tmp_path / "speed.svg", "rect") if "bar" in e["class"]]
    faster, slower, theirs = drawn
    origin = float(faster["x"])
    assert float(theirs["x"]) == origin
    assert float(slower["x"]) + float(slower["width"]) == pytest.approx(origin, abs=0.2)


def test_a_series_looks_the_same_in_every_chart(tmp_path):
    alone = scatter("alone", series={"theirs": [(1.0, 1.0)]})
    written(tmp_path, [scatter(), alone])
    assert 'class="full c1"' in (tmp_path / "alone.svg").read_text()
    assert 'class="full c0"' not in (tmp_path / "alone.svg").read_text()


def test_twelve_series_of_a_chart_all_look_different(tmp_path):
    first = {f"before {k}": [(1.0, 1.0)] for k in range(7)}
    series = {f"series {k}": [(float(k), 1.0)] for k in range(12)}
    written(tmp_path, [scatter("first", series=first), scatter(series=series)])
    looks = {e["class"] for e in elements(tmp_path / "growth.svg", "path") if " c" in e["class"]}
    assert len(looks) == 12
    assert len({look.split()[1] for look in looks}) == 12


def test_there_are_six_shapes_and_the_first_six_series_have_one_each():
    drawn = [
        (e := marks.marker(0, 0, look)).split('"')[1].split()[0] + e.split('d="')[1]
        for look in range(12)
    ]
    assert len(set(drawn[:6])) == len(set(drawn)) == 6
