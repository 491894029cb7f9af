"""Sweeps that are interrupted, killed or damaged in every way end as if nothing had happened."""

import errno
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from explore_study import DEATHS, POISON, answers, make_study, poisoned_start, write_study

from carsim.base import pools
from carsim.base.errors import InputError
from carsim.explore import workers
from carsim.explore.evaluate import Evaluator
from carsim.explore.points import make_points
from carsim.explore.store import STORE_FILE, open_folder
from carsim.explore.sweep import fill, sweep

MANY = {
    "machine.cores": [1, 2, 4],
    "policy.tau": {"range": {"from": -1.0, "to": 0.8, "step": 0.2}},
    "policy.schedule": ["static", "drs"],
    "policy.batch": [2, 3, 4],
    "board.dsp": [1, 2520],
}
"""360 points: 120 that are evaluated, 60 that are refused, 180 that do not fit."""

KILLS = 8


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the study of many points comes to where nothing is killed."""
    frame = answers(sweep(make_study(tmp_path_factory.mktemp("undisturbed"), axes=MANY), workers=0))
    assert frame.status.value_counts().to_dict() == {"ok": 120, "invalid": 60, "misfit": 180}
    return frame


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path)


def command(folder: Path, *options: str) -> list[str]:
    study, out = folder / "study.yaml", folder / "out"
    return [sys.executable, "-m", "carsim", "sweep", str(study), "--out", str(out), *options]


HELD = """
import time
from carsim.explore.store import Store
add = Store.add
Store.add = lambda self, results: (add(self, results), time.sleep(600))
from carsim.cli import main
main()
"""
"""A command that sleeps once it has stored something, so that a kill meets it at work."""


def stored(folder: Path) -> int:
    """Points that another process has stored so far."""
    path = folder / "out" / STORE_FILE
    return path.read_bytes().count(b"\n") - 1 if path.exists() else 0


def wait_until(condition):
    until = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.005)


def _sweep_slowly(folder: Path) -> None:
    """In a process of its own, however fast the machine is."""
    evaluate = Evaluator.evaluate

    def slow(self, points):
        time.sleep(0.05)
        return evaluate(self, points)

    Evaluator.evaluate = slow
    sweep(folder / "study.yaml", folder / "out", workers=0)


def test_kills_of_the_whole_sweep_lose_and_double_nothing(tmp_path, undisturbed):
    study = make_study(tmp_path, axes=MANY)
    fork, rng = multiprocessing.get_context("fork"), random.Random(0)
    for _ in range(KILLS):
        before = stored(tmp_path)
        child = fork.Process(target=_sweep_slowly, args=(tmp_path,))
        child.start()
        wait_until(lambda: stored(tmp_path) > before)  # noqa: B023 - called at once
        time.sleep(0.05 * rng.random())
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL
    with open_folder(tmp_path / "out") as store:
        before = len(store.finished())
        assert fill(store, study, workers=0).evaluated == 360 - before
    pd.testing.assert_frame_equal(answers(tmp_path / "out"), undisturbed)


def test_a_kill_of_the_command_line_leaves_no_process_behind(tmp_path, undisturbed):
    write_study(tmp_path, axes=MANY)
    options = command(tmp_path, "--workers", "2")[3:]
    process = subprocess.Popen([sys.executable, "-c", HELD, *options])
    wait_until(lambda: stored(tmp_path))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    assert children
    wait_until(lambda: not any(map(is_alive, children)))
    before = stored(tmp_path)
    done = subprocess.run(
        command(tmp_path, "--json", "--workers", "0"), capture_output=True, text=True, check=True
    )
    document = json.loads(done.stdout)
    assert (document["points"], document["evaluated"]) == (360, 360 - before)
    pd.testing.assert_frame_equal(answers(tmp_path / "out"), undisturbed)
    assert "points.csv" in document["files"]
    assert len(pd.read_csv(tmp_path / "out" / "points.csv")) == 360
    if "points.parquet" in document["files"]:
        frame = pd.read_parquet(tmp_path / "out" / "points.parquet")
        pd.testing.assert_frame_equal(answers(frame), undisturbed)


def is_alive(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return False
    return state.split()[0] != "Z"


def test_workers_may_be_killed_while_it_runs(tmp_path, undisturbed):
    study = make_study(tmp_path, axes=MANY)
    victims = []

    def kill_one(progress):
        alive = multiprocessing.active_children()
        if progress.evaluated and len(victims) < 3 and alive:
            os.kill(alive[0].pid, signal.SIGKILL)
            victims.append(alive[0].pid)

    with open_folder(tmp_path / "out") as store:
        progress = fill(store, study, workers=2, tell=kill_one)
    assert victims
    assert (progress.finished, progress.counts["failed"]) == (360, 0)
    pd.testing.assert_frame_equal(answers(tmp_path / "out"), undisturbed)


@pytest.mark.parametrize("death", DEATHS)
def test_a_point_that_kills_its_processes_fails_alone(tmp_path, study, monkeypatch, death):
    monkeypatch.setattr(workers, "_start", partial(poisoned_start, death))
    for module in (workers, pools):
        monkeypatch.setattr(module, "POLL_S", 0.1)
    frame = sweep(study, tmp_path / "out", workers=1)
    failed = frame[frame.status == "failed"]
    assert failed[list(POISON)].to_dict("records") == [POISON]
    assert failed.reason.item().startswith("killed processes that evaluated it, the last one alone")
    assert (frame.status == "ok").sum() == 17
    monkeypatch.undo()
    assert (sweep(study, tmp_path / "out", workers=0).status == "ok").all()


def test_workers_run_the_code_of_the_process_that_starts_them(tmp_path):
    """Not that of a folder named carsim where the command is typed."""
    study = write_study(tmp_path, axes={"machine.cores": [1, 2]})
    (tmp_path / "carsim").mkdir()
    (tmp_path / "carsim" / "__init__.py").write_text("raise SystemExit('the wrong one')")
    sweeping = [*command(tmp_path, "--workers", "2", "--json")]
    sweeping[1:3] = ["-P", "-m", "carsim"]
    done = subprocess.run(sweeping, cwd=study.parent, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ok"] == 2


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"code": "other"}, "runs other code of carsim; install the same"),
        ({"plugins": {"/there/own.py": 64 * "0"}}, "not loaded the plugin own.py, sha256 0{12};"),
    ],
)
def test_a_worker_of_other_code_is_refused(study, monkeypatch, sent, message):
    monkeypatch.setitem(workers.studies, "key", workers.Parcel.of(study)._replace(**sent))
    with pytest.raises(InputError, match=message):
        workers.evaluate_some("key", make_points(study), 0.0)


@pytest.mark.parametrize(
    ("locks", "message"),
    [
        (True, "another carsim is writing to it; wait for it, or name another"),
        (False, "is on a file system that cannot lock files; name a local folder"),
    ],
)
def test_two_sweeps_into_one_folder_do_not_meet(tmp_path, monkeypatch, locks, message):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    if not locks:
        monkeypatch.setattr("fcntl.lockf", no_locks)
    with open_folder(tmp_path), pytest.raises(InputError, match=message), open_folder(tmp_path):
        pass


def test_memory_stays_bounded_over_many_points(tmp_path, monkeypatch):
    """What a worker keeps does not grow with the points that it has seen."""
    kept = 20_000
    monkeypatch.setattr("carsim.explore.evaluate.KEPT_BYTES", kept)
    axes = {"board.fabric_clock_mhz": {"range": {"from": 100.0, "to": 109.0, "step": 1.0}}}
    study = make_study(tmp_path, axes=axes)
    evaluator = Evaluator(study)
    for point in make_points(study):
        assert evaluator.evaluate([point])[0]["status"] == "ok"
    machines = evaluator.machines
    assert 0 < machines.phases.nbytes + machines.decisions.nbytes <= 2 * kept
    assert len(machines.phases._items) < len(make_points(study))
