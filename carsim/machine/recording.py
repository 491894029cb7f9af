"""Record what hardware emits as slices on named tracks, one phase after the other.

Hardware simulates each phase from cycle 0. The recorder keeps the cycle at which the phase under
way began, and files what the phase emits that much later, so that the phases of a window of steps
form one timeline.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Something that took time on a track, from its start cycle up to its end cycle."""

    track: str
    name: str
    start_cycle: int
    end_cycle: int


class Sample(NamedTuple):
    """A value that holds from a cycle on."""

    counter: str
    cycle: int
    value: float


class Timeline:
    """Slices and samples of phases that follow one another.

    Args:
        first_tracks: Tracks to show above all others, in this order.

    Attributes:
        cycles: Length so far; the phase under way begins here.
        slices: In the order in which they were emitted.
        samples: In the order of their cycles.

    >>> timeline = Timeline()
    >>> timeline.emit("lane 0", "MLP", 0, 5)
    >>> timeline.advance(7)
    >>> timeline.emit("lane 0", "attention", 1, 3)
    >>> timeline.slices[1]
    Span(track='lane 0', name='attention', start_cycle=8, end_cycle=10)
    """

    def __init__(self, first_tracks: Sequence[str] = ()) -> None:
        self.cycles = 0
        self.slices: list[Span] = []
        self.samples: list[Sample] = []
        self._first_tracks = tuple(first_tracks)

    @property
    def tracks(self) -> list[str]:
        """Tracks in the order in which to show them."""
        return [
            *self._first_tracks,
            *sorted({s.track for s in self.slices} - {*self._first_tracks}),
        ]

    def emit(self, track: str, name: str, start_cycle: int, end_cycle: int) -> None:
        """Take a slice of the phase under way, in cycles since that phase began."""
        if end_cycle > start_cycle:
            self.slices.append(
                Span(track, name, self.cycles + start_cycle, self.cycles + end_cycle)
            )

    def sample(self, counter: str, value: float) -> None:
        """Take the value that a counter has from the start of the phase under way."""
        self.samples.append(Sample(counter, self.cycles, value))

    def advance(self, cycles: int) -> None:
        """End the phase under way, which took that long."""
        self.cycles += cycles
