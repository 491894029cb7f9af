"""An initialiser of worker processes in which evaluating one point is deadly."""

import os
import signal
from collections.abc import Sequence
from typing import Any

from carsim.explore import workers
from carsim.explore.evaluate import Evaluator, Row
from carsim.explore.points import Point

POISON = {"machine.cores": 2, "policy.tau": 0.0, "policy.schedule": "drs"}


def start(*arguments: Any) -> None:
    """Like the usual one, and the poisonous point kills its process."""
    evaluate = Evaluator.evaluate

    def deadly(self: Evaluator, points: Sequence[Point]) -> list[Row]:
        if any(point.values == POISON for point in points):
            os.kill(os.getpid(), signal.SIGKILL)
        return evaluate(self, points)

    Evaluator.evaluate = deadly  # type: ignore[method-assign]
    usual(*arguments)


usual = workers._start
