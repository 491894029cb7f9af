"""The simulator: a design and traces in, a report out."""

from carsim.machine.compare import run
from carsim.machine.result import Report, RowResult
from carsim.machine.speculation import Speculation, speculate, tokens_kept

__all__ = ["Report", "RowResult", "Speculation", "run", "speculate", "tokens_kept"]
