"""Scores of fewer bits than the threshold are compared with it, not with what it rounds to."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from carsim.decisions.replay.decide import Replay


@given(tau=st.floats(allow_nan=False), steps=st.integers(-2, 2))
@example(tau=0.1, steps=0)  # float32(0.1) is above 0.1
@example(tau=0.3, steps=1)  # float32(0.3) is above 0.3, too
def test_scores_of_single_precision_are_compared_in_double(tau: float, steps: int) -> None:
    with np.errstate(over="ignore"):
        score = np.float32(tau)
        for _ in range(abs(steps)):
            score = np.nextafter(score, np.float32(np.copysign(np.inf, steps)))
    assert Replay((tau,)).exceeds(np.array([score]), 0).tolist() == [float(score) > tau]
