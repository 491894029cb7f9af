"""The frozen result of a run: the rows of a comparison and all that was found beside them."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carsim.cost.fit import FitReport
from carsim.design import Design
from carsim.machine.elasticity import Elasticity
from carsim.machine.limits import PhaseLimit
from carsim.machine.row import RowResult
from carsim.metrics import frames

if TYPE_CHECKING:
    import pandas as pd  # 0.2 s; imported by those who ask for frames


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """All that a run found.

    Attributes:
        design: The design.
        rows: The comparison, dense first, bound last.
        chosen: The row of the design's own policy.
        fit: Fit of the design on its board.
        elasticities: Changes of the chosen row's latency with the machine's resources.
        head_seconds: Seconds of the head per batch, also if the design leaves it out.
        traces: (name, sha256) of the traces.
        seed: Seed of resampling.
        phases_simulated: Phases that the rows are made of; rows share what they have in common.
        interpolated: The times of some phases were taken from those of shorter and longer ones.
        mapped_from: Layers of traces whose decisions were mapped to the model's by relative depth.
    """

    design: Design
    rows: tuple[RowResult, ...]
    chosen: RowResult
    fit: FitReport
    elasticities: tuple[Elasticity, ...]
    head_seconds: float
    traces: tuple[tuple[str, str], ...]
    seed: int
    phases_simulated: int
    interpolated: bool
    mapped_from: tuple[int, ...] = ()

    @property
    def baseline(self) -> RowResult:
        """Dense decoding, which speed-ups refer to."""
        return self.rows[0]

    @property
    def limits(self) -> tuple[PhaseLimit, ...]:
        """The limit of each phase of the chosen row."""
        return self.chosen.limits

    @property
    def bound(self) -> RowResult:
        """The bound of the design's own decisions."""
        return self.rows[-1]

    def row(self, name: str) -> RowResult:
        """The row of a name or key.

        Raises:
            KeyError: No such row.
        """
        for row in self.rows:
            if name in (row.variant.name, row.variant.key):
                return row
        raise KeyError(name)

    def to_frame(self) -> "pd.DataFrame":
        """The comparison: a row per policy, a column per metric of ``carsim.metrics``."""
        return frames.report_frame(self)

    def breakdown(self) -> "pd.DataFrame":
        """Seconds of a batch by category, a column per simulated row."""
        return frames.breakdown_frame(self)

    def accounts(self) -> "pd.DataFrame":
        """Seconds of a batch that each core and port of the chosen row spends in each state.

        Rows: phases, and all of them; cores and ports. Columns: busy, waiting on whom, idle; they
        sum to the phase's time.
        """
        import pandas as pd

        by_place: dict[tuple[str, str], Counter[str]] = {}
        for phase, tracks in self.chosen.accounts.items():
            for track, states in tracks.items():
                for place in ((phase, track), ("all", track)):
                    by_place.setdefault(place, Counter()).update(states)
        frame = pd.DataFrame.from_dict(by_place, orient="index").rename_axis(["phase", "track"])
        seconds = self.design.board.fabric_clock_mhz * 1e6 * self.chosen.n_batches
        return frame / seconds

    def steps(self) -> "pd.DataFrame":
        """Cycles of every layer-step of the chosen row (only of runs with ``detail``)."""
        return frames.steps_frame(self)

    def phases(self) -> "pd.DataFrame":
        """Seconds of a batch by kind of phase, a column per row."""
        return frames.phases_frame(self)

    def limits_frame(self) -> "pd.DataFrame":
        """The limits of the chosen row by phase."""
        return frames.limits_frame(self)

    def elasticities_frame(self) -> "pd.DataFrame":
        """Relative change of latency per +10 % of each resource."""
        return frames.elasticities_frame(self)

    def fit_frame(self) -> "pd.DataFrame":
        """Resources of the board that the design takes."""
        return frames.fit_frame(self)

    def __repr__(self) -> str:
        mark = "" if self.fit.fits else ", MISFIT"
        return f"<Report of {self.design.name}{mark}: {self.chosen!r}>"

    def _repr_html_(self) -> str:
        """A notebook shows the comparison."""
        return frames.report_html(self)
