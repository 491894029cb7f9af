"""A run in words and tables: the one source of what terminal and page say of it."""

from collections.abc import Iterator, Sequence

from carsim.base.text import (
    Figure,
    Table,
    amount,
    count,
    number,
    percent,
    signed_percent,
    with_ends,
)
from carsim.decisions.trace import Trace
from carsim.decisions.trace.meta import OWN_DECISIONS, STATED
from carsim.design import Design, Precision
from carsim.machine.phase import MOST_PLAYED
from carsim.machine.variants import BOUND_OF_MAPPING
from carsim.metrics import INTERVALS, METRICS, PHASES, QUALITY
from carsim.report.ratios import speedup
from carsim.report.stored import StoredRun

LIMITED = {"port": "the ports limit", "memory": "the DRAM limits", "compute": "compute limits"}
"""Name of a limit -> subject and verb; anything else is a dependency."""

FIDELITY = {
    "fluid": "Transfers share the sustained rate of a memory by their bytes; latencies are within "
    "1 % of tile fidelity in the median and 5 % at worst over 200 designs.",
    "tile": "A memory serves whole tiles at its sustained rate.",
}
"""The model of memory at each fidelity, and its error."""

Section = tuple[str, Sequence[str | Table]]
"""A heading and what stands under it."""


def sections(run: StoredRun, traces: Sequence[Trace] = ()) -> Iterator[Section]:
    """All that there is to say of a run, most important first.

    Args:
        run: The run.
        traces: Its traces, if they are at hand: more can then be said of them.
    """
    design = run.spec()
    mark = "" if run.fits else " - MISFIT"
    yield (
        "" if run.fits else misfit_mark(design),
        [Table(("", ""), tuple(asked(run, design, traces)), text_columns=2)],
    )
    yield "Answer", list(answer(run))
    headline, details = policies_tables(run)
    if run.is_stated:  # one page
        yield f"Policies on {run.design}{mark}", [headline, *labels(run)]
    else:
        yield f"Policies on {run.design}{mark}", [headline, details, *labels(run)]
        yield f"Where the time of {run.own.policy} goes", [breakdown_table(run)]
    yield "What limits each phase", [limits_table(run), limits_note(run, design)]
    yield "What 10 % more of a resource would bring", [elasticities_table(run)]
    yield (
        f"Does it fit the {design.board.name}{mark}",
        [fit_table(run), *held(run), *(f"warning: {warning}" for warning in run.warnings)],
    )
    yield "Notes", [f"- {note}" for note in (*run.notes, *trust(run))]


def misfit_mark(design: Design) -> str:
    """The line that marks every output of a design that does not fit."""
    return f"MISFIT: {design.name} does not fit {design.board.name}"


def asked(
    run: StoredRun, design: Design, traces: Sequence[Trace] = ()
) -> Iterator[tuple[str, str]]:
    """The simulation as terms with their texts."""
    board, machine, video = design.board, design.machine, run.video
    model, policy = design.model, design.policy
    described = f": {design.description}" if design.description else ""
    yield "design", f"{run.design} (sha256 {run.design_sha256[:12]}){described}"
    clock = number(board.fabric_clock_mhz)
    yield "result", machine.overheads.label
    yield "board", f"{board.name} ({board.part}), fabric at {clock} MHz"
    for memory in run.memories:
        if run.own.memory_gb_per_video_by_memory.get(memory.name) and memory.name in board.memories:
            yield (
                f"memory {memory.name}",
                f"{board.memories[memory.name].standard}: sustains {number(memory.sustained_gbps)} "
                f"of {number(memory.peak_gbps)} GB/s (the {memory.limited_by} is the limit), "
                f"first byte after {memory.latency_cycles} cycles",
            )
    yield (
        "machine",
        f"{count(machine.cores, 'core')} of {machine.array.rows} x {machine.array.cols} MACs "
        f"({machine.array.arithmetic}), {machine.mapping} mapping, "
        f"{machine.weight_sharing.replace('_', ' ')} weights, decision at {machine.decision_at}",
    )

    def bits(precision: Precision) -> str:
        return number(float(precision.bits_per_element))

    yield (
        "model",
        f"{model.name}: bits per weight {bits(model.weights)}, KV {bits(model.kv)}, activation "
        f"{bits(model.activations)}, replay cache {bits(model.replay)}; head "
        f"{'included' if machine.include_head else 'left out'}",
    )
    if not run.own.replays:
        tau = "nothing replays"
    elif run.is_stated:
        tau = f"replays as stated, decisions by {policy.decision_scope}"
    elif run.own.decisions_source == OWN_DECISIONS:
        tau = OWN_DECISIONS
    elif isinstance(policy.tau, tuple):
        tau = f"{len(policy.tau)} taus, one per layer (open loop)"
    else:
        tau = "tau of the trace" if policy.tau == "captured" else f"tau {policy.tau:g} (open loop)"
    if run.own.replays and not run.is_stated:
        tau += f", decisions by {policy.decision_scope}"
    attention = getattr(policy.attention, "text", f"{policy.attention.kind} attention")
    sets = policy.tokens_per_step
    at_once = f"{sets} tokens a step of each, " if sets > 1 else ""
    yield (
        "policy",
        f"batch of {policy.batch}, {at_once}{run.own.schedule} schedule, {attention}, {tau}",
    )
    decoded = count(video.tokens_per_frame, "token")
    if video.kind == "video":
        decoded = (
            f"{count(video.frames, 'frame')} x {count(video.tokens_per_frame, 'token')} = "
            f"{count(video.steps, 'step')}"
        )
    yield video.kind, f"{decoded} after a prompt of {number(video.prompt_tokens)}"
    known = {trace.sha256: trace for trace in traces}
    for stored in run.traces:
        more = _trace(known[stored.sha256], design) if stored.sha256 in known else ""
        yield (
            "decisions" if run.is_stated else "trace",
            f"{stored.name} (sha256 {stored.sha256[:12]}){more}",
        )
    left_out = ""
    if run.rows_left_out:
        left_out = f" ({count(run.rows_left_out, 'row')} of the trace left out)"
    yield (
        "run",
        f"{count(run.batches, 'batch', 'batches')} of "
        f"{count(run.sequences_per_batch, 'sequence')}, "
        f"{count(run.videos_per_batch, video.kind)} each{left_out}, {run.fidelity} fidelity, "
        f"carsim {run.carsim_version}",
    )


