"""A night's work: a sweep that is interrupted in four ways, extended twice, and made in shards.

It takes over a minute, so it runs with CARSIM_LONG and has 360 points then; ``CARSIM_NIGHT=50000``
makes a study of about so many.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from explore_study import write_study

from carsim.explore.store import STORE_FILE, open_store

pytestmark = pytest.mark.skipif(
    not {"CARSIM_LONG", "CARSIM_NIGHT"} & os.environ.keys(),
    reason="over a minute; set CARSIM_LONG or CARSIM_NIGHT",
)

POINTS = int(os.environ.get("CARSIM_NIGHT", "360"))
THRESHOLDS = max(3, POINTS // 24)
SHARDS = 3
WAIT_S = 3600

WHOLE: dict[str, Any] = {
    "policy.tau": {"range": {"from": -1.0, "to": 1.0, "points": THRESHOLDS}},
    "machine.cores": [1, 2, 4],
    "policy.schedule": ["static", "drs"],
    "machine.array.cols": [4, 8],
    "policy.batch": [2, 4],
}
"""Axes of the study in the end."""

FIRST = {name: values for name, values in WHOLE.items() if name != "machine.array.cols"}
FIRST = {**FIRST, "machine.cores": [1, 4]}
"""Axes at first: one axis and one value fewer."""

SECOND = {**FIRST, "machine.cores": [1, 2, 4]}


def command(folder: Path, out: Path, *options: str) -> list[str]:
    study = str(folder / "study.yaml")
    return [sys.executable, "-m", "carsim", "sweep", study, "--out", str(out), *options]


def n_stored(out: Path) -> int:
    """Lines of results of a store, whoever writes it."""
    path = out / STORE_FILE
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def fill_the_disk(out: Path) -> Callable[[], None]:
    """Let no file grow by more than some results, as if the disk were full."""
    size = (out / STORE_FILE).stat().st_size if out.exists() else 0

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        most = max(size, 4096) + 200_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return limit


def interrupt(folder: Path, out: Path, how: str) -> None:
    """Begin a sweep, and end it in the middle."""
    before = n_stored(out)
    limit = fill_the_disk(out) if how == "full disk" else None
    sent = {"Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM, "kill": signal.SIGKILL}
    # Two processes work; all of them are one group, which is killed as a whole.
    process = subprocess.Popen(
        command(folder, out, "--workers", "2"),
        preexec_fn=limit,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    until = time.monotonic() + WAIT_S
    while how in sent and process.poll() is None and n_stored(out) <= before:
        assert time.monotonic() < until
        time.sleep(0.01)
    if how == "Ctrl-C":
        process.send_signal(sent[how])
    elif how in sent and process.poll() is None:
        os.killpg(process.pid, sent[how])
    _, said = process.communicate(timeout=WAIT_S)
    assert process.returncode != 0 or n_stored(out) > before
    assert "Traceback" not in said
    if how == "full disk" and process.returncode:
        assert "start the same command again" in said


def finished(folder: Path, out: Path, *options: str) -> None:
    done = subprocess.run(
        command(folder, out, "--workers", "2", *options),
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stderr


def table(out: Path) -> pd.DataFrame:
    """The exported table in the order of the designs, without the time that points took."""
    frame = pd.read_csv(out / "points.csv")
    return frame.drop(columns="seconds").sort_values([*WHOLE]).reset_index(drop=True)


@pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of Unix")
def test_a_night_that_is_disturbed_ends_as_one_that_is_not(tmp_path: Path) -> None:
    out = tmp_path / "night"
    write_study(tmp_path, axes=FIRST)
    interrupt(tmp_path, out, "Ctrl-C")
    interrupt(tmp_path, out, "kill")
    finished(tmp_path, out)
    write_study(tmp_path, axes=SECOND)
    interrupt(tmp_path, out, "full disk")
    finished(tmp_path, out)
    write_study(tmp_path, axes=WHOLE)
    interrupt(tmp_path, out, "SIGTERM")
    finished(tmp_path, out)
    with open_store(out) as store:
        assert not store.damaged
    finished(tmp_path, tmp_path / "whole")
    expected = table(tmp_path / "whole")
    assert len(expected) == THRESHOLDS * 24
    pd.testing.assert_frame_equal(table(out), expected, check_exact=True)
    folders = [tmp_path / f"part{number}" for number in range(1, SHARDS + 1)]
    for number, part in enumerate(folders, 1):
        finished(tmp_path, part, "--shard", f"{number}/{SHARDS}")
    joined = tmp_path / "joined"
    merge = [sys.executable, "-m", "carsim", "merge", *map(str, folders), "--out", str(joined)]
    subprocess.run(merge, check=True, capture_output=True)
    pd.testing.assert_frame_equal(table(joined), expected, check_exact=True)
