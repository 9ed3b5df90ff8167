"""The report's two forms, and its pictures."""

import io
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from experiments.paper.pages import Cell, Points, Section, Table, Text, escaped, write
from experiments.paper.pictures import Bars, Scatter, pngs


def scatter(name="growth", panels=None, **options):
    series = {"ours": [(10, 0.5), (1, 0.1)], "theirs": [(5.0, 2.0)]}
    return Scatter("Sizes", name, "rows", "seconds", panels or {"Adult": series}, **options)


def bars(name="speed", values=None, **options):
    values = values or {"ours": [2.0, 0.25], "theirs": [None, 8.0]}
    return Bars("Ratios", name, ["Adult", 'a "b" <c>'], values, "ratio", **options)


def sections(*blocks):
    return [Section("What was measured", blocks, "measured")]


def everything():
    table = Table(
        "Times",
        ["Data", "ours", "remarks"],
        [
            ["a|b", Cell("22.8", "20.7", "best"), "x & z"],
            ["c", Cell("> 24 h", mark="missing"), 'said "so"'],
        ],
        note="In **seconds**.",
    )
    return [
        Section("First", [Text("One `a < b`.\n\nTwo, [here](#second)."), table], "first"),
        Section(
            "Second & last",
            [
                Points(["**bold** & plain", "[paper](https://example.org/?a=1&b=2)"]),
                scatter(x_log=True, connect=True),
                scatter("both", {"Adult": {"ours": [(1, 2)]}, "w8a": {"ours": []}}),
                bars(log=True),
            ],
            "second",
        ),
    ]


