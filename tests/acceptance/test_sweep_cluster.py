"""The same sweep on a Dask cluster of processes, one of which is killed midway."""

import socket
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import contextmanager

import pandas as pd
import pytest
from explore_study import make_study

from carsim.base.errors import InputError
from carsim.explore.frame import frame_of
from carsim.explore.store import Store, open_folder
from carsim.explore.sweep import fill, sweep

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("carsim.explore.cluster")

AXES = {
    "machine.cores": [1, 2, 4],
    "policy.tau": {"range": {"from": -1.0, "to": 0.8, "step": 0.1}},
    "policy.schedule": ["static", "drs"],
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def cluster(folder, workers):
    """A scheduler and so many workers, each a process; yields the address and the processes."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"

    def start(what, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard"]
        with (folder / "cluster.log").open("ab") as log:
            return subprocess.Popen([*command, *options], cwd=folder, stdout=log, stderr=log)

    processes = [start("scheduler", "--host", "127.0.0.1", "--port", str(port))]
    processes += [start("worker", address, "--no-nanny", "--nthreads", "1") for _ in range(workers)]
    try:
        with distributed.Client(address, timeout=600, set_as_default=False) as client:
            if workers:
                client.wait_for_workers(workers, timeout=600)
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_until_workers(address, wanted):
    """Wait until the scheduler knows of so many workers: a fast sweep could end before."""
    with distributed.Client(address, timeout=600, set_as_default=False) as client:
        while len(client.nthreads()) != wanted:
            time.sleep(0.05)


def test_a_cluster_gives_the_same_answers_though_a_worker_is_killed(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(dask, "WATCH_S", 0.0)
    study = make_study(tmp_path, axes=AXES)
    expected = sweep(study, workers=0).drop(columns="seconds")
    killed = []
    with cluster(tmp_path, 3) as (address, (_, victim, *_others)):

        def kill_one(progress):
            if progress.evaluated and not killed:
                killed.append(progress.finished)
                victim.kill()
                wait_until_workers(address, 2)

        with open_folder(tmp_path / "out") as store:
            fill(store, study, scheduler=address, tell=kill_one)
            frame = frame_of(store).drop(columns="seconds")
    assert killed[0] < 114
    assert "is lost; 2 workers left; its points are evaluated again by others" in caplog.text
    pd.testing.assert_frame_equal(frame, expected)


def test_what_a_cluster_gives_up_is_evaluated_all_the_same(tmp_path, monkeypatch):
    """Dask cancels tasks when the last worker dies that holds the context."""
    study = make_study(tmp_path, axes=AXES)
    expected = sweep(study, workers=0).drop(columns="seconds")
    sent = []
    submit = distributed.cfexecutor.ClientExecutor.submit

    def submit_and_lose_the_third(self, *arguments):
        sent.append(submit(self, *arguments))
        if len(sent) == 3:
            sent[-1] = Future()
            sent[-1].cancel()
            sent[-1].set_running_or_notify_cancel()
        return sent[-1]

    monkeypatch.setattr(distributed.cfexecutor.ClientExecutor, "submit", submit_and_lose_the_third)
    with cluster(tmp_path, 1) as (address, _), Store() as store:
        fill(store, study, scheduler=address)
        frame = frame_of(store).drop(columns="seconds")
    assert len(sent) > 3
    pd.testing.assert_frame_equal(frame, expected)


def test_a_cluster_that_goes_away_is_one_line_and_loses_nothing(tmp_path, capfd):
    study = make_study(tmp_path, axes=AXES)
    with cluster(tmp_path, 1) as (address, (scheduler, _)):

        def kill_it(progress):
            if progress.evaluated:
                scheduler.kill()

        with open_folder(tmp_path / "out") as store:
            with pytest.raises(InputError, match="the scheduler is gone; start one, then the same"):
                fill(store, study, scheduler=address, tell=kill_it)
            assert 0 < len(store.finished()) < 114
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("tcp://127.0.0.1:1", "no Dask scheduler there"),
        ("nonsense://x", r"no Dask scheduler there \(unknown address scheme"),
        ("tls://127.0.0.1:1", "needs certificates"),
    ],
)
def test_no_scheduler_is_one_line(tmp_path, monkeypatch, address, problem):
    monkeypatch.setattr(dask, "CONNECT_S", 1)
    study = make_study(tmp_path)
    with Store() as store, pytest.raises(InputError, match=problem) as caught:
        fill(store, study, scheduler=address)
    assert "\n" not in str(caught.value)
    assert caught.value.place == f"`scheduler` {address}"


def test_a_scheduler_without_workers_is_one_line(tmp_path):
    study = make_study(tmp_path)
    with (
        cluster(tmp_path, 0) as (address, _),
        Store() as store,
        pytest.raises(InputError, match="the scheduler has no workers"),
    ):
        fill(store, study, scheduler=address)


def test_a_scheduler_that_goes_as_a_sweep_leaves_is_no_error(tmp_path, monkeypatch):
    study = make_study(tmp_path, axes=AXES)
    with cluster(tmp_path, 1) as (address, _):
        leaving = dask.Cluster(study, address)

        def lost(*_):
            raise distributed.comm.core.CommClosedError("Stream is closed")

        monkeypatch.setattr(leaving._client, "unregister_worker_plugin", lost)
        leaving.close()
        assert leaving._client.status == "closed"
