"""The store: what is in it stays, what is damaged or foreign is no result."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
import yaml
from explore_study import interrupted, restated, write_study
from tiny import write_inputs

from carsim.base.errors import InputError
from carsim.explore.columns import FLAGS
from carsim.explore.evaluate import Evaluator
from carsim.explore.frame import frame_of
from carsim.explore.points import make_points
from carsim.explore.store import STORE_FILE, Store, _cell, open_store
from carsim.explore.study import Study, load_study
from carsim.explore.sweep import sweep

OK = {"status": "ok", "seconds": 0.0}
FAILED = {"status": "failed", "reason": "killed", "seconds": 0.0}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load_study(write_study(tmp_path))


@pytest.fixture
def store(study: Study):
    with Store(":memory:") as opened:
        opened.claim(study, "sweep")
        yield opened


def results(store: Store) -> dict[int, dict]:
    return {ordinal: result for ordinal, _, result in store.rows()}


def test_what_is_stored_stays_as_it_was_first(store: Store, study: Study) -> None:
    one, other, *_ = make_points(study)
    store.add([(one, {**OK, "latency_s": 1.0})])
    store.add([(one, {**OK, "latency_s": 2.0}), (other, {**OK, "latency_s": 3.0})])
    assert {n: row["latency_s"] for n, row in results(store).items()} == {0: 1.0, 1: 3.0}


def test_only_what_failed_is_forgotten(store: Store, study: Study) -> None:
    points = make_points(study)
    statuses = ("ok", "failed", "misfit", "invalid", "failed")
    store.add((point, {**OK, "status": s}) for point, s in zip(points, statuses, strict=False))
    store.forget("failed")
    assert store.counts() == {"ok": 1, "misfit": 1, "invalid": 1}
    assert sorted(results(store)) == [0, 2, 3]


def test_all_or_none_of_some_results_are_stored(store: Store, study: Study) -> None:
    one, other, *_ = make_points(study)
    with pytest.raises(ValueError, match="nan is no result"):
        store.add([(one, OK), (other, {**OK, "latency_s": float("nan")})])
    assert store.counts() == {}


def test_results_come_back_as_they_were_given(store: Store, study: Study) -> None:
    one, *_ = make_points(study)
    given = {**OK, "fits": True, "dsp": 1 << 80, "lut": -3, "limit": "a\ud800b", "fill": 0.1}
    store.add([(one, given)])
    (found,) = results(store).values()
    expected = {**given, "dsp": float(1 << 80), "limit": "a\\ud800b"}
    assert {name: found[name] for name in given} == expected
    assert [type(found[name]) for name in ("fits", "dsp", "lut")] == [bool, float, int]
    assert {found[name] for name in found.keys() - given.keys()} == {None}


def test_flags_are_the_results_that_are_true_or_false(study: Study) -> None:
    (row, *_) = (Evaluator(study).evaluate(point) for point in make_points(study)[:1])
    assert {name for name, value in row.items() if isinstance(value, bool)} == {*FLAGS}


@pytest.mark.parametrize("column", ["id", "ordinal", "status", "point", "latency_s"])
def test_a_row_of_which_a_cell_is_another_is_no_result(
    tmp_path: Path, study: Study, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    sweep(study, tmp_path / "out", workers=0)
    with closing(sqlite3.connect(tmp_path / "out" / STORE_FILE)) as db, db:
        db.execute(f"UPDATE points SET {column} = {column} || '1' WHERE ordinal = 4")
    with open_store(tmp_path / "out") as damaged:
        assert len(results(damaged)) == 17
    assert "is damaged (point 4" in caplog.text


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished sweep of 18 points, which no test changes."""
    folder = tmp_path_factory.mktemp("kept")
    sweep(load_study(write_study(folder)), folder / "out", workers=0)
    return folder / "out"


@pytest.fixture
def swept(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "out"))


def table(folder: Path) -> pd.DataFrame:
    with open_store(folder) as opened:
        return frame_of(opened)


def answer(folder: Path) -> pd.DataFrame | str:
    """The table of a store, or the one line that refuses it."""
    try:
        return table(folder)
    except InputError as error:
        return str(error)


STEP = int(os.environ.get("CARSIM_STORE_BITS", "137"))
"""Of so many bits of the text of the tables one is flipped; 1 flips each, in two minutes."""


def test_no_bit_of_the_names_of_columns_changes_a_table(swept: Path, kept: Path) -> None:
    path, right = swept / STORE_FILE, table(kept)
    whole = path.read_bytes()
    begin = whole.index(b"CREATE TABLE points")
    end = whole.index(b"checksum TEXT NOT NULL)", begin) + 23
    begin = min(begin, whole.index(b"CREATE TABLE meta"))
    assert end - begin > 1000
    for bit in range(8 * begin - 400, 8 * end, STEP):  # and the records that they are in
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        found = answer(swept)
        if isinstance(found, str):
            assert "is damaged (" in found, (bit, found)
            assert "\n" not in found
        else:
            pd.testing.assert_frame_equal(found, right)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"dsp", "bram36", "uram", "lut"', b'"lut", "bram36", "uram", "dsp"'),
        (b"ordinal INTEGER", b"ordinal NUMERIC"),
        (b'"latency_s"', b'"latency_\xe9"'),
    ],
)
def test_names_and_types_of_columns_are_compared(swept: Path, old: bytes, new: bytes) -> None:
    path = swept / STORE_FILE
    whole = path.read_bytes()
    assert old in whole[:4096], "the page of tables"
    path.write_bytes(whole[:4096].replace(old, new) + whole[4096:])
    assert "is damaged (" in answer(swept)
    with pytest.raises(InputError, match=r"is damaged .*; restore a copy of it, or name another"):
        sweep(load_study(write_study(swept.parent)), swept, workers=0)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON points BEGIN DELETE FROM points; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE INDEX i ON points (latency_s)",
    ],
)
def test_nothing_else_may_be_in_a_store(swept: Path, statement: str) -> None:
    with closing(sqlite3.connect(swept / STORE_FILE)) as db:
        db.execute(statement)
    assert "is damaged (its list of tables)" in answer(swept)


