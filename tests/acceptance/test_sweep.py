"""Sweeps that are killed in every way end as if nothing had happened."""

import json
import multiprocessing
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import explore_poison
import pandas as pd
import pytest
from explore_study import write_study

from carsim.errors import InputError
from carsim.explore import workers
from carsim.explore.evaluate import Evaluator, context_of
from carsim.explore.frame import frame_of
from carsim.explore.points import make_points
from carsim.explore.store import STORE_FILE, Store, open_store
from carsim.explore.study import load_study
from carsim.explore.sweep import fill, open_folder, sweep

MANY = {
    "machine.cores": [1, 2, 4],
    "policy.tau": {"range": {"from": -1.0, "to": 0.8, "step": 0.2}},
    "policy.schedule": ["static", "drs"],
    "policy.batch": [2, 3, 4],
    "board.dsp": [1, 2520],
}
"""360 points: 120 that are evaluated, 60 that are refused, 180 that do not fit."""


def answers(frame):
    """All of a frame but the time that it took."""
    return frame.drop(columns="seconds")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the study of many points comes to where nothing is killed."""
    study = load_study(write_study(tmp_path_factory.mktemp("undisturbed"), axes=MANY))
    frame = answers(sweep(study, workers=0))
    assert frame.status.value_counts().to_dict() == {"ok": 120, "invalid": 60, "misfit": 180}
    return frame


def command(folder: Path, *options: str) -> list[str]:
    study, out = folder / "study.yaml", folder / "out"
    return [sys.executable, "-m", "carsim", "sweep", str(study), "--out", str(out), *options]


def stored(folder: Path) -> int:
    """Points that another process has stored so far."""
    path = folder / "out" / STORE_FILE
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True)) as db:
            return int(db.execute("SELECT count(*) FROM points").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # not made yet


def wait_until(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.005)


def finished_frame(folder: Path) -> pd.DataFrame:
    with open_store(folder / "out") as store:
        return answers(frame_of(store))


def _evaluate_and_note(study_path: Path, folder: Path, log: Path, to_the_end: bool) -> None:
    """In a process of its own: sweep, and note each point that is evaluated.

    Unless it is to come to the end, points beyond the tenth take long, however fast the machine is.
    """
    evaluate = Evaluator.evaluate
    noted_so_far = count(1)

    def noted(self, point):
        row = evaluate(self, point)
        if next(noted_so_far) > 10 and not to_the_end:
            time.sleep(0.05)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{point.id}\n")
        return row

    Evaluator.evaluate = noted
    with open_folder(folder / "out") as store:
        fill(store, load_study(study_path), out=folder / "out", workers=0)


def test_twenty_kills_of_the_whole_sweep_lose_and_double_nothing(tmp_path, undisturbed):
    path = write_study(tmp_path, axes=MANY)
    log = tmp_path / "log"
    fork = multiprocessing.get_context("fork")
    rng = random.Random(0)
    kills, last = 0, -1
    while True:
        before = set()
        if stored(tmp_path):
            with open_store(tmp_path / "out") as store:
                before = store.finished()
        log.write_text("", encoding="utf-8")
        child = fork.Process(target=_evaluate_and_note, args=(path, tmp_path, log, kills == 20))
        child.start()
        if kills < 20:
            child.join(0.02 + 0.08 * rng.random())
            if len(before) > last:
                wait_until(partial(has_moved_on, tmp_path, len(before), child.is_alive))
            last = len(before)
        else:
            child.join()
        if child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
            kills += 1
        child.join()
        evaluated = log.read_text(encoding="utf-8").split()
        assert len(evaluated) == len(set(evaluated))
        assert before.isdisjoint(evaluated)
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
    assert kills == 20
    pd.testing.assert_frame_equal(finished_frame(tmp_path), undisturbed)


def test_kills_of_the_command_line_leave_no_process_behind(tmp_path, undisturbed):
    write_study(tmp_path, axes=MANY)
    for kill in range(2):
        before = stored(tmp_path)
        process = subprocess.Popen(command(tmp_path, "--workers", "2"))
        wait_until(partial(has_moved_on, tmp_path, before, partial(is_alive, process.pid)))
        children = children_of(process.pid)
        process.kill()
        process.wait()
        wait_until(partial(all_gone, children), 20)
        assert kill or children
    done = subprocess.run(
        command(tmp_path, "--json", "--workers", "0"), capture_output=True, text=True, check=True
    )
    document = json.loads(done.stdout)
    assert document["points"] == 360
    assert document["evaluated"] <= 360 - before
    pd.testing.assert_frame_equal(finished_frame(tmp_path), undisturbed)
    frame = pd.read_parquet(tmp_path / "out" / "points.parquet")
    pd.testing.assert_frame_equal(answers(frame), undisturbed)
    assert len(pd.read_csv(tmp_path / "out" / "points.csv")) == 360


def has_moved_on(folder: Path, before: int, is_running) -> bool:
    return stored(folder) > before or not is_running()


def all_gone(processes: list[int]) -> bool:
    return not any(map(is_alive, processes))


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    except OSError:
        return []
    return [int(child) for child in text.split()]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return False
    return state.split()[0] != "Z"


def test_ctrl_c_keeps_what_was_finished_and_says_so(tmp_path, undisturbed):
    write_study(tmp_path, axes=MANY)
    process = subprocess.Popen(
        command(tmp_path, "--workers", "1"), stderr=subprocess.PIPE, start_new_session=True
    )
    wait_until(lambda: stored(tmp_path) > 0)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    if process.returncode:
        assert process.returncode == 130
        assert error.decode().lstrip() == "carsim: interrupted; nothing was half-written\n"
    sweep(tmp_path / "study.yaml", tmp_path / "out", workers=0)
    pd.testing.assert_frame_equal(finished_frame(tmp_path), undisturbed)


def test_workers_may_be_killed_while_it_runs(tmp_path, undisturbed):
    study = load_study(write_study(tmp_path, axes=MANY))
    victims = []

    def kill_one(progress):
        alive = multiprocessing.active_children()
        if progress.evaluated and len(victims) < 3 and alive:
            os.kill(alive[0].pid, signal.SIGKILL)
            victims.append(alive[0].pid)

    with open_folder(tmp_path / "out") as store:
        progress = fill(store, study, out=tmp_path / "out", workers=2, tell=kill_one)
    assert victims
    assert (progress.finished, progress.counts["failed"]) == (360, 0)
    pd.testing.assert_frame_equal(finished_frame(tmp_path), undisturbed)


def test_a_point_that_kills_its_processes_fails_alone(tmp_path, monkeypatch):
    study = load_study(write_study(tmp_path))
    monkeypatch.setattr(workers, "_start", explore_poison.start)
    frame = sweep(study, tmp_path / "out", workers=1)
    failed = frame[frame.status == "failed"]
    (point,) = failed[list(explore_poison.POISON)].to_dict("records")
    assert point == explore_poison.POISON
    assert failed.reason.item() == (
        "killed 2 processes that evaluated it alone; memory may have run out"
    )
    assert (frame.status == "ok").sum() == 17
    monkeypatch.undo()
    assert (sweep(study, tmp_path / "out", workers=0).status == "failed").sum() == 1
    again = sweep(study, tmp_path / "out", workers=0, retry_failed=True)
    assert (again.status == "ok").all()


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


def test_a_worker_of_other_code_is_refused(tmp_path):
    study = load_study(write_study(tmp_path))
    context = replace(context_of(study), code="other")
    with pytest.raises(InputError, match=r"runs other code of carsim; install the same"):
        list(workers.evaluate_local(context, make_points(study), 1, lambda: False))


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, undisturbed):
    write_study(tmp_path, axes=MANY)

    def no_file_beyond():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        command(tmp_path, "--workers", "0"),
        capture_output=True,
        text=True,
        preexec_fn=no_file_beyond,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "start the same command again: what is stored stays" in done.stderr
    kept = stored(tmp_path)
    assert 0 < kept < 360
    with open_folder(tmp_path / "out") as store:
        progress = fill(store, load_study(tmp_path / "study.yaml"), workers=0)
    assert progress.evaluated == 360 - kept
    pd.testing.assert_frame_equal(finished_frame(tmp_path), undisturbed)


def test_two_sweeps_into_one_folder_do_not_meet(tmp_path):
    study = load_study(write_study(tmp_path))
    out = tmp_path / "out"
    refused = []

    def try_a_second(_):
        if not refused:
            with open_folder(out) as second, pytest.raises(InputError) as caught:
                fill(second, study, out=out, workers=0)
            refused.append(str(caught.value))

    with open_folder(out) as store:
        fill(store, study, out=out, workers=0, tell=try_a_second)
    assert refused == [f"{out}: another carsim is writing to it; wait for it, or name another"]


def test_memory_stays_bounded_over_many_points(tmp_path):
    """What a worker keeps does not grow with the points that it has seen."""
    axes = {"board.fabric_clock_mhz": {"range": {"from": 100.0, "to": 109.0, "step": 1.0}}}
    study = load_study(write_study(tmp_path, axes=axes))
    kept = []
    evaluate = Evaluator.evaluate

    def weighed(self, point):
        row = evaluate(self, point)
        kept.append((len(self._memos._items), len(self._decisions._items)))
        return row

    with pytest.MonkeyPatch.context() as patch, Store(":memory:") as store:
        patch.setattr(Evaluator, "evaluate", weighed)
        assert fill(store, study, workers=0).counts["ok"] == 10
    assert max(kept) <= (3, 6)
