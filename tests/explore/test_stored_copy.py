"""The table beside a store: read in its place only if it holds the same results."""

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from explore_study import AXES, make_study, spoilt, write_study

from carsim.base.digests import DIGESTS, write_digests
from carsim.cli import carsim
from carsim.explore import stored_copy
from carsim.explore.evaluate import Row
from carsim.explore.frame import export, frame_of
from carsim.explore.store import STORE_FILE, STUDY_FILE, Store, open_folder, open_store
from carsim.explore.stored_copy import MARK, PARQUET_FILE, read_copy
from carsim.explore.sweep import fill
from carsim.report.stored_study import read_study

OF_MANY_TYPES = {
    **AXES,
    "board.dsp": [1, 2520],  # misfits without figures of a simulation
    "policy.batch": [3, 4],  # 3 is refused
    "machine.array.cols": [4, 8],
    "board.fabric_clock_mhz": [150, 250.5],
    "set": {"choice": {"one": {"policy.tau": 0.0}, "2": {"policy.tau": 0.5}}},
}


def swept(folder: Path, **changes: object) -> Path:
    """A folder as ``carsim sweep`` leaves it."""
    study = make_study(folder, **changes)
    with open_folder(folder / "out") as store:
        fill(store, study, workers=0)
        export(frame_of(store), folder / "out", store=store)
    return folder / "out"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    axes = {name: values for name, values in OF_MANY_TYPES.items() if name != "policy.tau"}
    return swept(tmp_path_factory.mktemp("whole"), axes=axes)


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def parsed(folder: Path) -> pd.DataFrame:
    """The frame of a store, parsed line by line."""
    with open_store(folder) as store:
        return frame_of(store)


def test_a_copy_is_equal_to_the_bit(folder: Path) -> None:
    copy = read_copy(folder)
    assert copy is not None
    pd.testing.assert_frame_equal(copy.frame, parsed(folder), check_exact=True)
    assert copy.frame.equals(parsed(folder))
    assert {*copy.frame["status"]} == {"ok", "misfit", "invalid"}
    with open_store(folder) as store:
        assert copy.facts == store.facts


