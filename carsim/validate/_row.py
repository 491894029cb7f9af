"""One comparison of a prediction with somebody else's figure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure from elsewhere, carsim's prediction of it, and a rival prediction.

    Attributes:
        what: What is compared, such as ``DDR4-2133, random 64 B reads``.
        reference: The figure from elsewhere.
        ours: What carsim predicts.
        rival: What the simplest other model predicts, or another tool; None without one.
        bound: Largest relative error that carsim promises, 0.05 for 5 %; None without a promise.
        source: Where the reference comes from.
        unit: Of reference, ours and rival.
        note: What a reader must know about this row.

    >>> row = Comparison("peak rate", 20.0, 19.0, 16.0, 0.1, "data sheet", "GB/s")
    >>> round(row.error, 3), row.rival_error, row.ok
    (-0.05, -0.2, True)
    """

    what: str
    reference: float
    ours: float
    rival: float | None
    bound: float | None
    source: str
    unit: str = ""
    note: str = ""

    @property
    def error(self) -> float:
        """Relative error of carsim: ours / reference - 1."""
        return self.ours / self.reference - 1

    @property
    def rival_error(self) -> float | None:
        """Relative error of the rival."""
        return None if self.rival is None else self.rival / self.reference - 1

    @property
    def ok(self) -> bool:
        """The error is within the bound; true where there is none."""
        return self.bound is None or abs(self.error) <= self.bound
