"""A study of the toy, whose points take milliseconds, and changes of its stores."""

import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from tiny import write_inputs

from carsim.explore import workers
from carsim.explore.evaluate import Evaluator, Row
from carsim.explore.points import Point
from carsim.explore.store import STORE_FILE, checksum
from carsim.explore.study import Study, load_study
from carsim.report.report import results

AXES = {
    "machine.cores": [1, 2, 4],
    "policy.tau": [-0.5, 0.0, 0.5],
    "policy.schedule": ["static", "drs"],
}


def write_study(folder: Path, **changes) -> Path:
    """Write ``study.yaml``, ``toy.yaml`` and ``toy.npz``; 18 points unless changed."""
    if not (folder / "toy.npz").exists():
        write_inputs(folder)
    study = {"name": "toy study", "design": "toy.yaml", "traces": ["toy.npz"], "axes": AXES}
    path = folder / "study.yaml"
    fields = {key: value for key, value in {**study, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    return path


def answers(found: Path | pd.DataFrame) -> pd.DataFrame:
    """Results of a sweep or of its folder, without the time that they took."""
    frame = found if isinstance(found, pd.DataFrame) else results(found).frame
    return frame.drop(columns="seconds")


def make_study(folder: Path, **changes: Any) -> Study:
    """:func:`write_study`, loaded."""
    return load_study(write_study(folder, **changes))


POISON = {"machine.cores": 2, "policy.tau": 0.0, "policy.schedule": "drs"}
usual_start = workers._start


def die(*_: Any) -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_sending(*_: Any) -> None:
    """End this process of a pool when it has sent the size of a result and none of its bytes."""
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals and frame.f_back:
        frame = frame.f_back
    frame.f_locals["result_queue"]._writer._send(struct.pack("!i", 100))
    die()


DEATHS = [die, die_sending]


def poisoned_start(death: Callable[[], None], *arguments: Any) -> None:
    """Start a worker process in which evaluating one point is deadly."""
    evaluate = Evaluator.evaluate

    def deadly(self: Evaluator, points: Sequence[Point]) -> list[Row]:
        if any(point.values == POISON for point in points):
            death()
        return evaluate(self, points)

    Evaluator.evaluate = deadly  # type: ignore[method-assign]
    usual_start(*arguments)


def restated(folder: Path, **facts: Any) -> None:
    """Change what a store says of its study, and its checksum with it."""
    first, *lines = (folder / STORE_FILE).read_bytes().splitlines(keepends=True)
    text = json.dumps(json.loads(first.split(b"\t")[1]) | facts).encode()
    first = checksum(text) + b"\t" + text + b"\n"
    (folder / STORE_FILE).write_bytes(b"".join([first, *lines]))


def spoilt(folder: Path, *numbers: int) -> None:
    """Change a figure in some lines of a store, of which the first is 1."""
    lines = (folder / STORE_FILE).read_bytes().splitlines(keepends=True)
    for number in numbers:
        assert b"\tok\t" in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(b"\tok\t", b"\tno\t")
    (folder / STORE_FILE).write_bytes(b"".join(lines))
