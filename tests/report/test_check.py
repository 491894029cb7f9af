"""Folders of results that are checked; tests/fuzz.py damages every part of them."""

import shutil
from pathlib import Path

import pytest
from commands import call
from explore_study import write_study

from carsim.base.digests import DIGESTS
from carsim.base.errors import InputError
from carsim.report.report import check


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
        ("ran", "summary.json", 999, "is truncated or no JSON"),
        ("ran", DIGESTS, 70, "is damaged: a line is no digest and name"),
        ("done", "points.csv", 99, "does not match its digest in SHA256SUMS"),
        ("done", "store.txt", -200, "is damaged (line 19)"),
        ("done", "store.txt", 16, "is no store of carsim, or its first line is damaged"),
    ],
)
def test_what_is_damaged_is_named(
    written: Path, tmp_path: Path, of: str, file: str, at: int, what: str
) -> None:
    folder = tmp_path / of
    shutil.copytree(written / of, folder)
    assert call("report", folder, "--check").status == 0
    assert call("report", folder, "--check", "--json").status == 2
    spoil(folder / file, at)
    ended = call("report", folder, "--check")
    assert (ended.status, ended.finding) == (1, "")
    assert what in ended.out


def test_a_store_that_lost_its_last_lines_is_seen(written: Path, tmp_path: Path) -> None:
    folder = tmp_path / "done"
    shutil.copytree(written / "done", folder)
    lines = (folder / "store.txt").read_bytes().splitlines(keepends=True)
    (folder / "store.txt").write_bytes(b"".join(lines[:-2]))
    assert "does not match its digest" in check(folder)["store.txt"]


def test_a_folder_without_results_is_refused(written: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds neither summary.json nor store.txt"):
        check(written)
    with pytest.raises(InputError, match="there is no such folder"):
        check(tmp_path / "none")
