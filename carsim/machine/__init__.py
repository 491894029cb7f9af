"""The simulator: a design and traces in, a report out."""

from carsim.machine.speculation import Speculation, speculate, tokens_kept
from carsim.runs.pipeline import run
from carsim.runs.result import Report, RowResult

__all__ = ["Report", "RowResult", "Speculation", "run", "speculate", "tokens_kept"]
