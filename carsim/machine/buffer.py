"""An on-chip buffer between memory and array.

Model: a first-in first-out store of tiles, at least two of them, so that one fills while another is
read. Whoever fills it (see :mod:`carsim.machine.core`) never asks for more than has room; the
buffer
only keeps the books. Levels are taken at the instants at which something happens - a flow ends, an
op starts or ends - and are linear in between, so the peak is the largest level of all.
"""


class StreamBuffer:
    """Books of one buffer, in bytes; ``level_bytes`` is what it holds once a step is released."""

    __slots__ = ("level_bytes", "peak_bytes")

    def __init__(self, held_bytes: int = 0) -> None:
        self.level_bytes = held_bytes
        self.peak_bytes = held_bytes

    def arrive(self, nbytes: int, being_read_bytes: int) -> None:
        """Bytes have come in while the array has read so much of the step under way."""
        self.level_bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.level_bytes - being_read_bytes)

    def release(self, nbytes: int) -> None:
        """The array is done with a step of so many bytes."""
        self.level_bytes -= nbytes
