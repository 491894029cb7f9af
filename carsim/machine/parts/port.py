"""A port between fabric and memory."""

from collections import deque
from collections.abc import Callable, Generator
from fractions import Fraction
from typing import Any, NamedTuple

import simpy

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
    """Serves one request at a time: requesters in turn, each one's requests in their order.

    Whenever the memory is free, the turn goes round robin: to the next requester, by number, whose
    first byte can flow by then. If there is none, the port waits for the first that can.

    The first byte of a read arrives after the latency of memory and interconnect; requests in
    flight overlap their latencies. Bytes then flow at the rate that the memory sustains for the
    pattern of the request. Fractions of a cycle are carried from one request to the next, so that
    nothing is rounded per transfer; another pattern begins with a whole cycle.

    Simplifications: a request is never interrupted; writes are posted and wait for their turn only,
    and where the port waits for a first byte, until that is there.

    Args:
        env: The event loop, in fabric cycles.
        latency_cycles: From request to first byte.
    """

    def __init__(self, env: simpy.Environment, latency_cycles: int) -> None:
        self._env = env
        self._latency_cycles = latency_cycles
        self._waiting: dict[int, deque[Request]] = {}
        self._last = -1
        self._asked = env.event()
        env.process(self._serve())

    def read(self, who: int, nbytes: int, rate: Fraction, then: Callable[[], object]) -> None:
        """Ask for ``nbytes`` at ``rate`` bytes per cycle; ``then`` is called when all are there.

        Args:
            who: Number of the requester.
            nbytes: Bytes to move.
            rate: Bytes per cycle that the memory sustains for them.
            then: Called once the last has arrived.
        """
        self._ask(who, Request(nbytes, rate, int(self._env.now) + self._latency_cycles, then))

    def write(self, who: int, nbytes: int, rate: Fraction, then: Callable[[], object]) -> None:
        """The same without a latency."""
        self._ask(who, Request(nbytes, rate, int(self._env.now), then))

    def _ask(self, who: int, request: Request) -> None:
        self._waiting.setdefault(who, deque()).append(request)
        if not self._asked.triggered:
            self._asked.succeed()

    def _serve(self) -> Process:
        env, rate, free_at = self._env, Fraction(1), 0  # free_at in 1 / numerator cycles
        numerator, denominator = rate.as_integer_ratio()
        while True:
            due = min((queue[0].due for queue in self._waiting.values()), default=None)
            if due is None:
                self._asked = env.event()
                yield self._asked
                continue
            if due > env.now:
                yield env.timeout(due - env.now)
            request = self._next(max(due, free_at // numerator))
            if request.rate is not rate and request.rate != rate:
                free_at = -(-free_at // numerator)
                rate = request.rate
                numerator, denominator = rate.as_integer_ratio()
                free_at *= numerator
            free_at = max(free_at, request.due * numerator) + request.nbytes * denominator
            yield env.timeout(-(-free_at // numerator) - env.now)
            request.then()

    def _next(self, now: int) -> Request:
        """Take the request whose turn it is among those whose first byte can flow by ``now``."""
        ready = [who for who, queue in self._waiting.items() if queue[0].due <= now]
        self._last = who = min(ready, key=lambda who: (who <= self._last, who))
        queue = self._waiting[who]
        request = queue.popleft()
        if not queue:
            del self._waiting[who]
        return request
