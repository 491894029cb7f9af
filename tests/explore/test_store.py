"""The store: what is in it stays, what is damaged or foreign is no result."""

import shutil
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from typing import Any

import pandas as pd
import pytest
import yaml
from explore_study import answers, make_study, restated, spoilt
from tiny import write_inputs

from carsim.base.errors import InputError
from carsim.explore.evaluate import _plain
from carsim.explore.frame import frame_of
from carsim.explore.points import make_points
from carsim.explore.store import LOCK_FILE, STORE_FILE, Store, open_store
from carsim.explore.study import Study
from carsim.explore.sweep import sweep

OK = {"status": "ok", "seconds": 0.0}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return make_study(tmp_path)


@pytest.fixture
def store(study: Study):
    with Store() as opened:
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
    store.claim(study, "sweep")
    assert store.counts() == {"ok": 1, "misfit": 1, "invalid": 1}
    assert sorted(results(store)) == [0, 2, 3]


def test_all_or_none_of_some_results_are_stored(store: Store, study: Study) -> None:
    one, other, *_ = make_points(study)
    with pytest.raises(ValueError, match="Out of range float values"):
        store.add([(one, OK), (other, {**OK, "latency_s": float("nan")})])
    assert store.counts() == {}


def test_results_come_back_as_they_were_given(store: Store, study: Study) -> None:
    one, *_ = make_points(study)
    given = {**OK, "fits": True, "dsp": 1 << 60, "lut": -3, "limit": "a\tb\n", "fill": 0.1}
    store.add([(one, given)])
    (found,) = results(store).values()
    assert {name: found[name] for name in given} == given
    assert [type(found[name]) for name in ("fits", "dsp", "lut")] == [bool, int, int]
    assert {found[name] for name in found.keys() - given.keys()} == {None}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished sweep of 18 points, which no test changes."""
    folder = tmp_path_factory.mktemp("kept")
    sweep(make_study(folder), folder / "out", workers=0)
    return folder / "out"


@pytest.fixture
def swept(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "out"))


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def test_a_reader_leaves_a_damaged_store_as_it_is_and_a_sweep_mends_it(swept, kept, caplog):
    spoilt(swept, 4, 9)
    before = contents(swept)
    assert sorted(answers(swept).point) == [n for n in range(18) if n not in (2, 7)]
    assert "is damaged (line 4, line 9); the same sweep or search mends it" in caplog.text
    assert len(caplog.records) == 1
    assert contents(swept) == before
    sweep(make_study(swept.parent), swept, workers=0)
    caplog.clear()
    pd.testing.assert_frame_equal(answers(swept), answers(kept))
    assert not caplog.records


def test_a_line_without_an_end_is_read_in_parts(swept: Path, monkeypatch) -> None:
    monkeypatch.setattr("carsim.explore.store.MOST_BYTES", 1 << 14)
    with (swept / STORE_FILE).open("ab") as file:
        file.write(bytes(1 << 16))
    with open_store(swept) as opened:
        assert opened.damaged == [f"line {number}" for number in range(20, 24)]
        assert len(opened.finished()) == 18


def test_a_full_disk_is_one_line_and_leaves_no_part_of_a_line(kept: Path, tmp_path: Path) -> None:
    study, (soft, hard) = make_study(tmp_path), getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, ((kept / STORE_FILE).stat().st_size - 200, hard))
    try:
        with pytest.raises(InputError, match="start the same command again: what is stored stays"):
            sweep(study, tmp_path / "out", workers=0)
    finally:
        setrlimit(RLIMIT_FSIZE, (soft, hard))
    with open_store(tmp_path / "out") as opened:
        assert not opened.damaged


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    for name, problem in (
        ("other", r"holds no store.txt; name the folder of a sweep"),
        (LOCK_FILE, "has no result yet; wait for its sweep"),
        (STORE_FILE, "is no store of carsim, or its first line is damaged"),
    ):
        (tmp_path / name).write_text("no store\n")
        with pytest.raises(InputError, match=problem):
            open_store(tmp_path)


@pytest.mark.parametrize(
    ("fact", "problem"),
    [
        ("schema", "is a store of schema '0'; this carsim has 6; name another"),
        ("version", "was made by carsim 0, not by this"),
        ("code", "was made by other code of this carsim"),
        ("kind", "holds a 0, and this is none"),
        ("columns", "has other metrics than there are now"),
    ],
)
def test_a_store_serves_no_other_study_and_no_other_code(swept: Path, fact: str, problem: str):
    restated(swept, **{fact: "0"})
    with pytest.raises(InputError, match=problem):
        sweep(make_study(swept.parent), swept, workers=0)


OF_POINTS = {"set": {"policy.batch": 2}, "resample": 1, "fidelity": "tile", "allow_misfit": True}
OF_STUDIES = {"filters": ["machine.cores < 3"], "sampling": {"method": "lhs", "points": 18}}


def test_a_point_and_a_store_are_known_by_all_that_results_depend_on(tmp_path: Path) -> None:
    """Prose and objectives change neither; filters and sampling change no point."""

    def known(**changes: Any) -> tuple[str, frozenset[str]]:
        study = make_study(tmp_path, **changes)
        return study.fingerprint, frozenset(point.id for point in make_points(study))

    base = known()
    assert known(name="other", description="other", objectives=["latency_s"]) == base
    of_studies = [known(**{name: value}) for name, value in OF_STUDIES.items()]
    found = [known(**{name: value}) for name, value in OF_POINTS.items()]
    found += [base, known(baseline=False)]
    design = yaml.safe_load((tmp_path / "toy.yaml").read_text())
    design["machine"]["array"]["rows"] = 8
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(design))
    found.append(known())
    (tmp_path / "toy.npz").unlink()
    write_inputs(tmp_path, seed=1)
    found.append(known())
    ids = [of_points for _, of_points in found]
    assert len(frozenset.union(*ids)) == sum(map(len, ids)) == 18 * 8
    assert len({fingerprint for fingerprint, _ in (*found, *of_studies)}) == 10


@pytest.mark.parametrize("end", [-(2**63), 2**63 - 1])
def test_whole_numbers_of_64_bits_are_kept_and_larger_ones_are_floats(end: int) -> None:
    beyond = end + (1 if end > 0 else -1)
    assert (_plain(end), type(_plain(end))) == (end, int)
    assert (_plain(beyond), type(_plain(beyond))) == (float(beyond), float)
    assert _plain("a\ud800b") == "a\\ud800b"


def test_figures_have_types_even_if_the_first_points_have_none(
    store: Store, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = make_points(study)
    figures = {"latency_s": 1.5, "batches": 2, "limit": "memory", "fits": True}
    store.add(zip(points, [{"status": "misfit"}] * 3 + [{**OK, **figures}] * 2, strict=False))
    whole = frame_of(store)
    assert [whole[name].dtype.kind for name in ("latency_s", "batches")] == ["f", "f"]
    for size in (1, 2):
        monkeypatch.setattr("carsim.explore.frame.BLOCK", size)
        pd.testing.assert_frame_equal(frame_of(store), whole)


def test_a_column_is_added_to_results_without_a_warning(store: Store, study: Study) -> None:
    store.add((point, OK) for point in make_points(study))
    frame = frame_of(store)
    frame["mine"] = 1.0
    assert len(frame.columns) > 100, "of fewer columns pandas would not warn"
