"""Results as frames of pandas, and as the compact tables that a notebook shows."""

import html
from typing import TYPE_CHECKING

from carsim.text import Figure, html_table, number, percent

if TYPE_CHECKING:
    import pandas as pd

    from carsim.machine.result import Report, RowResult


def phases_frame(report: "Report") -> "pd.DataFrame":
    """Seconds of a batch by kind of phase, a column per row of the comparison, bound included."""
    import pandas as pd

    columns = {row.variant.name: row.seconds_by_phase for row in report.rows}
    return pd.DataFrame(columns).rename_axis("phase")


def limit_records(report: "Report") -> list[dict[str, str | float | None]]:
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


def limits_frame(report: "Report") -> "pd.DataFrame":
    """The records of :func:`limit_records`, by phase."""
    import pandas as pd

    return pd.DataFrame(limit_records(report)).set_index("phase")


def elasticities_frame(report: "Report") -> "pd.DataFrame":
    """Relative change of the chosen row's latency per +10 % of each resource."""
    import pandas as pd

    columns = ["resource", "latency_change", "simulated"]
    rows = [(each.resource, each.change, each.simulated) for each in report.elasticities]
    return pd.DataFrame(rows, columns=columns).set_index("resource")


def fit_frame(report: "Report") -> "pd.DataFrame":
    """What the design takes of the board, a line per thing that has to fit."""
    import pandas as pd

    columns = ["what", "needed", "available", "unit", "fits", "detail"]
    rows = [
        (row.what, row.needed, row.available, row.unit, row.ok, row.detail)
        for row in report.fit.rows
    ]
    return pd.DataFrame(rows, columns=columns).set_index("what")


def report_html(report: "Report") -> str:
    """The comparison in few columns, the design's own policy in bold, misfits first."""
    dense_s = report.rows[0].latency_s
    table = html_table(
        ("policy", "s per video", "speed-up", "J per video", "replayed", "cores busy", "memory"),
        [
            (
                row.variant.name,
                Figure(number(row.seconds_per_video), row.seconds_per_video),
                f"{dense_s / row.latency_s:.3f}",
                number(row.energy_per_video.value_j),
                "-" if row.replay_eligible != row.replay_eligible else percent(row.replay_eligible),
                percent(row.busy),
                percent(max(row.ddr_utilisation.values())),
            )
            for row in report.rows
        ],
        strong={report.rows.index(report.chosen)},
    )
    design = report.design
    title = f"{design.name} on {design.board.name}, batch of {design.policy.batch}"
    lines = [f"<b>{html.escape(title)}</b>"]
    lines += [f"<b>MISFIT: {html.escape(line)}</b>" for line in report.fit.misfits]
    return "<br>".join(lines) + _bold(table)


def row_html(row: "RowResult") -> str:
    """The figures of one policy, a line each."""
    joules = row.energy_per_video
    return html_table(
        (row.variant.name, row.design.name),
        [
            ("latency of a batch", f"{number(row.latency_s)} s"),
            ("time per video", f"{number(row.seconds_per_video)} s"),
            ("per token step", f"{number(row.ms_per_token)} ms"),
            (
                "energy per video",
                f"{number(joules.value_j)} J ({number(joules.low_j)} to {number(joules.high_j)})",
            ),
            ("average power", f"{number(row.average_power_w)} W"),
            ("cores busy", percent(row.busy)),
            ("MACs done / possible", percent(row.mac_utilisation)),
            *((f"{name} of its peak", percent(u)) for name, u in row.ddr_utilisation.items()),
            ("memory traffic per video", f"{number(row.dram_gb_per_video)} GB"),
            ("decisions", row.batches.label),
        ],
    )


def _bold(table: str) -> str:
    # A notebook has no style sheet of ours.
    return table.replace('<tr class="strong">', '<tr style="font-weight: bold">')
