"""Traces by name: the nearest one, from files that may hold anything."""

from pathlib import Path

import pytest
from trace_maker import make_trace

from carsim import shipped_traces
from carsim.base.errors import InputError
from carsim.decisions.trace import load_trace, save_trace
from carsim.decisions.trace.shipped import trace_path, traces_folder, traces_in


def test_what_ships_goes_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "vilau_8f" in shipped_traces()
    assert trace_path("vilau_8f") == traces_folder() / "vilau_8f.npz"
    assert load_trace("published_87_independent").name == "published_87_independent.npz"


def test_earlier_names_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    renamed = traces_folder() / "published_87_correlated.npz"
    assert trace_path("published_87") == trace_path(traces_folder() / "published_87.npz") == renamed


def test_other_archives_are_no_traces(tmp_path: Path) -> None:
    assert "codebook_512" not in shipped_traces()
    save_trace(tmp_path / "mine.npz", make_trace())
    (tmp_path / "broken.npz").write_bytes(b"PK")
    assert traces_in(tmp_path) == [tmp_path / "mine.npz"]
    assert traces_in(tmp_path / "nowhere") == []


def test_the_nearest_one_of_a_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").mkdir()
    save_trace(tmp_path / "traces/vilau_8f.npz", make_trace())
    assert trace_path("vilau_8f") == Path("traces/vilau_8f.npz")
    save_trace(tmp_path / "vilau_8f", make_trace())
    assert trace_path("vilau_8f") == Path("vilau_8f"), "a file is a file"
    assert trace_path("beside.npz", tmp_path) == tmp_path / "beside.npz"


@pytest.mark.parametrize("name", ["nope", "../vilau_8f", "\n"])
def test_an_unknown_name_tells_those_that_ship(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        load_trace(name)
    assert "is neither a trace file nor the name of a trace; " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_a_missing_file() -> None:
    with pytest.raises(
        InputError, match=r"nope\.npz: cannot be read: No such file or directory; check"
    ):
        load_trace("nope.npz")