def test_a_study_is_read_without_parsing_its_store(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = read_study(folder).front
    monkeypatch.setattr(Store, "_read", lambda store: pytest.fail("is parsed"))
    pd.testing.assert_frame_equal(read_study(folder).front, wanted)


def no_digests(folder: Path) -> None:
    (folder / DIGESTS).unlink()


def no_table(folder: Path) -> None:
    (folder / PARQUET_FILE).unlink()


def one_bit(folder: Path) -> None:
    data = bytearray((folder / PARQUET_FILE).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / PARQUET_FILE).write_bytes(data)


def other_table(folder: Path) -> None:
    """Another program has changed a figure, and the digests with it."""
    pd.read_parquet(folder / PARQUET_FILE).assign(lut=1.0).to_parquet(folder / PARQUET_FILE)
    write_digests(folder, [PARQUET_FILE, STORE_FILE])


def longer_store(folder: Path) -> None:
    lines = (folder / STORE_FILE).read_bytes().splitlines(keepends=True)
    (folder / STORE_FILE).write_bytes(b"".join([*lines, lines[-1]]))


def longer_store_with_digest(folder: Path) -> None:
    longer_store(folder)
    write_digests(folder, [PARQUET_FILE, STORE_FILE])


def damaged_store(folder: Path) -> None:
    lines = (folder / STORE_FILE).read_bytes().splitlines()
    spoilt(folder, 1 + next(place for place, line in enumerate(lines) if b"\tok\t" in line))
    write_digests(folder, [PARQUET_FILE, STORE_FILE])


def no_mark(folder: Path) -> None:
    table = pq.read_table(folder / PARQUET_FILE)
    metadata = {key: text for key, text in table.schema.metadata.items() if key != MARK}
    pq.write_table(table.replace_schema_metadata(metadata), folder / PARQUET_FILE)
    write_digests(folder, [PARQUET_FILE, STORE_FILE])


@pytest.mark.parametrize(
    "change",
    [
        no_digests,
        no_table,
        one_bit,
        other_table,
        longer_store,
        longer_store_with_digest,
        damaged_store,
        no_mark,
    ],
)
def test_a_damaged_or_outdated_table_is_not_read(
    folder: Path, change: Callable[[Path], None]
) -> None:
    change(folder)
    assert read_copy(folder) is None
    pd.testing.assert_frame_equal(read_study(folder).frame, parsed(folder))


def test_a_damaged_store_names_its_damage(folder: Path) -> None:
    damaged_store(folder)
    (line,) = read_study(folder).damaged
    assert line.startswith("line ")


@pytest.mark.parametrize("fact", ["code", "columns", "pandas"])
def test_a_table_made_otherwise_is_not_read(
    folder: Path, fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conditions = stored_copy._conditions()
    assert read_copy(folder) is not None
    monkeypatch.setattr(stored_copy, "_conditions", lambda: {**conditions, fact: "another"})
    assert read_copy(folder) is None


def test_without_pyarrow_the_store_is_parsed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_copy, "has_parquet", lambda: False)
    assert read_copy(folder) is None
    pd.testing.assert_frame_equal(read_study(folder).frame, parsed(folder))


def test_a_sweep_that_goes_on_leaves_no_copy_until_it_ends(tmp_path: Path) -> None:
    out = swept(tmp_path)
    study = make_study(tmp_path, axes={**AXES, "machine.cores": [1, 2, 4, 8]})
    with open_folder(out) as store:
        store.claim(study, "sweep", points=24)
        assert read_copy(out) is None
        fill(store, study, workers=0)
        assert read_copy(out) is None
        export(frame_of(store), out, store=store)
    copy = read_copy(out)
    assert copy is not None
    assert len(copy.frame) == 24


def test_results_that_a_sweep_has_forgotten_are_not_left_out_by_a_copy(tmp_path: Path) -> None:
    """Points that failed are tried again; a sweep that is stopped before has them in its file."""
    study = make_study(tmp_path)
    failed: Row = {"status": "failed", "reason": "its process died", "seconds": 0.1}
    out = tmp_path / "out"
    with open_folder(out) as store:
        fill(store, study, workers=0)
        lines = list(store.sound_lines())
        identity, _, text = lines[0]
        fields = text[:-1].decode().split("\t")[1:]
        fields[3] = "failed"
        cells = json.loads(fields[5])
        cells[: len(failed)] = failed.values()
        fields[5] = json.dumps(cells)
        body = "\t".join(fields).encode()
        line = sha256(body).hexdigest()[:16].encode() + b"\t" + body + b"\n"
        store.replace(store.facts, [line, *(text for _, _, text in lines[1:])])
        assert store.finished()[identity] == "failed"
    with open_folder(out) as store:
        store.claim(study, "sweep", points=18)
        assert len(store.finished()) == 17
        export(frame_of(store), out, store=store)
    assert read_copy(out) is None
    assert len(read_study(out).frame) == 18


def test_the_commands_leave_a_copy(tmp_path: Path) -> None:
    study = str(write_study(tmp_path))
    folders = [str(tmp_path / name) for name in ("one", "two", "both")]
    for shard, folder in zip(("1/2", "2/2"), folders, strict=False):
        options = ["--shard", shard, "--out", folder, "--workers", "0"]
        CliRunner().invoke(carsim, ["sweep", study, *options], catch_exceptions=False)
    CliRunner().invoke(carsim, ["merge", *folders[:2], "--out", folders[2]], catch_exceptions=False)
    for folder in map(Path, folders):
        copy = read_copy(folder)
        assert copy is not None
        pd.testing.assert_frame_equal(copy.frame, parsed(folder), check_exact=True)
    assert (tmp_path / "both" / STUDY_FILE).exists()
