"""A port between fabric and memory."""

from collections.abc import Callable, Generator
from fractions import Fraction
from typing import Any, NamedTuple

import simpy

from carsim.machine.parts.queue import Queue

Process = Generator[simpy.Event, Any, None]


class Request(NamedTuple):
    """Bytes to move.

    Attributes:
        nbytes: Number of bytes.
        rate: Bytes per cycle that the memory sustains for their pattern.
        due: When the first of them can flow.
        then: Called once the last has arrived.
    """

    nbytes: int
    rate: Fraction
    due: int
    then: Callable[[], object]


class MemoryPort:
    """Serves one request at a time, first come, first served.

    The first byte of a read arrives after the latency of memory and interconnect; requests in
    flight overlap their latencies. Bytes then flow at the rate that the memory sustains for the
    pattern of the request. Fractions of a cycle are carried from one request to the next, so that
    nothing is rounded per transfer; another pattern begins with a whole cycle.

    Simplifications: a request is never interrupted; writes are posted and wait for their turn only.

    Args:
        env: The event loop, in fabric cycles.
        latency_cycles: From request to first byte.
    """

    def __init__(self, env: simpy.Environment, latency_cycles: int) -> None:
        self._env = env
        self._latency_cycles = latency_cycles
        self._queue = Queue[Request](env)
        env.process(self._serve())

    def read(self, nbytes: int, rate: Fraction, then: Callable[[], object]) -> None:
        """Ask for ``nbytes`` at ``rate`` bytes per cycle; ``then`` is called when all are there."""
        self._queue.put(Request(nbytes, rate, int(self._env.now) + self._latency_cycles, then))

    def write(self, nbytes: int, rate: Fraction, then: Callable[[], object]) -> None:
        """The same without a latency."""
        self._queue.put(Request(nbytes, rate, int(self._env.now), then))

    def _serve(self) -> Process:
        env, rate, free_at = self._env, Fraction(1), 0  # free_at in 1 / numerator cycles
        numerator, denominator = rate.as_integer_ratio()
        while True:
            request = yield self._queue.get()
            if request.rate is not rate and request.rate != rate:
                free_at = -(-free_at // numerator)
                rate = request.rate
                numerator, denominator = rate.as_integer_ratio()
                free_at *= numerator
            free_at = max(free_at, request.due * numerator) + request.nbytes * denominator
            yield env.timeout(-(-free_at // numerator) - env.now)
            request.then()
