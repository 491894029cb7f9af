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

MOST_PIECES = 20_000
"""Most stripes of all channels together over which the share is averaged."""

MOST_REQUESTERS = 1024
"""Most requesters that the average follows; more requesters than channels hardly matter."""


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
        if self.channels == 1 or access.is_contiguous:
            return access
        chunk_bytes = access.chunk_bytes
        stripe_bytes = self.interleave_bytes
        if chunk_bytes >= stripe_bytes:
            share_bytes = max(stripe_bytes, chunk_bytes // self.channels)
            return replace(access, chunk_bytes=min(chunk_bytes, share_bytes))
        if access.random or access.streams > self.channels:
            return access
        # Few streams hardly meet: each has a channel to itself for the length of a stripe.
        return replace(access, chunk_bytes=stripe_bytes)

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
    channels = striping.channels
    requesters = min(striping.requesters, MOST_REQUESTERS)
    stripe_bytes = striping.interleave_bytes
    queue_bytes = striping.queue_requests * request_bytes
    window_bytes = striping.window_bytes or max(1, window * request_bytes * channels // requesters)
    in_turn = access.is_contiguous and stripe_bytes <= queue_bytes
    if channels == 1 or (in_turn and requesters * window_bytes >= channels * stripe_bytes):
        return 1.0
    # Time is in bytes: a channel serves one byte in one unit of time.
    requests = _Requests(striping, access, requesters)
    turns = [(0, requester) for requester in range(requesters)]
    in_flight: list[deque[int]] = [deque() for _ in turns]
    free_at = [0] * channels
    averaged_pieces = min(PIECES_PER_CHANNEL * channels, MOST_PIECES)
    averaged_from = 0
    moved_bytes = 0
    for number in range(2 * averaged_pieces):
        now, requester = heapq.heappop(turns)
        if number == averaged_pieces:  # the first half of the pieces fills the queues
            averaged_from = now
            moved_bytes = 0
        channel, nbytes = requests.next_piece(requester)
        done_at = max(free_at[channel], now) + nbytes
        free_at[channel] = done_at
        moved_bytes += nbytes
        flight = in_flight[requester]
        flight.append(done_at)
        fitting = max(1, window_bytes // nbytes)
        while len(flight) > fitting:
            flight.popleft()
        next_at = max(now, done_at - queue_bytes)  # the channel's queue has room
        if len(flight) == fitting:
            spare_bytes = window_bytes - (fitting - 1) * nbytes
            next_at = max(next_at, flight[0] - spare_bytes)  # the requester's window has room
        heapq.heappush(turns, (next_at, requester))
    elapsed = turns[0][0] - averaged_from
    return min(1.0, moved_bytes / (channels * elapsed)) if elapsed > 0 else 1.0


class _Requests:
    """The chunks of a pattern, dealt to requesters in turn and cut into pieces of one channel."""

    def __init__(self, striping: Striping, access: AccessPattern, requesters: int) -> None:
        self._striping = striping
        self._chunk_bytes = access.chunk_bytes
        self._chunks = chunks(access, access.chunk_bytes)
        # First bytes of the chunks that were dealt to a requester and not begun.
        self._dealt: list[deque[int]] = [deque() for _ in range(requesters)]
        self._deal = cycle(self._dealt)
        self._pieces: list[Iterator[tuple[int, int]]] = [iter(()) for _ in range(requesters)]

    def next_piece(self, requester: int) -> tuple[int, int]:
        """Channel and bytes of the piece that a requester asks for next."""
        while (piece := next(self._pieces[requester], None)) is None:
            while not self._dealt[requester]:
                start, _ = next(self._chunks)
                next(self._deal).append(start)
            start = self._dealt[requester].popleft()
            self._pieces[requester] = self._striping.pieces(start, self._chunk_bytes)
        return piece
