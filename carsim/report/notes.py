"""Notes of a run: what readers should know of its figures, a sentence each."""

from collections.abc import Iterator
from fractions import Fraction

from carsim.account.limits import fetch_ahead_share
from carsim.account.row import RowResult
from carsim.base.text import count, number, percent
from carsim.decisions.attention import PLAIN, AttentionPolicy
from carsim.design import Design
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.phase import MOST_PLAYED
from carsim.runs.report import Report
from carsim.workload.ops import CATEGORY_LABELS, Category

DRS_PRESET = "u280_compute_bound"
"""A shipped design in which DRS pays, named where it cannot."""

PUBLISHED_BITS = 16
"""Bits of weights, activations, keys and values in all published times of forwards (bf16)."""

LEAST_GAIN = 0.005
"""Gain of a schedule from which it is said to pay."""

FIDELITY = {
    "fluid": "Transfers share the sustained rate of a memory by their bytes; over 200 designs, "
    "latencies differ from those of tile fidelity by 0.22 % at most.",
    "tile": "A memory serves whole tiles at its sustained rate.",
}
"""The model of memory at each fidelity, and its error."""


def notes_of(report: Report) -> Iterator[str]:
    """Notes of a run: misfits, assumptions, options that cannot help and why, model errors."""
    design = report.design
    if not report.fit.fits:
        yield "MISFIT: this design does not fit its board; see the rows of the fit."
    if not design.machine.include_head:
        yield "The head is left out of this design (machine.include_head: false)."
    yield from _dense_prompt(report)
    if differences := unlike_published(design):
        yield (
            "The published times behind the expected one are of 16-bit values and dense attention. "
            f"This design has {differences}: the interval was not tested on such a design."
        )
    share = fetch_ahead_share(report.chosen.simulation)
    yield f"Fetching ahead across phases, which is not modelled, would save at most {share:.2%}."
    depth = design.machine.drs.core_queue_instructions
    waits = report.chosen.seconds_by_category[CATEGORY_LABELS[Category.DRS]]
    if depth is not None and waits > 5e-4 * report.chosen.latency_s:
        yield (
            f"Cores wait for instructions in {waits / report.chosen.latency_s:.1%} of the time, as "
            f"each queue holds {depth}. With an instruction of each sequence in turn, 4 are enough."
        )
    overheads = design.machine.overheads
    replays = any(row.variant.replays for row in report.rows)
    if replays and overheads.calibration is not None and overheads.layer_us:
        yield (
            "The calibration is of dense decoding, which cannot tell the MLP's part of layer_us: "
            f"{_skipped_share(report)} of it, the share of products, is assumed."
        )
    if note := schedule_note(report):
        yield note
    yield from _trust(report)


def _dense_prompt(report: Report) -> Iterator[str]:
    """The attention that no policy makes sparse, where a row has another than dense attention."""
    video = report.chosen.simulation.plan.video
    kinds = dict.fromkeys(row.variant.attention.kind for row in report.rows)
    sparse = [kind for kind in kinds if kind != PLAIN.kind]
    if sparse and video.prompt_tokens:
        yield (
            f"The prompt of {count(video.prompt_tokens, 'token')} attends densely in all rows: "
            f"{' and '.join(sparse)} attention changes what decoded steps read."
        )


def unlike_published(design: Design) -> str:
    """Bits and attention of a network that no published time of a forward has.

    Published forwards (:mod:`carsim.validate.forward_times`) have 16-bit values and dense
    attention. Empty for a network that has both, and for a decoder.
    """
    model = design.model
    if model.sample is None:
        return ""
    differences = []
    bits = {
        "weights": model.weights.bits,
        "activations": model.activations.bits,
        "keys and values": model.kv.bits,
    }
    if other := [f"{noun} of {number(n)} bits" for noun, n in bits.items() if n != PUBLISHED_BITS]:
        differences.append(", ".join(other))
    if design.policy.attention.kind != PLAIN.kind:
        differences.append(f"{design.policy.attention.kind} attention")
    return " and ".join(differences)


def rows_left_out(report: Report) -> str:
    """A line on rows of a trace that fill no whole batch; empty if all rows are decoded."""
    left_out = max(row.batches.left_out_rows for row in report.rows)
    if not left_out:
        return ""
    batch = report.design.policy.batch
    n_rows = left_out + batch * report.chosen.n_batches
    fill = "fills" if left_out == 1 else "fill"
    return (
        f"{left_out} of the {count(n_rows, 'row')} of the trace {fill} no batch of {batch} and "
        "are not decoded; choose a policy.batch that divides them"
    )


