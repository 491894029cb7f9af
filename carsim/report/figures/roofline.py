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
from carsim.base.units import GB
from carsim.report.figures import Shown, style
from carsim.report.figures.plot import DASHES, Panel, Plot, Series
from carsim.report.stored import StoredPolicy, StoredRun

GIGA = 1e9
LOOKS = ((style.BLUE, "o"), (style.ORANGE, "d"), (style.GREEN, "*"), (style.PURPLE, "x"))
"""Colour and marker of the own policy of each run."""
ROOM = 4.0
"""The axis goes this factor beyond the outermost point."""


def roofline_plot(policies: Sequence[Shown]) -> Plot:
    """Policies under the roofs of their runs."""
    runs = list({id(run): run for *_, run in policies}.values())
    roofs = [_roof(run) for run in runs]
    first, (memory, peak, rate) = runs[0], roofs[0]
    places = [_place(policy, run) for _, policy, run in policies]
    xs = [x for x, _ in places] + [peak / rate]
    ends = min(xs) / ROOM, max(xs) * ROOM
    series: list[Series] = []
    owns = {id(run): name for name, policy, run in policies if name != policy.policy}
    for run, roof, (colour, _), dash in zip(runs, roofs, cycle(LOOKS), cycle(DASHES), strict=False):
        x = (ends[0], roof.gmacs / roof.gbps, ends[1])
        y = [min(roof.gmacs, at * roof.gbps) for at in x]
        name = f"roof of {owns.get(id(run), run.design)}" if len(runs) > 1 else "roof"
        colour = colour if len(runs) > 1 else style.GREY
        series.append(Series(name, x, y, "line", colour, dash=dash))
    groups: dict[str, list[int]] = {}
    of_first = sum(run is first for *_, run in policies)
    for place, (name, policy, run) in enumerate(policies):
        if run is first and of_first > 1:
            name = "own policy" if policy.is_chosen else "other policies"
        groups.setdefault(name, []).append(place)
    looks = cycle(LOOKS)
    for name, members in sorted(groups.items(), key=lambda group: group[0] != "other policies"):
        colour, marker = (style.GREY, "o") if name == "other policies" else next(looks)
        points = [(policies[i].policy.policy, *places[i]) for i in members]
        hover = [f"{own}: {number(x)} MAC/B, {number(y)} GMAC/s" for own, x, y in points]
        size = 5.0 if name == "other policies" else 9.0
        _, x_of, y_of = zip(*points, strict=True)
        mark: dict[str, Any] = {"marker": marker, "size": size, "hover": hover}
        series.append(Series(name, x_of, y_of, "points", colour, **mark))
    axis = memory if {roof.memory for roof in roofs} == {memory} else "the memory"
    lowest = min(y for _, y in places)
    height = min(lowest, ends[0] * rate) / 1.5, 2 * max(roof.gmacs for roof in roofs)
    look: dict[str, Any] = {"x_scale": "log", "y_scale": "log", "x_range": ends, "y_range": height}
    panel = Panel(f"MAC per byte of {axis}", tuple(series), "GMAC/s", **look)
    return Plot(
        f"roofline: {first.design}, {number(peak)} GMAC/s and {number(rate)} GB/s of {memory}",
        (panel,),
        alt="Multiply-accumulates per second over those per byte, with the roof of the board",
        caption="On the slope the memory is the limit, on the ceiling the arrays are.",
        size_in=(6.5, 3.6),
        misfit=not all(run.fits for run in runs),
    )


class _Roof(NamedTuple):
    """The memory that moves most bytes, GMAC/s of all arrays, GB/s that it sustains."""

    memory: str
    gmacs: float
    gbps: float


def _roof(run: StoredRun) -> _Roof:
    moved = run.own.memory_gb_per_video_by_memory
    memory = max(moved, key=lambda name: moved[name])
    (rate,) = (each.sustained_gbps for each in run.memories if each.name == memory)
    board = run.resolved_design["board"]
    gmacs = run.own["macs_per_cycle"] * board["fabric_clock_mhz"] * 1e6 / GIGA
    return _Roof(memory, gmacs, rate)


def _place(policy: StoredPolicy, run: StoredRun) -> tuple[float, float]:
    """MAC per byte, and GMAC/s."""
    memory, peak, _ = _roof(run)
    gmacs = policy["mac_utilisation"] * peak
    moved = policy.memory_gb_per_video_by_memory[memory] * GB / GIGA
    return gmacs * policy.seconds_per_video / moved, gmacs
