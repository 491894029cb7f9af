"""A port between fabric and memory."""

from collections.abc import Generator
from fractions import Fraction
from math import ceil
from typing import Any

import simpy

Process = Generator[simpy.Event, Any, None]


class MemoryPort:
    """Serves one request at a time, first come, first served.

    The first byte of a read arrives after the latency of memory and interconnect; requests in
    flight overlap their latencies. Bytes then flow at the rate that the memory sustains for the
    pattern of the request. Fractions of a cycle are carried from one request to the next, so that
    nothing is rounded per transfer.

    Simplifications: a request is never interrupted; writes are posted and wait for their turn only.

    Args:
        env: The event loop, in fabric cycles.
        latency_cycles: From request to first byte.
    """

    def __init__(self, env: simpy.Environment, latency_cycles: int) -> None:
        self._env = env
        self._latency_cycles = latency_cycles
        self._bus = simpy.Resource(env, capacity=1)
        self._free_at = Fraction(0)
        self._rate = Fraction(0)

    def read(self, nbytes: int, rate: Fraction) -> Process:
        """Bring ``nbytes`` in, at ``rate`` bytes per cycle."""
        yield self._env.timeout(self._latency_cycles)
        yield from self.write(nbytes, rate)

    def write(self, nbytes: int, rate: Fraction) -> Process:
        """Move ``nbytes`` when it is their turn."""
        asked_at = self._env.now
        with self._bus.request() as turn:
            yield turn
            if rate != self._rate:  # another pattern begins with a whole cycle
                self._rate, self._free_at = rate, Fraction(ceil(self._free_at))
            self._free_at = max(self._free_at, Fraction(asked_at)) + nbytes / rate
            yield self._env.timeout(ceil(self._free_at) - self._env.now)
