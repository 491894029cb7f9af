"""The frozen result of a run: the rows of a comparison and all that was found beside them."""

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

from carsim.account.elasticity import Elasticity
from carsim.account.limits import PhaseLimit
from carsim.account.row import RowResult
from carsim.account.why import Why, why
from carsim.base.text import SCREEN_WIDTH, Table, html_table
from carsim.cost.fit import FitReport
from carsim.design import Design
from carsim.hardware.expected import Expected
from carsim.metrics import figures, headline

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
        head_misfits: Of a design that leaves the head out, what would not fit with it, a line each.
        traces: (name, sha256) of the traces.
        seed: Seed of resampling.
        phases_simulated: Phases that the rows are made of; rows share what they have in common.
        interpolated: The times of some phases were taken from those of shorter and longer ones.
        command: The command that repeats it; empty for a run from Python.
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
    command: str = ""
    head_misfits: tuple[str, ...] = ()

    @property
    def dense_latency_s(self) -> float:
        """Latency of dense decoding."""
        return self.baseline.latency_s

    @property
    def expected(self) -> Expected:
        """Time on a real board over the time that is simulated."""
        return self.design.expected

    @property
    def baseline(self) -> RowResult:
        """Dense decoding, which speed-ups refer to."""
        return self.rows[0]

    @property
    def bound(self) -> RowResult:
        """The bound of the design's own decisions."""
        return self.rows[-1]

    def row(self, name: str) -> RowResult:
        """The row of a name or key.

        Raises:
            KeyError: No such row.
        """
        by_key = {row.variant.key: row for row in self.rows}
        return ({row.variant.name: row for row in self.rows} | by_key)[name]

    def to_frame(self) -> "pd.DataFrame":
        """The comparison: a row per policy, a column per metric, and what the policy is."""
        rows = [
            {
                "policy": row.variant.name,
                "key": row.variant.key,
                "attention": row.variant.attention.kind,
                "schedule": "bound" if row.is_bound else row.variant.schedule,
                **figures(row, self),
            }
            for row in self.rows
        ]
        return _frame(rows, "policy")

    def breakdown(self) -> "pd.DataFrame":
        """Seconds of a batch by category, a column per simulated row."""
        import pandas as pd

        rows = (row for row in self.rows if not row.is_bound)
        return pd.DataFrame({row.variant.name: row.seconds_by_category for row in rows})

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
        return frame / (self.design.board.fabric_clock_mhz * 1e6 * self.chosen.n_batches)

    def phases(self) -> "pd.DataFrame":
        """Seconds of a batch by kind of phase, a column per row, bound included."""
        import pandas as pd

        columns = {row.variant.name: row.seconds_by_phase for row in self.rows}
        return pd.DataFrame(columns).rename_axis("phase")

    def why(self, phase: str, row: str | None = None) -> Why:
        """Why a kind of phase takes as long as it does: amounts times rates; print it.

        Args:
            phase: Kind of phase, such as ``attention``.
            row: Name or key of a row; the chosen one if left out.

        Raises:
            InputError: The row has no such phase.
            KeyError: No such row.
        """
        return why(self.chosen if row is None else self.row(row), phase)

    @property
    def limits(self) -> tuple[PhaseLimit, ...]:
        """The limit of each phase of the chosen row."""
        return self.chosen.limits

    def limits_frame(self) -> "pd.DataFrame":
        """The limit of each phase of the chosen row, a line per phase."""
        return _frame(self.limits, "phase")

    def elasticities_frame(self) -> "pd.DataFrame":
        """Relative changes per +10 % of each resource: of the chosen row's latency, of its prompt.

        Column ``enlargement`` has the share by which the resource was enlarged for it.
        """
        rows = [astuple(elasticity) for elasticity in self.elasticities]
        columns = ["latency_change", "simulated", "enlargement", "prompt_change"]
        return _frame(rows, "resource", ["resource", *columns])

    def fit_frame(self) -> "pd.DataFrame":
        """Resources of the board that the design takes, a line per thing that has to fit."""
        rows = [(r.what, r.needed, r.available, r.unit, r.ok, r.detail) for r in self.fit.rows]
        return _frame(rows, "what", ["what", "needed", "available", "unit", "fits", "detail"])

    def __repr__(self) -> str:
        mark = "" if self.fit.fits else ", MISFIT"
        return f"<Report of {self.design.name}{mark}: {self.chosen!r}>"

    def __str__(self) -> str:
        """The headline of the comparison at 80 columns, misfits first; ``*`` marks the own row."""
        table = self._headline_table
        rows = tuple(
            (f"{row[0]} *" if number in table.strong else row[0], *row[1:])
            for number, row in enumerate(table.rows)
        )
        return "\n".join([*self._title_lines, *replace(table, rows=rows).lines(SCREEN_WIDTH)])

    def _repr_html_(self) -> str:
        """A notebook shows the headline of the comparison, misfits first."""
        # Notebooks have no style sheet.
        bold = html_table(self._headline_table)
        bold = bold.replace('class="strong"', 'style="font-weight: bold"')
        return "<br>".join(f"<b>{html.escape(line)}</b>" for line in self._title_lines) + bold

    @property
    def _headline_table(self) -> Table:
        """The headline metrics of all rows; the own row is strong."""
        metrics = headline(self.chosen.simulation.plan.video.kind)
        return Table(
            ("policy", *(metric.short or metric.heading for metric in metrics)),
            tuple(
                (row.variant.name, *(metric.text(metric.of(row, self)) for metric in metrics))
                for row in self.rows
            ),
            strong=frozenset({self.rows.index(self.chosen)}),
        )

    @property
    def _title_lines(self) -> tuple[str, ...]:
        """The design, and what does not fit."""
        design = self.design
        title = f"{design.name} on {design.board.name}, batch of {design.policy.batch}"
        return (title, *(f"MISFIT: {line}" for line in self.fit.misfits))


def _frame(rows: Sequence[Any], index: str, columns: list[str] | None = None) -> "pd.DataFrame":
    """Rows as a frame, by one of their columns."""
    import pandas as pd

    return pd.DataFrame(rows, columns=columns).set_index(index)
