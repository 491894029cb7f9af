"""Cycles of blocks whose times are a table (:mod:`carsim.hardware.kernels`), for many phases.

A block with a table keeps its work: operations, bytes and bytes on chip are those of the simulated
block. Its time is that of the table, at every fidelity level, so that ports and buffers take none.

Simplifications: memories show no transfers of such a block in accounts and timelines; rows that
replay are dealt to cores evenly under a central schedule, and are the rest of an even share under
any other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.groups import grouped
from carsim.hardware.kernels import Kernel, KernelTime

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Curve(NamedTuple):
    """Times of a kernel by rows, with some cores at work. P points, in ascending order.

    Attributes:
        rows: Rows, float[P].
        us: Microseconds, float[P].
        us_per_token: Microseconds for each attended token, float[P].
    """

    rows: Floats
    us: Floats
    us_per_token: Floats

    @classmethod
    def of(cls, entries: Iterable[KernelTime]) -> "Curve":
        """The curve through the entries of one kernel and number of cores, in any order."""
        points = sorted(entries, key=lambda entry: entry.rows)
        return cls(
            rows=np.array([point.rows for point in points], float),
            us=np.array([point.us for point in points], float),
            us_per_token=np.array([point.us_per_token for point in points], float),
        )

    def at(self, rows: Floats, tokens: Floats | float) -> Floats:
        """Microseconds with some rows, each of which attends to some tokens; 0 without rows."""
        time_us = _interpolated(rows, self.rows, self.us)
        time_us = time_us + tokens * _interpolated(rows, self.rows, self.us_per_token)
        return np.where(rows > 0, np.maximum(time_us, 0.0), 0.0)


@dataclass(frozen=True, eq=False)
class KernelTable:
    """Times of all kernels of a machine.

    Attributes:
        curves: By kernel and cores at work, in ascending order of the cores.
    """

    curves: dict[Kernel, dict[int, Curve]]

    @classmethod
    def of(cls, kernels: Sequence[KernelTime]) -> "KernelTable":
        """The table of a design's entries, in any order."""
        entries_of = grouped(((entry.block, entry.at_work), entry) for entry in kernels)
        curves: dict[Kernel, dict[int, Curve]] = {}
        for (kernel, cores_at_work), entries in sorted(
            entries_of.items(), key=lambda item: item[0]
        ):
            curves.setdefault(kernel, {})[cores_at_work] = Curve.of(entries)
        return cls(curves)

    def __contains__(self, kernel: str) -> bool:
        return kernel in self.curves

    def us(self, kernel: str, rows: Ints, cores: Ints, tokens: Floats | float = 0.0) -> Floats:
        """Microseconds of a kernel on each core; arguments broadcast to each other.

        Args:
            kernel: A kernel of the table.
            rows: Rows of the core; one without rows takes no time.
            cores: Cores at work.
            tokens: Tokens that each row attends to.
        """
        curves = self.curves[kernel]  # type: ignore[index]
        float_rows = np.asarray(rows, float)
        # Times with each measured number of cores at work, float[numbers, ...].
        us_by_cores = np.stack([curve.at(float_rows, tokens) for curve in curves.values()])
        measured_cores = np.array(list(curves), float)
        # Between two measured numbers of cores, times are interpolated; outside, the nearest holds.
        position = np.interp(cores, measured_cores, np.arange(len(curves)))
        below = np.floor(position).astype(np.intp)
        above = np.minimum(below + 1, len(curves) - 1)
        us_below = _chosen(us_by_cores, below)
        us_above = _chosen(us_by_cores, above)
        return us_below + (position - below) * (us_above - us_below)

    def least_us(self, kernel: str, rows: int, cores: int, tokens: Floats | float = 0.0) -> Floats:
        """Microseconds that no assignment of rows to cores is below.

        The fullest core has an even share or more, up to all rows. Times are lines between the
        entries of the table, so that the least is at an entry or at an end.

        Args:
            kernel: A kernel of the table.
            rows: Rows of all cores, at least 1.
            cores: Cores of the machine.
            tokens: Tokens that each row attends to, [n] or one number.

        Returns:
            [n], or [1] for one number of tokens.
        """
        curves = self.curves[kernel]  # type: ignore[index]
        even_share = -(-rows // cores)
        rows_of_fullest = {even_share, rows}
        for curve in curves.values():
            entries = curve.rows[(even_share < curve.rows) & (curve.rows < rows)]
            rows_of_fullest.update(int(entry) for entry in entries)
        cores_at_work = {1, cores}
        cores_at_work.update(measured for measured in curves if measured < cores)
        us_of_cases = self.us(
            kernel,
            rows=np.array(sorted(rows_of_fullest))[:, None, None],
            cores=np.array(sorted(cores_at_work))[:, None],
            tokens=np.reshape(np.asarray(tokens, float), (1, 1, -1)),
        )
        least_us: Floats = us_of_cases.min(axis=(0, 1))
        return least_us

    def most_us(self, rows: int, tokens: int) -> float:
        """Microseconds that no kernel of a layer takes more than, all together."""
        most_us = 0.0
        for curves_of_kernel in self.curves.values():
            most_us += _most_us([*curves_of_kernel.values()], rows, tokens)
        return most_us


def cycles_of(us: Floats, clock_mhz: Floats | float) -> Ints:
    """Whole cycles of some microseconds, rounded up.

    >>> int(cycles_of(np.array(1.5), 3.0))
    5
    """
    # A product such as 0.1 x 30 may be an ulp too large, and would cost a cycle.
    cycles: Ints = np.ceil(np.asarray(us * clock_mhz) * (1 - 1e-12)).astype(np.int64)
    return cycles


def most_cycles(table: KernelTable, rows: int, tokens: int, clock_mhz: float) -> int:
    """Cycles that the kernels of a layer take at most, in Python's integers."""
    return ceil(table.most_us(rows, tokens) * clock_mhz) + len(table.curves)


def _most_us(curves: Sequence[Curve], rows: int, tokens: int) -> float:
    """Microseconds of a kernel at most, with up to some rows, whatever cores are at work.

    Times are lines between entries, so that the most is at an entry or at an end.
    """
    entries = {1.0, float(rows)}.union(*(curve.rows for curve in curves))
    rows_of_fullest = np.array(sorted(entries))
    return max(float(curve.at(rows_of_fullest, float(tokens)).max()) for curve in curves)


def _chosen(by_number: Floats, number: NDArray[np.intp]) -> Floats:
    """The entry with a number at each place, [numbers, ...] and [...] -> [...]."""
    shape = np.broadcast_shapes(by_number.shape[1:], number.shape)
    entries = np.broadcast_to(by_number, (len(by_number), *shape))
    number_at = np.broadcast_to(number, shape)
    return np.take_along_axis(entries, number_at[None], axis=0)[0]


def _interpolated(at: Floats, points: Floats, values: Floats) -> Floats:
    """A line through points, which continues the last segment beyond the last point."""
    line = np.interp(at, points, values)
    if len(points) > 1:
        slope = (values[-1] - values[-2]) / (points[-1] - points[-2])
        line = line + np.maximum(0.0, at - points[-1]) * max(0.0, slope)
    return line
