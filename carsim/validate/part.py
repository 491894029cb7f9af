"""Result of a part of the validation: groups of comparisons, and their bounds.

A :class:`Group` is a list of comparisons of one kind of figure. Its statistics, carsim's and the
rival's over the same rows, are always the same five, so that no part can choose the flattering one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from carsim.metrics.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Errors:
    """Statistics of relative errors. All are absolute but ``bias``, the mean with its sign."""

    count: int
    mean: float
    median: float
    worst: float
    bias: float


def errors_of(errors: Sequence[float]) -> Errors:
    """The statistics of at least one error.

    >>> errors_of([0.25, -0.5, 0.75])
    Errors(count=3, mean=0.5, median=0.5, worst=0.75, bias=0.16666666666666666)
    """
    sizes = [abs(error) for error in errors]
    return Errors(len(sizes), fmean(sizes), median(sizes), max(sizes), fmean(errors))


@dataclass(frozen=True)
class Group:
    """Comparisons of one kind.

    Attributes:
        title: What they have in common, in a few words.
        rows: At least one.
        rival: Name of the rival of all rows; empty where there is none.
        bounds: Statistic of :class:`Errors` -> the most that carsim's may be.
        must_win: Fail where the rival's mean error is smaller than carsim's.
        least_wins: Share of the rows in which carsim has to be nearer than the rival.
        shown: Rows are few and worth reading; otherwise they are left out of short output.
    """

    title: str
    rows: tuple[Comparison, ...]
    rival: str = ""
    bounds: Mapping[str, float] = field(default_factory=dict)
    must_win: bool = False
    least_wins: float = 0.0
    shown: bool = True

    @property
    def ours(self) -> Errors:
        """Errors of carsim."""
        return errors_of([row.error for row in self.rows])

    @property
    def theirs(self) -> Errors | None:
        """Errors of the rival, over the rows for which it has an answer."""
        rival_errors = [row.rival_error for row in self.rows if row.rival_error is not None]
        return errors_of(rival_errors) if rival_errors else None

    @property
    def wins(self) -> int:
        """Rows in which carsim is nearer than the rival."""
        return sum(
            row.rival_error is not None and abs(row.error) < abs(row.rival_error)
            for row in self.rows
        )

    @property
    def failures(self) -> tuple[str, ...]:
        """Figures that leave their bound, a sentence each."""
        ours = self.ours
        theirs = self.theirs
        failures = [
            f"{self.title}: {row.what}: {row.error:+.2%} is beyond {row.bound:.2%}"
            for row in self.rows
            if not row.ok
        ]
        for name, bound in self.bounds.items():
            value: float = getattr(ours, name)
            if value > bound:
                failures.append(f"{self.title}: {name} error {value:.2%} is above {bound:.2%}")
        if theirs and self.must_win and theirs.mean < ours.mean:
            failures.append(
                f"{self.title}: {self.rival} is nearer on average, {theirs.mean:.1%} "
                f"against {ours.mean:.1%}"
            )
        if theirs and self.wins < self.least_wins * theirs.count:
            failures.append(
                f"{self.title}: nearer than {self.rival} in {self.wins} of {theirs.count} rows, "
                f"at least {self.least_wins:.0%} are asked for"
            )
        return tuple(failures)


@dataclass(frozen=True)
class Part:
    """One part of the validation.

    Attributes:
        name: As ``carsim validate`` takes it.
        title: What is compared with what.
        groups: The comparisons.
        notes: What a reader has to know of them, a paragraph each.
    """

    name: str
    title: str
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """All reasons to fail, a sentence each."""
        return tuple(line for group in self.groups for line in group.failures)

    @property
    def ok(self) -> bool:
        """Every figure is within its bound."""
        return not self.failures
