"""Why a kind of phase takes as long as it does: amounts times rates, line by line."""

from dataclasses import dataclass

from carsim.account.limits import phase_limits
from carsim.account.row import RowResult
from carsim.base.errors import InputError


@dataclass(frozen=True)
class WhyLine:
    """An amount of work, the rate at which it goes, and the time that it takes alone.

    Attributes:
        what: The work.
        amount: Of one batch, in ``unit``.
        unit: ``GB`` or ``GMAC``.
        rate: In ``unit`` per second.
        seconds: Amount over rate; of the core that finishes last, for products.
    """

    what: str
    amount: float
    unit: str
    rate: float
    seconds: float


@dataclass(frozen=True)
class Why:
    """Time of a kind of phase in one batch.

    Attributes:
        phase: Kind of phase, such as ``attention``.
        seconds: Time of the phase.
        limited_by: ``compute``, ``memory``, ``port`` or ``dependency``.
        lines: Work at its rate.
        other_seconds: Time beyond the longest line: latency, dispatch, waiting, short reads.
    """

    phase: str
    seconds: float
    limited_by: str
    lines: tuple[WhyLine, ...]
    other_seconds: float

    def __str__(self) -> str:
        """A line for each amount, and for what no amount explains."""
        head = f"{self.phase}: {self.seconds:.4g} s a batch, limited by {self.limited_by}"
        lines = [
            f"  {line.what}: {line.amount:.4g} {line.unit} at {line.rate:.4g} {line.unit}/s"
            f" = {line.seconds:.4g} s"
            for line in self.lines
        ]
        rest = f"  latency, waiting and short reads: {self.other_seconds:.4g} s"
        return "\n".join([head, *lines, rest])


def why(row: RowResult, phase: str) -> Why:
    """The time of a kind of phase, explained by amounts and rates.

    Bytes and products go on side by side: the longest line counts, not their sum.

    Args:
        row: The policy.
        phase: Kind of phase: ``qkv``, ``attention``, ``output``, ``mlp``, ``head``, ``prefill``.

    Raises:
        InputError: The row has no such phase.
    """
    simulation = row.simulation
    limits = {limit.phase: limit for limit in phase_limits(simulation)}
    if phase not in limits:
        raise InputError("why", f"no phase {phase!r}", f"known are {', '.join(limits)}")
    limit = limits[phase]
    total = simulation.totals[phase]
    hw = simulation.plan.hw
    clock_hz = hw.design.board.fabric_clock_mhz * 1e6
    batches = row.n_batches
    factor = float(hw.bandwidth_factor)
    lines = []
    for path, nbytes in zip(hw.paths, total.dram_bytes, strict=True):
        if not nbytes:
            continue
        gbps = min(path.dram_gbps, path.port_gbps) * factor
        gigabytes = nbytes / 1e9 / batches
        what = f"bytes of {path.name}"
        lines.append(
            WhyLine(what=what, amount=gigabytes, unit="GB", rate=gbps, seconds=gigabytes / gbps)
        )
    if total.compute_cycles and total.macs:
        seconds = total.compute_cycles / clock_hz / batches
        gmacs = total.macs / 1e9 / batches
        lines.append(
            WhyLine(
                what="products of all cores",
                amount=gmacs,
                unit="GMAC",
                rate=gmacs / seconds,
                seconds=seconds,
            )
        )
    phase_seconds = total.cycles / clock_hz / batches
    longest = max((line.seconds for line in lines), default=0.0)
    return Why(
        phase=phase,
        seconds=phase_seconds,
        limited_by=limit.limited_by,
        lines=tuple(lines),
        other_seconds=phase_seconds - longest,
    )
