"""The store: what is in it stays, what is damaged or foreign is no result."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from explore_study import write_study
from tiny import write_inputs

from carsim.errors import InputError
from carsim.explore.evaluate import Evaluator
from carsim.explore.metrics import FLAGS
from carsim.explore.points import make_points
from carsim.explore.store import STORE_FILE, Store, open_store
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
