"""Worker processes: results come in order."""

from functools import partial
from typing import Any

import pytest
from explore_study import die_sending

from carsim.base.errors import InputError
from carsim.decoder.workers import run_in_workers


def work(number: int, advance: Any) -> int:
    advance(2)
    if number == 0:
        die_sending()
    if number == 2:
        raise ValueError("two")
    return 10 * number


@pytest.mark.parametrize("workers", [0, 2])
def test_results_are_given_in_order_and_a_failure_is_raised(workers: int) -> None:
    done: list[tuple[int, int]] = []

    def run(*numbers: int) -> list[int]:
        pieces = [partial(work, number) for number in numbers]
        return run_in_workers(
            pieces, total=6, workers=workers, progress=lambda *at: done.append(at)
        )

    assert run(1, 3, 4) == [10, 30, 40]
    assert not done or done[-1] == (6, 6)
    with pytest.raises(ValueError, match="two"):
        run(1, 2, 3)


def test_a_process_that_is_killed_is_one_line() -> None:
    with pytest.raises(InputError, match="a worker process died; free some memory"):
        run_in_workers([partial(work, 0)], total=2, workers=1, progress=None)
