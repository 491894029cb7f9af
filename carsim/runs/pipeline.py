"""A run: simulate a design on traces, its own policy next to the alternatives and a bound.

The stages of :func:`run`, in order: decisions, fit, simulation of each row, bound, interval of the
bandwidth, elasticities. Sweeps and the studio call the same stages for single rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from carsim.account.elasticity import at_bandwidth_ends, bandwidth_factors, elasticities
from carsim.account.row import Candidate, RowResult, bound_of, simulate_rows
from carsim.account.variants import own_variant, variants
from carsim.base.errors import InputError, MisfitError
from carsim.base.section import FieldError
from carsim.cost.fit import FitReport, check_fit
from carsim.decisions.attention import ATTENTION, PLAIN, AttentionPolicy
from carsim.decisions.choose import Sources
from carsim.decisions.trace import Trace, load_trace
from carsim.decisions.trace.file import as_own
from carsim.decisions.trace.meta import STATED
from carsim.decisions.trace.stated import stated_trace
from carsim.design import Design, override
from carsim.design.load import for_work
from carsim.machine.batches import Batches, make_batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import SOLVED, Phases
from carsim.program.layers import skipped_by_decision, skips_mlp_alone
from carsim.runs.opening import open_design
from carsim.runs.report import Report
from carsim.workload.geometry import Video
from carsim.workload.network import DiffusionTransformer
from carsim.workload.workload import SAMPLES, Workload, workload_of


def run(
    design: Design | str | Path,
    traces: Trace | str | Path | Sequence[Trace | str | Path] = (),
    *,
    workload: Workload | str | None = None,
    allow_misfit: bool = False,
    resample_seed: int | None = None,
    fidelity: str = "fluid",
    what_if: bool = True,
    replays: bool = True,
) -> Report:
    """Compare the design's policy with the alternatives.

    Args:
        design: The design, its file, or the name of a shipped one.
        traces: A trace, its file or its name; or several. Each row takes the first that was
            captured under its own attention, else under the same kind, else the first of all, and
            says so.
        workload: What is decoded if there are no traces, such as ``text:2048+512``; by default what
            the model makes, densely.
        allow_misfit: Go on with a design that does not fit its board.
        resample_seed: Draw the rows that a batch needs beyond the trace's with this seed.
        fidelity: ``fluid`` or ``tile``, see :data:`~carsim.machine.phases.FIDELITIES`.
        what_if: Also find what 10 % more of each resource brings, which takes most of the time.
        replays: False: decode without replay, whatever the traces decided.

    Raises:
        InputError: A trace that cannot serve the design; traces beside a workload.
        MisfitError: The design does not fit, and that was not allowed.
    """
    work = None if workload is None else workload_of(workload)
    design = _opened(design, work)
    if isinstance(traces, Trace | str | Path):
        traces = [traces]
    sources = replace(sources_of(design, traces, work, resample_seed), replays=replays)
    video = sources.video
    sources.check_sets(video)
    fit = fit_of(design, sources, video)
    if not (allow_misfit or fit.fits):
        raise _misfit_error(design, fit)
    phases = Phases(Hardware(design), fidelity)
    rows = _simulated(design, sources, video, fit, phases)
    by_token = sources.reuse is not None
    chosen = own_variant(design, replays=sources.replays_any, by_token=by_token)
    index = next(i for i, row in enumerate(rows) if row.variant.is_same(chosen))
    rows.append(bound_of(rows[index], fit))
    # Counted before ratios and elasticities simulate more phases.
    phases_simulated = phases.simulated
    interpolated = phases.interpolated
    # Ratios of latencies are the solver's, at whatever fidelity the latencies are.
    solved = phases if fidelity == SOLVED else Phases(phases.hw)
    rows = _with_interval(rows, index, solved.hw)
    plan = replace(rows[index].simulation.plan, phases=solved)
    return Report(
        design=design,
        rows=tuple(rows),
        chosen=rows[index],
        fit=fit,
        elasticities=elasticities(plan, rows[index].batches) if what_if else (),
        head_seconds=_head_seconds(design, phases, plan.n_steps),
        traces=tuple((trace.title, trace.sha256) for trace in sources.traces),
        seed=0 if resample_seed is None else resample_seed,
        phases_simulated=phases_simulated,
        interpolated=interpolated,
        head_misfits=_head_misfits(design, sources, video),
    )


def _opened(design: Design | str | Path, work: Workload | None) -> Design:
    """A design, or that of a file or a name, with the model and sample that a workload names."""
    if not isinstance(design, Design):
        design = open_design(str(design), workload=work)
    if work is not None and work.kind in SAMPLES:
        design = for_work(design, work)
    return design


def _misfit_error(design: Design, fit: FitReport) -> MisfitError:
    """The error of a design that does not fit its board, with what cures each misfit."""
    cures = "; ".join(fit.cures)
    cure = f"{cures}; or set `allow_misfit` to simulate it all the same"
    return MisfitError(design.name, "does not fit: " + "; ".join(fit.misfits), cure)


def _head_seconds(design: Design, phases: Phases, n_steps: int) -> float:
    """Seconds of the head in all steps; 0 for a network, which has none."""
    if design.model.network is not None:
        return 0.0
    head_cycles = int(phases.head.cycles[0]) * n_steps
    return head_cycles / (design.board.fabric_clock_mhz * 1e6)


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
    check_sample(design)
    sources = traces or work.traces
    loaded = [as_own(s if isinstance(s, Trace) else load_trace(s)) for s in sources]
    if not loaded:
        loaded.append(stated_trace(work, design.model, policy.batch))
    for trace in loaded:
        if trace.meta.steps is not None:
            problem = (
                "its steps are not the tokens of frames, which a decoder's run takes one by one"
            )
            raise InputError(trace.name, problem, "take a trace without kinds of steps")
        check_forwards(design, trace)
    return Sources(
        loaded,
        design.model,
        batch=policy.batch,
        tau=policy.tau,
        scope=policy.decision_scope,
        tokens_per_step=policy.tokens_per_step,
        resample_seed=resample_seed,
        skip=policy.skip.kind,
        skips_mlp_alone=skips_mlp_alone(design.model, policy.skip),
        skipped=skipped_by_decision(design.model, policy.skip),
    )


def check_forwards(design: Design, trace: Trace) -> None:
    """Refuse a trace of other forwards than those of the design's sample.

    Raises:
        InputError: Their numbers differ, or the trace decides by tokens where there are none.
    """
    sample = design.model.sample
    if sample is None:
        if trace.meta.ranges is not None:
            problem = f"is of forwards, and {design.model.name} decodes token by token"
            raise InputError(trace.name, problem, "name a network, such as longlive_1.3b")
        return
    # A trace of forwards has each forward as a frame of one token.
    if trace.meta.tokens_per_frame > 1:
        problem = f"is of a video that is decoded token by token, and {design.model.name} is not"
        cure = "leave the trace out, and state decisions in the workload: replay=0.5, or every=2"
        raise InputError(trace.name, problem, cure)
    if trace.n_steps != sample.forwards:
        problem = f"has {trace.n_steps} forwards, and {sample.in_words} take {sample.forwards}"
        cure = "set model.sample.chunks and model.sample.steps to those of the trace"
        raise InputError(trace.name, problem, cure)
    if sample.irregular and trace.meta.origin != STATED:
        problem = f"was captured chunk by chunk, and model.sample.{sample.irregular} says otherwise"
        raise InputError(trace.name, problem, f"leave out {sample.irregular}, or the trace")


def check_sample(design: Design) -> None:
    """Refuse fields that mean nothing where all tokens of a sample pass a network together.

    Raises:
        InputError: The policy is one of decoding.
    """
    policy = design.policy
    attention = policy.attention
    if design.model.network is None:
        for name in sorted(attention.forward_fields & set(attention.used)):
            problem = f"is of forwards, and {design.model.name} decodes token by token"
            raise InputError(f"policy.attention.{name}", problem, "leave it out")
        return
    if policy.tokens_per_step != 1:
        problem = f"{policy.tokens_per_step}, where all tokens of a forward pass together"
        raise InputError("policy.tokens_per_step", problem, "leave it out")
    if not attention.masks_forwards:
        problem = f"{attention.kind!r} is a policy of decoding, not of {design.model.name}"
        masks = [
            kind
            for kind, policy in ATTENTION.items()
            if policy.masks_forwards and kind != PLAIN.kind
        ]
        cure = f"take {PLAIN.kind!r}, or a policy that masks forwards: {', '.join(masks)}"
        raise InputError("policy.attention.kind", problem, cure)
    sample = design.model.sample
    assert sample is not None
    network = design.model.network
    attends_in_groups = isinstance(network, DiffusionTransformer) and network.attention != "full"
    if attends_in_groups and attention.kind != PLAIN.kind:
        problem = f"{attention.kind!r} is of tokens that all attend to each other, and those of "
        problem += f"{design.model.name} attend in groups"
        raise InputError("policy.attention.kind", problem, f"take {PLAIN.kind!r}")
    if sample.irregular and attention.kind != PLAIN.kind:
        problem = f"{attention.kind!r} is of chunks that pass one at a time, over a cache"
        cure = f"take {PLAIN.kind!r}, or leave out model.sample.{sample.irregular}"
        raise InputError("policy.attention.kind", problem, cure)
    try:
        attention.check_forwards(in_chunks=sample.chunk_frames is not None)
    except FieldError as error:
        raise InputError(f"policy.attention.{error.field}", error.problem, error.cure) from None


def fit_of(design: Design, sources: Sources, video: Video, replays: bool = True) -> FitReport:
    """The fit of a design that decodes a video on some decisions, and replays if any does."""
    attention = design.policy.attention
    rule = sources.rule(attention) if replays and sources.replays_any else None
    kv_held = sources.kv_held(attention, video)
    return check_fit(
        design,
        video,
        rule,
        kv_held=kv_held,
        reuse=sources.reuse,
    )


def _head_misfits(design: Design, sources: Sources, video: Video) -> tuple[str, ...]:
    """What would not fit if a design that leaves the head out had it, a line each."""
    if design.machine.include_head:
        return ()
    with_head = override(design, {"machine.include_head": True})
    return fit_of(with_head, sources, video).misfits


def _simulated(
    design: Design, sources: Sources, video: Video, fit: FitReport, phases: Phases
) -> list[RowResult]:
    """A row for each policy of the comparison; those with equal decisions share them."""
    rows: list[RowResult] = []
    decided: dict[tuple[bool, AttentionPolicy], Batches] = {}
    by_token = sources.reuse is not None
    for variant in variants(design, replays=sources.replays_any, by_token=by_token):
        key = variant.replays, variant.attention
        if key not in decided:
            decisions = sources.decisions(variant.attention, replays=variant.replays)
            decided[key] = make_batches(decisions, sources.batch, sources.tokens_per_step)
        rows += simulate_rows([Candidate(design, fit)], variant, decided[key], video, phases)
    return rows


def _with_interval(rows: list[RowResult], index: int, hw: Hardware) -> list[RowResult]:
    """The rows with their latency at both ends of the bandwidth, if the board names them."""
    ends = at_bandwidth_ends(hw)
    if ends is None:
        return rows
    widened = []
    bound = rows[-1]
    for row in rows[:-1]:
        plan = row.simulation.plan
        factors = bandwidth_factors(plan, row.batches, ends)
        is_text = plan.video.kind == "text"
        widened_row = replace(
            row,
            latency_factors=factors.latency,
            decode_factors=factors.decode if is_text else None,
        )
        widened.append(widened_row)
        if row is rows[index]:
            bound = replace(
                bound,
                latency_factors=factors.latency_bound,
                decode_factors=factors.decode_bound if is_text else None,
            )
    return [*widened, bound]
