"""Worker processes: results come in order, and each is told of as soon as it is there."""

from functools import partial
from typing import Any

import pytest

from carsim.decoder.workers import run_in_workers


def work(number: int, advance: Any) -> int:
    advance(2)
    if number == 2:
        raise ValueError("two")
    return 10 * number


@pytest.mark.parametrize("workers", [0, 2])
def test_results_are_told_of_and_given_in_order(workers: int) -> None:
    told: dict[int, int] = {}
    done: list[tuple[int, int]] = []
    results = run_in_workers(
        [partial(work, number) for number in (1, 3, 4)],
        total=6,
        workers=workers,
        progress=lambda *at: done.append(at),
        finished=told.__setitem__,
    )
    assert results == [10, 30, 40]
    assert told == {0: 10, 1: 30, 2: 40}
    assert not done or done[-1] == (6, 6)


def test_what_was_done_before_a_failure_is_told_of() -> None:
    told: dict[int, int] = {}
    pieces = [partial(work, number) for number in (1, 2, 3)]
    with pytest.raises(ValueError, match="two"):
        run_in_workers(pieces, total=6, workers=0, progress=None, finished=told.__setitem__)
    assert told == {0: 10}
