"""Readers: comma-separated values."""

import csv
import sys
import tempfile
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aesvm import AESVC
from aesvm.io import BadLineError, CSVReader, files
from tests.io.test_readers import COMPRESS, below, blocks_of, finite, joined, sizes, written

#: Classes as they are read: blanks around them are dropped.
labels = st.text("ab,\"' é1\n\r\t", max_size=4).map(lambda name: name.strip(" \t")).filter(bool)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(finite, finite, below, finite), min_size=1, max_size=12),
    sizes,
    sizes,
    st.sampled_from(["\n", "\r\n", " \n\n"]),
    st.sampled_from(sorted(COMPRESS)),
)
def test_any_sizes_of_chunks_and_blocks_give_the_same_csv_rows(rows, chunk, block, end, kind):
    text = end.join(["a,b,y,w", *(",".join(map(repr, row)) for row in rows)])
    with tempfile.TemporaryDirectory() as folder, blocks_of(block):
        path = written(folder, COMPRESS[kind](text.encode()))
        found = joined(CSVReader(path, target="y", weight="w", chunk_rows=chunk))
    expected = np.array(rows)
    assert np.array_equal(found.X, expected[:, :2])
    assert np.array_equal(found.y, expected[:, 2])
    assert np.array_equal(found.weights, expected[:, 3])


@settings(max_examples=60, deadline=None)
@given(st.lists(labels, min_size=1, max_size=9), sizes, sizes)
def test_classes_may_be_any_strings(names, chunk, block):
    quoted = [name.replace('"', '""') for name in names]
    text = "".join(f'{i},"{name}"\n' for i, name in enumerate(quoted))
    with tempfile.TemporaryDirectory() as folder, blocks_of(block):
        path = written(folder, text)
        reader = CSVReader(path, target=-1, header=False, chunk_rows=chunk, classes="strings")
        found = joined(reader)
        assert found.y.dtype.kind == "U"
        assert found.y.tolist() == names
        assert found.X[:, 0].tolist() == list(range(len(names)))


def test_csv_columns_are_taken_in_the_order_asked_for(tmp_path):
    path = written(tmp_path, '\ufeff"a", b ,name,c,y\n1,2,"Doe, J",3,yes\n4, 5 ,\xff,6,no\n')
    found = joined(CSVReader(path, target="y", features=["c", 0], weight="b"))
    assert found.X.tolist() == [[3, 1], [6, 4]]
    assert found.y.tolist() == ["yes", "no"]
    assert found.weights.tolist() == [2, 5]


def test_csv_without_a_target_has_no_classes(tmp_path):
    found = joined(CSVReader(written(tmp_path, "1\n2\n\n3"), target=None, header=False))
    assert found.X.tolist() == [[1], [2], [3]]
    assert found.y is None
    assert found.weights is None


@pytest.mark.parametrize("delimiter", ["\t", ";", " ", "|"])
def test_csv_delimiters_may_be_others(tmp_path, delimiter):
    text = "a,b,y\n1.5,2,x\n3,4e1,x\n".replace(",", delimiter)
    found = joined(CSVReader(written(tmp_path, text), target="y", delimiter=delimiter))
    assert found.X.tolist() == [[1.5, 2], [3, 40]]


def test_columns_that_are_not_asked_for_may_hold_anything(tmp_path):
    path = written(tmp_path, b'a,junk,y\n1,,2\n3,\xff\xfe,4\n5,"a,""b",6\n')
    found = joined(CSVReader(path, target="y", features=["a"]))
    assert found.X.tolist() == [[1], [3], [5]]


BAD_CSV = {
    "1,2": "it has 2 fields, and not 3",
    "1,2,3,4": "it has 4 fields, and not 3",
    "1,2,3,": "it has 4 fields, and not 3",
    "1,,3": "column 'b' is empty",
    "1,2,": "column 'y' is empty",
    "1,two,3": "column 'b': 'two' is not a number",
    "nan,2,3": "column 'a': 'nan' is not a finite number",
    "1,-inf,3": "not a finite number",
    "1,2 2,3": "'2 2' is not a number",
    "1,0x10,3": "'0x10' is not a number",
    "1,2,yes": "column 'y': 'yes' is not a number",
    '1,2,"3"4': "it is not ','-separated: ',' expected after '\"'",
    '1,2,"3" ': "it is not ','-separated: ',' expected after '\"'",
    "1,2\r,3": "it has a carriage return that ends no line",
    "1,\r2,3": "it has a carriage return that ends no line",
    "1,2,3\r4,5,6": "it has a carriage return that ends no line",
    '1,2,""': "column 'y' is empty",
    "1,2,9007199254740992": "the class '9007199254740992' is not below 2^53",
    ",": "it has 2 fields",
}


