"""Errors and intervals of predicted times of forwards, all rows of the tested system left out.

The statistics are those of decoding speeds (:mod:`carsim.validate.intervals`): systems count once,
and every way to predict has the median factor and the interval of its own residuals on other
systems. A residual of another system comes from a prediction without that system's rows. These
predictions may have seen rows of the tested system, except those that are simulated.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import log

from carsim.base.groups import grouped
from carsim.base.text import count
from carsim.hardware.expected import FORWARDS, LEAST_SYSTEMS, LEVEL, Coverage, Expected
from carsim.metrics.comparison import Comparison
from carsim.validate.forward_times import (
    KERNELS,
    LEAST_ON_GPU,
    MACHINES,
    ONE_RATE,
    SHARE,
    SIMULATED,
    TWO_RATES,
    WAYS,
    ForwardTime,
    held_back_times,
)
from carsim.validate.intervals import (
    Held,
    PublishedSystem,
    expected_in,
    left_out_systems,
    without_system,
)
from carsim.validate.part import Group, errors_of

RIVALS = {ONE_RATE: "one rate per GPU", SHARE: "one share of the peak", TWO_RATES: "two rates"}
"""Way -> its name as a rival."""

TWO_RATES_BOUND = 0.26
"""Mean error at most of times by two rates. It guards against a regression: 24 % was found."""

EXPECTED_BOUND = 0.22
"""Mean error at most of expected times. It guards against a regression: 20 % was found."""

Rows = Sequence[ForwardTime]


def forward_groups(rows: Rows) -> Iterator[Group]:
    """Predicted times next to those of the rivals.

    Args:
        rows: All published times.
    """
    title = "seconds, two rates"
    for rival in (ONE_RATE, SHARE):
        yield _group(f"{title} ({rival})", rows, rows, TWO_RATES, rival)
    for kernel, name in KERNELS.items():
        of_kernel = [row for row in rows if row.kernel == kernel]
        yield _group(f"two rates, {name}", of_kernel, rows, TWO_RATES, ONE_RATE)
    on_machines = with_machine(rows)
    for rival in (TWO_RATES, ONE_RATE, SHARE):
        yield _group(f"seconds, expected ({rival})", on_machines, rows, SIMULATED, rival)
    simulated = [_comparison(row, _plain_seconds(row, rows, SIMULATED)) for row in on_machines]
    yield Group("seconds, simulated", tuple(simulated), shown=False)


def forward_notes(rows: Rows) -> Iterator[str]:
    """Notes on the times: samples, coverage, and the nearest way.

    Args:
        rows: All published times.
    """
    on_machines = with_machine(rows)
    units = {row.unit for row in rows}
    of_kernels = []
    for kernel, name in KERNELS.items():
        chosen = [row for row in rows if row.kernel == kernel]
        systems = count(len({row.unit for row in chosen}), "system")
        of_kernels.append(f"{name}: {count(len(chosen), 'row')} of {systems}")
    yield (
        f"Times on GPUs: {count(len(rows), 'row')} of {len(units)} systems (a runtime on a GPU). "
        f"{'; '.join(of_kernels)}. All rows of the tested system are left out of rates, factors "
        "and intervals."
    )
    yield _verdict("all rows", rows, rows, (TWO_RATES, ONE_RATE, SHARE))
    stated = [row for row in rows if row.work == "stated"]
    yield _verdict("set-up stated in full", stated, rows, (TWO_RATES, ONE_RATE, SHARE))
    titles = ", ".join(MACHINES)
    ways = (SIMULATED, TWO_RATES, ONE_RATE, SHARE)
    yield _verdict(f"GPUs that carsim has a machine of ({titles})", on_machines, rows, ways)
    alone = [row for row in rows if not _has_rates(row, rows)]
    yield _verdict(
        "rows whose GPU and kernel fewer than two other systems have, by shares of other GPUs",
        alone,
        rows,
        (TWO_RATES, ONE_RATE, SHARE),
    )
    yield from (_held_back(row, rows) for row in held_back_times())
    yield (
        "90 % intervals, pooled over kernels and GPUs, as few systems have one kernel on one GPU. "
        "In brackets: Wilson's 95 % interval of the coverage. The last width is that after all "
        "intervals are stretched or shrunk until 90 % of the rows are inside."
    )
    yield _intervals("all rows", rows, rows, (TWO_RATES, ONE_RATE, SHARE))
    yield _intervals("GPUs with a machine", on_machines, rows, ways)


def with_machine(rows: Rows) -> list[ForwardTime]:
    """Rows on GPUs that carsim has a machine of."""
    return [row for row in rows if row.gpu in MACHINES]


def residual_systems(chosen: Rows, rows: Rows, way: str) -> list[PublishedSystem]:
    """Residuals of predictions without the system's own rows, by system.

    Args:
        chosen: Rows that are predicted.
        rows: All published times.
        way: A key of :data:`carsim.validate.forward_times.WAYS`.
    """
    systems = []
    for unit, of_unit in grouped((row.unit, row) for row in chosen).items():
        seconds = [_plain_seconds(row, rows, way) for row in of_unit]
        pairs = list(zip(of_unit, seconds, strict=True))
        systems.append(
            PublishedSystem(
                name=unit,
                kind="gpu",
                control=None,
                residuals=tuple(log(row.seconds / of_row) for row, of_row in pairs),
                floors=tuple(log(row.peak_seconds / of_row) for row, of_row in pairs),
            )
        )
    return systems


def held_of(chosen: Rows, rows: Rows, way: str) -> Held:
    """Coverage of the intervals of a way, all rows of the tested system left out.

    Args:
        chosen: Rows that are predicted.
        rows: All published times.
        way: A key of :data:`carsim.validate.forward_times.WAYS`.
    """
    return left_out_systems(residual_systems(chosen, rows, way))["gpu"]


def forward_table(rows: Rows) -> list[Expected]:
    """Rows of the table of intervals of forwards: simulated times of GPUs.

    Args:
        rows: All published times.
    """
    systems = residual_systems(with_machine(rows), rows, SIMULATED)
    assert len(systems) >= LEAST_SYSTEMS
    return [expected_in(FORWARDS, (system.residuals for system in systems))]


def forward_coverage(rows: Rows) -> list[Coverage]:
    """Their measured coverage.

    Args:
        rows: All published times.
    """
    held = held_of(with_machine(rows), rows, SIMULATED)
    return [Coverage(FORWARDS, rows=held.rows, inside=held.inside)]


def expected_seconds(chosen: Rows, rows: Rows, way: str) -> dict[ForwardTime, float]:
    """Seconds of each row: those of a way, times its median factor on other systems.

    Args:
        chosen: Rows that are predicted.
        rows: All published times.
        way: A key of :data:`carsim.validate.forward_times.WAYS`.
    """
    systems = residual_systems(chosen, rows, way)
    factors = {system.name: without_system(systems, system).factor for system in systems}
    return {row: _plain_seconds(row, rows, way) * factors[row.unit] for row in chosen}


# -------------------------------------------------------------------- private


def _plain_seconds(row: ForwardTime, rows: Rows, way: str) -> float:
    """Seconds of a row by a way, without the rows of its own system."""
    return _cached_seconds(row, tuple(rows), way)


@cache
def _cached_seconds(row: ForwardTime, rows: tuple[ForwardTime, ...], way: str) -> float:
    others = [other for other in rows if other.unit != row.unit]
    return WAYS[way](row, others)


def _seconds_of(chosen: Rows, rows: Rows, way: str) -> Mapping[ForwardTime, float]:
    """Seconds by a way; what is simulated has the factor of other systems."""
    if way == SIMULATED:
        return expected_seconds(chosen, rows, way)
    return {row: _plain_seconds(row, rows, way) for row in chosen}


def _group(title: str, chosen: Rows, rows: Rows, ours: str, rival: str) -> Group:
    """Comparisons of some rows; the mean error of all rows, or of simulated ones, has a bound."""
    our_seconds = _seconds_of(chosen, rows, ours)
    their_seconds = _seconds_of(chosen, rows, rival)
    compared = [_comparison(row, our_seconds[row], their_seconds[row]) for row in chosen]
    bounds = {}
    if len(chosen) == len(rows):
        bounds = {"mean": TWO_RATES_BOUND}
    elif ours == SIMULATED:
        bounds = {"mean": EXPECTED_BOUND}
    return Group(title, tuple(compared), RIVALS[rival], bounds, shown=False)


def _comparison(row: ForwardTime, ours: float, rival: float | None = None) -> Comparison:
    """A published time, carsim's and a rival's, in seconds."""
    share = row.flop.attention / row.flop.total
    kernel = KERNELS[row.kernel]
    note = f"{share:.0%} of the operations in attention, {kernel}; work {row.work}; {row.scope}"
    return Comparison(row.what, row.seconds, ours, rival, None, row.source, "s", note)


def _intervals(title: str, chosen: Rows, rows: Rows, ways: Iterable[str]) -> str:
    """Coverage and widths of several ways over the same rows, and the narrowest of them."""
    texts = []
    widths = []
    for way in ways:
        held = held_of(chosen, rows, way)
        width = held.width_at(LEVEL)
        name = _name(way)
        widths.append((width, name))
        texts.append(f"{name} {held.text()}, {width:.2f}x at {LEVEL:.0%}")
    _, narrowest = min(widths)
    systems = count(len({row.unit for row in chosen}), "system")
    return f"Intervals, {title}, {systems}: {'; '.join(texts)}. Narrowest at 90 %: {narrowest}."


def _name(way: str) -> str:
    """A way in a sentence."""
    return "carsim, expected" if way == SIMULATED else way


def _held_back(row: ForwardTime, rows: Rows) -> str:
    """A time that no rate or factor was fitted to, beside what each way predicts of it."""
    others = [other for other in rows if other.unit != row.unit]
    factor = forward_table(others)[0].factor
    texts = []
    for way, seconds_of in WAYS.items():
        seconds = seconds_of(row, others) * (factor if way == SIMULATED else 1)
        texts.append(f"{_name(way)} {seconds:.1f} s ({seconds / row.seconds - 1:+.0%})")
    return f"Held back, {row.what}: {row.seconds:.1f} s; {', '.join(texts)}."


def _has_rates(row: ForwardTime, rows: Rows) -> bool:
    """Enough other systems have the GPU and the kernel of a row."""
    units = {
        other.unit
        for other in rows
        if other.gpu == row.gpu and other.kernel == row.kernel and other.unit != row.unit
    }
    return len(units) >= LEAST_ON_GPU


def _verdict(title: str, chosen: Rows, rows: Rows, ways: Iterable[str]) -> str:
    """Errors of several ways over the same rows, and the nearest of them."""
    found = []
    for way in ways:
        seconds = _seconds_of(chosen, rows, way)
        errors = errors_of([seconds[row] / row.seconds - 1 for row in chosen])
        found.append((errors.mean, _name(way), errors))
    texts = "; ".join(
        f"{name} {errors.mean:.1%} (median {errors.median:.1%}, with sign {errors.bias:+.1%})"
        for _, name, errors in found
    )
    _, nearest, _ = min(found)
    systems = count(len({row.unit for row in chosen}), "system")
    return (
        f"Mean errors of {count(len(chosen), 'row')} of {systems}, {title}: {texts}. Nearest: "
        f"{nearest}."
    )
