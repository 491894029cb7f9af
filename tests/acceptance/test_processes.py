"""What happens around a process: its terminal, its user's folders, its limits, its clock."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from resource import RLIMIT_NOFILE, setrlimit

import pytest
from explore_study import write_study

from carsim.report.report import results

SWEEP = ("sweep", "study.yaml", "--out", "out", "--workers", "2")
RUN = ("run", "toy.yaml", "--trace", "toy.npz")
FIGURE = ("report", "ran", "--plot", "breakdown", "--out", "figure.svg")

CLOCK = """
import itertools, time
turn, real = itertools.count(), time.time
time.time = lambda: real() - 3600 * next(turn)
"""
NO_SHARED_MEMORY = """
import _multiprocessing
class Absent:
    SEM_VALUE_MAX = 1
    def __init__(self, *_):
        raise OSError(38, "Function not implemented")
_multiprocessing.SemLock = Absent
"""
MAIN = "\nif __name__ == '__main__':\n    from carsim.cli import main\n    main()\n"
FEW, TOO_FEW = (partial(setrlimit, RLIMIT_NOFILE, (n, n)) for n in (64, 16))
UTF_8_OFF = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_study(tmp_path)
    return tmp_path


def begin(
    folder: Path,
    arguments: tuple[str, ...],
    environment: Mapping[str, str | None] | None = None,
    first: str = "",
    before: Callable[[], object] | None = None,
) -> "subprocess.Popen[str]":
    """Start a command; of the environment, what is None is removed."""
    (folder / "main.py").write_text(first + MAIN)
    changed = {**os.environ, **(environment or {})}
    return subprocess.Popen(
        [sys.executable, "main.py", *arguments],
        cwd=folder,
        env={name: value for name, value in changed.items() if value is not None},
        preexec_fn=before,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("arguments", "how"),
    [
        (FIGURE, {"environment": {"HOME": None}}),
        (FIGURE, {"environment": {"HOME": "/proc", "XDG_CACHE_HOME": None}}),
        (RUN, {"environment": {"LC_ALL": "C", **UTF_8_OFF}}),
        (RUN, {"environment": {"LC_ALL": "tr_TR.UTF-8"}}),
        (SWEEP, {"environment": {"TMPDIR": "/none"}}),
        (SWEEP, {"first": CLOCK}),
        (SWEEP, {"before": FEW}),
    ],
    ids=str,
)
def test_surroundings_change_nothing(folder: Path, arguments: tuple[str, ...], how) -> None:
    if arguments is FIGURE:
        begin(folder, (*RUN, "--out", "ran")).communicate()
    process = begin(folder, arguments, **how)
    said, error = process.communicate()
    assert (process.returncode, error) == (0, "")
    if arguments is SWEEP:
        assert len(results(folder / "out").frame) == 18
    if arguments is RUN:
        plain, _ = begin(folder, RUN).communicate()
        assert re.findall(r"\d[\d.,]*", said) == re.findall(r"\d[\d.,]*", plain)


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"before": TOO_FEW}, "open files: cannot be used (Too many open files); allow more with"),
        (
            {"first": NO_SHARED_MEMORY},
            "shared memory of processes: cannot be used (Function not im",
        ),
    ],
    ids=str,
)
def test_what_a_sweep_lacks_is_named(folder: Path, how, line: str) -> None:
    process = begin(folder, SWEEP, **how)
    _, error = process.communicate()
    assert process.returncode == 2
    assert line in error
    assert error.count("\n") == 1


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


hang_up = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)
ignore_hang_up = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
"""As nohup does."""


@pytest.mark.parametrize(
    ("number", "before", "status"),
    [
        (signal.SIGHUP, hang_up, 129),
        (signal.SIGTERM, hang_up, 143),
        (signal.SIGINT, hang_up, 130),
        (signal.SIGHUP, ignore_hang_up, 0),
        (signal.SIGSTOP, hang_up, 0),
    ],
)
def test_a_sweep_that_gets_a_signal_ends_or_goes_on(folder, number, before, status):
    """The whole group gets it, as from a terminal; one that is stopped is continued."""
    axes = {"machine.cores": [1, 2, 4], "policy.tau": {"range": [-1.0, 0.9, 0.1]}}
    write_study(folder, axes=axes)
    process = begin(folder, SWEEP, before=before)
    while not (folder / "out" / "store.txt").exists():
        time.sleep(0.01)
    os.killpg(process.pid, number)
    if number == signal.SIGSTOP:
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGCONT)
    _, error = process.communicate()
    assert process.returncode == status
    goes_on = "carsim: interrupted; nothing was half-written; the same command goes on where it was"
    assert error.strip() == (goes_on if status else "")
    until = time.monotonic() + 20
    while is_alive(process.pid):
        assert time.monotonic() < until, "a worker is left"
        time.sleep(0.02)
    assert begin(folder, SWEEP).communicate()[1] == ""
    assert len(results(folder / "out").frame) == 60
