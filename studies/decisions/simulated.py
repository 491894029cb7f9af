"""Simulate decisions that no trace holds."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from carsim import Design, Report, run
from carsim.trace import Trace


def simulated(design: Design, trace: Trace, replay: NDArray[np.bool_]) -> Report:
    """A design on a trace whose decisions are replaced, whether or not it fits its board.

    Args:
        design: Its own policy is the row ``chosen``.
        trace: Gives the video, the rows and the guidance pairs.
        replay: bool[S, L, R], in place of the trace's.
    """
    return run(design, [replace(trace, replay=replay)], allow_misfit=True)
