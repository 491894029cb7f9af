"""The roofline: multiply-accumulates per second over those per byte, under what the board allows.

Model: the memory that moves most bytes under the design's own policy, at the rate that it sustains
for long reads (a slope), and all arrays at work in every cycle (a ceiling). A policy below both
loses time to latency, uneven loads or pipelines; one that uses another memory as well can lie
above the slope.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple

from carsim.base.text import number
from carsim.report.figures import Shown, style
from carsim.report.figures.breakdown import LOOKS
from carsim.report.figures.metric import MARKERS
from carsim.report.figures.plot import DASHES, Panel, Plot, Series
from carsim.report.stored import StoredPolicy, StoredRun

ROOM = 4.0
"""The axis goes this factor beyond the outermost point."""


class _Roof(NamedTuple):
    """The memory that moves most bytes, GMAC/s of all arrays, GB/s that it sustains."""

    memory: str
    gmacs: float
    gbps: float


def roofline_plot(policies: Sequence[Shown]) -> Plot:
    """Policies under the roofs of their runs; those of the designs are larger."""
    names = {
        id(run): run.design if name.removesuffix(" *") == policy.policy else name
        for name, policy, run in policies
    }
    roofs = {id(run): _roof(run) for *_, run in policies}
    places = [_place(policy, roofs[id(run)]) for _, policy, run in policies]
    first, (memory, peak, rate) = policies[0].run, roofs[id(policies[0].run)]
    xs = [x for x, _ in places] + [peak / rate]
    ends = min(xs) / ROOM, max(xs) * ROOM
    series = []
    for (key, roof), dash in zip(roofs.items(), cycle(DASHES), strict=False):
        edges = (ends[0], roof.gmacs / roof.gbps, ends[1])
        heights = [min(roof.gmacs, at * roof.gbps) for at in edges]
        name = "roof" if len(roofs) == 1 else f"roof of {names[key]}"
        series.append(Series(name, edges, heights, "line", style.GREY, dash=dash))
    looks = zip(cycle(LOOKS), cycle(MARKERS), strict=False)
    for each, (x, y), ((colour, _), marker) in zip(policies, places, looks, strict=False):
        hover = [f"{each.policy.policy}: {number(x)} MAC/B, {number(y)} GMAC/s"]
        look: dict[str, Any] = {"marker": marker, "size": 9.0 if each.policy.is_chosen else 5.0}
        series.append(Series(each.name, [x], [y], "points", colour, hover=hover, **look))
    axis = memory if {roof.memory for roof in roofs.values()} == {memory} else "the memory"
    lowest = min(ends[0] * rate, *(y for _, y in places))
    height = lowest / 1.5, 2 * max(roof.gmacs for roof in roofs.values())
    look = {"x_scale": "log", "y_scale": "log", "x_range": ends, "y_range": height}
    return Plot(
        f"roofline: {first.design}, {number(peak)} GMAC/s and {number(rate)} GB/s of {memory}",
        (Panel(f"MAC per byte of {axis}", tuple(series), "GMAC/s", **look),),
        alt="Multiply-accumulates per second over those per byte, with the roof of the board",
        caption="On the slope the memory is the limit, on the ceiling the arrays are.",
        size_in=(6.5, 3.0 + 0.2 * len(policies)),
        misfit=not all(run.fits for *_, run in policies),
    )


def _roof(run: StoredRun) -> _Roof:
    moved = run.own.memory_gb_per_video_by_memory
    memory = max(moved, key=lambda name: moved[name])
    (rate,) = (each.sustained_gbps for each in run.memories if each.name == memory)
    mhz = run.resolved_design["board"]["fabric_clock_mhz"]
    return _Roof(memory, run.own["macs_per_cycle"] * mhz / 1e3, rate)


def _place(policy: StoredPolicy, roof: _Roof) -> tuple[float, float]:
    """MAC per byte, and GMAC/s."""
    gmacs = policy["mac_utilisation"] * roof.gmacs
    moved_gb = policy.memory_gb_per_video_by_memory[roof.memory]
    return gmacs * policy.seconds_per_video / moved_gb, gmacs
