"""A memory as a fluid: bandwidth shared between the flows that are under way.

Model: a path of constant sustained bandwidth (the lesser of what the memory sustains and what its
ports carry) serves any number of flows at once by max-min fairness: every flow gets an equal share,
a flow that cannot take its share leaves the rest to the others. Nothing happens between the start,
the end and a change of cap of a flow.

Time is integer cycles, and the path's rate is a rational number of bytes per cycle; progress is
kept in integer *credits* of 1 / (denominator * SHARES) bytes, so nothing is rounded but the cycle
in which a flow ends. What that last cycle could have served beyond the flow
(``Flow.spare_credits``) is handed to the flow that follows it without a gap: back-to-back transfers
take exactly the time of their sum.

Simplifications: efficiency does not change with the flows under way (it is that of the design's
access pattern); reads and writes are alike; refresh is a rate; order of requests within a flow does
not matter.
"""

from fractions import Fraction
from typing import NamedTuple

import simpy

from carsim.machine.clock import Clock
from carsim.machine.many import larger

SHARES = 720_720
"""Least common multiple of 1 to 16: up to 16 equal flows share without a remainder."""


class Credits(NamedTuple):
    """The integer units in which a path keeps its books.

    Attributes:
        per_byte: Credits of a byte.
        capacity: Credits that the path serves per cycle.
    """

    per_byte: int
    capacity: int

    def pace(self, nbytes: int, cycles: int) -> int:
        """Credits per cycle of whoever takes ``nbytes`` in ``cycles``, at least one."""
        return larger(1, self.per_byte * nbytes // cycles)


def credits_of(rate: Fraction) -> Credits:
    """The units of a path of ``rate`` bytes per cycle."""
    return Credits(rate.denominator * SHARES, rate.numerator * SHARES)


class Flow:
    """Bytes on their way; ``done`` triggers when the last one has arrived."""

    __slots__ = ("_remaining", "cap", "done", "finished_at", "rate", "spare_credits", "weight")

    def __init__(self, done: simpy.Event, credits_: int, cap: int | None, weight: int) -> None:
        self.done = done
        self.cap = cap
        self.weight = weight
        self.rate = 0
        self.spare_credits = 0
        self.finished_at = -1
        self._remaining = credits_


class FluidMemory:
    """One path to memory, shared by flows.

    Args:
        env: The event loop, in fabric cycles.
        rate: Sustained bytes per cycle of the whole path.

    Attributes:
        moved_bytes: Bytes of all flows started so far, over all their consumers.
    """

    def __init__(self, env: Clock, rate: Fraction) -> None:
        self._env = env
        self._credits = credits_of(rate)
        self._flows: list[Flow] = []
        self.moved_bytes = 0
        self._settled_at = 0
        self._timer: simpy.Event | None = None

    def start(
        self,
        nbytes: int,
        *,
        weight: int = 1,
        cap: tuple[int, int] | None = None,
        spare_credits: int = 0,
    ) -> Flow:
        """Start a flow of ``nbytes`` on each of ``weight`` identical consumers.

        Args:
            nbytes: Bytes per consumer, more than 0.
            weight: Identical consumers that this flow stands for.
            cap: (Bytes, cycles) of the most that one consumer takes; None for no limit.
            spare_credits: Left over from the flow that ended in this very cycle.
        """
        self._settle()
        self.moved_bytes += nbytes * weight
        credits_ = nbytes * self._credits.per_byte - spare_credits
        flow = Flow(self._env.event(), credits_, self._cap_credits(cap), weight)
        if credits_ <= 0:
            self._end(flow)  # within the cycle that the flow before it left over
            return flow
        self._flows.append(flow)
        self._reshare()
        return flow

    def set_cap(self, flow: Flow, cap: tuple[int, int] | None) -> None:
        """Change what one consumer of a flow under way takes at most."""
        credits_ = self._cap_credits(cap)
        if credits_ == flow.cap or flow.finished_at >= 0:
            return
        binds = flow.cap is not None and flow.rate >= flow.cap
        flow.cap = credits_
        if binds or (credits_ is not None and credits_ < flow.rate):
            self._settle()
            self._reshare()

    def progress_bytes(self, flow: Flow, nbytes: int) -> int:
        """Whole bytes of a flow of ``nbytes`` that have arrived by now."""
        self._settle()
        return nbytes - -(-max(0, flow._remaining) // self._credits.per_byte)

    def _cap_credits(self, cap: tuple[int, int] | None) -> int | None:
        return None if cap is None else self._credits.pace(*cap)

    def _settle(self) -> None:
        elapsed = self._env.cycle - self._settled_at
        if elapsed:
            for flow in self._flows:
                flow._remaining -= flow.rate * elapsed
            self._settled_at = self._env.cycle

    def _reshare(self) -> None:
        self._assign_rates()
        self._timer = None
        if self._flows:
            wait = min([-(-flow._remaining // flow.rate) for flow in self._flows])
            self._timer = timer = simpy.Timeout(self._env, max(0, wait))
            timer.callbacks.append(self._on_timer)

    def _assign_rates(self) -> None:
        if len(self._flows) == 1:
            flow = self._flows[0]
            share = self._credits.capacity // flow.weight
            flow.rate = share if flow.cap is None else min(share, flow.cap)
            return
        left, weight = self._credits.capacity, sum(flow.weight for flow in self._flows)
        # Flows of the smallest cap first: what they leave raises the share of the rest.
        uncapped = self._credits.capacity + 1
        for flow in sorted(
            self._flows, key=lambda flow: uncapped if flow.cap is None else flow.cap
        ):
            share = left // weight
            flow.rate = share if flow.cap is None else min(share, flow.cap)
            left -= flow.rate * flow.weight
            weight -= flow.weight

    def _on_timer(self, timer: simpy.Event) -> None:
        if timer is not self._timer:
            return  # the shares have changed since; a later timer stands for the flow
        self._settle()
        ended = [flow for flow in self._flows if flow._remaining <= 0]
        self._flows = [flow for flow in self._flows if flow._remaining > 0]
        for flow in ended:
            self._end(flow)
        self._reshare()

    def _end(self, flow: Flow) -> None:
        flow.finished_at = self._env.cycle
        flow.spare_credits = -flow._remaining
        flow.done.succeed()
