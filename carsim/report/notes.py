"""Notes of a run: what readers should know of its figures, a sentence each."""

from collections.abc import Iterator

from carsim.base.text import count, number
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.limits import fetch_ahead_share
from carsim.machine.phase import MOST_PLAYED
from carsim.machine.row import RowResult
from carsim.runs.report import Report
from carsim.workload.ops import CATEGORY_LABELS, Category

DRS_PRESET = "u280_compute_bound"
"""A shipped design in which DRS pays, named where it cannot."""


FIDELITY = {
    "fluid": "Transfers share the sustained rate of a memory by their bytes; over 200 designs, "
    "latencies differ from those of tile fidelity by 0.22 % at most.",
    "tile": "A memory serves whole tiles at its sustained rate.",
}
"""The model of memory at each fidelity, and its error."""


def notes_of(report: Report) -> Iterator[str]:
    """Notes of a run: misfits, assumptions, options that cannot help and why, model errors."""
    design, rows = report.design, report.rows
    if not report.fit.fits:
        yield "MISFIT: this design does not fit its board; see the rows of the fit."
    if not design.machine.include_head:
        yield "The head is left out of this design (machine.include_head: false)."
    if left_out := rows[0].batches.left_out_rows:
        yield f"Rows of the trace that fill no batch are left out: {left_out}."
    share = fetch_ahead_share(report.chosen.simulation)
    yield f"Fetching ahead across phases, which is not modelled, would save at most {share:.2%}."
    depth = design.machine.drs.core_queue_instructions
    waits = report.chosen.seconds_by_category[CATEGORY_LABELS[Category.DRS]]
    if depth is not None and waits > 5e-4 * report.chosen.latency_s:
        yield (
            f"Cores wait for instructions in {waits / report.chosen.latency_s:.1%} of the time, as "
            f"each queue holds {depth}. With an instruction of each sequence in turn, 4 are enough."
        )
    yield from _no_gain(report)
    yield from _trust(report)


def _trust(report: Report) -> Iterator[str]:
    """Errors and samples behind the figures."""
    plan = report.chosen.simulation.plan
    batches = sum(row.n_batches for row in report.rows if not row.is_bound)
    steps = batches * plan.n_steps * report.design.model.body.n_layers
    yield (
        f"{count(report.phases_simulated, 'phase')} were simulated, which make up all "
        f"{count(steps, 'layer-step')}: repetition is counted, not sampled. Only the interval of "
        "time and the effect of 10 % more come from a sample of steps."
    )
    if report.interpolated:
        yield (
            f"Of phases that differ in their length alone, {number(MOST_PLAYED)} were played, from "
            "the shortest to the longest; waiting times of the others were interpolated."
        )
    yield (
        f"{FIDELITY[plan.phases.fidelity]} The interval of time spans the bandwidths measured on "
        "such boards. The interval of energy adds all energy constants at one end."
    )


def _no_gain(report: Report) -> Iterator[str]:
    """The gain of a central schedule over static ones, where it has next to none."""
    attention = report.rows[-1].variant.attention
    schedules: dict[bool, RowResult] = {}
    for row in report.rows:
        if row.variant.replays and not row.is_bound and row.variant.attention == attention:
            schedules.setdefault(SCHEDULES[row.variant.schedule].central, row)
    if len(schedules) < 2:
        return
    gain = schedules[False].latency_s / schedules[True].latency_s - 1
    if gain >= 0.005:
        return
    much = f"{'gains' if gain > 0 else 'loses'} {abs(gain):.1%}"
    much = "gains nothing" if abs(gain) < 5e-4 else much
    yield (
        f"{SCHEDULES[schedules[True].variant.schedule].label} {much} here: "
        f"{_why(schedules[False])}. It pays where cores have different numbers of sequences to "
        f"compute and compute is the limit, as in the design {DRS_PRESET}."
    )


def _why(static: RowResult) -> str:
    """The reason that a central schedule gains nothing over this one."""
    machine, batch = static.design.machine, static.design.policy.batch
    of_cores = static.simulation.plan.hw.even_loads(batch)
    limit = {each.phase: each.limited_by for each in static.limits}.get("mlp", "compute")
    splits = machine.splits_mlp or MAPPINGS[machine.mapping].splits_remainder
    width = machine.drs.index_register_bits
    reasons = (
        (splits, "matrices are split over all cores, so that there is no load to balance"),
        (of_cores.max() == 1, "each sequence has a core of its own"),
        (of_cores.size == 1, "there is one core only"),
        (width < batch, f"the Index Register holds {width} of {batch} sequences at a time"),
        (limit != "compute", f"{limit} is the limit of the MLPs"),
        (True, "in most layer-steps the fullest core has as many sequences under either"),
    )
    return next(reason for holds, reason in reasons if holds)