def answer(run: StoredRun) -> Iterator[str]:
    """The main results, a paragraph each."""
    yield _in_tokens(run) if run.is_stated else _in_videos(run)
    yield from _reasons(run)
    pixels = " Decoding tokens to pixels is in neither." if run.video.kind == "video" else ""
    yield (
        f"A batch takes {number(run.latency_with_head_s)} s with the head and "
        f"{number(run.latency_without_head_s)} s without it; the head is "
        f"{'included in' if run.head_included else 'left out of'} the figures below.{pixels}"
    )


def _in_tokens(run: StoredRun) -> str:
    """Tokens per second, time to the first one, and joules of each."""
    own, dense, video = run.own, run.dense, run.video
    text = f"{own.policy} decodes {own.text('stream_tokens_per_s')} tokens per second per stream, "
    text += f"{own.text('tokens_per_s')} in all ({count(run.videos_per_batch, 'stream')})"
    if own is not dense:
        text += f", {_speedup(run)} times as fast as {dense.policy}"
    low, high = map(own.text, INTERVALS["energy_per_token_j"])
    text += (
        f". The first token comes after {own.text('first_token_s')} s, of which "
        f"{own.text('prefill_s')} s are the prompt of {count(video.prompt_tokens, 'token')}."
        f" A token costs {own.text('energy_per_token_j')} J{_if_constants_err(low, high)}. "
        f"A {video.kind} takes {own.text('seconds_per_video')} s, prompt included"
    )
    low, high = map(own.text, INTERVALS["seconds_per_video"])
    if run.bandwidth_interval is not None and low != high:
        text += f" ({low} to {high} s over the bandwidths that were measured on such boards)"
    return f"{text}, and costs {own.text('energy_per_video_j')} J."


def _if_constants_err(low: str, high: str) -> str:
    ends = f", or between {low} and {high} J if all energy constants err in one direction"
    return "" if low == high else ends


def _in_videos(run: StoredRun) -> str:
    """Time and joules of a video, beside dense decoding, the fastest policy and the bound."""
    own, dense = run.own, run.dense
    text = f"{own.policy} finishes a video in {own.text('seconds_per_video')} s"
    if own is not dense:
        text += (
            f", {_speedup(run)} times as fast as {dense.policy} "
            f"({dense.text('seconds_per_video')} s)"
        )
    low, high = map(own.text, INTERVALS["energy_per_video_j"])
    text += f". It costs {own.text('energy_per_video_j')} J{_if_constants_err(low, high)}."
    low, high = map(own.text, INTERVALS["seconds_per_video"])
    if run.bandwidth_interval is not None and low != high:
        text += (
            f" Over the bandwidths that were measured on such boards a video takes {low} to {high} "
            "s, which the joules include."
        )
    best = min((p for p in run.policies if not p.is_bound), key=lambda p: p.seconds_per_video)
    if best.seconds_per_video < own.seconds_per_video:
        text += f" Fastest is {best.policy} with {best.text('seconds_per_video')} s."
    for bound in (p for p in run.policies if p.is_bound and p.attention == own.attention):
        above = percent(own.latency_s / bound.latency_s - 1)
        what = "schedules that give whole sequences to these cores"
        if bound.policy == BOUND_OF_MAPPING:
            what = "this mapping on these cores"
        text += (
            f" {own.policy} takes {above} longer than the bound for {what}; another mapping may be "
            "faster than that bound."
        )
    return text


