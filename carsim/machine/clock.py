"""The event loop of a phase: SimPy with integer time, and an event that queues only if awaited."""

from heapq import heappop
from typing import Any, Self

import simpy


class Clock(simpy.Environment):
    """Simulated time as a whole number of fabric cycles from the start of a phase.

    Only whole delays are ever scheduled, so time stays an integer and runs repeat to the bit.
    """

    @property
    def cycle(self) -> int:
        """Now."""
        return self._now  # type: ignore[return-value]

    def run_to(self, event: simpy.Event) -> None:
        """Run until an event has happened; as ``run(until=event)``, without its set-up per call.

        Raises:
            RuntimeError: Nothing is left that could make it happen.
        """
        queue = self._queue
        while event.callbacks is not None:
            if not queue:
                raise RuntimeError("no events are left, and the awaited one has not happened")
            self._now, _, _, due = heappop(queue)
            callbacks = due.callbacks
            due.callbacks = None  # type: ignore[assignment]
            for callback in callbacks:
                callback(due)
            if not due._ok and not due.defused:
                raise due._value


class Signal(simpy.Event):
    """An event for those who look whether it has been triggered before they wait for it.

    If nobody waits, it takes no place in the queue.
    """

    def succeed(self, value: Any = None) -> Self:
        """Trigger the event, once."""
        if self.callbacks:
            super().succeed(value)
            return self
        if self.triggered:
            raise RuntimeError(f"{self} has already been triggered")
        self._ok = True
        self._value = value
        self.callbacks = None  # type: ignore[assignment]
        return self
