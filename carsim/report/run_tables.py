"""Tables of a run, for the terminal, the page and the studio."""

from collections.abc import Iterator
from math import fsum

from carsim.account.limits import PhaseLimit
from carsim.base.text import Figure, Table, amount, count, number, percent, signed_percent, span
from carsim.metrics import METRICS, PHASES, headline
from carsim.program.layers import replaying_blocks
from carsim.report.stored import StoredPolicy, StoredRun, StoredVideo
from carsim.workload.model import Model
from carsim.workload.precision import ROLES, Precision

BOUND = "bound for *'s mapping"
"""Name of the bound in a table of policies: another mapping of work to cores may be faster."""


def policies_table(run: StoredRun, *, own_only: bool = False) -> Table:
    """The headline metrics, a row per policy; ``*`` marks the design's own.

    Args:
        run: The run.
        own_only: Only the design's own policy.
    """
    metrics = headline(run.video.kind)
    policies = [run.own] if own_only else run.policies
    rows: list[tuple[str, ...]] = []
    for policy in policies:
        name = BOUND if policy.is_bound else _marked_name(policy)
        figures = [_figure(policy, metric.name) for metric in metrics]
        rows.append((name, *figures))
    titles = [run.named(metric.short or metric.heading) for metric in metrics]
    own_rows = [index for index, policy in enumerate(policies) if policy.is_chosen]
    return Table(("policy", *titles), tuple(rows), strong=frozenset(own_rows))


def _marked_name(policy: StoredPolicy) -> str:
    """Name of a policy, with a mark if the design has chosen it."""
    return f"{policy.policy} *" if policy.is_chosen else policy.policy


def metrics_table(run: StoredRun) -> Table:
    """Every metric that is shown, a column per policy."""
    rows: list[tuple[str, ...]] = []
    for name, metric in METRICS.items():
        is_known = any(policy.get(name) for policy in run.policies)
        if metric.shown == "no" or not is_known:
            continue
        figures = [_figure(policy, name) for policy in run.policies]
        rows.append((run.named(metric.heading), *figures))
    rows += _memory_rows(run)
    sources = _sources(run)
    notes = [f"[{sources.index(policy.decisions) + 1}]" for policy in run.policies]
    rows.append(("decisions", *notes))
    names = [_marked_name(policy) for policy in run.policies]
    return Table(("metric", *names), tuple(rows))


def _memory_rows(run: StoredRun) -> Iterator[tuple[str, ...]]:
    """Utilisation of each memory by policy, where a board has several memories."""
    memories: dict[str, None] = {}
    for policy in run.policies:
        memories |= dict.fromkeys(policy.memory_utilisation_by_memory)
    if len(memories) < 2:
        return
    for memory in memories:
        figures = []
        for policy in run.policies:
            share = policy.memory_utilisation_by_memory.get(memory, 0.0)
            figures.append(Figure(percent(share), share))
        yield (f"utilisation of {memory}", *figures)


def labels(run: StoredRun) -> Iterator[str]:
    """Meaning of the marks and numbers of the table of metrics."""
    sentences = ["* the design's own policy."]
    if run.own.replays:
        sentences.append("The replay ratio leaves out the first frame, which never replays.")
    sentences.append("Energy is that of the whole board in the simulated time.")
    sentences.append("carsim config metrics explains every figure.")
    yield " ".join(sentences)
    for policy in run.policies:
        if policy.is_bound:
            yield f"{policy.policy}; another mapping may be faster than this lower bound."
    for index, label in enumerate(_sources(run), 1):
        yield f"[{index}] {label}"


def breakdown_table(run: StoredRun) -> Table:
    """Seconds of a batch by category under the design's own policy."""
    seconds_of = run.own.breakdown_s
    total_s = fsum(seconds_of.values())
    rows = []
    for category, seconds in seconds_of.items():
        time = Figure(number(seconds), seconds)
        rows.append((category, time, share_of(seconds / total_s)))
    rows.append(("all", Figure(number(total_s), total_s), Figure(percent(1.0), 1.0)))
    return Table(("category", "s per batch", "share"), tuple(rows))


def limits_table(run: StoredRun) -> Table:
    """The limit of each phase, and the bandwidth or array at which it would change."""
    rows = []
    for limit in run.limits:
        row = (
            phase_name(run, limit.phase),
            limit.limited_by,
            Figure(percent(limit.share_of_time), limit.share_of_time),
            _flip(limit),
            share_of(limit.compute_share),
            share_of(limit.memory_share),
            share_of(limit.port_share),
            share_of(limit.dependency_share),
        )
        rows.append(row)
    resources = ("compute", "memory", "port", "dependency")
    headings = ("phase", "limited by", "time", "flips at", *resources)
    return Table(headings, tuple(rows), text_columns=2)


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
    if limit.limited_by in ("exponentials", "elements", "buffer", "dependency"):
        return Figure("-", None)
    if limit.limited_by in ("compute", "products"):
        flip = limit.flip_macs_per_cycle
        unit = "MACs/cycle"
    else:
        flip = limit.flip_gbps
        unit = "GB/s"
    if flip is None:
        return Figure("-", None)
    return Figure(f"{number(flip, 3)} {unit}", flip)


