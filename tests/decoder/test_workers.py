"""Worker processes: results come in order."""

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
