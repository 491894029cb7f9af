"""Array types of the solver, whose names say their axes.

Axes: n phases of one kind; K lanes of a phase; R tiles of a lane, of those that fill its buffer.
An axis of length 1 stands for equal figures along it.
"""

import numpy as np
from numpy.typing import NDArray

PhaseInts = NDArray[np.int64]
"""Whole numbers by phase, int64[n]."""

LaneInts = NDArray[np.int64]
"""Whole numbers by lane, int64[n, K]."""

LaneMask = NDArray[np.bool_]
"""A choice of lanes, bool[n, K]."""

TileInts = NDArray[np.int64]
"""Whole numbers by tile, int64[R, n, K]."""

TileMask = NDArray[np.bool_]
"""A choice of tiles, bool[R, n, K]."""
