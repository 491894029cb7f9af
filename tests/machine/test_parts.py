"""The SimPy machine: its queue, and the phases that it plays of many."""

from collections.abc import Callable
from typing import Any

import simpy
from hypothesis import given
from hypothesis import strategies as st

from carsim.machine.parts.queue import Queue

Log = list[tuple[int, str, int]]
WAITS = st.lists(st.integers(0, 2), max_size=12)


def log_of(make: Callable[[simpy.Environment], Any], lines: list[tuple[list[int], ...]]) -> Log:
    """What is put into and taken from queues, and when, in order; waits of (puts, takes) each."""
    env, log = simpy.Environment(), Log()

    def puts(queue: Any, name: str, waits: list[int]) -> Any:
        for item, wait in enumerate(waits):
            yield env.timeout(wait)
            log.append((env.now, f"{name} put", item))
            queue.put(item)

    def takes(queue: Any, name: str, waits: list[int]) -> Any:
        for wait in waits:
            item = yield queue.get()
            log.append((env.now, f"{name} took", item))
            yield env.timeout(wait)

    for number, (putting, second, taking) in enumerate(lines):
        queue = make(env)
        env.process(puts(queue, f"{number}", putting))
        env.process(takes(queue, f"{number}", taking))
        env.process(puts(queue, f"{number} second", second))
    env.run()
    return log


@given(st.lists(st.tuples(WAITS, WAITS, WAITS), min_size=1, max_size=3))
def test_a_queue_keeps_the_order_of_stores_within_a_cycle(lines: list[tuple[list[int], ...]]):
    assert log_of(Queue, lines) == log_of(simpy.Store, lines)


def test_items_that_a_queue_begins_with_come_first():
    env = simpy.Environment()
    queue = Queue(env, "ab")
    queue.put("c")
    taken = [queue.get() for _ in "abc"]
    env.run()
    assert [event.value for event in taken] == ["a", "b", "c"]
