"""carsim's hardware bound next to published decoding speeds, simple baselines and calibration.

Baselines: 0.9 and 0.8 of the peak bandwidth over the bytes of a token. Peak and bytes are those
that the row states, so that a baseline does not depend on carsim; where a system uses few of a
board's ports, the peak is that of these ports. What ``carsim calibrate`` fits to a system (a time
per layer, and a share of the bandwidth where data tell) is compared with one factor on all time
per system; both are fitted to other rows of the same system.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from statistics import fmean

from carsim.base.text import number, span, with_ends
from carsim.hardware.expected import expected_factors
from carsim.metrics import Comparison
from carsim.validate.intervals import (
    Coverage,
    calibrated_speed,
    coverage,
    left_out_speeds,
    one_factor,
    pools,
)
from carsim.validate.part import Group, Part
from carsim.validate.published import SPLITS, Predicted, Published, predict_rows

MEDIAN_BOUND, MEAN_BOUND, LEAST_WINS = 0.05, 0.08, 2 / 3
"""Aims over the rows in scope: median and mean error at most, share of rows nearer than the
baseline at least."""

CALIBRATED_BOUND = 0.09
"""Mean error at most of rows that one constant, fitted to other rows of the system, predicts. It
guards against a regression; the aim of 5 % is not reached."""

SHARES = {"0.9 of peak": 0.9, "0.8 of peak": 0.8}
"""Baseline -> share of the peak bandwidth that it takes for granted."""

USUAL = "0.9 of peak"
FACTOR = "one factor per system"


def validate_boards(
    progress: Callable[[str], None] = lambda _: None, rows: Iterable[Published] | None = None
) -> Part:
    """Predict all systems.

    Args:
        progress: Told which system is next.
        rows: Systems to predict; by default all of the file.
    """
    predicted = predict_rows(progress, rows)
    inside = [each for each in predicted if each.row.in_scope]
    outside = [each for each in predicted if not each.row.in_scope]
    aims = {"median": MEDIAN_BOUND, "mean": MEAN_BOUND}
    wanted = [
        *_against("tokens/s, all rows", predicted),
        *(
            group
            for split in SPLITS
            for group in _against(
                f"tokens/s, {split}", [each for each in predicted if each.row.split == split]
            )
        ),
        Group("tokens/s, in scope", _speeds(inside, USUAL), USUAL, aims, True, LEAST_WINS),
        Group("tokens/s, out of scope", _speeds(outside, USUAL), USUAL, shown=False),
        *_calibrated(predicted),
        Group("power in W", tuple(each for found in predicted for each in _power(found))),
    ]
    return Part(
        "boards",
        "Decoding speed and power of published systems: the hardware bound from their "
        "configurations alone, and calibrated",
        tuple(group for group in wanted if group.rows),
        tuple(_notes(predicted)),
    )


def _against(title: str, predicted: Sequence[Predicted]) -> Iterable[Group]:
    """The hardware bound against each baseline."""
    for baseline in SHARES:
        name = title if baseline == USUAL else f"{title} ({SHARES[baseline]})"
        yield Group(name, _speeds(predicted, baseline), baseline, shown=False)


def _speeds(predicted: Iterable[Predicted], baseline: str) -> tuple[Comparison, ...]:
    return tuple(_speed(each, baseline) for each in predicted)


def _speed(each: Predicted, baseline: str) -> Comparison:
    found, row = each.found, each.row
    limit, share = next(iter(found.decode.limit_shares.items()))
    joules = found.joules_per_token
    value, low, high = (number(joule, 3) for joule in (joules.value_j, joules.low_j, joules.high_j))
    return Comparison(
        row.name,
        row.tok_per_s,
        each.speed,
        row.at_peak(SHARES[baseline]),
        None,
        row.source,
        "tokens/s",
        f"{limit} {share:.0%}; expected {found.expected_speed.text}; "
        f"{with_ends(f'{value} J', low, high, ' to ')}",
    )


def _calibrated(predicted: Sequence[Predicted]) -> Iterable[Group]:
    """Constants of each system against one factor per system, both fitted to other rows."""
    ways: dict[str, Callable[[Predicted], object]] = {
        "row": id,
        "model": lambda each: each.row.model,
    }
    for left_out, same in ways.items():
        ours_of = left_out_speeds(predicted, calibrated_speed, same)
        rivals_of = left_out_speeds(predicted, one_factor, same)
        for unseen in (False, True):
            rows = tuple(
                Comparison(
                    each.row.name,
                    each.row.tok_per_s,
                    ours,
                    theirs,
                    None,
                    each.row.source,
                    "tokens/s",
                )
                for (each, ours), (_, theirs) in zip(ours_of, rivals_of, strict=True)
                if each.row.split == "unseen" or not unseen
            )
            title = f"calibrated by {left_out}{', unseen' if unseen else ''}"
            bounds = {"mean": CALIBRATED_BOUND}
            yield Group(title, rows, FACTOR, bounds, must_win=True, shown=False)


def _power(each: Predicted) -> list[Comparison]:
    row = each.row
    if row.power_w is None:
        return []
    watts = each.found.watts
    note = f"{span(f'{watts.low_j:.1f}', f'{watts.high_j:.1f}', ' to ')} W"
    return [Comparison(row.name, row.power_w, watts.value_j, None, None, row.source, "W", note)]


@dataclass(frozen=True, slots=True)
class Order:
    """Pairs of published rows, and how many each prediction puts in the measured order.

    ``certain``: pairs of which the intervals of carsim do not overlap, and ``certain_right`` those
    of them in the measured order.
    """

    pairs: int
    ours: int
    baseline: int
    certain: int
    certain_right: int


def order_of(predicted: Sequence[Predicted], same: Callable[[Predicted], object]) -> Order:
    """Order of all pairs of rows with an equal value of ``same``; equal speeds do not count."""
    pairs = [
        (one, other)
        for one, other in combinations(predicted, 2)
        if same(one) == same(other) and one.row.tok_per_s != other.row.tok_per_s
    ]

    def right(value: Callable[[Predicted], float], one: Predicted, other: Predicted) -> bool:
        return (value(one) > value(other)) == (one.row.tok_per_s > other.row.tok_per_s)

    def apart(one: Predicted, other: Predicted) -> bool:
        speeds = (one.found.expected_speed, other.found.expected_speed)
        slow, fast = sorted(speeds, key=lambda speed: speed.value)
        return slow.high < fast.low

    ours = partial(right, lambda each: each.found.expected_speed.value)
    baseline = partial(right, lambda each: each.row.at_peak(0.8))
    certain = [pair for pair in pairs if apart(*pair)]
    return Order(
        len(pairs),
        sum(ours(*pair) for pair in pairs),
        sum(baseline(*pair) for pair in pairs),
        len(certain),
        sum(ours(*pair) for pair in certain),
    )


def _notes(predicted: Sequence[Predicted]) -> Iterable[str]:
    counts = ", ".join(
        f"{sum(each.row.split == split for each in predicted)} {split}" for split in SPLITS
    )
    yield (
        f"Rows: {counts}, of {len({each.row.unit for each in predicted})} systems. No number of "
        "carsim was chosen with an unseen row in view."
    )
    yield (
        "Baselines: 0.9 and 0.8 of the peak bandwidth (of the ports in use, where they are few) "
        "over the bytes of a token; one factor on all time, fitted to the other rows of the "
        "system. Next to each system: the limit of the phases in which most of the time is spent, "
        "expected tokens per second with their 90 % interval, joules per token."
    )
    yield (
        "What a dispatch, a host or a stage between products costs is chosen by the kind of "
        "control that a system publishes, mostly with rows in scope in view; see "
        "configs/published/README.md."
    )
    yield (
        "Calibrated: a time per layer and, from three rows on, a share of the bandwidth, fitted to "
        "the other rows of the system: of all models (by row), or of other models (by model)."
    )
    yield from _repeated(predicted)
    yield from map(_coverage_text, _coverages(predicted))
    for what, same in (
        ("model", lambda each: each.row.model),
        ("system", lambda each: each.row.unit),
    ):
        yield _order_text(what, order_of(predicted, same))
    known = [
        each.found.watts.low_j <= each.row.power_w <= each.found.watts.high_j
        for each in predicted
        if each.row.power_w is not None
    ]
    yield f"Published power lies within carsim's interval for {sum(known)} of {len(known)} rows."
    reasons: dict[str, list[str]] = {}
    for each in predicted:
        if not each.row.in_scope:
            reasons.setdefault(each.row.scope_reason, []).append(each.row.name)
        for misfit in each.found.misfits:
            yield f"Fit: {each.row.name}: {misfit}"
    for reason, names in reasons.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"Out of scope: {names[0]}{more}: {reason}."


def _repeated(predicted: Sequence[Predicted]) -> Iterable[str]:
    """The error of rows by repeated measurements of the same work, which no model can undercut."""
    same: dict[object, list[Predicted]] = {}
    for each in predicted:
        row = each.row
        same.setdefault((row.config, row.model, row.first_context, row.last_context), []).append(
            each
        )
    found: dict[str, list[float]] = {}
    for rows in same.values():
        for each in rows:
            if others := [other.point for other in rows if other is not each]:
                error = one_factor(each.point, others) / each.row.tok_per_s - 1
                found.setdefault(each.row.split, []).append(abs(error))
    for split, sizes in found.items():
        yield (
            f"Repeated: {len(sizes)} {split} rows have others of the same chip, runtime and model, "
            f"on other numbers of cards that work one after another. They differ from these by "
            f"{100 * fmean(sizes):.1f} % on average: the floor of any calibration."
        )


def _coverages(predicted: Sequence[Predicted]) -> Iterable[Coverage]:
    return (coverage(name, residuals) for name, residuals in pools(predicted).items())


def _coverage_text(found: Coverage) -> str:
    low, high = found.ends
    table = expected_factors()[found.pool]
    return (
        f"Interval of {found.pool}: a latency is expected to be {table.factor:.2f} times carsim's "
        f"({table.ends[0]:.2f} to {table.ends[1]:.2f}; {table.systems} systems). Of rows of "
        f"systems left out, {found.inside / found.rows:.0%} lie inside ({low:.0%} to {high:.0%}; "
        f"{found.inside} of {found.rows}; 90 % is claimed)."
    )


def _order_text(what: str, found: Order) -> str:
    if not found.pairs:
        return f"No two rows are of the same {what}."
    certain = (
        f"{found.certain_right / found.certain:.0%} of the {found.certain} whose intervals do not "
        "overlap"
        if found.certain
        else "no two intervals are apart"
    )
    return (
        f"Order of the {found.pairs} pairs of one {what}: carsim has {found.ours / found.pairs:.0%}"
        f" as measured ({certain}), 0.8 of peak {found.baseline / found.pairs:.0%}."
    )
