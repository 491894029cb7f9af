"""Tables of a run, for the terminal, the page and the studio."""

from collections.abc import Iterator
from math import fsum

from carsim.account.limits import PhaseLimit
from carsim.base.text import Figure, Table, amount, count, number, percent, signed_percent, span
from carsim.metrics import METRICS, PHASES, headline
from carsim.program.layers import replaying_blocks
from carsim.report.stored import StoredPolicy, StoredRun
from carsim.workload.precision import ROLES, Precision

BOUND = "bound for *'s mapping"
"""Name of the bound in a table of policies: another mapping of work to cores may be faster."""


def policies_table(run: StoredRun, *, own_only: bool = False) -> Table:
    """The headline metrics, a row per policy; ``*`` marks the design's own."""
    columns, rows = headline(run.video.kind), []
    policies = [run.own] if own_only else run.policies
    for policy in policies:
        name = policy.policy + " *" * policy.is_chosen
        if policy.is_bound:
            name = BOUND
        rows.append((name, *(_figure(policy, metric.name) for metric in columns)))
    headings = ("policy", *(run.named(metric.short or metric.heading) for metric in columns))
    strong = frozenset(i for i, policy in enumerate(policies) if policy.is_chosen)
    return Table(headings, tuple(rows), strong=strong)


def metrics_table(run: StoredRun) -> Table:
    """Every metric that is shown, a column per policy."""
    rows = [
        (run.named(metric.heading), *(_figure(policy, name) for policy in run.policies))
        for name, metric in METRICS.items()
        if metric.shown != "no" and any(policy.get(name) for policy in run.policies)
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
        + "Energy is that of the whole board in the simulated time. "
        + "carsim config metrics explains every figure."
    )
    for policy in run.policies:
        if policy.is_bound:
            yield f"{policy.policy}; another mapping may be faster than this lower bound."
    for index, label in enumerate(_sources(run), 1):
        yield f"[{index}] {label}"


def breakdown_table(run: StoredRun) -> Table:
    """Seconds of a batch by category under the design's own policy."""
    parts, total = run.own.breakdown_s, fsum(run.own.breakdown_s.values())
    rows = ((name, Figure(number(s), s), share_of(s / total)) for name, s in parts.items())
    whole = ("all", Figure(number(total), total), Figure(percent(1.0), 1.0))
    return Table(("category", "s per batch", "share"), (*rows, whole))


def limits_table(run: StoredRun) -> Table:
    """The limit of each phase, and the bandwidth or array at which it would change."""
    shares = ["compute", "memory", "port", "dependency"]
    rows = []
    for each in run.limits:
        time = Figure(percent(each.share_of_time), each.share_of_time)
        own = (share_of(getattr(each, f"{name}_share")) for name in shares)
        rows.append((phase_name(run, each.phase), each.limited_by, time, _flip(each), *own))
    return Table(("phase", "limited by", "time", "flips at", *shares), tuple(rows), text_columns=2)


def phase_name(run: StoredRun, phase: str) -> str:
    """Name of a phase; it says that rows replay in the phase only where they do."""
    name = "MLP" if phase == "mlp" else PHASES.get(phase, phase)
    if phase == "prefill" and run.is_network:
        name = "prompt"
    design = run.spec()
    if run.own.replays and phase in replaying_blocks(design.model, design.policy.skip):
        return f"{name} and replay"
    return name


def _flip(limit: PhaseLimit) -> Figure:
    """The array or the bandwidth at which compute and bytes take the same time."""
    value, unit = limit.flip_gbps, "GB/s"
    if limit.limited_by in ("exponentials", "elements", "buffer"):
        return Figure("-", None)
    if limit.limited_by in ("compute", "products"):
        value, unit = limit.flip_macs_per_cycle, "MACs/cycle"
    if value is None or limit.limited_by == "dependency":
        return Figure("-", None)
    return Figure(f"{number(value, 3)} {unit}", value)


def limits_note(run: StoredRun) -> str:
    """Notes on the table of limits."""
    rates = "; ".join(
        f"{each.name} sustains {number(each.sustained_gbps)} GB/s"
        for each in run.memories
        if run.own.memory_gb_per_video_by_memory.get(each.name)
    )
    return (
        "Shares are of the phase's own time; the largest is the limit. At the bandwidth or the "
        f"array under flips at, compute and bytes would take the same time. Now {rates}, and the "
        f"arrays make {number(run.own['macs_per_cycle'])} MACs per cycle."
    )


def memories_table(run: StoredRun) -> Table:
    """Bandwidth and latency of each memory of the board, a row per memory."""
    clock_mhz = run.spec().board.fabric_clock_mhz
    rows = []
    for memory in run.memories:
        latency_ns = 1000 * memory.latency_cycles / clock_mhz
        cycles = f"{count(memory.latency_cycles, 'cycle')} ({number(latency_ns)} ns)"
        row = (
            memory.name,
            Figure(number(memory.peak_gbps), memory.peak_gbps),
            Figure(number(memory.dram_gbps), memory.dram_gbps),
            Figure(number(memory.port_gbps), memory.port_gbps),
            memory.limited_by,
            Figure(cycles, memory.latency_cycles),
        )
        rows.append(row)
    headings = ("memory", "peak GB/s", "DRAM GB/s", "ports GB/s", "limited by", "latency")
    return Table(headings, tuple(rows))