def _reasons(run: StoredRun) -> Iterator[str]:
    """What takes longest, and what more of a resource would bring; nothing if neither is known."""
    texts = []
    if run.limits:
        longest = max(run.limits, key=lambda limit: limit.share_of_time)
        texts.append(
            f"The longest phase is {PHASES.get(longest.phase, longest.phase)} with "
            f"{percent(longest.share_of_time)} of the time; "
            f"{LIMITED.get(longest.limited_by, 'dependencies limit')} it."
        )
    if run.elasticities:
        most = min(run.elasticities, key=lambda each: each.latency_change_per_10_percent)
        change = most.latency_change_per_10_percent
        texts.append(
            f"Of all resources, 10 % more of {most.resource} would bring the most: "
            f"{signed_percent(change)} of latency."
            if change < 0
            else "10 % more of any one resource would bring nothing."
        )
    if texts:
        yield " ".join(texts)


def shown_in(*tables: str) -> list[str]:
    """Metrics that a table has, by their own row of the table of metrics."""
    return [
        name
        for name, each in METRICS.items()
        if each.shown in tables and not each.of_design and name not in QUALITY
    ]


def policies_tables(run: StoredRun) -> tuple[Table, Table]:
    """The comparison: the headline with a line per policy, then a line per further metric."""
    chosen = frozenset(i for i, policy in enumerate(run.policies) if policy.is_chosen)
    names = [f"{i}{' *' if i - 1 in chosen else ''}" for i, _ in enumerate(run.policies, 1)]
    details = [
        (run.named(METRICS[name].heading), *_cells(run, name))
        for name in shown_in("detail", "headline of texts")
        if any(policy.get(name) for policy in run.policies)
        and (name != "body_latency_s" or run.head_included)
    ]
    memories = dict.fromkeys(m for p in run.policies for m in p.memory_utilisation_by_memory)
    if len(memories) > 1:
        for memory in memories:
            shares = (p.memory_utilisation_by_memory.get(memory, 0.0) for p in run.policies)
            details.append((f"utilisation of {memory}", *(Figure(percent(s), s) for s in shares)))
    headline = shown_in("headline of texts" if run.is_stated else "headline")
    sources = _sources(run)
    details.append(("decisions", *(f"[{sources.index(p.decisions) + 1}]" for p in run.policies)))
    return (
        Table(
            ("policy", *(run.named(METRICS[name].heading) for name in headline)),
            tuple(
                (f"{name} {policy.policy}", *cells)
                for name, policy, *cells in zip(
                    names,
                    run.policies,
                    *(_cells(run, name, True) for name in headline),
                    strict=True,
                )
            ),
            strong=chosen,
        ),
        Table(("mean over batches", *names), tuple(details)),
    )


def labels(run: StoredRun) -> Iterator[str]:
    """Meaning of the marks and numbers of the comparison."""
    yield (
        "* the design's own policy. "
        + "The replay ratio leaves out the first frame, which never replays. " * run.own.replays
        + "Energy is that of the whole board. carsim config metrics explains every figure."
    )
    for index, label in enumerate(_sources(run), 1):
        yield f"[{index}] {label}"


def breakdown_table(run: StoredRun) -> Table:
    """Seconds of a batch by category under the design's own policy."""
    total = run.own.latency_s
    rows = [
        (category, Figure(number(seconds), seconds), _share(seconds / total))
        for category, seconds in run.own.breakdown_s.items()
    ]
    rows.append(("all", Figure(number(total), total), Figure(percent(1.0), 1.0)))
    return Table(("category", "s per batch", "share"), tuple(rows))


def limits_table(run: StoredRun) -> Table:
    """The limit of each phase, and the bandwidth or array at which it would change."""
    return Table(
        (
            *("phase", "limited by", "of all time", "compute", "memory", "port", "dependency"),
            *("flips at GB/s", "flips at MACs/cycle"),
        ),
        tuple(
            (
                PHASES.get(each.phase, each.phase),
                each.limited_by,
                *map(
                    _share,
                    (
                        each.share_of_time,
                        each.compute_share,
                        each.memory_share,
                        each.port_share,
                        each.dependency_share,
                    ),
                ),
                *(
                    Figure("-" if flip is None else number(flip, 3), flip)
                    for flip in (each.flip_gbps, each.flip_macs_per_cycle)
                ),
            )
            for each in run.limits
        ),
        text_columns=2,
    )


