"""Raw times: a line per worker count, round, setting and step, in ``samples.csv``.

A round visits every step of every setting once, in random order. Rounds are appended whole, so that
a measurement that is stopped keeps what it has, and is continued by the same command.
"""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.files import read_text, unwritable
from carsim.measure.settings import Setting

COLUMNS = ("workers", "round", "setting", "step", "attention_us", "mlp_us")

MAX_BYTES = 500_000_000

Times = NDArray[np.float64]
"""Microseconds by round, setting, step, and block (attention, MLP): [R, settings, S, 2]."""


def append_round(
    file: Path, workers: int, number: int, settings: Sequence[Setting], times: Times
) -> None:
    """Append one round.

    Args:
        file: ``samples.csv``; it is made if it is absent.
        workers: Worker processes.
        number: Number of the round.
        settings: What was timed.
        times: Microseconds, [settings, S, 2].

    Raises:
        InputError: It cannot be written.
    """
    lines = [] if file.exists() else [",".join(COLUMNS)]
    for setting, of_setting in zip(settings, times, strict=True):
        for step, (attention_us, mlp_us) in enumerate(of_setting):
            where = f"{workers},{number},{setting.name},{step}"
            lines.append(f"{where},{attention_us:.3f},{mlp_us:.3f}")
    text = "\n".join(lines) + "\n"
    try:
        if not file.exists():
            file.write_text(text, encoding="utf-8")
            return
        with file.open("r+b") as stream:
            # An abort may have cut off the last line.
            stream.truncate(len(_whole_lines(stream.read())))
            stream.seek(0, os.SEEK_END)
            stream.write(text.encode())
    except OSError as error:
        raise unwritable(file, error) from None


def read_rounds(file: Path, workers: int, settings: Sequence[Setting], n_steps: int) -> Times:
    """Complete rounds of some workers; a round that an abort cut off is left out.

    Returns:
        Times, [R, settings, S, 2]; R is 0 if there is no file.

    Raises:
        InputError: Lines that do not belong to these settings.
    """
    shape = (len(settings), n_steps, 2)
    if not file.exists():
        return np.empty((0, *shape))
    index_of = {setting.name: index for index, setting in enumerate(settings)}
    rounds: dict[int, Times] = {}
    text = _whole_lines(read_text(file, MAX_BYTES).encode()).decode()
    lines = csv.DictReader(text.splitlines())
    for line in lines:
        if line["workers"] != str(workers):
            continue
        try:
            times = rounds.setdefault(int(line["round"]), np.full(shape, np.nan))
            visit = (index_of[line["setting"]], int(line["step"]))
            times[visit] = (float(line["attention_us"]), float(line["mlp_us"]))
        except (KeyError, ValueError, TypeError, IndexError):
            problem = f"line {lines.line_num} belongs to no setting of this measurement"
            raise InputError(str(file), problem, "name another folder") from None
    complete = [times for _, times in sorted(rounds.items()) if not np.isnan(times).any()]
    return np.array(complete).reshape((-1, *shape))


def _whole_lines(data: bytes) -> bytes:
    """Bytes up to the last end of a line."""
    return data[: data.rfind(b"\n") + 1]
