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


def notes_of(report: Report) -> list[str]:
    """Notes of a run: misfits, assumptions, options that cannot help and why, model errors."""
    design, rows = report.design, report.rows
    notes = []
    if not report.fit.fits:
        notes.append("MISFIT: this design does not fit its board; see the rows of the fit.")
    if not design.machine.include_head:
        notes.append("The head is left out of this design (machine.include_head: false).")
    notes += [
        f"Decisions of {count(depth, 'layer')} are mapped to {design.model.body.n_layers} by "
        "relative depth."
        for depth in sorted(report.mapped_from)
    ]
    left_out = rows[0].batches.left_out_rows
    if left_out:
        verbs = "fills no batch and is" if left_out == 1 else "fill no batch and are"
        notes.append(f"{count(left_out, 'row')} of the trace {verbs} left out.")
    share = fetch_ahead_share(report.chosen.simulation)
    notes.append(
        f"Fetching ahead across phases, which is not modelled, would save at most {share:.2%}."
    )
    depth = design.machine.drs.core_queue_instructions
    waits = report.chosen.seconds_by_category[CATEGORY_LABELS[Category.DRS]]
    if depth is not None and waits > 5e-4 * report.chosen.latency_s:
        notes.append(
            f"Cores wait for instructions in {waits / report.chosen.latency_s:.1%} of the time, as "
            f"each queue holds {depth}. With an instruction of each sequence in turn, 4 are enough."
        )
    replaying = [row for row in rows if row.variant.replays and not row.is_bound]
    of_own = [row for row in replaying if row.variant.attention == rows[-1].variant.attention]
    central = [row for row in of_own if SCHEDULES[row.variant.schedule].central]
    static = [row for row in of_own if not SCHEDULES[row.variant.schedule].central]
    if central and static:
        gain = static[0].latency_s / central[0].latency_s - 1
        if gain < 0.005:
            notes.append(_why_no_help(static[0], central[0], gain))
    return [*notes, *_trust(report)]


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


def _why_no_help(static: RowResult, central: RowResult, gain: float) -> str:
    machine, batch = static.design.machine, static.design.policy.batch
    of_cores = static.simulation.plan.hw.home_sequences
    width = machine.drs.index_register_bits
    limit = {each.phase: each.limited_by for each in static.limits}.get("mlp")
    if machine.splits_mlp:
        why = "every matrix is split over all cores, so there is no load to balance"
    elif MAPPINGS[machine.mapping].splits_remainder:
        why = (
            "sequences left over after whole rounds are split over all cores, so there is no load "
            "to balance"
        )
    elif of_cores.size == 1:
        why = "there is one core only"
    elif of_cores.max() == 1:
        why = (
            f"{count(batch, 'sequence')} on {count(of_cores.size, 'core')}: each has a core of its "
            "own, and there is none to move"
        )
    elif width < batch:
        rounds = -(-batch // width)
        why = (
            f"the Index Register holds {width} of {batch} sequences, so that MLPs are computed, "
            f"and their weights fetched, in {count(rounds, 'round')}"
        )
    elif limit == "compute":
        why = (
            "compute is the limit, and in most layer-steps the fullest core has as many sequences "
            "under either"
        )
    elif static.simulation.plan.hw.is_lockstep(False):
        why = "the MLP waits for its broadcast weights, which arrive no sooner on balanced cores"
    else:
        why = "every core that joins streams the weights once more, and memory is the limit"
    return (
        f"{SCHEDULES[central.variant.schedule].label} gains {_share(gain)} here: {why}. It pays "
        f"where loads differ and cores are the limit, as in the design {DRS_PRESET}."
    )


def _share(gain: float) -> str:
    return "nothing" if abs(gain) < 5e-4 else f"{gain:+.1%}"