def computed_in_vain(report: Report) -> str:
    """A line on blocks whose output nothing reads where rows replay; empty if there are none."""
    if not report.chosen.variant.replays:
        return ""
    program = report.chosen.simulation.plan.program(decided=True)
    names = " and ".join(dict.fromkeys(block.title for block in program.vain_blocks))
    if not names:
        return ""
    return f"rows that replay compute {names}, and nothing reads the result: skip {names}, too"


def _skipped_share(report: Report) -> Fraction:
    """Share of a layer's products with weights that rows skip where they replay."""
    plan = report.chosen.simulation.plan
    program = plan.program(decided=False)
    return Fraction(*program.skipped_share_of_products(plan.machine.model))


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


def schedule_note(report: Report) -> str:
    """The gain of a central schedule (DRS) over a static one here, and the reason.

    Empty if the run compares no two schedules, which is so if nothing replays.
    """
    own = report.rows[-1].variant.attention
    schedules = _schedules(report, own)
    of_attention = ""
    if len(schedules) < 2 and own != PLAIN:
        schedules = _schedules(report, PLAIN)
        of_attention = f" with {PLAIN.kind} attention"
    if len(schedules) < 2:
        return ""
    label = SCHEDULES[schedules[True].variant.schedule].label
    gain = schedules[False].latency_s / schedules[True].latency_s - 1
    over_interleaved = _over_interleaved(report, schedules[True])
    if gain >= LEAST_GAIN:
        limit = _limit_of_mlps(schedules[False])
        return (
            f"{label} gains {percent(gain)} here{of_attention}: it evens out the loads of the "
            f"cores, and the MLPs are limited by {limit}.{over_interleaved}"
        )
    return (
        f"{label} {_much(gain)} here{of_attention}: {_why(schedules[False])}. It pays where "
        f"compute is the limit and loads differ ({DRS_PRESET}).{over_interleaved}"
    )


def _much(gain: float) -> str:
    """A gain in words."""
    if abs(gain) < 5e-4:
        return "gains nothing"
    return f"{'gains' if gain > 0 else 'loses'} {percent(abs(gain))}"


def _over_interleaved(report: Report, central: RowResult) -> str:
    """A sentence on the gain of a central schedule over interleaved tokens of forwards.

    Empty where the run has no such row.
    """
    label = SCHEDULES[central.variant.schedule].label
    for row in report.rows:
        is_alike = row.variant.replays and row.variant.attention == central.variant.attention
        if is_alike and not row.is_bound and SCHEDULES[row.variant.schedule].interleaves_tokens:
            gain = row.latency_s / central.latency_s - 1
            return f" Over interleaved tokens, {label} {_much(gain)}."
    return ""


def _schedules(report: Report, attention: AttentionPolicy) -> dict[bool, RowResult]:
    """The first static and the first central schedule of replay with an attention policy."""
    schedules: dict[bool, RowResult] = {}
    for row in report.rows:
        if row.variant.replays and not row.is_bound and row.variant.attention == attention:
            schedules.setdefault(SCHEDULES[row.variant.schedule].central, row)
    return schedules


def _why(static: RowResult) -> str:
    """The reason that a central schedule gains nothing over this one."""
    if static.batches.tokens is not None:
        return _why_of_tokens(static)
    machine = static.design.machine
    batch = static.design.policy.batch
    of_cores = static.simulation.plan.machine.even_loads(batch)
    limit = _limit_of_mlps(static)
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


def _why_of_tokens(static: RowResult) -> str:
    """The reason that dealing the tokens of forwards gains little over a static schedule."""
    if static.simulation.plan.machine.home_loads.size == 1:
        return "there is one core only"
    if MAPPINGS[static.design.machine.mapping].splits_mlp:
        return "matrices are split over all cores, so that there is no load to balance"
    return "other blocks take most of the time, or each core has as many tokens under either"


def _limit_of_mlps(row: RowResult) -> str:
    """What limits the MLPs of a row: compute, memory, port or dependency."""
    for limit in row.limits:
        if limit.phase == "mlp":
            return limit.limited_by
    return "compute"
