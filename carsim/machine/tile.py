"""Tile by tile: the finer and slower model that the fluid one is held against.

Model: the lanes, steps, buffers and phases of the fluid model, but nothing is averaged. Every tile
of an operand is requested once its buffer has room for it, is served by its memory when the turn is
its lane's, arrives, and is computed on when it is whole and the tile before it is done; then its
room is free again. Every request pays the latency of its memory, beside the transfers of those
before it.

Simplifications: a tile is served without interruption; side transfers queue like any other request;
the identical cores of a lane request together, so their tiles are served as one.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import simpy

from carsim.machine.clock import Clock, Signal
from carsim.machine.lane import LaneModel, Process, Step


class Request:
    """One transfer; ``done`` triggers when its last byte has arrived."""

    __slots__ = ("done", "eligible_at", "nbytes")

    def __init__(self, done: simpy.Event, nbytes: int, eligible_at: int) -> None:
        self.done = done
        self.nbytes = nbytes
        self.eligible_at = eligible_at


class TileMemory:
    """One path to memory that serves whole requests, requesters in turn.

    Args:
        env: The event loop, in fabric cycles.
        rate: Sustained bytes per cycle.
    """

    def __init__(self, env: Clock, rate: Fraction) -> None:
        self.moved_bytes = 0
        self._env = env
        self._rate = rate.as_integer_ratio()
        self._queues: dict[str, deque[Request]] = {}
        self._served: tuple[str, Request] | None = None
        self._served_until = 0  # in cycles times the rate's numerator, so that nothing is rounded
        self._wakes_at = -1

    def start(
        self, nbytes: int, *, weight: int = 1, latency_cycles: int = 0, requester: str = ""
    ) -> Request:
        """Request ``nbytes`` for each of ``weight`` identical consumers.

        Args:
            nbytes: Bytes per consumer, more than 0.
            weight: Identical consumers.
            latency_cycles: What passes before it can be served.
            requester: Whose request it is; requesters take turns.
        """
        self.moved_bytes += nbytes * weight
        request = Request(self._env.event(), nbytes * weight, self._env.cycle + latency_cycles)
        self._queues.setdefault(requester, deque()).append(request)
        if self._served is None:
            self._serve_next()
        return request

    def waiting_bytes(self, requester: str) -> int:
        """Bytes that a requester has asked for and that have not arrived by now."""
        waiting = sum(request.nbytes for request in self._queues.get(requester, ()))
        if self._served is not None and self._served[0] == requester:
            numerator, denominator = self._rate
            left = max(0, self._served_until - self._env.cycle * numerator)
            waiting += -(-left // denominator)
        return waiting

    def _serve_next(self) -> None:
        now = self._env.cycle
        for requester in list(self._queues):
            queue = self._queues[requester]
            if queue and queue[0].eligible_at <= now:
                request = queue.popleft()
                # To the end of the line: the next turn is another requester's.
                self._queues[requester] = self._queues.pop(requester)
                self._serve(requester, request)
                return
        heads = [queue[0].eligible_at for queue in self._queues.values() if queue]
        if heads and min(heads) != self._wakes_at:
            self._wakes_at = min(heads)
            self._after(self._wakes_at - now, self._on_wake)

    def _serve(self, requester: str, request: Request) -> None:
        numerator, denominator = self._rate
        now = self._env.cycle * numerator
        # What the last cycle could have served beyond the request before is not lost.
        begin = self._served_until if now - self._served_until < numerator else now
        self._served = requester, request
        self._served_until = begin + request.nbytes * denominator
        self._after(-(-self._served_until // numerator) - self._env.cycle, self._on_served)

    def _on_served(self, _: simpy.Event) -> None:
        assert self._served is not None
        request = self._served[1]
        self._served = None
        request.done.succeed()
        self._serve_next()

    def _on_wake(self, _: simpy.Event) -> None:
        if self._served is None:
            self._serve_next()

    def _after(self, cycles: int, then: Callable[[simpy.Event], None]) -> None:
        timer = self._env.timeout(max(0, cycles))
        assert timer.callbacks is not None
        timer.callbacks.append(then)


class TileCore(LaneModel):
    """The tile model of a lane; see :class:`~carsim.machine.lane.LaneModel` for its arguments."""

    _memories: Sequence[TileMemory]

    def _prepare(self) -> None:
        self._tiles: dict[int, list[int]] = {
            index: list(_tiles(step.stream_bytes, step.tile_bytes))
            for index, step in enumerate(self._steps)
            if step.path >= 0
        }
        self._arrived: dict[int, list[simpy.Event]] = {
            index: [Signal(self._env) for _ in tiles] for index, tiles in self._tiles.items()
        }
        self._held = {False: 0, True: 0}
        self._freed = Signal(self._env)
        self._lead_requested_bytes = 0
        self._lead_arrived_bytes = 0

    def lead_out_bytes(self) -> tuple[int, int]:
        """Bytes per core fetched by now for the phase that follows, and bytes wanted."""
        if self.lead_out is None:
            return 0, 0
        # What is on its way at a barrier goes on arriving; only what is not served yet is missing.
        waiting = self._memories[self.lead_out.path].waiting_bytes(self.name)
        waiting = -(-waiting // self.cores)
        on_its_way = self._lead_requested_bytes - self._lead_arrived_bytes
        return self._lead_requested_bytes - min(on_its_way, waiting), self.lead_out.nbytes

    def unfetched_lead(self, kept_bytes: int) -> list[tuple[int, int]]:
        """(Memory, bytes) booked for the next phase beyond the bytes that are kept of it."""
        if self.lead_out is None or not self._lead_requested_bytes:
            return []
        return [(self.lead_out.path, self.cores * (self._lead_requested_bytes - kept_bytes))]

    def _compute_streamed(self, index: int, step: Step) -> Process:
        done_bytes, done_cycles = 0, 0
        for nbytes, arrived in zip(self._tiles[index], self._arrived[index], strict=True):
            if not arrived.triggered:
                yield arrived
            if not done_bytes:
                self._array_begun = self._env.cycle
            done_bytes += nbytes
            until = -(-step.cycles * done_bytes // step.stream_bytes)
            if until > done_cycles:
                yield self._env.timeout(until - done_cycles)
            done_cycles = until
            self._buffer(step).release(nbytes)
            self._held[step.is_kv] -= nbytes
            freed, self._freed = self._freed, Signal(self._env)
            freed.succeed()

    def _fetch(self) -> Process:
        if self._fetch_gate is not None and not self._fetch_gate.triggered:
            yield self._fetch_gate
        ahead = self._lead_in_bytes
        latency_paid = self._is_streaming
        for index, tiles in self._tiles.items():
            step = self._steps[index]
            for nbytes, arrived in zip(tiles, self._arrived[index], strict=True):
                yield from self._room(step.is_kv, nbytes, step.buffer_bytes)
                missing = nbytes - min(nbytes, ahead)
                ahead -= nbytes - missing
                if missing:
                    latency = 0 if latency_paid else self._latencies[step.path]
                    latency_paid = False
                    request = self._memories[step.path].start(
                        missing, weight=self.cores, latency_cycles=latency, requester=self.name
                    )
                    self._when_done(request, nbytes, self._arrive(step, arrived))
                else:
                    self._buffer(step).arrive(nbytes, 0)
                    arrived.succeed()
        if self.lead_out is not None:
            yield from self._fetch_lead()

    def _fetch_lead(self) -> Process:
        lead = self.lead_out
        assert lead is not None
        for nbytes in _tiles(lead.nbytes, lead.tile_bytes):
            yield from self._room(lead.is_kv, nbytes, lead.buffer_bytes)
            if self.lead_begun < 0:
                self.lead_begun = self._env.cycle
            self._lead_requested_bytes += nbytes
            request = self._memories[lead.path].start(
                nbytes,
                weight=self.cores,
                latency_cycles=self._latencies[lead.path],
                requester=self.name,
            )
            self._when_done(request, nbytes, self._lead_arrived)

    def _room(self, is_kv: bool, nbytes: int, buffer_bytes: int) -> Process:
        """Wait until the buffer has room for a tile, and take it."""
        while self._held[is_kv] and self._held[is_kv] + nbytes > buffer_bytes:
            yield self._freed
        self._held[is_kv] += nbytes

    def _arrive(self, step: Step, arrived: simpy.Event) -> Callable[[int], None]:
        def into_buffer(nbytes: int) -> None:
            self._buffer(step).arrive(nbytes, 0)
            arrived.succeed()

        return into_buffer

    def _lead_arrived(self, nbytes: int) -> None:
        self._lead_arrived_bytes += nbytes

    def _when_done(self, request: Request, nbytes: int, then: Callable[[int], None]) -> None:
        callbacks = request.done.callbacks
        assert callbacks is not None  # nothing arrives in the cycle that it is requested in
        callbacks.append(lambda _: then(nbytes))


def _tiles(nbytes: int, tile_bytes: int) -> Iterator[int]:
    """Bytes of each tile of an operand; the last may be smaller."""
    for begin in range(0, nbytes, tile_bytes):
        yield min(tile_bytes, nbytes - begin)
