"""The simulator: a design and traces in, a report out."""

from carsim.machine.compare import run
from carsim.machine.result import Report, RowResult

__all__ = ["Report", "RowResult", "run"]