def zero_index(folder: Path) -> None:
    with closing(sqlite3.connect(folder / STORE_FILE)) as db:
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE type = 'index'")
    data = bytearray((folder / STORE_FILE).read_bytes())
    data[4096 * (root - 1) : 4096 * root] = bytes(4096)
    (folder / STORE_FILE).write_bytes(data)


def lose_a_point(folder: Path) -> None:
    with closing(sqlite3.connect(folder / STORE_FILE)) as db, db:
        db.execute("DELETE FROM points WHERE ordinal = 3")


@pytest.mark.parametrize(
    ("damage", "what", "lost"),
    [(zero_index, "its index", 0), (lose_a_point, "17 of 18 points are there", 1)],
)
def test_what_the_line_advises_mends_the_store(
    swept: Path, kept: Path, damage, what: str, lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    study, right = load_study(write_study(swept.parent)), table(kept)
    damage(swept)
    assert len(table(swept)) == 18 - lost
    assert [f"is damaged ({what}); the same sweep or search mends it" in caplog.text] == [True]
    sweep(study, swept, workers=0)
    caplog.clear()
    pd.testing.assert_frame_equal(
        table(swept).drop(columns="seconds"), right.drop(columns="seconds")
    )
    assert not caplog.records


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def test_a_reader_undoes_an_interrupted_commit_in_a_copy(swept: Path, kept: Path) -> None:
    interrupted(swept)
    before = contents(swept)
    pd.testing.assert_frame_equal(table(swept), table(kept))
    assert contents(swept) == before


def test_a_reader_leaves_the_way_of_journals_as_it_is(swept: Path, kept: Path) -> None:
    with closing(sqlite3.connect(swept / STORE_FILE)) as db:
        db.execute("PRAGMA journal_mode=WAL")
    before = contents(swept)
    pd.testing.assert_frame_equal(table(swept), table(kept))
    assert contents(swept) == before
    with Store(swept / STORE_FILE):
        pass
    assert (swept / STORE_FILE).read_bytes() == before[STORE_FILE][1]


def test_a_store_of_an_older_schema_is_refused(swept: Path) -> None:
    restated(swept, schema="3")
    assert "is a store of schema '3'; this carsim has 4; name another folder, or" in answer(swept)


@pytest.mark.parametrize("key", ["study", "design", "objectives", "fingerprint", "name"])
def test_what_a_store_says_of_its_study_is_checked(tmp_path: Path, study: Study, key: str) -> None:
    sweep(study, tmp_path / "out", workers=0)
    with closing(sqlite3.connect(tmp_path / "out" / STORE_FILE)) as db, db:
        db.execute("UPDATE meta SET value = value || ' ' WHERE key = ?", (key,))
    with pytest.raises(InputError, match="does not match its checksum"):
        open_store(tmp_path / "out")


CHANGES = {
    "an axis": {"axes": {"machine.cores": [1, 2]}},
    "a filter": {"filters": ["machine.cores < 4"]},
    "a setting": {"set": {"policy.batch": 2}},
    "the seed of resampling": {"resample": 1},
    "the fidelity": {"fidelity": "tile"},
    "misfits": {"allow_misfit": True},
    "no baseline": {"baseline": False},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_study_is_another(tmp_path: Path, store: Store, what: str) -> None:
    with pytest.raises(InputError, match="is of another study"):
        store.claim(load_study(write_study(tmp_path, **CHANGES[what])), "sweep")


def test_prose_and_objectives_change_no_study(tmp_path: Path, store: Store) -> None:
    changed = {"name": "other", "description": "more", "objectives": ["latency_s"]}
    store.claim(load_study(write_study(tmp_path, **changed)), "sweep")


def test_a_point_is_known_by_all_that_its_result_depends_on(tmp_path: Path, study: Study) -> None:
    """The identities of all points of a study change with each of these."""
    known = [{point.id for point in make_points(study)}]
    same = load_study(write_study(tmp_path, name="other", objectives=["latency_s"]))
    assert {point.id for point in make_points(same)} == known[0]

    def add(changed: Study) -> None:
        known.append({point.id for point in make_points(changed)})

    for name in ("a setting", "the seed of resampling", "the fidelity", "misfits", "no baseline"):
        add(load_study(write_study(tmp_path, **CHANGES[name])))
    design = yaml.safe_load((tmp_path / "toy.yaml").read_text())
    design["machine"]["array"]["rows"] = 8
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(design))
    add(load_study(write_study(tmp_path)))
    (tmp_path / "toy.npz").unlink()
    write_inputs(tmp_path, seed=1)
    add(load_study(write_study(tmp_path)))
    assert len(set.union(*known)) == sum(map(len, known)) == 18 * 8


@pytest.mark.parametrize("end", [-(2**63), 2**63 - 1])
def test_whole_numbers_of_64_bits_are_kept_and_larger_ones_are_floats(end: int) -> None:
    beyond = end + (1 if end > 0 else -1)
    assert (_cell(end), type(_cell(end))) == (end, int)
    assert (_cell(beyond), type(_cell(beyond))) == (float(beyond), float)
