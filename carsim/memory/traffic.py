"""What is asked of a memory channel, as an endless sequence of bursts with their bank and row.

Model of the address mapping: from high to low bits row, column, bank, bank group, burst. Bursts
that follow each other in memory go to other bank groups first, then to other banks, and come back
to a row only after having been to every bank. It is the mapping of the cycle-accurate references
(there called row-column-bank); a mapping that keeps a whole row together loses tCCD_L / tCCD_S on a
sequential stream.

Model of the traffic: chunks of contiguous bytes, one after the other, each of them read or written
as a whole. A chunk is the next one of its stream (streams take turns and lie far apart, at
unrelated offsets) or lies anywhere (``random``). Written chunks form a stream of their own, as in a
copy, and are spread evenly among the reads.

Simplifications: chunks start at the beginning of a burst, so that the rest of a last burst is
fetched in vain; the memory is large against all that is in flight, so that places do not repeat.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from carsim.errors import InputError
from carsim.memory.standards import DramTimings

PATTERNS = ("sequential", "streams", "random")
"""Where the next chunk lies: after the last one, after the last one of its stream, anywhere."""

REQUEST_BYTES = 64
"""Bytes of one request, which may be several bursts on a narrow channel."""

QUEUE_REQUESTS = 32
"""Requests that a controller holds in each direction; those of the cycle-accurate references."""

_REGION_BURSTS = 1 << 24
_WRITE_STREAM = 1 << 20
_MASK = (1 << 64) - 1

Burst: TypeAlias = tuple[int, int, bool]
"""Bank, row, and whether it is a write."""


@dataclass(frozen=True)
class Access:
    """How a memory is used.

    Attributes:
        pattern: One of :data:`PATTERNS`. ``sequential`` and ``streams`` differ in name only: one
            stream that runs through memory, or several that take turns chunk by chunk.
        chunk_bytes: Contiguous bytes of one turn of a stream, of one random place, and of one run
            of reads or writes where both are mixed.
        streams: Number of streams; of no effect on ``random``.
        read_fraction: Share of reads, 0 to 1.
        outstanding: Requests of :data:`REQUEST_BYTES` that may wait for their data (writes: for
            their turn) on one channel; ``None`` is as many as the controller holds, and more than
            those are of no use.

    Raises:
        InputError: If a value is out of range.
    """

    pattern: str = "sequential"
    chunk_bytes: int = 4096
    streams: int = 1
    read_fraction: float = 1.0
    outstanding: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no channel can be asked."""
        if self.pattern not in PATTERNS:
            _refuse("pattern", self.pattern, f"choose one of {', '.join(PATTERNS)}")
        if self.chunk_bytes < 1:
            _refuse("chunk_bytes", self.chunk_bytes, "give a positive number of bytes")
        if self.streams < 1:
            _refuse("streams", self.streams, "give at least one stream")
        if not 0.0 <= self.read_fraction <= 1.0:
            _refuse("read_fraction", self.read_fraction, "give a share from 0 to 1")
        if self.outstanding is not None and self.outstanding < 1:
            _refuse("outstanding", self.outstanding, "give at least one request")

    @property
    def is_contiguous(self) -> bool:
        """Whether chunks follow each other without a seam, so that their length does not matter."""
        return self.pattern != "random" and self.streams == 1 and self.read_fraction in (0.0, 1.0)

    @property
    def queue_requests(self) -> int:
        """Requests in flight on one channel."""
        return min(self.outstanding or QUEUE_REQUESTS, QUEUE_REQUESTS)

    @property
    def request_bytes(self) -> int:
        """Bytes of one request: a chunk smaller than a request is a request of its own."""
        return REQUEST_BYTES if self.is_contiguous else min(REQUEST_BYTES, self.chunk_bytes)

    def window_bursts(self, burst_bytes: int) -> int:
        """Bursts in flight on one channel."""
        return self.queue_requests * -(-self.request_bytes // burst_bytes)

    def useful_share(self, burst_bytes: int) -> float:
        """Share of the bytes of whole bursts that were asked for."""
        if self.is_contiguous:
            return 1.0
        return self.chunk_bytes / (-(-self.chunk_bytes // burst_bytes) * burst_bytes)


def bursts(timings: DramTimings, access: Access, burst_bytes: int) -> Iterator[Burst]:
    """The bursts of an access pattern, in the order in which they are asked for; without end."""
    banks = timings.banks
    bursts_per_row_of_banks = banks * timings.row_bursts
    length = -(-access.chunk_bytes // burst_bytes)
    for start, is_write in _chunks(access, length):
        for burst in range(start, start + length):
            yield burst % banks, burst // bursts_per_row_of_banks, is_write


def _chunks(access: Access, length: int) -> Iterator[tuple[int, bool]]:
    """First burst of each chunk, and whether it is written."""
    heads = [_start_of_stream(stream) for stream in range(access.streams)]
    write_head = _start_of_stream(_WRITE_STREAM)
    written = turn = chunk = 0
    while True:
        # The nearest integer keeps the share of writes exact without accumulating rounding errors.
        is_write = round((chunk + 1) * (1.0 - access.read_fraction)) > written
        written += is_write
        if access.pattern == "random":
            yield _scatter(chunk) % _REGION_BURSTS * length, is_write
        elif is_write:
            yield write_head, True
            write_head += length
        else:
            stream = turn % access.streams
            turn += 1
            yield heads[stream], False
            heads[stream] += length
        chunk += 1


def _start_of_stream(stream: int) -> int:
    """First burst of a stream: in a region of its own, at any offset."""
    return stream * _REGION_BURSTS + _scatter(stream) % _REGION_BURSTS


def _scatter(number: int) -> int:
    """A fixed pseudo-random number of 64 bits for each number (SplitMix64).

    After Steele, Lea and Flood, OOPSLA 2014, doi 10.1145/2660193.2660195. A hash instead of a
    generator: the n-th chunk of any two patterns lies in the same place.
    """
    mixed = (number + 1) * 0x9E3779B97F4A7C15 & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return mixed ^ mixed >> 31


def _refuse(field: str, value: object, cure: str) -> None:
    raise InputError(f"DRAM access: {field}", f"got {value!r}", cure)