def written(folder, *blocks):
    made = sections(*blocks) if blocks else everything()
    paths = write("A report", "In short: nothing.", made, folder)
    return tuple(path.read_text(encoding="utf-8") for path in paths)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a report with a block of every kind is."""
    made = tmp_path_factory.mktemp("report")
    written(made)
    return made


@pytest.fixture
def page(folder):
    return Page((folder / "report.html").read_text("utf-8"))


@pytest.fixture
def markdown(folder):
    return (folder / "report.md").read_text("utf-8")


def drawn(picture):
    """What matplotlib drew of one picture."""
    return picture.drawn({name: number for number, name in enumerate(picture.series())})


class Page(HTMLParser):
    """Every start tag and text, and whether each tag was closed in its turn."""

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
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def test_the_same_sections_give_the_same_bytes(folder, tmp_path):
    written(tmp_path)
    files = sorted(path.name for path in folder.iterdir())
    assert files == sorted(path.name for path in tmp_path.iterdir())
    for name in files:
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes()


def test_the_page_is_well_formed_and_needs_nothing_from_outside(page):
    assert not page.all("script")
    assert not page.all("link")
    assert len(page.all("img")) == 3
    assert all(image["src"].startswith("data:image/png") for image in page.all("img"))
    assert all(image["alt"] for image in page.all("img"))


def test_contents_lead_to_the_sections(page):
    places = [attrs["id"] for attrs in page.all("a") if "id" in attrs]
    assert places == ["first", "second"]
    assert {attrs.get("href") for attrs in page.all("a")} >= {f"#{place}" for place in places}
    assert page.texts.count("Second & last") == 2


def test_every_picture_of_the_markdown_exists(folder, markdown):
    names = re.findall(r"!\[[^]]*\]\(([^)]+)\)", markdown)
    assert sorted(names) == sorted(path.name for path in folder.glob("*.png"))
    for name in names:
        assert matplotlib.image.imread(folder / name).std() > 0.0


def test_cells_in_markdown(markdown):
    assert "**22.8** [20.7]" in markdown
    assert "*> 24 h*" in markdown
    head = next(line for line in markdown.splitlines() if line.startswith("| Data"))
    row = next(line for line in markdown.splitlines() if line.startswith(r"| a\|b"))
    assert len(re.findall(r"(?<!\\)\|", row)) == len(re.findall(r"(?<!\\)\|", head))
    assert "-:|:-" in markdown  # figures to the right, words to the left


def test_cells_in_the_page(folder):
    html = (folder / "report.html").read_text("utf-8")
    assert "<strong>22.8</strong><small>20.7</small></td>" in html
    assert "<em>&gt; 24 h</em>" in html
    assert "<td" in html.split("a|b")[1]


@pytest.mark.parametrize(
    "words", ['<b>x</b> & [x](y) *a* _b_ `c` "', "1 < 2 > 0 &lt; ~x~ #y", "a\\b\n c", "a|b"]
)
def test_words_of_others_are_shown_as_they_are(tmp_path, words):
    table = Table("Reasons", ["why"], [[escaped(words)]])
    page = Page(written(tmp_path, Text(f"So: {escaped(words)}"), table)[1])
    shown = " ".join(words.split())
    assert f"So: {shown}" in page.texts
    assert shown in page.texts


def test_a_picture_without_values_says_so():
    nothing = bars(values={"ours": [None, None]})
    no_panels = Scatter("Sizes", "none", "rows", "seconds", {})
    for picture in (scatter(panels={"a": {"ours": []}}), no_panels, nothing):
        assert "nothing measured" in {text.get_text() for text in drawn(picture).axes[0].texts}


def test_an_empty_series_is_left_out():
    (key,) = drawn(scatter(panels={"": {"ours": [(1, 2)], "theirs": []}})).legends
    assert [text.get_text() for text in key.get_texts()] == ["ours"]


def test_a_line_runs_in_order_of_x():
    points = [(3.0, 1.0), (1.0, 2.0), (2.0, 3.0)]
    (ax,) = drawn(scatter(panels={"": {"ours": points}}, connect=True)).axes
    assert list(ax.lines[0].get_xdata()) == [1.0, 2.0, 3.0]
    assert ax.lines[0].get_linestyle() == "-"


def test_an_axis_ends_where_values_can():
    points = [(1.0, 100.0), (2.0, 90.0)]
    (ax,) = drawn(scatter(panels={"": {"ours": points}}, y_limits=(0.0, 100.0))).axes
    assert ax.get_ylim()[1] == pytest.approx(100.0)


@pytest.mark.parametrize("log", [False, True])
def test_bars_begin_at_the_origin_and_gaps_have_none(log):
    first, second = drawn(bars(log=log)).axes
    origin = 1.0 if log else 0.0
    assert [(bar.get_x(), bar.get_width()) for bar in first.patches] == [(origin, 2.0 - origin)]
    assert [bar.get_x() for bar in second.patches] == [origin, origin]
    assert [bar.get_width() for bar in second.patches] == [0.25 - origin, 8.0 - origin]
    assert {"–", "2"} <= {text.get_text() for text in first.texts}


def test_a_series_looks_the_same_in_every_picture_and_unlike_the_others():
    names = [f"series {k}" for k in range(20)]
    picture = scatter(panels={"": {name: [(1.0, 1.0)] for name in names}})
    looks = {name: number for number, name in enumerate(names)}
    (ax,) = picture.drawn(looks).axes
    first = {line.get_label(): (line.get_color(), line.get_marker()) for line in ax.lines}
    assert len(set(first.values())) == 20
    alone = scatter("alone", {"": {"series 13": [(1.0, 1.0)]}})
    image = matplotlib.image.imread(io.BytesIO(pngs([picture, alone])["alone.png"]))[..., :3]

    def nearest(colour):
        return np.abs(image - to_rgb(colour)).max(axis=2).min()

    assert nearest(first["series 13"][0]) < 0.05 < nearest(first["series 0"][0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("make", [scatter, bars])
def test_values_must_be_finite(make, value):
    given = {"panels": {"": {"ours": [(1.0, value)]}}} if make is scatter else {}
    with pytest.raises(ValueError, match="series 'ours'"):
        make(**(given or {"values": {"ours": [value, None]}}))


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_log_axis_begins_above_zero(value):
    with pytest.raises(ValueError, match=r"'growth'.*'ours'.*between 0"):
        scatter(panels={"": {"ours": [(value, 1.0)]}}, x_log=True)
    with pytest.raises(ValueError, match=r"'speed'.*'ours'.*between 0"):
        bars(values={"ours": [value, None]}, log=True)


def test_a_value_beyond_its_limits_is_refused():
    with pytest.raises(ValueError, match=r"100\.5 is not a number between 0.0 and 100.0"):
        scatter(panels={"": {"ours": [(1.0, 100.5)]}}, y_limits=(0.0, 100.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: Table("Times", ["a", "b"], [["1"]]), "row 0 has 1 cells for 2 columns"),
        (lambda _: bars(values={"ours": [1.0]}), "1 values for 2 groups"),
        (lambda _: Cell("1", mark="good"), "mark 'good'"),
        (lambda folder: written(folder, scatter(), scatter()), "'growth': another has that name"),
    ],
    ids=["cells", "groups", "mark", "pictures"],
)
def test_rows_groups_and_names_must_agree(tmp_path, make, message):
    with pytest.raises(ValueError, match=message):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_pictures_no_longer_in_the_report_are_removed_and_nothing_else(tmp_path):
    written(tmp_path, scatter(), bars())
    write("Another", "", sections(scatter("other")), tmp_path, stem="another")
    (tmp_path / "foreign.png").write_text("<svg/>")
    written(tmp_path, bars())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("another.html", "another.md", "foreign.png", "other.png"),
        *("report.html", "report.md", "speed.png"),
    ]


def test_a_foreign_file_is_not_overwritten(tmp_path):
    (tmp_path / "growth.png").write_text("<svg/>")
    with pytest.raises(FileExistsError, match=r"growth\.png"):
        written(tmp_path, scatter())
    assert [path.name for path in tmp_path.iterdir()] == ["growth.png"]


def test_an_interrupted_write_leaves_the_old_files(tmp_path, monkeypatch):
    before = written(tmp_path, Text("old"))
    names = sorted(path.name for path in tmp_path.iterdir())

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path, Text("new"))
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    after = (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()
    assert after == before
