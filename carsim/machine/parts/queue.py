"""A queue between two pieces of hardware."""

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

import simpy

Item = TypeVar("Item")


class Queue(Generic[Item]):
    """A ``simpy.Store`` without a limit, for a single process that takes one item at a time.

    Nobody waits to put, so that putting is an event only where an item is waited for: a tile takes
    half the time to play. All that happens keeps the order that it has with a store, so that cores
    that ask in the same cycle are served in the same turn.

    Args:
        env: The event loop.
        items: What is in it at first.
    """

    def __init__(self, env: simpy.Environment, items: Iterable[Item] = ()) -> None:
        self._env = env
        self._items = deque(items)
        self._waiting: simpy.Event | None = None

    def put(self, item: Item) -> None:
        """Add an item; a process that waits has it behind what else was to happen by now."""
        if self._waiting is None:
            self._items.append(item)
        else:
            self._env.timeout(0, item).callbacks.append(self._waiting.trigger)
            self._waiting = None

    def get(self) -> simpy.Event:
        """The event of having the first item, to be waited for before the next is asked for."""
        if self._items:
            return self._env.timeout(0, self._items.popleft())
        self._waiting = self._env.event()
        return self._waiting