@pytest.mark.parametrize("bad", BAD_CSV)
@pytest.mark.parametrize("block", [1, 5, 64, 1 << 20])
def test_a_malformed_csv_line_is_named_wherever_it_is(tmp_path, bad, block):
    for before in (1, 9):
        text = "\r\na,b,y\r\n" + "1,2,3\n" * before + bad + "\n4,5,6"
        path = written(tmp_path, text)
        with blocks_of(block), pytest.raises(BadLineError) as caught:
            list(CSVReader(path, target="y", chunk_rows=4))
        assert caught.value.line == before + 3
        assert BAD_CSV[bad] in caught.value.reason
        with blocks_of(block), pytest.warns(UserWarning, match="1 malformed line was skipped"):
            found = joined(CSVReader(path, target="y", chunk_rows=4, on_bad="skip"))
        assert found.y.tolist() == [3] * before + [6]


def test_the_first_row_says_whether_classes_are_numbers(tmp_path):
    path = written(tmp_path, "a,y\n1,1\n2,unknown\n")
    with pytest.raises(BadLineError, match="line 3: column 'y': 'unknown' is not a number"):
        list(CSVReader(path, target="y"))
    assert joined(CSVReader(path, target="y", classes="strings")).y.tolist() == ["1", "unknown"]
    path = written(tmp_path, "a,y\n1,unknown\n2,1\n")
    assert joined(CSVReader(path, target="y")).y.tolist() == ["unknown", "1"]
    path = written(tmp_path, b"a,y\n1,x\n2,\xff\n")
    with pytest.raises(BadLineError, match="line 3: column 'y' is not UTF-8"):
        list(CSVReader(path, target="y"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "label"}, "target='label': there is no such column in .*'a', 'b', 'y', 'b'"),
        ({"target": "y", "features": ["a", "z"]}, "features='z': there is no such column"),
        ({"target": "y", "weight": "z"}, "weight='z'"),
        ({"target": "b"}, "target='b': there are 2 such columns"),
        ({"target": 4}, "target=4: there are 4 columns"),
        ({"target": "y", "weight": "y"}, "target and weight are one column"),
        ({"target": "y", "features": ["a", "y"]}, "'y' is the target"),
        ({"target": "y", "features": ["a", 0]}, "'a' is there twice"),
        ({"target": "y", "features": "a"}, "a list of columns is needed"),
        ({"target": "y", "features": []}, "at least one column"),
        ({"target": "y", "delimiter": "::"}, "delimiter='::'"),
        ({"target": "y", "on_bad": "warn"}, "on_bad='warn'"),
        ({"target": "y", "classes": "ints"}, "classes='ints'"),
        ({"target": "y", "chunk_rows": 0}, "chunk_rows=0"),
        ({"target": "y", "chunk_rows": 1.5}, "chunk_rows=1.5"),
    ],
)
def test_what_cannot_be_asked_for_is_named(tmp_path, options, message):
    path = written(tmp_path, "a,b,y,b\n1,2,3,4\n")
    with pytest.raises(ValueError, match=message):
        list(CSVReader(path, **options))


# Quotes


@pytest.mark.parametrize("block", [1, 5, 1 << 20])
def test_a_row_may_have_several_lines(tmp_path, block):
    text = 'a,name,y\n1,"x\n5,y",0\n2,"\r\n""\n",1\n3,z,"1"\n'
    reader = CSVReader(written(tmp_path, text), target="y", features=["a"], on_bad="skip")
    with blocks_of(block):
        found = joined(reader)
    assert found.X[:, 0].tolist() == [1, 2, 3]
    assert found.y.tolist() == [0, 1, 1]
    assert reader.n_skipped == 0


@pytest.mark.parametrize("block", [1, 5, 1 << 20])
def test_no_row_is_made_of_a_part_of_another(tmp_path, block):
    text = 'a,y\n1,"x\n5,0\n6,0"\n7,0\n8,"1\n9,1"x,"\n2,2\n"\n3,one\n4,1\n'
    path = written(tmp_path, text)
    reader = CSVReader(path, target="y", on_bad="skip", classes="numbers")
    with blocks_of(block), pytest.warns(UserWarning, match="8 malformed lines were skipped"):
        found = joined(reader)
    assert found.X[:, 0].tolist() == [7, 4]
    with blocks_of(block), pytest.raises(BadLineError, match="line 4: column 'y': 'one' is not"):
        joined(CSVReader(written(tmp_path, 'y,"a\n"\n1,"1"\none,2\n'), target="y"))