def memories_note() -> str:
    """Note on the table of memories."""
    return (
        "DRAM is what the memory sustains for streams of weights, after refreshes, opened rows and "
        "turnarounds. Ports are what the ports to the fabric carry. A stream gets the lesser of "
        "both. Latency is from request to first byte in an idle system."
    )


def timed(run: StoredRun) -> str:
    """The time that more of a resource changes; of a text, without its prompt."""
    return "latency" if run.video.kind == "video" else "time per new token"


def elasticities_table(run: StoredRun) -> Table:
    """Change of the time, and of the time of the prompt, per +10 % of each resource."""
    rows = []
    for each in run.elasticities:
        changes = (each.latency_change_per_10_percent, each.prompt_change_per_10_percent)
        rows.append((each.resource, each.simulated, *map(_signed, changes)))
    headings = ("resource", "simulated", f"{timed(run)} per +10 %", "prompt per +10 %")
    return Table(headings, tuple(rows), text_columns=2)


def _signed(change: float | None) -> Figure:
    return Figure("-" if change is None else signed_percent(change), change)


def fit_table(run: StoredRun) -> Table:
    """Resources of the board that the design takes."""
    shown = [row for row in run.fit if row.needed or row.available]
    rows = []
    for row in shown:
        sizes = (Figure(amount(n, row.unit), n) for n in (row.needed, row.available))
        rows.append((row.what, *sizes, share_of(row.share if row.available else None)))
    marked = frozenset(i for i, row in enumerate(shown) if not row.ok)
    return Table(("what", "needed", "available", "share"), tuple(rows), marked=marked)


def held(run: StoredRun) -> Iterator[str]:
    """Contents of each memory, a line each."""
    for memory in run.memories:
        if contents := memory.contents_bytes.items():
            parts = " + ".join(f"{what} {amount(size, 'B')}" for what, size in contents)
            yield f"{memory.name}: {parts}; {amount(memory.free_bytes, 'B')} free"


def energy_table(run: StoredRun) -> Table:
    """Joules per video by part, with their ranges."""
    parts = run.own.energy_parts_per_video_j
    total = fsum(part.value for part in parts.values())
    rows = []
    for name, part in parts.items():
        ends = Figure(span(number(part.low), number(part.high), " to "), part.value)
        joules = Figure(number(part.value), part.value), share_of(part.value / total), ends
        rows.append((name, "static" if part.idle else "per operation", *joules))
    headings = ("part", "kind", run.named("J per video"), "share", "range")
    return Table(headings, tuple(rows), text_columns=2)


def asked(run: StoredRun) -> Iterator[tuple[str, str]]:
    """The simulation as terms with their texts."""
    design, video = run.spec(), run.video
    board, machine, model, policy = design.board, design.machine, design.model, design.policy
    described = f": {design.description}" if design.description else ""
    yield "design", f"{run.design} (sha256 {run.design_sha256[:12]}){described}"
    yield "board", f"{board.name} ({board.part}), fabric at {number(board.fabric_clock_mhz)} MHz"
    sharing = machine.weight_sharing.replace("_", " ")
    how = f"{machine.mapping} mapping, {sharing} weights, decision at {machine.decision_at}"
    yield "machine", f"{machine.text}, {how}"
    stored: dict[str, Precision] = {
        "weight": model.weights,
        "KV": model.kv,
        "activation": model.activations,
    }
    stored["replay cache"] = model.replay
    for role in ROLES:
        precision = model.weights_by_role.of(role)
        if precision is not None:
            stored[role.replace("_", " ")] = precision
    bits = ", ".join(f"{what} {number(float(of.bits_per_element))}" for what, of in stored.items())
    head = "included" if machine.include_head else "left out"
    yield "model", f"{model.name}: bits per {bits}; head {head}"
    attention = getattr(policy.attention, "text", f"{policy.attention.kind} attention")
    parts = [f"batch of {policy.batch}, {count(policy.tokens_per_step, 'token')} a step of each"]
    parts += [f"{run.own.schedule} schedule", attention, run.own.decisions]
    parts += [f"decisions by {policy.decision_scope}"] * run.own.replays
    yield "policy", ", ".join(parts)
    decoded = count(video.tokens_per_frame, "token")
    if video.kind == "video":
        decoded = f"{count(video.frames, 'frame')} x {decoded} = {count(video.steps, 'step')}"
    yield video.kind, f"{decoded} after a prompt of {number(video.prompt_tokens)}"
    for each in run.traces:
        yield "trace", f"{each.name} (sha256 {each.sha256[:12]})"
    batches = count(run.batches, "batch", "batches")
    sequences = count(run.sequences_per_batch, "sequence")
    videos = count(run.videos_per_batch, video.kind)
    how = f"{run.fidelity} fidelity, carsim {run.carsim_version}"
    yield "run", f"{batches} of {sequences}, {videos} each, {how}"


def share_of(share: float | None) -> Figure:
    """A share with its bar."""
    return Figure("-" if share is None else percent(share), share, share)


def _figure(policy: StoredPolicy, name: str) -> Figure:
    value = policy.get(name)
    return Figure(policy.text(name), None if isinstance(value, str) else value)


def _sources(run: StoredRun) -> list[str]:
    return list(dict.fromkeys(policy.decisions for policy in run.policies))
