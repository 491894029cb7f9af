"""Files of a measurement, and how their rows are read."""

import csv
from io import StringIO
from pathlib import Path

from carsim.base.errors import InputError
from carsim.base.files import read_text

HOST = "host.yaml"
"""Design of the machine, with one worker."""

SETUP = "setup.yaml"
"""File that says what was measured, on which machine, and with which libraries."""

SAMPLES = "samples.csv"
"""Raw times."""

BLOCKS = "blocks.csv"
"""Dense times of blocks by rows."""

REPLAY = "replay.csv"
"""Measured speed-ups by replay."""

NOISE = "noise.csv"
"""Dense against dense."""

TRACES = "traces"
"""Folder of the decisions."""

MAX_BYTES = 10_000_000


def dense_file(workers: int) -> str:
    """Name of the dense speeds of a number of workers, as ``carsim calibrate`` reads them."""
    return "dense.csv" if workers == 1 else f"dense_{workers}_workers.csv"


def rows_in(file: Path) -> list[dict[str, str]]:
    """Rows of a CSV file by column.

    Raises:
        InputError: It cannot be read, or has no rows.
    """
    text = read_text(file, MAX_BYTES, "measure again: carsim measure --out DIR")
    rows = list(csv.DictReader(StringIO(text)))
    if not rows or any(None in row or None in row.values() for row in rows):
        raise InputError(str(file), "has no rows or broken ones", "measure again")
    return rows
