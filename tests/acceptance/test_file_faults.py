"""A full disk, a broken disk or a kill at every file operation in turn: nothing is half-written.

A hook of Python's audit counts the operations that change something in a folder: opening to write,
renaming, removing, making. At one of them the fault happens. Tests
take some of them; CARSIM_FILE_FAULTS=1 takes every one.
"""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from resource import RLIMIT_FSIZE, setrlimit
from typing import Any

import pytest
from commands import Ended, call
from explore_study import write_study

from carsim.report.report import results
from carsim.report.rescue import inspect

BYTES = 1500
"""Enough for a line of error."""

STEP = int(os.environ.get("CARSIM_FILE_FAULTS", "15"))
"""Of so many operations one is taken."""

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "sqlite3.connect"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def fails(code: int) -> None:
    raise OSError(code, os.strerror(code))


def is_cut_off() -> None:
    """From now on no file grows beyond some bytes: writes end in the middle, without an event."""
    setrlimit(RLIMIT_FSIZE, (BYTES, BYTES))


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


FAULTS: dict[str, Callable[[], None]] = {
    "full": partial(fails, errno.ENOSPC),
    "broken": partial(fails, errno.EIO),
    "cut off": is_cut_off,
    "killed": is_killed,
}


def hook(folder: Path, number: int, fault: str, reached: Path) -> None:
    """In the process of a command: let a fault happen at an operation, and leave a file then."""
    done, here = 0, str(folder.resolve())
    note = os.open(reached, os.O_WRONLY | os.O_CREAT)

    def operation() -> None:
        nonlocal done
        done += 1
        if done == number + 1:
            os.write(note, b"reached")
            FAULTS[fault]()

    def audit(event: str, args: tuple[Any, ...]) -> None:
        changes = event in CHANGES or (event == "open" and args[2] & WRITES)
        if changes and not isinstance(args[0], int):
            path = os.path.abspath(os.fsdecode(args[0]))  # noqa: PTH100 - of any string
            if path.startswith(here):
                operation()

    sys.addaudithook(audit)


COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "toy.yaml", "--trace", "toy.npz", "--out", "OUT/ran"),
    "run again": ("run", "toy.yaml", "--trace", "toy.npz", "--out", "OUT/ran", "--overwrite"),
    "sweep": ("sweep", "study.yaml", "--out", "OUT/swept", "--workers", "0"),
    "report": ("report", "OUT/ran", "--out", "OUT/page.html"),
    "rescue": ("report", "OUT/damaged", "--rescue", "OUT/new"),
}
AGAIN = {"run": "run again"}
"""Commands that go on where others were broken off; the rest do so themselves."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs, and what commands make of them undisturbed in ``OUT``."""
    folder = tmp_path_factory.mktemp("faults")
    write_study(folder, axes={"machine.cores": [1, 2, 4]})
    (folder / "OUT").mkdir()
    for name in ("run", "sweep"):
        assert ended(folder, name).status == 0
    return folder


def ended(folder: Path, name: str, before: Callable[[], None] = lambda: None) -> Ended:
    def go() -> None:
        os.chdir(folder)
        before()

    return call(*COMMANDS[name], before=go)


def prepare(given: Path, folder: Path, name: str) -> None:
    """What a command finds."""
    for each in ("toy.yaml", "toy.npz", "study.yaml"):
        shutil.copy(given / each, folder)
    (folder / "OUT").mkdir()
    if name in ("run again", "report"):
        shutil.copytree(given / "OUT" / "ran", folder / "OUT" / "ran")
    if name == "rescue":
        shutil.copytree(given / "OUT" / "ran", folder / "OUT" / "damaged")
        (folder / "OUT" / "damaged" / "comparison.csv").write_text("damaged")


def contents(folder: Path) -> list[str]:
    """What readers make of all results; folders that are there are whole."""
    found = []
    for each in sorted(folder.iterdir()):
        if each.is_dir() and each.name not in ("damaged", "new") and not each.name.startswith("."):
            if each.name == "ran":
                assert set(inspect(each).values()) == {""}
                found.append(repr(results(each)))
            elif (each / "store.txt").exists():
                found.append(results(each).frame.drop(columns="seconds").to_csv())
    return found


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_operation_leaves_nothing_half_written(given, tmp_path, name, fault):
    whole: list[str] = []
    step = 1 if name == "report" else STEP  # which has a few
    for number in range((len(name) + len(fault)) % step, 10_000, step):
        folder = tmp_path / str(number)
        folder.mkdir()
        prepare(given, folder, name)
        reached = tmp_path / f"reached-{number}"
        with_fault = ended(folder, name, lambda: hook(folder / "OUT", number, fault, reached))  # noqa: B023
        if not reached.read_bytes():
            assert with_fault.status == 0
            break
        if fault != "killed":
            assert with_fault.finding == "", number
            assert with_fault.status in (0, 2), number
        elif "swept" not in COMMANDS[name][3]:
            contents(folder / "OUT")
        if name == "rescue" and (folder / "OUT" / "new").exists():
            continue
        if name == "report" and with_fault.status == 0:  # the page was whole before
            continue
        assert ended(folder, AGAIN.get(name, name)).status == 0, number
        assert not [path for path in (folder / "OUT").iterdir() if path.name.startswith(".")]
        whole = whole or contents(folder / "OUT")
        assert contents(folder / "OUT") == whole, number
    else:
        pytest.fail("no end")
