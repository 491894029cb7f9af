"""Tables of a run, for the terminal, the page and the studio."""

from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from carsim.base.text import Figure, Table, amount, count, number, percent, signed_percent, span
from carsim.decisions.trace import Trace
from carsim.design import Design
from carsim.machine.phase import MOST_PLAYED
from carsim.metrics import INTERVALS, METRICS, PHASES
from carsim.report.stored import StoredPolicy, StoredRun

FIDELITY = {
    "fluid": "Transfers share the sustained rate of a memory by their bytes; latencies are within "
    "1 % of tile fidelity in the median and 5 % at worst over 200 designs.",
    "tile": "A memory serves whole tiles at its sustained rate.",
}
"""The model of memory at each fidelity, and its error."""

VIDEO_COLUMNS = {
    "seconds_per_video": "seconds per video",
    "speedup": "speed-up",
    "energy_per_video_j": "joules",
    "busy": "cores busy",
    "memory_utilisation": "memory busy",
}
"""Metric -> heading in the table of policies."""

TEXT_COLUMNS = {
    "stream_tokens_per_s": "tokens/s per stream",
    "tokens_per_s": "tokens/s in all",
    "ms_per_token": "ms per step",
    "first_token_s": "first token [s]",
    "energy_per_token_j": "joules per token",
    "memory_utilisation": "memory busy",
}
"""The same for a text."""


def policies_table(run: StoredRun, *, own_only: bool = False) -> Table:
    """The headline metrics, a row per policy; ``*`` marks the design's own."""
    columns = TEXT_COLUMNS if run.video.kind == "text" else VIDEO_COLUMNS
    policies = [run.own] if own_only else run.policies
    return Table(
        ("policy", *map(run.named, columns.values())),
        tuple(
            (
                policy.policy.partition(":")[0]
                + (" of *" if policy.is_bound else " *" * policy.is_chosen),
                *(_figure(policy, name) for name in columns),
            )
            for policy in policies
        ),
        strong=frozenset(i for i, policy in enumerate(policies) if policy.is_chosen),
    )


def metrics_table(run: StoredRun) -> Table:
    """Every further metric, a column per policy."""
    ends = {end for name in INTERVALS for end in INTERVALS[name]}
    rows = [
        (run.named(metric.heading), *(_figure(policy, name) for policy in run.policies))
        for name, metric in METRICS.items()
        if (metric.shown or name in ends)
        and not metric.of_design
        and any(policy.get(name) for policy in run.policies)
    ]
    memories = dict.fromkeys(m for p in run.policies for m in p.memory_utilisation_by_memory)
    for memory in memories if len(memories) > 1 else ():
        shares = (p.memory_utilisation_by_memory.get(memory, 0.0) for p in run.policies)
        rows.append((f"utilisation of {memory}", *(Figure(percent(s), s) for s in shares)))
    sources = _sources(run)
    rows.append(("decisions", *(f"[{sources.index(p.decisions) + 1}]" for p in run.policies)))
    names = (policy.policy + " *" * policy.is_chosen for policy in run.policies)
    return Table(("metric", *names), tuple(rows))


def labels(run: StoredRun) -> Iterator[str]:
    """Meaning of the marks and numbers of the table of metrics."""
    yield (
        "* the design's own policy. "
        + "The replay ratio leaves out the first frame, which never replays. " * run.own.replays
        + "Energy is that of the whole board. carsim config metrics explains every figure."
    )
    for policy in run.policies:
        if policy.is_bound:
            yield f"{policy.policy}; another mapping may be faster than this lower bound."
    for index, label in enumerate(_sources(run), 1):
        yield f"[{index}] {label}"


def breakdown_table(run: StoredRun) -> Table:
    """Seconds of a batch by category under the design's own policy."""
    return _parts_table(("category", "s per batch", "share"), run.own.breakdown_s)


def _parts_table(headings: tuple[str, ...], parts: Mapping[str, float]) -> Table:
    total = fsum(parts.values())
    rows = [(name, Figure(number(v), v), share_of(v / total)) for name, v in parts.items()]
    rows.append(("all", Figure(number(total), total), Figure(percent(1.0), 1.0)))
    return Table(headings, tuple(rows))


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
                share_of(each.share_of_time),
                *map(share_of, (each.compute_share, each.memory_share)),
                *map(share_of, (each.port_share, each.dependency_share)),
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
            (each.resource, each.simulated, Figure(signed_percent(change), change))
            for each in run.elasticities
            for change in [each.latency_change_per_10_percent]
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
                share_of(row.needed / row.available if row.available else None),
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


