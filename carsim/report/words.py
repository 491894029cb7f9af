"""What runs are made of, in words: board, machine, model, policy, phases, amounts."""

from carsim.design import Design, Precision, StreamingAttention
from carsim.text import number
from carsim.units import GB, KIB

PHASE_LABELS = {
    "prefill": "prefill",
    "qkv": "QKV projection",
    "attention": "attention",
    "output": "output projection",
    "mlp": "MLP and replay",
    "head": "head",
}


def board_text(design: Design) -> str:
    """Board, device and clock."""
    board = design.board
    return f"{board.name} ({board.device}), fabric at {number(board.fabric_clock_mhz)} MHz"


def memory_text(
    standard: str,
    sustained_gbps: float,
    peak_gbps: float,
    limited_by: str,
    latency_cycles: int,
) -> str:
    """What a memory sustains."""
    return (
        f"{standard}: sustains {number(sustained_gbps)} of {number(peak_gbps)} GB/s "
        f"(the {limited_by} is the limit), first byte after {latency_cycles} cycles"
    )


def machine_text(design: Design) -> str:
    """Cores and what they do."""
    machine = design.machine
    return (
        f"{count(machine.cores, 'core')} of {machine.array.rows} x {machine.array.cols} MACs "
        f"({machine.array.arithmetic}), {machine.mapping} mapping, "
        f"{machine.weight_sharing.replace('_', ' ')} weights, prefetch {machine.prefetch}, "
        f"decision at {machine.decision_at}"
    )


def model_text(design: Design) -> str:
    """The model and its precisions."""
    model, machine = design.model, design.machine

    def bits(precision: Precision) -> str:
        return number(float(precision.bits_per_element))

    head = "head included" if machine.include_head else "head left out"
    return (
        f"{model.name}: bits per weight {bits(model.weights)}, KV {bits(model.kv)}, "
        f"activation {bits(model.activations)}, replay cache {bits(model.replay)}; {head}"
    )


def policy_text(design: Design) -> str:
    """Batch, schedule, attention, threshold and scope of decisions."""
    policy = design.policy
    attention = "dense attention"
    if isinstance(policy.attention, StreamingAttention):
        attention = (
            f"sparse attention ({policy.attention.sinks} sinks, window {policy.attention.window})"
        )
    tau = "tau of the trace"
    if isinstance(policy.tau, tuple):
        tau = f"{len(policy.tau)} taus, one per layer (open loop)"
    elif policy.tau != "captured":
        tau = f"tau {policy.tau:g} (open loop)"
    return (
        f"batch of {policy.batch}, {policy.schedule} schedule, {attention}, {tau}, "
        f"decisions by {policy.decision_scope}"
    )


def video_text(n_frames: int, tokens_per_frame: int, n_steps: int, prompt_tokens: int) -> str:
    """The video that is decoded."""
    return (
        f"{n_frames} frames x {tokens_per_frame} tokens = {number(n_steps)} steps after a prompt "
        f"of {prompt_tokens}"
    )


def run_text(
    n_batches: int, batch: int, videos_per_batch: int, left_out_rows: int, fidelity: str
) -> str:
    """Batches, videos and fidelity."""
    left_out = f" ({count(left_out_rows, 'row')} of the trace left out)" if left_out_rows else ""
    return (
        f"{count(n_batches, 'batch', 'batches')} of {batch} sequences, "
        f"{count(videos_per_batch, 'video')} each{left_out}, {fidelity} fidelity"
    )


def count(n: int, one: str, many: str = "") -> str:
    """So many of a thing.

    >>> count(1, "core"), count(3, "batch", "batches")
    ('1 core', '3 batches')
    """
    return f"{n} {one if n == 1 else many or one + 's'}"


def amount(n: int, unit: str) -> str:
    """So much of a thing; ``B`` stands for bytes.

    >>> amount(2520, "DSP"), amount(4_094_000_000, "B"), amount(65536, "B")
    ('2,520 DSP', '4.094 GB', '64.0 KiB')
    """
    if unit != "B":
        return f"{n:,} {unit}"
    return f"{n / GB:.3f} GB" if abs(n) >= GB // 100 else f"{n / KIB:,.1f} KiB"


def signed_percent(change: float, digits: int = 2) -> str:
    """A relative change with its sign, never minus nothing.

    >>> signed_percent(-0.0894), signed_percent(-0.00001)
    ('-8.94 %', '+0.00 %')
    """
    return f"{round(100 * change, digits) + 0.0:+.{digits}f} %"
