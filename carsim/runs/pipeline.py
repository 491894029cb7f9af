"""A run: simulate a design on traces, its own policy next to the alternatives and a bound.

The stages of :func:`run`, in order: decisions, fit, simulation of each row, bound, interval of the
bandwidth, elasticities. Sweeps and the studio call the same stages for single rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from carsim.base.errors import InputError, MisfitError
from carsim.cost.fit import FitReport, check_fit
from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.choose import Sources
from carsim.decisions.trace import Trace, load_trace
from carsim.decisions.trace.file import as_own
from carsim.decisions.trace.stated import stated_trace
from carsim.design import Design
from carsim.machine.batches import Batches, make_batches
from carsim.machine.elasticity import bandwidth_ends, elasticities, latency_factors
from carsim.machine.hardware import Hardware
from carsim.machine.phases import SOLVED, Phases
from carsim.machine.row import Candidate, RowResult, bound_of, simulate_rows
from carsim.machine.variants import own_variant, variants
from carsim.runs.first import open_design
from carsim.runs.report import Report
from carsim.workload.geometry import Video
from carsim.workload.workload import Workload, workload_of


def run(
    design: Design | str | Path,
    traces: Sequence[Trace | str | Path] = (),
    *,
    workload: Workload | str | None = None,
    allow_misfit: bool = False,
    resample_seed: int | None = None,
    fidelity: str = "fluid",
    what_if: bool = True,
) -> Report:
    """Compare the design's policy with the alternatives.

    Args:
        design: The design, its file, or the name of a shipped one.
        traces: Traces or their files. Each row takes the first that was captured under its own
            attention, else under the same kind, else the first of all, and says so.
        workload: What is decoded if there are no traces, such as ``text:2048+512``; by default what
            the model makes, densely.
        allow_misfit: Go on with a design that does not fit its board.
        resample_seed: Draw the rows that a batch needs beyond the trace's with this seed.
        fidelity: ``fluid`` or ``tile``, see :data:`~carsim.machine.phases.FIDELITIES`.
        what_if: Also find what 10 % more of each resource brings, which takes most of the time.

    Raises:
        InputError: A trace that cannot serve the design; traces beside a workload.
        MisfitError: The design does not fit, and that was not allowed.
    """
    work = None if workload is None else workload_of(workload)
    if not isinstance(design, Design):
        design = open_design(str(design), workload=work)
    sources = sources_of(design, traces, work, resample_seed)
    sources.check_sets(video := sources.video)
    fit = fit_of(design, sources, video)
    if not (allow_misfit or fit.fits):
        cure = "change the design, or set `allow_misfit` to simulate it all the same"
        raise MisfitError(design.name, "does not fit: " + "; ".join(fit.misfits), cure)
    phases = Phases(Hardware(design), fidelity)
    rows = _simulated(design, sources, video, fit, phases)
    own = own_variant(design, replays=sources.replays_any)
    index = next(i for i, row in enumerate(rows) if row.variant.is_same(own))
    rows.append(bound_of(rows[index], fit))
    taken, interpolated = phases.simulated, phases.interpolated
    # Ratios of latencies are the solver's, at whatever fidelity the latencies are.
    solved = phases if fidelity == SOLVED else Phases(phases.hw)
    rows = _with_interval(rows, index, solved)
    plan = replace(rows[index].simulation.plan, phases=solved)
    head_cycles = int(phases.head.cycles[0]) * plan.n_steps
    return Report(
        design=design,
        rows=tuple(rows),
        chosen=rows[index],
        fit=fit,
        elasticities=elasticities(plan, rows[index].batches) if what_if else (),
        head_seconds=head_cycles / (design.board.fabric_clock_mhz * 1e6),
        traces=tuple((trace.title, trace.sha256) for trace in sources.traces),
        seed=0 if resample_seed is None else resample_seed,
        phases_simulated=taken,
        interpolated=interpolated,
    )


def sources_of(
    design: Design,
    traces: Sequence[Trace | str | Path] = (),
    workload: Workload | None = None,
    resample_seed: int | None = None,
) -> Sources:
    """The traces of a workload, or the workload as one, and what a design asks of their decisions.

    Decisions that were changed become the user's own.

    Raises:
        InputError: Traces beside a workload, a workload beyond model or batch, or changed decisions
            that no trace can hold.
    """
    policy = design.policy
    if traces and workload is not None:
        raise InputError("`trace`", "says what is decoded, and so does `workload`", "give one")
    work = workload or Workload(design.model.makes)
    given = (t if isinstance(t, Trace) else load_trace(t) for t in traces or work.traces)
    loaded = [*map(as_own, given)] or [stated_trace(work, design.model, policy.batch)]
    asked = policy.batch, policy.tau, policy.decision_scope, policy.tokens_per_step
    return Sources(loaded, design.model, *asked, resample_seed)


def fit_of(design: Design, sources: Sources, video: Video, replays: bool = True) -> FitReport:
    """The fit of a design that decodes a video on some decisions, and replays if any does."""
    attention = design.policy.attention
    rule = sources.rule(attention) if replays and sources.replays_any else None
    return check_fit(design, video, rule, sources.kv_held(attention, video))


def _simulated(
    design: Design, sources: Sources, video: Video, fit: FitReport, phases: Phases
) -> list[RowResult]:
    """A row for each policy of the comparison; those with equal decisions share them."""
    rows: list[RowResult] = []
    decided: dict[tuple[bool, AttentionPolicy], Batches] = {}
    for variant in variants(design, replays=sources.replays_any):
        key = variant.replays, variant.attention
        if key not in decided:
            decisions = sources.decisions(variant.attention, replays=variant.replays)
            decided[key] = make_batches(decisions, sources.batch, sources.tokens_per_step)
        rows += simulate_rows([Candidate(design, fit)], variant, decided[key], video, phases)
    return rows


def _with_interval(rows: list[RowResult], index: int, solved: Phases) -> list[RowResult]:
    """The rows with their latency at both ends of the bandwidth, if the board names them."""
    ends = bandwidth_ends(solved)
    if ends is None:
        return rows
    factors = [
        latency_factors(replace(row.simulation.plan, phases=solved), row.batches, ends)
        for row in rows[:-1]
    ]
    of_rows = [*(of_row for of_row, _ in factors), factors[index][1]]
    return [replace(row, latency_factors=each) for row, each in zip(rows, of_rows, strict=True)]