@pytest.mark.parametrize("on_bad", ["raise", "skip"])
@pytest.mark.parametrize("block", [1, 5, 1 << 20])
def test_a_quote_that_is_not_closed_is_an_error(tmp_path, on_bad, block):
    path = written(tmp_path, 'a,y\n1,0\n2,"0\n3,1\n' + "4,1\n" * 500)
    with (
        blocks_of(block),
        pytest.raises(BadLineError, match="line 3: a quote is opened in it, and not closed"),
    ):
        list(CSVReader(path, target="y", on_bad=on_bad))
    with (
        blocks_of(block),
        mock.patch.object(files, "LONGEST_LINE", 1000),
        pytest.raises(BadLineError, match="line 3: a quote is opened in it, and not closed"),
    ):
        list(CSVReader(path, target="y", on_bad=on_bad))


@pytest.mark.parametrize("blank", [" ", "  ", "\t"])
def test_blanks_around_fields_are_dropped(tmp_path, blank):
    rows = ['" a", y ', '1," x "', "2, x ", '3,"é "', '" 5 ",x', "4, two words"]
    reader = CSVReader(written(tmp_path, "\n".join(rows).replace(" ", blank)), target="y")
    assert reader.feature_names == ["a"]
    assert joined(reader).y.tolist() == ["x", "x", "é", "x", f"two{blank}words"]


def test_quotes_may_follow_spaces(tmp_path):
    text = '"a", "free", "y"\n1, "x,\n5", "b c"\n"2",  "x", "d"\n3, "", d\n'
    reader = CSVReader(written(tmp_path, text), target="y", features=["a"])
    assert joined(reader).y.tolist() == ["b c", "d", "d"]
    assert joined(reader).X.tolist() == [[1], [2], [3]]


@pytest.mark.parametrize("label", ["NA", "null", "NaN", "nan", "N/A", "None", "true"])
def test_no_class_is_taken_for_a_missing_value(tmp_path, label):
    path = written(tmp_path, f"a,y\n1,x\n2,{label}\n")
    assert joined(CSVReader(path, target="y")).y.tolist() == ["x", label]


NUMBERS = ["1.5", " 1.5\t", "+1", "-.5", "1.", "1E5", "-0", "007", "1e-400", "0." + "1" * 400]
NUMBERS += ["9007199254740993", "9007199254740992.99999999999999999999", "8.5e22", "5e-324"]


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_those_that_float_reads(tmp_path, number, quote):
    path = written(tmp_path, f"a,y\n0,0\n{quote}{number}{quote},1\n")
    found = joined(CSVReader(path, target="y"))
    assert found.X[1].tobytes() == np.array([float(number)]).tobytes()


REFUSED = [
    "1_000",
    "0x10",
    "nan",
    "-NaN",
    "inf",
    "Infinity",
    "1e400",
    "1d5",
    ".",
    "e5",
    "1e",
    "\u0661",
]


@pytest.mark.parametrize("number", REFUSED)
def test_what_is_no_finite_number_is_refused(tmp_path, number):
    path = written(tmp_path, f"a,y\n0,0\n{number},1\n")
    with pytest.raises(BadLineError, match=r"line 3: column 'a': .* is not a (finite )?number"):
        list(CSVReader(path, target="y"))


def test_a_malformed_header_is_not_skipped(tmp_path):
    path = written(tmp_path, '"a"b,y\n1,2\n3,4\n')
    with pytest.raises(BadLineError, match="line 1: it is not ','-separated"):
        list(CSVReader(path, target=1, on_bad="skip"))


@pytest.mark.parametrize("place", [0, 5])
def test_fields_may_be_long(tmp_path, place):
    rows = [f'{i},"{"x" * 200_000 if i == place else "y"}",1\n' for i in range(9)]
    path = written(tmp_path, "a,text,y\n" + "".join(rows))
    assert joined(CSVReader(path, target="y", features=["a"])).X[:, 0].tolist() == list(range(9))


@pytest.mark.parametrize("end", ["", "1,2\n", "1" * 5000])
@pytest.mark.parametrize("block", [64, 1000])
def test_tables_may_be_wide(tmp_path, end, block):
    X = np.arange(6000.0).reshape(10, 600)
    text = "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())
    reader = CSVReader(written(tmp_path, text + end), target=None, header=False, chunk_rows=10)
    with blocks_of(block), mock.patch.object(files, "LONGEST_LINE", 4800):
        iterator = iter(reader)
        assert np.array_equal(next(iterator).X, X)
        if end:
            with pytest.raises(BadLineError, match=r"line 11: it (has 2 fields|is longer)"):
                next(iterator)


