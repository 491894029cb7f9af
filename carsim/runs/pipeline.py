"""Simulate a design on traces: the design's policy beside the alternatives and the bound."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from carsim.base.errors import InputError, MisfitError
from carsim.base.text import count
from carsim.cost.energy import energy
from carsim.cost.fit import FitReport, check_fit
from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import ReplayRule
from carsim.decisions.trace import (
    Decisions,
    Stated,
    Trace,
    captured,
    crop,
    dense,
    enlarge,
    layers_at_depth,
    load_trace,
    map_layers,
    replay_ratio,
    resample,
    rescope,
    rethreshold,
)
from carsim.decisions.trace.decisions import check_decisions
from carsim.decisions.trace.file import as_own
from carsim.decisions.trace.meta import STATED
from carsim.decisions.trace.precision import in_short
from carsim.design import Design, load_design
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.schedule import SCHEDULES
from carsim.machine.batches import Batches, make_batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import SOLVED, Phases
from carsim.machine.plan import Plan
from carsim.machine.simulate import simulate
from carsim.runs.elasticity import bandwidth_ends, elasticities, latency_factors
from carsim.runs.limits import fetch_ahead_share
from carsim.runs.result import Report, RowResult
from carsim.runs.variants import Variant, own_variant, variants
from carsim.workload.geometry import Video

DRS_PRESET = "u280_compute_bound"
"""A shipped design in which DRS pays, named where it cannot."""


def run(
    design: Design | str | Path,
    traces: Sequence[Trace | str | Path] = (),
    *,
    stated: Stated | None = None,
    allow_misfit: bool = False,
    resample_seed: int | None = None,
    fidelity: str = "fluid",
    detail: bool = False,
    what_if: bool = True,
) -> Report:
    """Compare the design's policy with the alternatives.

    Args:
        design: The design, its file, or the name of a shipped one.
        traces: Traces or their files. Each row takes the first that was captured under its own
            attention, else under the same kind, else the first of all, and says so.
        stated: What is decoded if there are no traces; by default what the model makes, densely.
        allow_misfit: Go on with a design that does not fit its board.
        resample_seed: Draw the rows that a batch needs beyond the trace's with this seed.
        fidelity: ``fluid`` or ``tile``, see :data:`~carsim.machine.phases.FIDELITIES`.
        detail: Keep the cycles of every layer-step of all rows.
        what_if: Also find what 10 % more of each resource brings, which takes most of the time.

    Raises:
        InputError: A trace that cannot serve the design; traces beside what is stated.
        MisfitError: The design does not fit, and that was not allowed.
    """
    if not isinstance(design, Design):
        design = load_design(str(design))
    loaded = traces_of(
        design, [each if isinstance(each, Trace) else load_trace(each) for each in traces], stated
    )
    video = video_of(design, loaded)
    check_sets(design, video)
    own = own_variant(design, replays=replays_any(design, loaded))
    rule = rule_of(design, own, loaded) if own.replays else None
    held = kv_held_of(own, loaded, video, design.model.body.n_layers)
    fit = check_fit(design, video, rule, held)
    if not fit.fits and not allow_misfit:
        raise MisfitError(
            design.name,
            "does not fit: " + "; ".join(fit.misfits),
            "change the design, or pass --allow-misfit to simulate it all the same",
        )
    phases = Phases(Hardware(design), fidelity)
    rows = []
    decided: dict[tuple[bool, AttentionPolicy], Batches] = {}
    for variant in variants(design, replays=own.replays):
        key = variant.replays, variant.attention
        if key not in decided:
            decisions = decisions_for(design, variant, loaded, resample_seed)
            decided[key] = make_batches(
                decisions, design.policy.batch, design.policy.tokens_per_step
            )
        rows.append(run_variant(design, variant, decided[key], video, fit, phases, detail=detail))
    index = next(i for i, row in enumerate(rows) if row.variant.is_same(own))
    rows.append(_bound(rows[index], fit))
    taken, interpolated = phases.simulated, phases.interpolated
    # Ratios of latencies: the solver's, whichever rung the latencies are of.
    solved = phases if fidelity == SOLVED else Phases(phases.hw)
    ends = bandwidth_ends(solved)
    if ends is not None:
        factors = [
            latency_factors(replace(row.simulation.plan, phases=solved), row.batches, ends)
            for row in rows[:-1]
        ]
        of_rows = [*(of_row for of_row, _ in factors), factors[index][1]]
        rows = [
            replace(row, latency_factors=of_row) for row, of_row in zip(rows, of_rows, strict=True)
        ]
    chosen = rows[index]
    steps = chosen.simulation.plan.n_steps
    head = int(phases.head().cycles[0]) * steps / (design.board.fabric_clock_mhz * 1e6)
    return Report(
        design=design,
        rows=tuple(rows),
        chosen=chosen,
        fit=fit,
        elasticities=elasticities(replace(chosen.simulation.plan, phases=solved), chosen.batches)
        if what_if
        else (),
        head_seconds=head,
        traces=tuple((trace.title, trace.sha256) for trace in loaded),
        seed=0 if resample_seed is None else resample_seed,
        phases_simulated=taken,
        interpolated=interpolated,
        notes=tuple(_notes(design, rows, chosen, fit.fits, loaded)),
    )


def run_variant(
    design: Design,
    variant: Variant,
    batches: Batches,
    video: Video,
    fit: FitReport,
    phases: Phases,
    *,
    detail: bool = False,
) -> RowResult:
    """One row of a comparison.

    Args:
        design: The design.
        variant: The policy.
        batches: Decisions that the policy consumes.
        video: The video that is decoded.
        fit: Fit of the design on its board.
        phases: Of the design's hardware, or of one that differs from it only in what no phase
            depends on: threshold, scope, schedule and attention of its policy, constants of energy.
        detail: Keep the cycles of every layer-step.
    """
    variant = replace(variant, method=batches.method)
    plan = Plan(
        phases,
        video,
        variant.attention,
        variant.schedule,
        batches.rule,
        range(video.n_steps // design.policy.tokens_per_step),
    )
    simulation = simulate(plan, batches, detail=detail)
    replay_all, replay_eligible = replay_ratio(
        batches.replay, video.tokens_per_frame // design.policy.tokens_per_step
    )
    return RowResult(
        variant,
        simulation,
        batches,
        energy(design, simulation.activity, fit.resources),
        energy(design, simulation.decode_activity, fit.resources),
        replay_all,
        replay_eligible,
    )


def traces_of(
    design: Design, traces: Sequence[Trace], stated: Stated | None = None
) -> Sequence[Trace]:
    """The traces, or what is stated as one; decisions that were changed as the user's own.

    Raises:
        InputError: Both are given, what is stated is beyond model or batch, or changed decisions
            are none that a trace can hold.
    """
    if not traces:
        return [(stated or Stated()).trace(design.model, design.policy.batch)]
    if stated is not None:
        raise InputError(
            "--trace", "says already what is decoded and what replays", "leave out what is stated"
        )
    return [as_own(trace) for trace in traces]


def replays_any(design: Design, traces: Sequence[Trace]) -> bool:
    """Something may replay: a trace has decisions, or a tau is asked for."""
    return design.policy.tau != "captured" or not all(t.meta.never_replays for t in traces)


def video_of(design: Design, traces: Sequence[Trace]) -> Video:
    """The video that all traces are of.

    Raises:
        InputError: Traces of different videos, or a tau for layers that they lack.
    """
    first = traces[0]
    for trace in traces:
        if isinstance(design.policy.tau, tuple) and len(design.policy.tau) != trace.n_layers:
            raise InputError(
                "policy.tau",
                f"lists {count(len(design.policy.tau), 'value')}, {trace.name} has "
                f"{count(trace.n_layers, 'layer')}",
                "give one number, or capture a trace of as many layers",
            )
        shape, of_first = (
            (each.n_frames, each.tokens_per_frame, each.n_rows, each.prompt_tokens)
            for each in (trace, first)
        )
        if shape != of_first:
            raise InputError(
                trace.name,
                f"has (frames, tokens, rows, prompt) {shape}, unlike {first.name} with {of_first}",
                "pass traces of the same video",
            )
    return Video(first.n_frames, first.tokens_per_frame, first.prompt_tokens, first.meta.kind)


def check_sets(design: Design, video: Video) -> None:
    """Refuse sets of tokens of which a frame is no whole number: all of a set may replay, or none.

    Raises:
        InputError: They do not divide a frame.
    """
    at_once = design.policy.tokens_per_step
    if video.tokens_per_frame % at_once:
        raise InputError(
            "policy.tokens_per_step",
            f"{at_once} tokens do not divide a {'frame' if video.kind == 'video' else 'text'} of "
            f"{video.tokens_per_frame}",
            "take a divisor of it",
        )


def trace_for(variant: Variant, traces: Sequence[Trace]) -> Trace:
    """The first trace captured under the policy's attention, else under its kind, else of all.

    Other fields of the kind make no difference where what is read follows from the context.
    """
    made = [trace.meta.attention for trace in traces]
    kinds = [attention.kind for attention in made]
    own = variant.attention
    if own.records and own in made:
        return traces[made.index(own)]
    return traces[kinds.index(own.kind) if own.kind in kinds else 0]


def rule_of(design: Design, variant: Variant, traces: Sequence[Trace]) -> ReplayRule:
    """The rule by which a row's decisions were made, at the width of the design's model."""
    meta = trace_for(variant, traces).meta
    return meta.rule.at_width(meta.decoded.hidden_size, design.model.body.hidden_size)


def kv_held_of(
    variant: Variant, traces: Sequence[Trace], video: Video, n_layers: int
) -> Ints | None:
    """The most tokens that a head of any row holds in each layer, int[L].

    A frame under way is held in whole before anything of it, or of older ones, is given up.

    Args:
        variant: The policy.
        traces: As of :func:`run`.
        video: What is decoded.
        n_layers: L, of the model.

    Returns:
        None where it follows from the context.

    Raises:
        InputError: It depends on the data, and no trace was captured under the policy.
    """
    if not variant.attention.records:
        return None
    trace = _recorded_under(variant, traces)
    assert trace.kv_held is not None  # else the trace is refused when it is opened
    prompts = np.broadcast_to(np.array(trace.meta.prompt_lengths), trace.kv_held[:1].shape)
    at_begin = np.concatenate([prompts, trace.kv_held.astype(np.int64)])[: video.n_frames]
    most: Ints = at_begin.max(axis=(0, 2)) + trace.tokens_per_frame
    return most[layers_at_depth(trace.n_layers, n_layers)]


def decisions_for(
    design: Design,
    variant: Variant,
    traces: Sequence[Trace],
    resample_seed: int | None,
    video: Video | None = None,
) -> Decisions:
    """The decisions that a row consumes, with the label of where they come from.

    Args:
        design: The design.
        variant: The policy.
        traces: As of :func:`run`.
        resample_seed: As there; frames beyond the traces' are drawn with it, too.
        video: What is decoded, where it is not the traces' own.

    Raises:
        InputError: A video that the traces' decisions cannot be extended to.
    """
    policy, trace = design.policy, _recorded_under(variant, traces)
    video = Video(trace.n_frames, trace.tokens_per_frame, 0) if video is None else video
    n_layers = design.model.body.n_layers
    rows = max(trace.n_rows, 0 if resample_seed is None else policy.batch)
    check_decisions("policy.batch", (video.n_steps, n_layers, rows), drawn=variant.replays)
    if not variant.replays:
        decisions = dense(video.n_steps, n_layers, trace.n_rows, trace.meta.guidance_pairs)
        if variant.attention.records:
            own = map_layers(_resized(captured(trace), trace, video, resample_seed), n_layers)
            label = f"{decisions.label}; keys are read as in {trace.name}"
            if n_layers != trace.n_layers:
                depth = count(trace.n_layers, "layer")
                label += f", {depth} mapped to {n_layers} by relative depth"
            decisions = replace(decisions, reads=own.reads, held=own.held, label=label)
    else:
        decisions = captured(trace) if policy.tau == "captured" else rethreshold(trace, policy.tau)
        decisions = replace(decisions, rule=rule_of(design, variant, traces))
        if policy.decision_scope != decisions.scope:
            decisions = rescope(decisions, decisions.pairs, policy.decision_scope, policy.batch)
        if not variant.attention.records:  # what the trace's own attention read is of no use
            decisions = replace(decisions, reads=None, held=None)
        mismatches = (
            _attention_mismatch(trace, variant),
            _precision_mismatch(trace, design),
            _set_mismatch(design),
        )
        # What is stated is stated of any machine.
        for mismatch in mismatches if trace.meta.origin != STATED else ():
            if mismatch:
                decisions = replace(decisions, label=f"{decisions.label}; {mismatch}")
        decisions = map_layers(_resized(decisions, trace, video, resample_seed), n_layers)
    have, wanted = trace.meta.decoded.n_kv_heads, design.model.body.n_kv_heads
    if decisions.reads is not None and have < wanted:
        mapped = f"head-mapped: {have} key heads stand for {wanted}"
        decisions = replace(decisions, label=f"{decisions.label}; {mapped}")
    if resample_seed is not None and policy.batch > decisions.n_rows:
        decisions = resample(
            decisions,
            np.random.default_rng(resample_seed),
            tokens_per_frame=video.tokens_per_frame,
            n_rows=policy.batch,
        )
    return decisions


def _recorded_under(variant: Variant, traces: Sequence[Trace]) -> Trace:
    """The trace of a row, refused where it lacks what the row reads."""
    trace = trace_for(variant, traces)
    if variant.attention.records and trace.meta.attention != variant.attention:
        if trace.meta.origin == STATED:
            raise InputError(
                "policy.attention",
                f"what {variant.attention.text} reads depends on the data, which nobody stated",
                "pass --trace with one that was captured under it",
            )
        raise InputError(
            trace.name,
            f"was captured under {trace.meta.attention.text}; what {variant.attention.text} reads "
            "depends on the data",
            "pass a trace that was captured under it",
        )
    return trace


def _resized(
    decisions: Decisions, trace: Trace, video: Video, resample_seed: int | None
) -> Decisions:
    """Decisions of a trace for a video of as many frames and tokens as is asked for."""
    tokens = trace.tokens_per_frame
    if video.n_frames < trace.n_frames:
        decisions = crop(decisions, video.n_frames, tokens)
    elif video.n_frames > trace.n_frames:
        if resample_seed is None:
            raise InputError(
                "video.frames",
                f"{video.n_frames} are more than the {trace.n_frames} of {trace.name}",
                "give a seed to resample with, or a longer trace",
            )
        rng = np.random.default_rng(resample_seed)
        decisions = resample(decisions, rng, tokens_per_frame=tokens, n_frames=video.n_frames)
    return enlarge(decisions, tokens, video.tokens_per_frame)


def _attention_mismatch(trace: Trace, variant: Variant) -> str:
    made, run_as = trace.meta.attention, variant.attention
    if made.kind != run_as.kind:
        return f"made under {made.kind} attention, run under {run_as.kind}"
    return "" if made == run_as else f"made under {made!r}, run under {run_as!r}"


def _set_mismatch(design: Design) -> str:
    """Traces hold decisions of tokens that saw all tokens before them."""
    sets = design.policy.tokens_per_step
    return f"made a token a step, run with {sets}" if sets > 1 else ""


def _precision_mismatch(trace: Trace, design: Design) -> str:
    """A phrase; none for traces without a precision, such as all of before."""
    if trace.meta.precision is None:
        return ""
    model = design.model
    made, run_in = (
        trace.meta.precision.short,
        in_short(
            model.weights.bits,
            model.activations.bits,
            model.kv.bits,
            model.replay.bits,
            model.polished,
        ),
    )
    return "" if made == run_in else f"made in {made}, run in {run_in}"


def _bound(row: RowResult, fit: FitReport) -> RowResult:
    """The bound for the decisions of a row; the same work in the least time."""
    whole = not MAPPINGS[row.design.machine.mapping].needs_broadcast
    row = replace(row, variant=replace(row.variant, is_bound=True, is_whole=whole))
    activity = replace(row.simulation.activity, cycles=row.cycles, dram_bytes=row.dram_bytes)
    prefill = row.simulation.totals["prefill"]
    decode = replace(
        row.simulation.decode_activity,
        cycles=row.cycles - prefill.bound_cycles,
        dram_bytes={
            name: nbytes - of_prefill
            for (name, nbytes), of_prefill in zip(
                row.dram_bytes.items(), prefill.bound_dram_bytes, strict=True
            )
        },
    )
    return replace(
        row,
        energy=energy(row.design, activity, fit.resources),
        decode_energy=energy(row.design, decode, fit.resources),
    )


def _notes(
    design: Design,
    rows: Sequence[RowResult],
    chosen: RowResult,
    fits: bool,
    traces: Sequence[Trace],
) -> list[str]:
    notes = []
    if not fits:
        notes.append("MISFIT: this design does not fit its board; see the rows of the fit.")
    if not design.machine.include_head:
        notes.append("The head is left out of this design (machine.include_head: false).")
    depths = {trace.n_layers for trace in traces} - {design.model.body.n_layers}
    notes += [
        f"Decisions of {count(depth, 'layer')} are mapped to {design.model.body.n_layers} by "
        "relative depth."
        for depth in sorted(depths)
    ]
    left_out = rows[0].batches.left_out_rows
    if left_out:
        verbs = "fills no batch and is" if left_out == 1 else "fill no batch and are"
        notes.append(f"{count(left_out, 'row')} of the trace {verbs} left out.")
    share = fetch_ahead_share(chosen.simulation)
    notes.append(
        f"Fetching ahead across phases, which is not modelled, would save at most {share:.2%}."
    )
    replaying = [row for row in rows if row.variant.replays and not row.is_bound]
    of_own = [row for row in replaying if row.variant.attention == rows[-1].variant.attention]
    central = [row for row in of_own if SCHEDULES[row.variant.schedule].central]
    static = [row for row in of_own if not SCHEDULES[row.variant.schedule].central]
    if central and static:
        gain = static[0].latency_s / central[0].latency_s - 1
        if gain < 0.005:
            notes.append(_why_no_help(static[0], central[0], gain))
    return notes


def _why_no_help(static: RowResult, central: RowResult, gain: float) -> str:
    machine, batch = static.design.machine, static.design.policy.batch
    width = machine.drs.index_register_bits
    limit = {each.phase: each.limit for each in static.limits}.get("mlp")
    if machine.splits_mlp:
        why = "every matrix is split over all cores, so there is no load to balance"
    elif MAPPINGS[machine.mapping].splits_remainder:
        why = (
            "sequences left over after whole rounds are split over all cores, so there is no load "
            "to balance"
        )
    elif machine.cores == 1:
        why = "there is one core only"
    elif batch <= machine.cores:
        why = (
            f"{count(batch, 'sequence')} on {count(machine.cores, 'core')}: each has a core of its "
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
