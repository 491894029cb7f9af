"""Points that stay on a Pareto front while the constants behind it vary.

Model: a draw gives every uncertain constant one value, which serves all points
(:mod:`carsim.cost.interval`). So errors that points share cancel: a constant that doubles the
energy of every point moves none of them off the front. Drawn are the constants of energy, one
bandwidth per memory that holds weights, the price of each part, and the area of a die. A point is
*robust* to the extent that no other point dominates it: the share of draws in which it is still on
the front.

Only points that are near the front can dominate one of its points in a draw. A point is a *rival*
if, for some point of the front, it is worse by at most :data:`NEAR` in every uncertain objective,
and no worse in any exact one. The front and its rivals are simulated again, each at the expected
bandwidth and at both ends of its interval.

Simplifications: all other points are taken to stay off the front. Parts of a price err
independently of each other and of the area; each part errs alike in all designs. Constraints hold
or not as simulated. What carsim itself gets wrong, such as compute, is not drawn. In a store of
``--front-only``, designs without a result are no rivals.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from carsim.account.elasticity import Factors, at_bandwidth_ends, bandwidth_factors
from carsim.account.row import RowResult
from carsim.base.errors import InputError
from carsim.base.groups import grouped
from carsim.cost.energy import EnergyReport
from carsim.cost.fit import FitReport
from carsim.cost.interval import Draws, Term, drawn, slowdowns
from carsim.explore.axis import value_of_cell
from carsim.explore.evaluate import Evaluator
from carsim.explore.points import Point, chunks_of, make_point
from carsim.explore.study import Study
from carsim.machine.hardware import Hardware
from carsim.metrics import METRICS, Setting
from carsim.metrics.table import EXPECTED, OF_DECODING

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 1_000
"""Draws of all constants. A share of one half is known to 3 points of a hundred (95 %)."""

NEAR = 0.1
"""Share by which a rival may be worse than a point of the front in uncertain objectives."""

MOST_RIVALS = 1_000
"""Rivals that are simulated again at most, the nearest first."""

TIMES_AND_RATES = tuple(EXPECTED.values())
"""Metrics in proportion to the time of a batch or of its decoding, or in inverse proportion."""

ENERGIES = ("energy_per_video_j", "energy_per_token_j")
PRICE = "cost_usd"
AREA = "area_mm2"

UNCERTAIN = (*TIMES_AND_RATES, *ENERGIES, PRICE, AREA)
"""Metrics whose intervals are drawn."""

EXACT = (
    "replay_eligible",
    "replay_all",
    "batches",
    "videos_per_batch",
    "memory_gb_per_video",
    "step_gb",
    "step_gmacs",
)
"""Metrics of a simulation that depend on no uncertain constant; so do those of the design."""

OF_MEMORY = "memory "
"""Begins the name of the price of a memory."""

WHOLE_BOARD = "board"
"""Name of the price of a board in a shop: boards of two types err independently."""

Floats = NDArray[np.float64]


def robust_shares(
    study: Study,
    candidates: "pd.DataFrame",
    on_front: "pd.DataFrame",
    signs: Mapping[str, int],
) -> Floats:
    """Share of draws in which each point of a front is on the front, float64[P].

    Args:
        study: The study of the results.
        candidates: Results that fit, meet the constraints and have all objectives.
        on_front: The rows of them that are the front.
        signs: Objective -> 1 if less is better, -1 if more is.

    Raises:
        InputError: An objective whose interval is unknown, or results of another study or of other
            code.
    """
    uncertain = _uncertain(signs)
    rivals = _rivals(candidates, on_front, signs=signs, uncertain=uncertain)
    results = on_front.to_dict("records") + rivals.to_dict("records")
    points = _points(study, results)
    by_ordinal = dict(zip((point.ordinal for point in points), results, strict=True))
    drawn_points = dict(_drawn_points(study, points))
    values = np.empty((len(points), DRAWS, len(signs)))  # [points, draws, objectives]
    for place, point in enumerate(points):
        drawn_point = drawn_points[point.ordinal]
        result = by_ordinal[point.ordinal]
        _check_equal(study.name, drawn_point, result, signs)
        for column, (name, sign) in enumerate(signs.items()):
            is_drawn = name in uncertain
            values[place, :, column] = sign * (
                drawn_point.draws_of(name) if is_drawn else float(result[name])
            )
    return shares_on_front(values)[: len(on_front)]


def shares_on_front(values: Floats) -> Floats:
    """Share of draws in which no other point dominates a point, float64[P].

    Args:
        values: Objectives by draw, of which less is better, float64[P, D, M].

    >>> slow_and_frugal = [[2.0, 1.0], [2.0, 3.0]]  # two draws of seconds and joules
    >>> fast = [[1.0, 2.0], [1.0, 2.0]]
    >>> shares_on_front(np.array([slow_and_frugal, fast]))
    array([0.5, 1. ])
    """
    shares = np.empty(len(values))
    for place, point in enumerate(values):
        is_never_worse = (values <= point).all(axis=2)  # [P, D]
        is_better = (values < point).any(axis=2)
        is_dominated = (is_never_worse & is_better).any(axis=0)
        shares[place] = 1 - is_dominated.mean()
    return shares


@dataclass(frozen=True)
class DrawnPoint:
    """A simulated point whose metrics are drawn.

    Attributes:
        row: Its row, at the expected bandwidth.
        fit: The fit of its design.
        latency_factors: Latency at the highest and at the lowest bandwidth over the expected one;
            None if no interval of the bandwidth is known.
        decode_factors: Time of decoding at these bandwidths over the expected one.
    """

    row: RowResult
    fit: FitReport
    latency_factors: Factors | None = None
    decode_factors: Factors | None = None

    def figure(self, name: str) -> Any:
        """A metric as simulated."""
        return METRICS[name].of(self.row, Setting(self.row.design, self.fit))

    def draws_of(self, name: str) -> Draws:
        """Draws of one of :data:`UNCERTAIN`, float64[DRAWS]."""
        if name in ENERGIES:
            return self._joules(name)
        if name == PRICE:
            return self._usd
        if name == AREA:
            low, high = self.fit.intervals[AREA]
            return drawn(Term(AREA, low, self.figure(AREA), high), DRAWS)
        time_factors = self._decode_slowdowns if name in OF_DECODING else self._slowdowns
        if METRICS[name].better == "lower":
            return self.figure(name) * time_factors
        return self.figure(name) / time_factors

    @cached_property
    def _slowdowns(self) -> Draws:
        """Latency over the expected one, by draw."""
        return self._slowdowns_of(self.latency_factors)

    @cached_property
    def _decode_slowdowns(self) -> Draws:
        """Time of decoding over the expected one, by draw."""
        return self._slowdowns_of(self.decode_factors)

    def _slowdowns_of(self, time_factors: Factors | None) -> Draws:
        """A time over the expected one, by draw."""
        if time_factors is None:
            return np.ones(DRAWS)
        board = self.row.design.board
        memory = f"{board.device or board.name} {self.row.design.machine.placement.weights}"
        low, high = self.row.simulation.plan.hw.bandwidth_interval
        return slowdowns(memory, (float(low), float(high)), time_factors, DRAWS)

    def _joules(self, name: str) -> Draws:
        """Draws of an energy: what is drawn by being there costs in proportion to the time."""
        parts: EnergyReport = self.row.energy_parts_per_video
        time_factors = self._slowdowns
        if name == "energy_per_token_j":
            parts = self.row.energy_parts_per_token
            time_factors = self._decode_slowdowns
        joules = np.zeros(DRAWS)
        for part in parts.components:
            term = Term(part.constant, part.low_j, part.value_j, part.high_j)
            of_part = drawn(term, DRAWS)
            joules += of_part * time_factors if part.idle else of_part
        return joules

    @cached_property
    def _usd(self) -> Draws:
        """Draws of the price, each part by itself."""
        usd = np.zeros(DRAWS)
        memories = self.row.design.board.memories
        for price in self.fit.prices:
            name = f"price of {price.part}"
            if price.part.startswith(OF_MEMORY):  # memories of one family have one price a GiB
                memory = memories[price.part.removeprefix(OF_MEMORY)]
                name = f"price of {memory.family.name}"
            elif price.part == WHOLE_BOARD:
                name = f"price of {self.row.design.board.name}"
            usd += drawn(Term(name, price.low, price.value, price.high), DRAWS)
        return usd


# -------------------------------------------------------------------- private


def _uncertain(signs: Mapping[str, int]) -> tuple[str, ...]:
    """Objectives that are drawn; the others are exact.

    Raises:
        InputError: An objective depends on uncertain constants, and its interval is unknown.
    """
    for name in signs:
        if name not in METRICS or METRICS[name].of_design or name in (*UNCERTAIN, *EXACT):
            continue
        cure = f"take others, such as {', '.join(UNCERTAIN[:2])} or {ENERGIES[0]}"
        if name in EXPECTED:
            cure = f"take {EXPECTED[name]}"
        problem = "depends on uncertain constants, and how they move it is not known"
        raise InputError(f"objective {name}", problem, f"{cure}, or leave out `robust`")
    return tuple(name for name in signs if name in UNCERTAIN)


def _rivals(
    candidates: "pd.DataFrame",
    on_front: "pd.DataFrame",
    *,
    signs: Mapping[str, int],
    uncertain: Sequence[str],
) -> "pd.DataFrame":
    """Points near the front, the nearest first; at most :data:`MOST_RIVALS`."""
    others = candidates[~candidates["point"].isin(on_front["point"])]
    ways = np.array(list(signs.values()))
    of_others = others[list(signs)].to_numpy(np.float64) * ways
    of_front = on_front[list(signs)].to_numpy(np.float64) * ways
    is_uncertain = np.array([name in uncertain for name in signs])
    distances = np.full(len(others), np.inf)
    for point in of_front:
        is_no_worse = (of_others <= point)[:, ~is_uncertain].all(axis=1)
        worse = (of_others - point)[:, is_uncertain] / np.abs(point[is_uncertain])
        distance = np.where(is_no_worse, worse.max(axis=1, initial=0.0), np.inf)
        distances = np.minimum(distances, distance)
    nearest = np.argsort(distances, kind="stable")[:MOST_RIVALS]
    return others.iloc[nearest[distances[nearest] <= NEAR]]


def _points(study: Study, results: Sequence[Mapping[Any, Any]]) -> list[Point]:
    """The points of results.

    Raises:
        InputError: A result has no value of an axis of the study.
    """
    points = []
    for result in results:
        values = {}
        for axis in study.axes:
            if axis.name not in result:
                problem = f"has an axis {axis.name}, and the results have no such column"
                raise InputError(study.name, problem, "name the study that they are of")
            values[axis.name] = value_of_cell(axis, result[axis.name])
        points.append(make_point(study, int(result["point"]), values))
    return points


def _drawn_points(study: Study, points: Sequence[Point]) -> Iterator[tuple[int, DrawnPoint]]:
    """Place in the study of each point, and the point simulated at all bandwidths."""
    evaluator = Evaluator(study)
    for chunk in chunks_of(points):
        simulated = evaluator.simulated(chunk)
        places_of_design = grouped(
            (row.design.sha256, place) for place, (row, _) in enumerate(simulated)
        )
        for places in places_of_design.values():
            first, _ = simulated[places[0]]
            ends = at_bandwidth_ends(Hardware(first.design))
            for place in places:
                row, fit = simulated[place]
                drawn_point = DrawnPoint(row, fit)
                if ends is not None:
                    factors = bandwidth_factors(row.simulation.plan, row.batches, ends)
                    drawn_point = DrawnPoint(row, fit, factors.latency, factors.decode)
                yield chunk[place].ordinal, drawn_point


def _check_equal(
    place: str, point: DrawnPoint, result: Mapping[Any, Any], objectives: Mapping[str, int]
) -> None:
    """Refuse a result that differs from the point that was simulated again.

    Raises:
        InputError: An objective differs.
    """
    for name in objectives:
        if name not in METRICS:
            continue
        now = point.figure(name)
        if now != result[name]:
            problem = f"point {result['point']}: {name} is {result[name]}, and {now} by this code"
            cure = "name the study that the results are of, or sweep it again"
            raise InputError(place, problem, cure)
