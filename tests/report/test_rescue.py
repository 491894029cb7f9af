"""Folders of results that are checked and rescued; tests/fuzz.py damages every part of them."""

import shutil
from pathlib import Path

import pytest
from commands import call
from explore_study import write_study

from carsim.base.digests import DIGESTS
from carsim.base.errors import InputError
from carsim.report.report import results
from carsim.report.rescue import NOTICE, inspect, rescue


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in ``ran`` and a sweep in ``done``."""
    folder = tmp_path_factory.mktemp("written")
    study, run = write_study(folder), ("run", folder / "toy.yaml", "--trace", folder / "toy.npz")
    for arguments in (
        (*run, "--out", folder / "ran"),
        ("sweep", study, "--workers", "0", "--out", folder / "done"),
    ):
        assert call(*arguments).status == 0
    return folder


def spoil(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + 9] = bytes(9)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("of", "file", "at", "what"),
    [
        ("ran", "comparison.csv", 99, "does not match its digest in SHA256SUMS"),
        ("ran", "summary.json", 999, "is no JSON"),
        ("ran", DIGESTS, 70, "is damaged: a line is no digest and name"),
        ("done", "points.csv", 99, "does not match its digest in SHA256SUMS"),
        ("done", "store.txt", -200, "is damaged (line 19)"),
        ("done", "store.txt", 16, "is no store of carsim, or its first line is damaged"),
    ],
)
def test_what_is_damaged_is_named_and_the_rest_is_marked(written, tmp_path, of, file, at, what):
    folder, new = tmp_path / of, tmp_path / "new"
    shutil.copytree(written / of, folder)
    assert call("report", folder, "--check").status == 0
    assert call("report", folder, "--check", "--json").status == 2
    spoil(folder / file, at)
    ended = call("report", folder, "--check")
    assert (ended.status, ended.finding) == (1, "")
    assert what in ended.out
    ended = call("report", folder, "--rescue", new)
    assert (ended.status, ended.finding) == (0, "")
    assert what in ended.out
    assert what in (new / NOTICE).read_text()
    assert set(inspect(new).values()) == {""}
    if file not in ("summary.json", "store.txt") or at < 0:
        assert "rescued" in repr(results(new)).lower()


def test_a_store_that_lost_its_last_lines_is_seen(written: Path, tmp_path: Path) -> None:
    folder = tmp_path / "done"
    shutil.copytree(written / "done", folder)
    lines = (folder / "store.txt").read_bytes().splitlines(keepends=True)
    (folder / "store.txt").write_bytes(b"".join(lines[:-2]))
    assert "does not match its digest" in inspect(folder)["store.txt"]
    rescue(folder, tmp_path / "new")
    assert len(results(tmp_path / "new").frame) == len(lines) - 3


def test_what_cannot_be_rescued_and_what_need_not_be_are_refused(written: Path, tmp_path: Path):
    with pytest.raises(InputError, match="is not damaged"):
        rescue(written / "ran", tmp_path / "new")
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "summary.json").write_text("{")
    with pytest.raises(InputError, match="nothing of it can be rescued"):
        rescue(bad, tmp_path / "new")
    with pytest.raises(InputError, match=r"holds neither summary.json nor store.txt nor SHA"):
        inspect(written)
    with pytest.raises(InputError, match="cannot be read"):
        inspect(tmp_path / "none")
    assert not (tmp_path / "new").exists()
    folder = tmp_path / "ran"
    shutil.copytree(written / "ran", folder)
    spoil(folder / "comparison.csv", 99)
    with pytest.raises(InputError, match="lies in the damaged folder"):
        rescue(folder, folder / "new")
    with pytest.raises(InputError, match="exists already; name another folder"):
        rescue(folder, written)
