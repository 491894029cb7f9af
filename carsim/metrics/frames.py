"""A report as frames of pandas, and as the compact tables that a notebook shows."""

import html
from typing import TYPE_CHECKING

from carsim.base.text import Table, html_table
from carsim.metrics.table import METRICS, figures

if TYPE_CHECKING:
    import pandas as pd  # 0.2 s; imported by those who ask for frames

    from carsim.machine.row import RowResult
    from carsim.metrics.metric import Compared

NOTEBOOK_REPORT = (
    *("seconds_per_video", "speedup", "energy_per_video_j"),
    *("replay_eligible", "busy", "memory_utilisation"),
)


def report_frame(report: "Compared") -> "pd.DataFrame":
    """The comparison: a row per policy, a column per metric, and what the policy is."""
    import pandas as pd

    rows = [
        {
            "policy": row.variant.name,
            "key": key_of(row),
            "attention": row.variant.attention.kind,
            "schedule": "bound" if row.is_bound else row.variant.schedule,
            **figures(row, report),
        }
        for row in report.rows
    ]
    return pd.DataFrame(rows).set_index("policy")


def key_of(row: "RowResult") -> str:
    """Stable identity of a row within its report, such as ``replay/drs`` or ``bound``."""
    return "bound" if row.is_bound else row.variant.key


def breakdown_frame(report: "Compared") -> "pd.DataFrame":
    """Seconds of a batch by category, a column per simulated row."""
    import pandas as pd

    rows = (row for row in report.rows if not row.is_bound)
    return pd.DataFrame({row.variant.name: row.seconds_by_category for row in rows})


def phases_frame(report: "Compared") -> "pd.DataFrame":
    """Seconds of a batch by kind of phase, a column per row, bound included."""
    import pandas as pd

    columns = {row.variant.name: row.seconds_by_phase for row in report.rows}
    return pd.DataFrame(columns).rename_axis("phase")


def steps_frame(report: "Compared") -> "pd.DataFrame":
    """Cycles of every layer-step of the chosen row; empty for runs without ``detail``.

    Columns: batch, step, layer, computing_sequences, and the cycles of each kind of phase.
    """
    import pandas as pd

    cycles = report.chosen.simulation.phase_cycles
    if not cycles:
        return pd.DataFrame()
    shape = next(iter(cycles.values())).shape
    index = pd.MultiIndex.from_product([range(n) for n in shape], names=["batch", "step", "layer"])
    computing = (~report.chosen.batches.replay).sum(axis=-1)
    columns = {"computing_sequences": computing.ravel().astype("int16")}
    columns |= {f"{phase}_cycles": array.ravel() for phase, array in cycles.items()}
    return pd.DataFrame(columns, index=index).reset_index()


def limit_records(report: "Compared") -> list[dict[str, str | float]]:
    """What limits each phase of the chosen row; shares are of the phase's own time."""
    return [
        {
            "phase": limit.phase,
            "share_of_time": limit.cycles / report.chosen.cycles,
            "limited_by": limit.limit,
            "compute_share": limit.compute_cycles / limit.cycles,
            "memory_share": limit.memory_cycles / limit.cycles,
            "port_share": limit.port_cycles / limit.cycles,
            "dependency_share": limit.dependency_cycles / limit.cycles,
            "flip_gbps": limit.flip_gbps,
            "flip_macs_per_cycle": limit.flip_macs_per_cycle,
        }
        for limit in report.limits
    ]


def limits_frame(report: "Compared") -> "pd.DataFrame":
    """The records of :func:`limit_records`, by phase."""
    import pandas as pd

    return pd.DataFrame(limit_records(report)).set_index("phase")


def elasticities_frame(report: "Compared") -> "pd.DataFrame":
    """Relative change of the chosen row's latency per +10 % of each resource."""
    import pandas as pd

    columns = ["resource", "latency_change", "simulated"]
    rows = [(each.resource, each.change, each.simulated) for each in report.elasticities]
    return pd.DataFrame(rows, columns=columns).set_index("resource")


def fit_frame(report: "Compared") -> "pd.DataFrame":
    """What the design takes of the board, a line per thing that has to fit."""
    import pandas as pd

    columns = ["what", "needed", "available", "unit", "fits", "detail"]
    rows = [
        (row.what, row.needed, row.available, row.unit, row.ok, row.detail)
        for row in report.fit.rows
    ]
    return pd.DataFrame(rows, columns=columns).set_index("what")


def report_html(report: "Compared") -> str:
    """The comparison in few columns, the design's own policy in bold, misfits first."""
    metrics = [METRICS[name] for name in NOTEBOOK_REPORT]
    table = Table(
        ("policy", *(metric.heading for metric in metrics)),
        tuple(
            (row.variant.name, *(metric.text(metric.of(row, report)) for metric in metrics))
            for row in report.rows
        ),
        strong=frozenset({report.rows.index(report.chosen)}),
    )
    design = report.design
    title = f"{design.name} on {design.board.name}, batch of {design.policy.batch}"
    lines = [title, *(f"MISFIT: {line}" for line in report.fit.misfits)]
    bold = html_table(table).replace(
        '<tr class="strong">', '<tr style="font-weight: bold">'
    )  # no style sheet
    return "<br>".join(f"<b>{html.escape(line)}</b>" for line in lines) + bold