def energy_table(run: StoredRun) -> Table:
    """Joules per video by part, with their ranges."""
    parts = run.own.energy_parts_per_video_j
    total = fsum(part.value for part in parts.values())
    return Table(
        ("part", "kind", run.named("J per video"), "share", "range"),
        tuple(
            (
                name,
                "static" if part.idle else "per operation",
                Figure(number(part.value), part.value),
                share_of(part.value / total),
                Figure(span(number(part.low), number(part.high), " to "), part.value),
            )
            for name, part in parts.items()
        ),
        text_columns=2,
    )


def asked(
    run: StoredRun, design: Design, traces: Sequence[Trace] = ()
) -> Iterator[tuple[str, str]]:
    """The simulation as terms with their texts."""
    board, machine, video, model = design.board, design.machine, run.video, design.model
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
    stored = {"weight": model.weights, "KV": model.kv, "activation": model.activations}
    bits = ", ".join(
        f"{what} {number(float(precision.bits_per_element))}"
        for what, precision in (stored | {"replay cache": model.replay}).items()
    )
    head = "included" if machine.include_head else "left out"
    yield "model", f"{model.name}: bits per {bits}; head {head}"
    yield "policy", _policy(run, design)
    decoded = count(video.tokens_per_frame, "token")
    if video.kind == "video":
        decoded = f"{count(video.frames, 'frame')} x {decoded} = {count(video.steps, 'step')}"
    yield video.kind, f"{decoded} after a prompt of {number(video.prompt_tokens)}"
    known = {trace.sha256: trace for trace in traces}
    for each in run.traces:
        more = _trace(known[each.sha256], design) if each.sha256 in known else ""
        yield "trace", f"{each.name} (sha256 {each.sha256[:12]}){more}"
    left_out = f" ({count(run.rows_left_out, 'row')} left out)" if run.rows_left_out else ""
    yield (
        "run",
        f"{count(run.batches, 'batch', 'batches')} of "
        f"{count(run.sequences_per_batch, 'sequence')}, "
        f"{count(run.videos_per_batch, video.kind)} each{left_out}, {run.fidelity} fidelity, "
        f"carsim {run.carsim_version}",
    )


def _policy(run: StoredRun, design: Design) -> str:
    policy = design.policy
    attention = getattr(policy.attention, "text", f"{policy.attention.kind} attention")
    sets = policy.tokens_per_step
    at_once = f"{sets} tokens a step of each, " if sets > 1 else ""
    scope = f", decisions by {policy.decision_scope}" if run.own.replays else ""
    return (
        f"batch of {policy.batch}, {at_once}{run.own.schedule} schedule, {attention}, "
        f"{run.own.decisions}{scope}"
    )


def _trace(trace: Trace, design: Design) -> str:
    meta = trace.meta
    if meta.never_replays:
        return ""
    pairs = len(meta.guidance_pairs)
    in_pairs = f" in {count(pairs, 'guidance pair')}" if pairs else ""
    eligible = trace.replay[trace.tokens_per_frame :]
    ratio = percent(float(eligible.mean())) if eligible.size else "none"
    # Quality was measured at the trace's own threshold only.
    return f": {count(trace.n_rows, 'row')}{in_pairs}, replay ratio {ratio}"


def trust(run: StoredRun) -> Iterator[str]:
    """Errors and samples behind the figures."""
    if run.simulated.layer_steps:
        yield (
            f"{count(run.simulated.different_phases, 'phase')} were simulated, which make up all "
            f"{count(run.simulated.layer_steps, 'layer-step')}: repetition is counted, not "
            "sampled. Only the interval of time and the effect of 10 % more come from a sample "
            "of steps."
        )
    if run.simulated.interpolated:
        yield (
            f"Of phases that differ in their length alone, {number(MOST_PLAYED)} were played, from "
            "the shortest to the longest; waiting times of the others were interpolated."
        )
    yield (
        f"{FIDELITY.get(run.fidelity, '')} The interval of time spans the bandwidths measured on "
        "such boards. The interval of energy adds all energy constants at one end."
    )


def share_of(share: float | None) -> Figure:
    """A share with its bar."""
    return Figure("-" if share is None else percent(share), share, share)


def _figure(policy: StoredPolicy, name: str) -> Figure:
    value = policy.get(name)
    return Figure(policy.text(name), None if isinstance(value, str) else value)


def _sources(run: StoredRun) -> list[str]:
    return list(dict.fromkeys(policy.decisions for policy in run.policies))
