"""A bench: measure any design on one workload, keeping what designs share.

Unlike a study, a bench needs no axes: it takes designs as they come.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any

from carsim.account.row import RowResult
from carsim.base.errors import InputError
from carsim.cost.fit import FitReport
from carsim.decisions.choose import Sources
from carsim.decisions.trace import Trace
from carsim.design import Design
from carsim.explore.evaluate import Asked, Fitted, Machines
from carsim.explore.expression import Expression
from carsim.metrics import Setting, Value, figures
from carsim.runs.pipeline import fit_of, sources_of
from carsim.workload.workload import Workload

FIDELITY = "fluid"


@dataclass(frozen=True, eq=False)
class Measured:
    """A design that was simulated on the workload of a bench.

    Attributes:
        design: The design.
        fit: What it takes of its board.
        row: Its simulation.
    """

    design: Design
    fit: FitReport
    row: RowResult

    @cached_property
    def figures(self) -> dict[str, Value]:
        """All metrics by name."""
        return figures(self.row, Setting(self.design, self.fit))

    def meets(self, condition: Expression) -> bool:
        """The condition holds; a metric without a value meets nothing."""
        numbers = {name: nan if value is None else value for name, value in self.figures.items()}
        return condition.holds(numbers.__getitem__)


class Bench:
    """Measures designs on one workload.

    Args:
        workload: What is decoded; None: what the model makes.

    Attributes:
        simulated: Designs that were simulated.
    """

    def __init__(self, workload: Workload | None) -> None:
        self._workload = workload
        self._machines = Machines(FIDELITY)
        self._traces: dict[tuple[str, int], tuple[Trace, ...]] = {}
        self._sources: dict[tuple[Any, ...], Sources] = {}
        self.simulated = 0

    def sources(self, design: Design) -> Sources:
        """Decisions of the workload for a design.

        Raises:
            InputError: The workload does not suit the design.
        """
        policy = design.policy
        trace_key = (design.model.as_json, policy.batch)
        key = (*trace_key, policy.tau, policy.decision_scope, policy.tokens_per_step)
        if key not in self._sources:
            if trace_key not in self._traces:
                self._traces[trace_key] = tuple(sources_of(design, (), self._workload).traces)
            self._sources[key] = sources_of(design, self._traces[trace_key])
        return self._sources[key]

    def fitted(self, design: Design) -> Fitted:
        """A design with its decisions and its fit, not simulated.

        Raises:
            InputError: The workload does not suit the design.
        """
        sources = self.sources(design)
        video = sources.video
        sources.check_sets(video)
        fit = fit_of(design, sources, video, sources.replays_any)
        return Fitted(Asked(design, sources, video, replays=sources.replays_any), fit)

    def measure(self, fitted: Sequence[Fitted]) -> list[Measured | InputError]:
        """Simulate designs, whether or not they fit; the error stands for one that is refused."""
        try:
            rows = self._machines.rows(fitted)
        except InputError as error:
            if len(fitted) == 1:
                return [error]
            # One of them is refused: each is simulated alone.
            return [result for design in fitted for result in self.measure([design])]
        self.simulated += len(rows)
        return [
            Measured(design.asked.design, design.fit, row)
            for design, row in zip(fitted, rows, strict=True)
        ]
