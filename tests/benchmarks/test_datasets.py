from __future__ import annotations

import bz2
import gzip
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks import datasets, download
from benchmarks.datasets import REGISTRY, ChecksumError, MissingError, by_paper, load

A9A = "-1 3:1 11:1 \n+1 5:1 123:1 \n-1 \n"
A9A_TEST = "+1 1:1 6:1 \n-1 2:1 \n"
LOCALIZATION = """\
A01,010-000-030-096,633790226051280329,27.05.2009 14:03:25:127,4.062931060791016,1.5,-2.5,walking
A01,010-000-024-033,633790226051820913,27.05.2009 14:03:25:183,4.291954040527344,0.5,0.25,lying
A02,010-000-024-033,633790226052091205,27.05.2009 14:03:25:210,4.359101295471191,1.0,0.0,lying down
"""
ZEROS = ",".join("0" * 37)  # what follows the fourth feature
KDD_TRAIN = f"0,tcp,http,SF,{ZEROS},normal.\n7,udp,domain_u,SF,{ZEROS},smurf.\n"
KDD_TEST = f"3,icmp,http,REJ,{ZEROS},apache2.\n"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("AESVM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


@pytest.fixture
def requests() -> list[str]:
    """The paths that were asked for."""
    return []


@pytest.fixture
def origin(tmp_path, monkeypatch, requests):
    """A folder that stands for the public origins."""

    class Quiet(SimpleHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            super().do_GET()

        def send_header(self, name, value):
            if name == "Content-Length" and "short" in self.path:
                value = str(int(value) + 1000)
            super().send_header(name, value)

        def log_message(self, *args):
            pass

    folder = tmp_path / "origin"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        for name in ("LIBSVM", "UCI", "UCI_KDD"):
            monkeypatch.setattr(download, name, f"http://127.0.0.1:{server.server_port}")
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield folder
        server.shutdown()
        serving.join()


@pytest.fixture
def offline(monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(download, "urlopen", unreachable)
    monkeypatch.setattr(download, "fetch_covtype", unreachable)


def publish(folder: Path, path: str, content: str) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pack = {".bz2": bz2.compress, ".gz": gzip.compress}.get(file.suffix, bytes)
    file.write_bytes(pack(content.encode()))


def expect(monkeypatch, name: str, arrays: download.Arrays) -> None:
    """Make these arrays the right ones."""
    checksum = download.content_checksum(arrays)
    monkeypatch.setitem(REGISTRY, name, replace(REGISTRY[name], checksum=checksum))


def fetched(name: str, cache: Path) -> download.Arrays:
    recipe = REGISTRY[name].fetch
    assert recipe is not None
    return download.fetch(recipe, cache)


@pytest.fixture
def a9a(origin, cache, requests, monkeypatch) -> download.Arrays:
    """A small a9a, published and registered."""
    publish(origin, "binary/a9a", A9A)
    publish(origin, "binary/a9a.t", A9A_TEST)
    arrays = fetched("a9a", cache)
    requests.clear()
    expect(monkeypatch, "a9a", arrays)
    return arrays


def test_the_data_directory_comes_first(tmp_path, cache, a9a, requests):
    download.store(a9a, tmp_path / "a9a.npz")
    cache.joinpath("a9a.npz").write_bytes(b"never looked at")
    data = load("a9a", tmp_path)
    assert data.X.shape == (3, 123)
    np.testing.assert_array_equal(data.y, [-1, 1, -1])
    assert not requests


@pytest.mark.usefixtures("a9a")
def test_what_was_downloaded_is_kept(tmp_path, cache, requests):
    first = load("a9a", tmp_path / "elsewhere")
    assert requests == ["/binary/a9a", "/binary/a9a.t"]
    assert [path.name for path in cache.iterdir()] == ["a9a.npz"]
    again = load("a9a", None)
    assert len(requests) == 2
    np.testing.assert_array_equal(first.X.toarray(), again.X.toarray())
    np.testing.assert_array_equal(again.X.nonzero(), [[0, 0, 1, 1], [2, 10, 4, 122]])
    np.testing.assert_array_equal(again.X_test.toarray()[:, :6].sum(axis=0), [1, 1, 0, 0, 0, 1])


@pytest.mark.usefixtures("a9a")
def test_downloaded_data_of_another_content_is_refused_and_not_kept(origin, cache):
    publish(origin, "binary/a9a", A9A.replace("123:1", "122:1"))
    with pytest.raises(ChecksumError, match=r"a9a as fetched .* expected .* found"):
        load("a9a", None)
    assert not list(cache.iterdir())


def test_a_file_of_another_content_is_refused(tmp_path, a9a):
    altered = a9a | {"y_train": -a9a["y_train"]}
    download.store(altered, tmp_path / "a9a.npz")
    expected = REGISTRY["a9a"].checksum
    found = download.content_checksum(altered)
    with pytest.raises(ChecksumError, match=rf"a9a\.npz .*{expected}, found {found}"):
        load("a9a", tmp_path)


@pytest.mark.parametrize("content", [b"no archive", b"PK\x03\x04 half of one"])
def test_a_file_that_is_no_archive_is_named(tmp_path, content):
    (tmp_path / "covtype.npz").write_bytes(content)
    with pytest.raises(ChecksumError, match=r"covtype\.npz is not an \.npz file of covtype"):
        load("covtype", tmp_path)


def test_a_truncated_download_leaves_nothing_behind(origin, cache, a9a, monkeypatch):
    publish(origin, "short/binary/a9a", A9A)
    monkeypatch.setattr(download, "LIBSVM", f"{download.LIBSVM}/short")
    with pytest.raises(MissingError, match=r"the connection ended after|IncompleteRead"):
        load("a9a", None)
    assert not list(cache.iterdir())


def test_an_interrupted_download_leaves_nothing_behind(cache, a9a, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(download.Progress, "update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load("a9a", None)
    assert not list(cache.iterdir())


@pytest.mark.usefixtures("origin")
def test_what_the_origin_does_not_have_is_missing(cache):
    with pytest.raises(MissingError, match=r"/binary/ijcnn1\.bz2: HTTP Error 404"):
        load("ijcnn1", None)
    assert not list(cache.iterdir())


def test_a_page_in_place_of_the_data_is_missing_data(origin, cache):
    publish(origin, "binary/a9a", "<html>We have moved</html>\n")
    with pytest.raises(MissingError, match="fetching it failed"):
        load("a9a", None)
    assert not list(cache.iterdir())


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", [name for name in REGISTRY if REGISTRY[name].file])
def test_offline_the_message_says_where_to_look(name, tmp_path, cache):
    with pytest.raises(MissingError) as missing:
        load(name, tmp_path)
    message = str(missing.value)
    for part in (f"{REGISTRY[name].file}.npz", str(tmp_path), str(cache), REGISTRY[name].origin):
        assert part in message


@pytest.mark.usefixtures("offline")
def test_files_got_by_hand_are_used(cache, monkeypatch):
    publish(cache, "ConfLongDemo_JSI.txt", LOCALIZATION)
    expect(monkeypatch, "localization", fetched("localization", cache))
    assert load("localization", None).X.shape == (3, 5)


def test_zeros_that_are_written_down_are_no_content(origin, cache, a9a):
    publish(origin, "binary/a9a.t", A9A_TEST.replace("2:1", "2:1 123:0"))
    padded = fetched("a9a", cache)
    assert len(padded["test_data"]) == len(a9a["test_data"]) + 1
    bare = download.without_stored_zeros(padded)
    assert download.content_checksum(bare) == REGISTRY["a9a"].checksum
    assert load("a9a", None).X_test.nnz == 3


def test_the_checksum_is_of_values_and_not_of_their_place_in_memory():
    X = np.arange(6, dtype=np.float32).reshape(2, 3)
    words = np.array(["lying", "walking"])
    checksum = download.content_checksum({"X": X, "words": words})
    others = {"words": words.astype("U40"), "X": np.asfortranarray(X).astype(">f4")}
    assert download.content_checksum(others) == checksum
    for changed in (X.T, X + 1, X.astype(np.float64), X.reshape(3, 2)):
        assert download.content_checksum({"X": changed, "words": words}) != checksum


def test_dense_files_of_libsvm_are_read_to_the_bit(origin, cache):
    publish(origin, "binary/ijcnn1.bz2", "-1 6:1 11:-0.731854 22:-0.00081\n1 1:1\n")
    publish(origin, "binary/ijcnn1.t.bz2", "1 12:0.1\n")
    arrays = fetched("ijcnn1", cache)
    X = np.zeros((2, 22), dtype=np.float32)
    X[0, [5, 10, 21]] = 1, -0.731854, -0.00081
    X[1, 0] = 1
    np.testing.assert_array_equal(arrays["X_train"], X, strict=True)
    np.testing.assert_array_equal(arrays["y_train"], np.array([-1, 1], dtype=np.int8), strict=True)
    assert arrays["X_test"].shape == (1, 22)


def test_mnist_has_its_last_pixels_and_a_test_part(origin, cache, monkeypatch):
    publish(origin, "multiclass/mnist.bz2", "5 153:3 780:255\n0 154:18\n")
    publish(origin, "multiclass/mnist.t.bz2", "0 778:51\n")
    expect(monkeypatch, "mnist", fetched("mnist", cache))
    data = load("mnist", None)
    assert data.X.shape == (2, 784)
    assert data.X[0, 779] == 1.0
    np.testing.assert_array_equal(data.y, [0, 1])
    np.testing.assert_array_equal(data.y_test, [1])
    assert data.X_test[0, 777] == 0.2


def test_the_words_of_kdd99_are_numbered_over_both_files(origin, cache, monkeypatch):
    publish(origin, "kddcup.data_10_percent.gz", KDD_TRAIN + KDD_TRAIN)
    publish(origin, "corrected.gz", KDD_TEST)
    arrays = fetched("kdd99", cache)
    np.testing.assert_array_equal(arrays["vocab_protocol_type"], ["icmp", "tcp", "udp"])
    np.testing.assert_array_equal(arrays["vocab_service"], ["domain_u", "http"])
    np.testing.assert_array_equal(arrays["label_names"], ["apache2.", "normal.", "smurf."])
    np.testing.assert_array_equal(arrays["X_train"][:2, :4], [[0, 1, 1, 1], [7, 2, 0, 1]])
    np.testing.assert_array_equal(arrays["X_test"][:, :4], [[3, 0, 1, 0]])
    expect(monkeypatch, "kdd99", arrays)
    data = load("kdd99", None)
    assert data.X.shape == (2, 41)  # distinct rows
    np.testing.assert_array_equal(data.y, [1, 0])
    np.testing.assert_array_equal(data.y_test, [0])


def test_localization_has_five_features_and_lying_is_the_class(origin, cache, monkeypatch):
    publish(origin, "00196/ConfLongDemo_JSI.txt", LOCALIZATION)
    expect(monkeypatch, "localization", fetched("localization", cache))
    data = load("localization", None)
    np.testing.assert_array_equal(data.X[:, :2], [[0, 1], [0, 0], [1, 0]])
    np.testing.assert_allclose(data.X[:, 3], [1, 0, 0.5])
    np.testing.assert_array_equal(data.y, [0, 1, 1])


@pytest.mark.parametrize(("n_rows", "k"), [(10, 5), (13, 5), (7, 7), (100, 2)])
def test_folds_are_contiguous_and_test_every_row_once(n_rows, k):
    folds = datasets.folds(n_rows, k)
    assert len(folds) == k
    np.testing.assert_array_equal(np.concatenate([test for _, test in folds]), np.arange(n_rows))
    for train, test in folds:
        assert all(after == before + 1 for before, after in pairwise(test))
        np.testing.assert_array_equal(np.union1d(train, test), np.arange(n_rows))
        assert len(train) + len(test) == n_rows


@pytest.mark.parametrize("k", [0, 1, 4])
def test_impossible_folds_are_refused(k):
    with pytest.raises(ValueError, match=f"k={k} is not possible: use 2 to 3"):
        datasets.folds(3, k)


def test_the_first_rows_of_epsilon_do_not_depend_on_how_many_there_are():
    few, many = datasets.epsilon(1_100, 10), datasets.epsilon(2_100, 20)
    for part, n_rows in (("X", 1_100), ("y", 1_100), ("X_test", 10), ("y_test", 10)):
        np.testing.assert_array_equal(getattr(few, part), getattr(many, part)[:n_rows])
    assert few.X.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(few.X, axis=1), 1.0, rtol=1e-6)


def test_epsilon_is_the_same_today_as_yesterday():
    data = datasets.epsilon(3, 2)
    np.testing.assert_array_equal(data.y, [1, 1, -1])
    np.testing.assert_allclose(data.X[:, 0], [0.010014152, -0.00093083869, -0.013480077], rtol=1e-5)


def test_an_unknown_dataset_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'covertype' is unknown: use one of covtype, ijcnn1"):
        load("covertype", None)
    with pytest.raises(ValueError, match=r"no dataset 'D10': use one of D1, .*, D9"):
        by_paper("D10")


def test_every_dataset_of_the_paper_is_described():
    papers = sorted(entry.paper for entry in REGISTRY.values())
    assert papers == [f"D{number}" for number in range(1, 10)]
    assert [datasets.label(paper) for paper in papers if by_paper(paper).stand_in] == [
        "D1 (part)",
        "D2 (part)",
        "D3 (stand-in)",
        "D7 (stand-in)",
    ]
    assert by_paper("D4").name == "covtype"
    assert {entry.name for entry in REGISTRY.values() if entry.stand_in} == {
        "kdd99",
        "localization",
        "anom_http",
        "epsilon",
    }
    for entry in REGISTRY.values():
        assert entry.origin.startswith("http")
        assert bool(entry.file) == bool(entry.arrays) == (len(entry.checksum) == 64)
