"""A port between fabric and memory, in SimPy."""

from collections import deque
from collections.abc import Callable, Generator
from fractions import Fraction
from typing import Any, NamedTuple

import simpy

# Events have values of any type.
Process = Generator[simpy.Event, Any, None]


class Request(NamedTuple):
    """Bytes to move.

    Attributes:
        nbytes: Number of bytes.
        rate: Bytes per cycle that the memory sustains for their pattern.
        due: Cycle at which the first byte can flow.
        then: Called when the last byte has arrived.
    """

    nbytes: int
    rate: Fraction
    due: int
    then: Callable[[], object]


class Service(NamedTuple):
    """A request that a port has served.

    Attributes:
        requester: Number of the requester.
        start_cycle: Cycle at which its first byte flowed.
        end_cycle: Cycle at which its last byte had arrived.
        nbytes: Bytes that were moved.
    """

    requester: int
    start_cycle: int
    end_cycle: int
    nbytes: int


class MemoryPort:
    """A memory port, which serves one request at a time.

    Whenever the memory is free, it serves the next requester by number, round robin, of those whose
    first byte can flow by then. If there is none, it waits for the first byte that can. Requests of
    one requester keep their order.

    The first byte of a read arrives after the latency of memory and interconnect. Latencies of
    requests in flight overlap. Bytes then flow at the rate that the memory sustains for the pattern
    of the request. Fractions of a cycle are carried from one request to the next, so that no
    transfer is rounded. A request of another pattern begins with a whole cycle.

    Simplifications: a request is never interrupted. Writes are posted: they have no latency of
    their own, but they wait for their turn, and for a first byte that the port waits for.

    Args:
        env: The event loop, in fabric cycles.
        latency_cycles: From request to first byte.
        watched: Keep what is served.

    Attributes:
        served: All requests that were served, in order; None if nobody watches.
    """

    def __init__(
        self, env: simpy.Environment, latency_cycles: int, *, watched: bool = False
    ) -> None:
        self.served: list[Service] | None = [] if watched else None
        self._env = env
        self._latency_cycles = latency_cycles
        self._waiting: dict[int, deque[Request]] = {}  # by requester
        self._last_served = -1
        self._requested = env.event()
        env.process(self._serve())

    def read(
        self, requester: int, nbytes: int, *, rate: Fraction, then: Callable[[], object]
    ) -> None:
        """Request bytes from the memory.

        Args:
            requester: Number of the requester.
            nbytes: Bytes to move.
            rate: Bytes per cycle that the memory sustains for them.
            then: Called when the last byte has arrived.
        """
        due = int(self._env.now) + self._latency_cycles
        self._enqueue(requester, Request(nbytes, rate, due=due, then=then))

    def write(
        self, requester: int, nbytes: int, *, rate: Fraction, then: Callable[[], object]
    ) -> None:
        """Send bytes to the memory, without a latency.

        Args:
            requester: Number of the requester.
            nbytes: Bytes to move.
            rate: Bytes per cycle that the memory sustains for them.
            then: Called when the last byte is written.
        """
        due = int(self._env.now)
        self._enqueue(requester, Request(nbytes, rate, due=due, then=then))

    def _enqueue(self, requester: int, request: Request) -> None:
        self._waiting.setdefault(requester, deque()).append(request)
        if not self._requested.triggered:
            self._requested.succeed()

    def _serve(self) -> Process:
        """Process: serve requests for ever."""
        env = self._env
        rate = Fraction(1)
        numerator, denominator = rate.as_integer_ratio()
        free_units = 0  # when the memory is free, in units of 1 / numerator cycles
        while True:
            if not self._waiting:
                self._requested = env.event()
                yield self._requested
                continue
            due = min([queue[0].due for queue in self._waiting.values()])
            if due > env.now:
                yield env.timeout(due - env.now)
            request = self._take_next(max(due, free_units // numerator))
            # Comparing identity first is quicker, and nearly always enough.
            if request.rate is not rate and request.rate != rate:
                free_cycle = -(-free_units // numerator)
                rate = request.rate
                numerator, denominator = rate.as_integer_ratio()
                free_units = free_cycle * numerator
            start_units = max(free_units, request.due * numerator)
            free_units = start_units + request.nbytes * denominator
            yield env.timeout(-(-free_units // numerator) - env.now)
            if self.served is not None:
                start_cycle = start_units // numerator
                service = Service(
                    self._last_served, start_cycle, end_cycle=int(env.now), nbytes=request.nbytes
                )
                self.served.append(service)
            request.then()

    def _take_next(self, now: int) -> Request:
        """Take the request whose turn it is, of those whose first byte can flow by ``now``."""
        ready = [number for number, queue in self._waiting.items() if queue[0].due <= now]
        # Numbers above the last one served come first, then the round begins again.
        rest_of_round = [number for number in ready if number > self._last_served]
        requester = min(rest_of_round or ready)
        self._last_served = requester
        queue = self._waiting[requester]
        request = queue.popleft()
        if not queue:
            del self._waiting[requester]
        return request
