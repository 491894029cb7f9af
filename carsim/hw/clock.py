"""The event loop of a phase: SimPy with integer time."""

import simpy


class Clock(simpy.Environment):
    """Simulated time as a whole number of fabric cycles from the start of a phase.

    Only whole delays are ever scheduled, so time stays an integer and runs repeat to the bit.
    """

    @property
    def cycle(self) -> int:
        """Now."""
        return self._now  # type: ignore[return-value]
