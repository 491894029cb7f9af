"""Operands striped over channels: the pattern of one channel, and how evenly all channels work.

Model: addresses go round the channels in stripes of ``interleave_bytes``. Requesters take the
chunks of a pattern in turn, and each asks for its own in order. A requester waits while its next
channel has a full queue, or while its own window is full. A channel serves what was asked of it in
order, byte after byte, at the rate that it sustains for its own pattern. So channels idle where
runs on one channel are long against the queues, or where chunks lie at random places.

Simplification: the order of requests within a channel is that of
:mod:`carsim.hardware.memory.traffic` for the pattern of one channel.
"""

import functools
import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle

from carsim.hardware.memory.traffic import AccessPattern, chunks

ACCEPTED_REQUESTS = 48
"""Requests that the controller of a channel holds: 32 in its queue, and 16 that have left it for
their bank. The 16 are inferred from one row of DRAMsim3: a sequential stream in stripes of 64
requests on 32 channels sustains an eighth of the peak."""

PIECES_PER_CHANNEL = 200
"""Stripes of each channel over which the share of busy channels is averaged, after as many."""

MOST_PIECES, MOST_REQUESTERS = 20_000, 1024
"""Bounds of that average; more requesters than channels hardly matter."""


@dataclass(frozen=True)
class Striping:
    """Channels of a memory and the requesters that share them.

    Attributes:
        channels: Channels, alike.
        interleave_bytes: Contiguous bytes on one channel before the next one.
        requesters: Requesters that take the chunks of a pattern in turn, such as ports.
        window_bytes: Bytes that one requester may have in flight; by default, its share of the
            requests that the pattern has in flight on all channels.
        queue_requests: Requests that one channel accepts before requesters have to wait.
    """

    channels: int = 1
    interleave_bytes: int = 4096
    requesters: int = 1
    window_bytes: int | None = None
    queue_requests: int = ACCEPTED_REQUESTS

    def on_channel(self, access: AccessPattern) -> AccessPattern:
        """The pattern that one channel sees."""
        chunk, stripe = access.chunk_bytes, self.interleave_bytes
        if self.channels == 1 or access.is_contiguous:
            return access
        if chunk >= stripe:
            return replace(access, chunk_bytes=min(chunk, max(stripe, chunk // self.channels)))
        if access.random or access.streams > self.channels:
            return access
        # Few streams hardly meet: each has a channel to itself for the length of a stripe.
        return replace(access, chunk_bytes=stripe)

    def pieces(self, start: int, nbytes: int) -> Iterator[tuple[int, int]]:
        """Channel and bytes of each piece of a chunk."""
        end = start + nbytes
        while start < end:
            stripe = start // self.interleave_bytes
            piece_end = min(end, (stripe + 1) * self.interleave_bytes)
            yield stripe % self.channels, piece_end - start
            start = piece_end


@functools.cache
def busy_share(access: AccessPattern, striping: Striping, request_bytes: int, window: int) -> float:
    """Share of the time in which the channels have work, over all of them.

    Args:
        access: The pattern of all requesters together.
        striping: The channels.
        request_bytes: Bytes of a request.
        window: Requests in flight on one channel, if the requesters have no window of their own.

    >>> busy_share(AccessPattern(), Striping(32, requesters=1), 64, 32)
    0.125
    """
    channels, requesters = striping.channels, min(striping.requesters, MOST_REQUESTERS)
    stripe, queue_bytes = striping.interleave_bytes, striping.queue_requests * request_bytes
    window_bytes = striping.window_bytes or max(1, window * request_bytes * channels // requesters)
    in_turn = access.is_contiguous and stripe <= queue_bytes
    if channels == 1 or (in_turn and requesters * window_bytes >= channels * stripe):
        return 1.0
    starts = chunks(access, access.chunk_bytes)
    turns = [(0, requester) for requester in range(requesters)]
    dealt: list[deque[int]] = [deque() for _ in turns]
    pieces: list[Iterator[tuple[int, int]]] = [iter(()) for _ in turns]
    in_flight: list[deque[int]] = [deque() for _ in turns]
    free_at = [0] * channels
    count = min(PIECES_PER_CHANNEL * channels, MOST_PIECES)
    deal = cycle(dealt)
    now = begun = moved = 0
    for number in range(2 * count):
        now, requester = heapq.heappop(turns)
        if number == count:
            begun, moved = now, 0
        while (piece := next(pieces[requester], None)) is None:
            while not dealt[requester]:
                next(deal).append(next(starts)[0])
            pieces[requester] = striping.pieces(dealt[requester].popleft(), access.chunk_bytes)
        channel, nbytes = piece
        done_at = free_at[channel] = max(free_at[channel], now) + nbytes
        moved += nbytes
        flight = in_flight[requester]
        flight.append(done_at)
        fitting = max(1, window_bytes // nbytes)
        while len(flight) > fitting:
            flight.popleft()
        now = max(now, done_at - queue_bytes)
        if len(flight) == fitting:
            now = max(now, flight[0] - (window_bytes - (fitting - 1) * nbytes))
        heapq.heappush(turns, (now, requester))
    elapsed = turns[0][0] - begun
    return min(1.0, moved / (channels * elapsed)) if elapsed > 0 else 1.0
