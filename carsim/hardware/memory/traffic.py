"""The requests of a memory channel, as an endless sequence of bursts with their bank and row.

Model: chunks of contiguous bytes, one after the other, each of them read or written as a whole. A
chunk is the next one of its stream (streams take turns and lie far apart, at unrelated offsets or
all at aligned ones) or lies anywhere (``random``). Written chunks form a stream of their own, as in
a copy, and are spread evenly among the reads.

Simplifications: chunks start at the beginning of a burst, so that the rest of a last burst is
fetched in vain; the memory is large against all that is in flight, so that places do not repeat.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from carsim.hardware.memory.base import QUEUE_REQUESTS, MemoryStandard

_REGION_BURSTS = 1 << 24
_WRITE_STREAM = 1 << 20
_MASK = (1 << 64) - 1


class Burst(NamedTuple):
    """Place of one burst, and its direction."""

    bank: int
    row: int
    is_write: bool


@dataclass(frozen=True)
class AccessPattern:
    """Use of a memory.

    Attributes:
        streams: Sequential streams that take turns; of no effect on ``random``.
        chunk_bytes: Contiguous bytes of one turn of a stream, of one random place, and of one run
            of reads or writes where both are mixed.
        random: Chunks lie anywhere instead of one after the other.
        read_fraction: Share of reads, 0 to 1.
        outstanding: Requests that may wait for their data on one channel. The controller's queue
            holds 32 of them until their column command; those of a longer window
            queue up in front of it. ``None`` is as many as the queue holds.
        aligned: All streams begin at the same bank and column, in rows of their own.
        mapping: Address mapping, ``rcb`` or ``bgi``; the standard's usual one if ``None``.
    """

    streams: int = 1
    chunk_bytes: int = 4096
    random: bool = False
    read_fraction: float = 1.0
    outstanding: int | None = None
    aligned: bool = False
    mapping: str | None = None

    @property
    def is_contiguous(self) -> bool:
        """Chunks follow each other without a seam, so that their length does not matter."""
        return not self.random and self.streams == 1 and self.read_fraction in (0.0, 1.0)

    @property
    def requests(self) -> int:
        """Requests in flight on one channel."""
        return self.outstanding or QUEUE_REQUESTS

    def bursts_per_request(self, standard: MemoryStandard, burst_bytes: int) -> int:
        """Bursts of one request: a chunk smaller than a request is a request of its own."""
        request_bytes = standard.family.request_bytes
        if not self.is_contiguous:
            request_bytes = min(request_bytes, self.chunk_bytes)
        return -(-request_bytes // burst_bytes)

    def useful_share(self, burst_bytes: int) -> float:
        """Share of the bytes of whole bursts that were asked for."""
        if self.is_contiguous:
            return 1.0
        bursts_of_chunk = -(-self.chunk_bytes // burst_bytes)
        return self.chunk_bytes / (bursts_of_chunk * burst_bytes)


def bursts(standard: MemoryStandard, access: AccessPattern, burst_bytes: int) -> Iterator[Burst]:
    """The bursts of an access pattern, in the order in which they are asked for; without end."""
    mapping = access.mapping or standard.family.mapping
    bursts_of_chunk = -(-access.chunk_bytes // burst_bytes)
    for first, is_write in chunks(access, bursts_of_chunk):
        for number in range(first, first + bursts_of_chunk):
            bank, row = standard.place(number, mapping, burst_bytes)
            yield Burst(bank, row, is_write)


def chunks(access: AccessPattern, length: int) -> Iterator[tuple[int, bool]]:
    """First burst of each chunk, and whether it is written; without end.

    Args:
        access: The pattern.
        length: Bursts of a chunk.
    """
    # Next burst of each stream that is read, and of the one that is written.
    next_reads = [_start_of_stream(stream, access.aligned) for stream in range(access.streams)]
    next_write = _start_of_stream(_WRITE_STREAM, access.aligned)
    written = 0
    read = 0
    for chunk in itertools.count():
        # The nearest integer keeps the share of writes exact without accumulating rounding errors.
        is_write = round((chunk + 1) * (1.0 - access.read_fraction)) > written
        written += is_write
        if access.random:
            yield _scatter(chunk) % _REGION_BURSTS * length, is_write
        elif is_write:
            yield next_write, True
            next_write += length
        else:
            stream = read % access.streams
            read += 1
            yield next_reads[stream], False
            next_reads[stream] += length


def _start_of_stream(stream: int, aligned: bool) -> int:
    """First burst of a stream: in a region of its own, at its beginning or at any offset."""
    offset = 0 if aligned else _scatter(stream) % _REGION_BURSTS
    return stream * _REGION_BURSTS + offset


def _scatter(number: int) -> int:
    """A fixed pseudo-random number of 64 bits for each number (SplitMix64).

    After Steele, Lea and Flood, OOPSLA 2014, doi 10.1145/2660193.2660195. A hash instead of a
    generator: the n-th chunk of any two patterns lies in the same place.
    """
    mixed = (number + 1) * 0x9E3779B97F4A7C15 & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return mixed ^ mixed >> 31