# Classes


@pytest.mark.parametrize("quote", ["", '"'])
def test_large_numbers_are_no_classes_and_strings_are(tmp_path, quote):
    labels = [str(2**53 + i) for i in (0, 1, 0, 1)]
    text = "".join(f"{i},{quote}{label}{quote}\n" for i, label in enumerate(labels))
    path = written(tmp_path, "a,y\n" + text)
    with pytest.raises(BadLineError, match=r"line 2: the class .* below 2\^53.*classes=.strings"):
        list(CSVReader(path, target="y"))
    reader = CSVReader(path, target="y", classes="strings")
    assert joined(reader).y.tolist() == labels
    assert AESVC(gamma=1.0).fit_stream(reader).classes_.tolist() == sorted(set(labels))
    path = written(tmp_path, f"a,y\n1,{2**53 - 1}\n2,-{2**53 - 1}\n")
    assert joined(CSVReader(path, target="y")).y.tolist() == [2**53 - 1, 1 - 2**53]


@pytest.mark.parametrize("long", ["x" * 20_000, "é" * 20_000])
def test_one_long_class_does_not_make_all_of_them_long(tmp_path, long):
    rows = [f"{i},{'no' if i % 2 else 'yes'}\n" for i in range(20_000)]
    path = written(tmp_path, "a,y\n" + "".join([*rows, f"1,{long}\n", "3,no\n"]))
    tracemalloc.start()
    try:
        with pytest.raises(BadLineError, match="line 20002: column 'y': a class has 20000 char"):
            list(CSVReader(path, target="y"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50e6
    with pytest.warns(UserWarning, match="1 malformed line was skipped"):
        found = joined(CSVReader(path, target="y", on_bad="skip"))
    assert set(found.y) == {"no", "yes"}


def test_a_class_with_a_nul_is_refused(tmp_path):
    for label in ("x\0", "\0"):
        path = written(tmp_path, f"a,y\n1,x\n2,{label}\n")
        with pytest.raises(BadLineError, match=r"line 3: column 'y': the class .* has a NUL"):
            list(CSVReader(path, target="y"))


# Names


def test_the_features_used_can_be_asked_for(tmp_path):
    path = written(tmp_path, "\n b,a,y,c\nnothing that is a row\n")
    assert CSVReader(path, target="y").feature_names == ["b", "a", "c"]
    assert CSVReader(path, target="y", features=["c", 0]).feature_names == ["c", "b"]
    assert CSVReader(path, target=0, header=False).feature_names is None
    with pytest.raises(ValueError, match="target='z'"):
        CSVReader(path, target="z").feature_names  # noqa: B018
    path = written(tmp_path, "b,a,y,c\n")
    assert CSVReader(path, target="y").feature_names == ["b", "a", "c"]


def test_a_column_without_a_name_is_no_feature_unless_it_is_asked_for(tmp_path):
    pd = pytest.importorskip("pandas")
    pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}, index=[7, 8]).to_csv(tmp_path / "rows")
    with pytest.raises(ValueError, match=r"rows: a column has no name .* list the columns"):
        list(CSVReader(tmp_path / "rows", target="y"))
    for features, known in ((["a"], [[1.0], [2.0]]), ([1, 0], [[1.0, 7.0], [2.0, 8.0]])):
        found = joined(CSVReader(tmp_path / "rows", target="y", features=features))
        assert found.X.tolist() == known


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.text(' a1,"\n\r', max_size=5), min_size=2, max_size=2), min_size=1, max_size=6
    ),
    sizes,
)
def test_quoted_fields_are_read_as_the_standard_library_reads_them(rows, block):
    with tempfile.TemporaryDirectory() as folder, blocks_of(block):
        path = written(folder, "")
        with path.open("w", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writerows([str(i), f"_{name}", other] for i, (name, other) in enumerate(rows))
        found = joined(CSVReader(path, target=1, features=[0], header=False))
    assert found.X[:, 0].tolist() == list(range(len(rows)))
    assert found.y.tolist() == [f"_{name}".strip(" ") for name, _ in rows]


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'CSVReader needs pyarrow.*pip install "aesvm\[io\]"'):
        CSVReader(written(tmp_path, "a,y\n1,2\n"), target="y")