def limits_note(run: StoredRun) -> str:
    """Notes on the table of limits."""
    moved_gb = run.own.memory_gb_per_video_by_memory
    used = [memory for memory in run.memories if moved_gb.get(memory.name)]
    rates = [f"{memory.name} sustains {number(memory.sustained_gbps)} GB/s" for memory in used]
    return (
        "Shares are of the phase's own time; the largest is the limit. At the bandwidth or the "
        "array under flips at, compute and bytes would take the same time. "
        f"Now {'; '.join(rates)}, and the "
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
    for elasticity in run.elasticities:
        row = (
            elasticity.resource,
            elasticity.simulated,
            _signed(elasticity.latency_change_per_10_percent),
            _signed(elasticity.prompt_change_per_10_percent),
        )
        rows.append(row)
    headings = ("resource", "simulated", f"{timed(run)} per +10 %", "prompt per +10 %")
    return Table(headings, tuple(rows), text_columns=2)


def _signed(change: float | None) -> Figure:
    """A change with its sign; ``-`` where there is none."""
    return Figure("-" if change is None else signed_percent(change), change)


def fit_table(run: StoredRun) -> Table:
    """Resources of the board that the design takes."""
    shown = [row for row in run.fit if row.needed or row.available]
    rows = []
    for row in shown:
        needed = Figure(amount(row.needed, row.unit), row.needed)
        available = Figure(amount(row.available, row.unit), row.available)
        share = row.share if row.available else None
        rows.append((row.what, needed, available, share_of(share)))
    misfits = [index for index, row in enumerate(shown) if not row.ok]
    headings = ("what", "needed", "available", "share")
    return Table(headings, tuple(rows), marked=frozenset(misfits))


def held(run: StoredRun) -> Iterator[str]:
    """Contents of each memory, a line each."""
    for memory in run.memories:
        if not memory.contents_bytes:
            continue
        sizes = [f"{name} {amount(size, 'B')}" for name, size in memory.contents_bytes.items()]
        yield f"{memory.name}: {' + '.join(sizes)}; {amount(memory.free_bytes, 'B')} free"


def energy_table(run: StoredRun) -> Table:
    """Joules per video by part, with their ranges."""
    energies = run.own.energy_parts_per_video_j
    total_j = fsum(energy.value for energy in energies.values())
    rows = []
    for name, energy in energies.items():
        interval = span(number(energy.low), number(energy.high), " to ")
        row = (
            name,
            "static" if energy.idle else "per operation",
            Figure(number(energy.value), energy.value),
            share_of(energy.value / total_j),
            Figure(interval, energy.value),
        )
        rows.append(row)
    headings = ("part", "kind", run.named("J per video"), "share", "range")
    return Table(headings, tuple(rows), text_columns=2)


def asked(run: StoredRun) -> Iterator[tuple[str, str]]:
    """The simulation as terms with their texts."""
    design = run.spec()
    board = design.board
    machine = design.machine
    description = f": {design.description}" if design.description else ""
    yield "design", f"{run.design} (sha256 {run.design_sha256[:12]}){description}"
    yield "board", f"{board.name} ({board.part}), fabric at {number(board.fabric_clock_mhz)} MHz"
    sharing = machine.weight_sharing.replace("_", " ")
    work = f"{machine.mapping} mapping, {sharing} weights, decision at {machine.decision_at}"
    yield "machine", f"{machine.text}, {work}"
    head = "included" if machine.include_head else "left out"
    yield "model", f"{design.model.name}: bits per {_bits(design.model)}; head {head}"
    yield "policy", _policy(run)
    sample = design.model.sample
    if sample is None:
        yield run.video.kind, _decoded(run.video)
    else:
        yield "sample", f"{sample.in_words} of {count(sample.passes, 'row')}"
    for trace in run.traces:
        yield "trace", f"{trace.name} (sha256 {trace.sha256[:12]})"
    batches = count(run.batches, "batch", "batches")
    sequences = count(run.sequences_per_batch, "sequence")
    videos = count(run.videos_per_batch, run.video.kind)
    version = f"{run.fidelity} fidelity, carsim {run.carsim_version}"
    yield "run", f"{batches} of {sequences}, {videos} each, {version}"


def _bits(model: Model) -> str:
    """Bits per element of what a model stores, with the roles of weights that differ."""
    precisions: dict[str, Precision] = {
        "weight": model.weights,
        "KV": model.kv,
        "activation": model.activations,
        "replay cache": model.replay,
    }
    for role in ROLES:
        role_precision = model.weights_by_role.of(role)
        if role_precision is not None:
            precisions[role.replace("_", " ")] = role_precision
    texts = []
    for name, precision in precisions.items():
        texts.append(f"{name} {number(float(precision.bits_per_element))}")
    return ", ".join(texts)


def _policy(run: StoredRun) -> str:
    """Batch, schedule, attention and decisions of the design's own policy."""
    design = run.spec()
    policy = design.policy
    texts = [f"batch of {policy.batch}"]
    if design.model.sample is None:
        texts.append(f"{count(policy.tokens_per_step, 'token')} a step of each")
    texts.append(f"{run.own.schedule} schedule")
    texts.append(getattr(policy.attention, "text", f"{policy.attention.kind} attention"))
    texts.append(run.own.decisions)
    if run.own.replays:
        texts.append(f"decisions by {policy.decision_scope}")
    return ", ".join(texts)


def _decoded(video: StoredVideo) -> str:
    """Size of a video or text, and of its prompt."""
    tokens = count(video.tokens_per_frame, "token")
    if video.kind == "video":
        tokens = f"{count(video.frames, 'frame')} x {tokens} = {count(video.steps, 'step')}"
    return f"{tokens} after a prompt of {number(video.prompt_tokens)}"


def share_of(share: float | None) -> Figure:
    """A share with its bar."""
    return Figure("-" if share is None else percent(share), share, share)


def _figure(policy: StoredPolicy, name: str) -> Figure:
    """A metric of a policy."""
    value = policy.get(name)
    return Figure(policy.text(name), None if isinstance(value, str) else value)


def _sources(run: StoredRun) -> list[str]:
    """Sources of the decisions of all policies, each once."""
    return list(dict.fromkeys(policy.decisions for policy in run.policies))
