"""The roofline: multiply-accumulates per second over those per byte, under what the board allows.

Model: the memory that moves most bytes under the design's own policy, at the rate that it sustains
for long reads (a slope), and all arrays at work in every cycle (a ceiling). A policy below both
loses time to latency, uneven loads or pipelines; one that uses another memory as well can lie
above the slope.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from carsim.base.text import number
from carsim.base.units import GB
from carsim.report.figures import style
from carsim.report.figures.plot import DASHES, Dash, Panel, Plot, Series

if TYPE_CHECKING:
    from carsim.report.stored import StoredPolicy, StoredRun

GIGA = 1e9
PINNED = ((style.ORANGE, "d"), (style.GREEN, "*"), (style.PURPLE, "x"))
"""Colour and marker of further runs."""
ROOM = 4.0
"""The axis goes this factor beyond the outermost point."""


def roofline_plot(run: "StoredRun", pinned: "Sequence[tuple[str, StoredRun]]" = ()) -> Plot:
    """Policies of a run under its roof, and the own policies of others under theirs.

    Args:
        run: The run.
        pinned: Further runs by their names.
    """
    policies = [policy for policy in run.policies if not policy.is_bound]
    memory, peak, rate = _roof(run)
    places = [_place(policy, run) for policy in policies]
    others = [_place(other.own, other) for _, other in pinned]
    xs = [x for x, _ in (*places, *others)] + [peak / rate]
    ends = min(xs) / ROOM, max(xs) * ROOM
    axis = memory if {_roof(other).memory for _, other in pinned} <= {memory} else "the memory"
    series = [_line("roof", run, ends, style.GREY)]
    looks = list(zip(pinned, cycle(PINNED), cycle(DASHES[1:]), strict=False))
    series += [_line("", other, ends, look[0], dash) for (_, other), look, dash in looks]
    own = policies.index(run.own)
    series.append(
        _points(
            "other policies",
            [(p, at) for p, at in zip(policies, places, strict=True) if p is not run.own],
        )
    )
    only = len(policies) == 1 and pinned
    series.append(
        _points(
            policies[0].policy if only else "own policy", [(run.own, places[own])], style.BLUE, 9.0
        )
    )
    for ((name, other), (colour, marker), _), place in zip(looks, others, strict=True):
        series.append(_points(name, [(other.own, place)], colour, 9.0, marker))
    lowest = min(y for _, y in (*places, *others))
    return Plot(
        f"roofline: {run.design}, {number(peak)} GMAC/s and {number(rate)} GB/s of {memory}",
        (
            Panel(
                f"MAC per byte of {axis}",
                tuple(each for each in series if len(each.x)),
                "GMAC/s",
                x_scale="log",
                y_scale="log",
                x_range=ends,
                y_range=(
                    min(lowest, ends[0] * rate) / 1.5,
                    2 * max(peak, *(_roof(o).gmacs for _, o in pinned), 0),
                ),
            ),
        ),
        alt="Multiply-accumulates per second over those per byte, with the roof of the board",
        caption="On the slope the memory is the limit, on the ceiling the arrays are.",
        size_in=(6.5, 3.6),
        misfit=not run.fits,
    )


class _Roof(NamedTuple):
    """The memory that moves most bytes, GMAC/s of all arrays, GB/s that it sustains."""

    memory: str
    gmacs: float
    gbps: float


def _roof(run: "StoredRun") -> _Roof:
    moved = run.own.memory_gb_per_video_by_memory
    memory = max(moved, key=lambda name: moved[name])
    (rate,) = (each.sustained_gbps for each in run.memories if each.name == memory)
    board = run.resolved_design["board"]
    gmacs = run.own["macs_per_cycle"] * board["fabric_clock_mhz"] * 1e6 / GIGA
    return _Roof(memory, gmacs, rate)


def _place(policy: "StoredPolicy", run: "StoredRun") -> tuple[float, float]:
    """MAC per byte, and GMAC/s."""
    memory, peak, _ = _roof(run)
    gmacs = policy["mac_utilisation"] * peak
    moved = policy.memory_gb_per_video_by_memory[memory] * GB / GIGA
    return gmacs * policy.seconds_per_video / moved, gmacs


def _line(
    name: str, run: "StoredRun", ends: tuple[float, float], colour: str, dash: Dash = "solid"
) -> Series:
    _, peak, rate = _roof(run)
    x = (ends[0], peak / rate, ends[1])
    y = [min(peak, at * rate) for at in x]
    return Series(name, x, y, "line", colour, dash=dash)


def _points(
    name: str,
    of: "Sequence[tuple[StoredPolicy, tuple[float, float]]]",
    colour: str = style.GREY,
    size: float = 5.0,
    marker: str = "o",
) -> Series:
    return Series(
        name,
        [x for _, (x, _) in of],
        [y for _, (_, y) in of],
        "points",
        colour,
        marker=marker,
        size=size,
        hover=[f"{policy.policy}: {number(x)} MAC/B, {number(y)} GMAC/s" for policy, (x, y) in of],
    )