def limits_note(run: StoredRun, design: Design) -> str:
    """Notes on the table of limits."""
    rates = "; ".join(
        f"{each.name} sustains {number(each.sustained_gbps)} GB/s"
        for each in run.memories
        if run.own.memory_gb_per_video_by_memory.get(each.name)
    )
    return (
        "Shares are of the phase's own time; the largest is the limit. At the bandwidth or the "
        f"array given last, compute and bytes would take the same time. Now {rates}, and the "
        f"arrays make {number(design.machine.macs_per_cycle)} MACs per cycle."
    )


def elasticities_table(run: StoredRun) -> Table:
    """Change of latency per +10 % of each resource."""
    return Table(
        ("resource", "simulated", "latency per +10 %"),
        tuple(
            (
                each.resource,
                each.simulated,
                Figure(
                    signed_percent(each.latency_change_per_10_percent),
                    each.latency_change_per_10_percent,
                ),
            )
            for each in run.elasticities
        ),
        text_columns=2,
    )


def fit_table(run: StoredRun) -> Table:
    """Resources of the board that the design takes."""
    rows = [row for row in run.fit if row.needed or row.available]
    return Table(
        ("what", "needed", "available", "share"),
        tuple(
            (
                row.what,
                Figure(amount(row.needed, row.unit), row.needed),
                Figure(amount(row.available, row.unit), row.available),
                _share(row.needed / row.available if row.available else None),
            )
            for row in rows
        ),
        marked=frozenset(i for i, row in enumerate(rows) if not row.ok),
    )


def held(run: StoredRun) -> Iterator[str]:
    """Contents of each memory, a line each."""
    for memory in run.memories:
        if memory.contents_bytes:
            parts = " + ".join(
                f"{what} {amount(size, 'B')}" for what, size in memory.contents_bytes.items()
            )
            yield f"{memory.name}: {parts}; {amount(memory.free_bytes, 'B')} free"


def trust(run: StoredRun) -> Iterator[str]:
    """The trust that the figures deserve."""
    if run.simulated.layer_steps:
        yield (
            f"{count(run.simulated.different_phases, 'phase')} were simulated, which make up all "
            f"{count(run.simulated.layer_steps, 'layer-step')}: repetition is counted, not "
            "sampled. Only the interval of time and what 10 % more would bring come from a sample "
            "of steps."
        )
    if run.simulated.interpolated:
        yield (
            f"Of phases that differ in their length alone, {number(MOST_PLAYED)} were played, from "
            "the shortest to the longest; what the others wait for was interpolated between them."
        )
    yield (
        f"How wrong this may be: {FIDELITY.get(run.fidelity, '')} The interval of time "
        "spans the bandwidths measured on such boards, that of energy has bandwidth and all energy "
        "constants err in the same direction."
    )


def _share(share: float | None) -> Figure:
    return Figure("-" if share is None else percent(share), share, share)


def _speedup(run: StoredRun) -> str:
    """Speed-up of the own policy, with its interval if bandwidths have one."""
    value, low, high, _ = speedup(run)
    if run.bandwidth_interval is None:
        return f"{value:.2f}"
    return with_ends(f"{value:.3f}", f"{low:.3f}", f"{high:.3f}")


def _cells(run: StoredRun, name: str, interval: bool = False) -> list[Figure]:
    """The texts of a metric, with its interval if that is asked for and known; a policy each."""
    figures = []
    for policy in run.policies:
        value, text = policy.get(name), policy.text(name)
        ends = [policy.text(end) for end in INTERVALS.get(name, ())]
        if interval and {*ends} - {"-"}:
            text = with_ends(text, *ends)
        figures.append(Figure(text, None if isinstance(value, str) else value))
    return figures


def _sources(run: StoredRun) -> list[str]:
    return list(dict.fromkeys(policy.decisions for policy in run.policies))


def _trace(trace: Trace, design: Design) -> str:
    meta = trace.meta
    if meta.never_replays:
        return ""
    n_pairs = len(meta.guidance_pairs)
    pairs = f" in {count(n_pairs, 'guidance pair')}" if n_pairs else ""
    eligible = trace.replay[trace.tokens_per_frame :]
    ratio = percent(float(eligible.mean())) if eligible.size else "none"
    # Quality was measured at the trace's own threshold only.
    quality = meta.quality_text if design.policy.tau == "captured" else ""
    tau = "" if meta.made_up else f"{meta.tau_text}, "
    attention = "" if meta.origin == STATED else f"{meta.attention.kind} attention, "
    return f": {count(trace.n_rows, 'row')}{pairs}, {attention}{tau}replay ratio {ratio}{quality}"
