"""The roofline: multiply-accumulates per second over those per byte, under what the board allows.

Reading the prompt and decoding are marks of their own: a prompt has hundreds of rows for each byte
of weights, a decode step has as many as the batch. Of the design's own policy, each block of a
decode step has a ring: attention reads keys and values of each row, an MLP weights that rows share.

Model: the memory that moves most bytes under the design's own policy, at the rate that it sustains
for long reads (a slope), and all arrays at work in every cycle (a ceiling). A policy below both
loses time to latency, uneven loads or pipelines; one that uses another memory as well can lie
above the slope.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple

from carsim.base.text import number
from carsim.metrics import PHASES
from carsim.report.figures import OWN_MARK, Shown, style
from carsim.report.figures.looks import look_of
from carsim.report.figures.plot import DASHES, Panel, Plot, Series
from carsim.report.figures.policy_looks import looks_of_shown
from carsim.report.stored import StoredPolicy, StoredRun

ROOM = 4.0
"""The axis goes this factor beyond the outermost point."""

MARKS = {"decoding": "o", "prompt": "^", "whole": "o"}
"""Marker of a stage; ``whole`` is a run that an older carsim has stored without its stages."""

SAME = 1e-6
"""Relative distance of two marks that lie on each other."""


class _Roof(NamedTuple):
    """The memory that moves most bytes, GMAC/s of all arrays, GB/s that it sustains."""

    memory: str
    gmacs: float
    gbps: float


class _Mark(NamedTuple):
    """A policy while it reads the prompt or decodes, or one of its blocks.

    Attributes:
        stage: A key of :data:`MARKS`, or the kind of a block.
        macs_per_byte: Multiply-accumulates per byte of the roof's memory.
        gmacs: 1e9 multiply-accumulates per second.
    """

    stage: str
    macs_per_byte: float
    gmacs: float


def roofline_plot(policies: Sequence[Shown]) -> Plot:
    """Policies under the roofs of their runs; those of the designs are larger."""
    names = {
        id(run): run.design if name.removesuffix(OWN_MARK) == policy.policy else name
        for name, policy, run in policies
    }
    roofs = {id(run): _roof(run) for *_, run in policies}
    marks = [_marks(policy, roofs[id(run)]) for _, policy, run in policies]
    first, (memory, peak, rate) = policies[0].run, roofs[id(policies[0].run)]
    is_comparison = sum(shown.run is first for shown in policies) > 1
    blocks = _block_marks(first.own, roofs[id(first)]) if is_comparison else []
    every_mark = [*blocks, *(mark for of_policy in marks for mark in of_policy)]
    xs = [peak / rate, *(mark.macs_per_byte for mark in every_mark)]
    ends = min(xs) / ROOM, max(xs) * ROOM
    series = []
    for (key, roof), dash in zip(roofs.items(), cycle(DASHES), strict=False):
        edges = (ends[0], roof.gmacs / roof.gbps, ends[1])
        heights = [min(roof.gmacs, at * roof.gbps) for at in edges]
        name = "roof" if len(roofs) == 1 else f"roof of {names[key]}"
        series.append(Series(name, edges, heights, "line", style.GREY, dash=dash))
    series += _series(policies, marks)
    series += [_ring(first.own, block) for block in blocks]
    axis = memory if {roof.memory for roof in roofs.values()} == {memory} else "the memory"
    lowest = min(ends[0] * rate, *(mark.gmacs for mark in every_mark))
    height = lowest / 1.5, 2 * max(roof.gmacs for roof in roofs.values())
    look: dict[str, Any] = {"x_scale": "log", "y_scale": "log"}
    look |= {"x_range": ends, "y_range": height}
    return Plot(
        f"roofline: {first.design}, {number(peak)} GMAC/s and {number(rate)} GB/s of {memory}",
        (Panel(f"MAC per byte of {axis}", tuple(series), "GMAC/s", **look),),
        alt="Multiply-accumulates per second over those per byte, with the roof of the board",
        caption="On the slope the memory is the limit, on the ceiling the arrays are. Rings: "
        "blocks of a decode step under the design's own policy.",
        size_in=(6.5, 3.6 + 0.1 * len(series)),
        misfit=not all(run.fits for *_, run in policies),
    )


# -------------------------------------------------------------------- private


def _series(policies: Sequence[Shown], marks: Sequence[Sequence[_Mark]]) -> list[Series]:
    """A point per policy and stage; prompts that lie on each other are one point."""
    series: list[Series] = []
    prompts: list[_Mark] = []
    is_one_run = len({id(run) for *_, run in policies}) == 1
    looks = looks_of_shown(policies)
    for shown, of_policy, look in zip(policies, marks, looks, strict=True):
        for mark in of_policy:
            is_prompt = mark.stage == "prompt"
            if is_prompt and is_one_run and any(_is_same(mark, each) for each in prompts):
                continue
            name = shown.name
            if is_prompt:
                prompts.append(mark)
                name = "prompt" if is_one_run and len(prompts) == 1 else f"{name}, prompt"
            place = f"{number(mark.macs_per_byte)} MAC/B, {number(mark.gmacs)} GMAC/s"
            series.append(
                Series(
                    name,
                    [mark.macs_per_byte],
                    [mark.gmacs],
                    "points",
                    style.BLACK if name == "prompt" else look.colour,
                    hover=[f"{shown.policy.policy}, {mark.stage}: {place}"],
                    marker=MARKS[mark.stage],
                    size=9.0 if shown.policy.is_chosen and not is_prompt else 5.0,
                )
            )
    return sorted(series, key=lambda each: each.name.endswith("prompt"))


def _block_marks(policy: StoredPolicy, roof: _Roof) -> list[_Mark]:
    """Blocks that compute and move bytes of the roof's memory while a policy decodes."""
    marks = []
    for block in policy.blocks:
        moved_gb = block.memory_gb.get(roof.memory, 0.0)
        if moved_gb and block.gmacs:
            marks.append(_Mark(block.block, block.gmacs / moved_gb, block.gmacs / block.seconds))
    return marks


def _ring(policy: StoredPolicy, mark: _Mark) -> Series:
    """A block as a ring in the colour of its work."""
    title = PHASES.get(mark.stage, mark.stage)
    place = f"{number(mark.macs_per_byte)} MAC/B, {number(mark.gmacs)} GMAC/s"
    return Series(
        f"block: {title}",
        [mark.macs_per_byte],
        [mark.gmacs],
        "points",
        look_of(title.removesuffix(" and replay")).colour,
        hover=[f"{policy.policy}, decoding, {title}: {place}"],
        marker="d",
        size=7.0,
        hollow=True,
    )


def _is_same(a: _Mark, b: _Mark) -> bool:
    near_x = abs(a.macs_per_byte / b.macs_per_byte - 1) < SAME
    return near_x and abs(a.gmacs / b.gmacs - 1) < SAME


def _roof(run: StoredRun) -> _Roof:
    moved = run.own.memory_gb_per_video_by_memory
    memory = max(moved, key=lambda name: moved[name])
    (rate,) = (each.sustained_gbps for each in run.memories if each.name == memory)
    mhz = run.resolved_design["board"]["fabric_clock_mhz"]
    return _Roof(memory, run.own["macs_per_cycle"] * mhz / 1e3, rate)


def _marks(policy: StoredPolicy, roof: _Roof) -> list[_Mark]:
    """The stages of a policy that move bytes of the roof's memory."""
    marks = []
    for stage in policy.stages:
        moved_gb = stage.memory_gb.get(roof.memory, 0.0)
        if moved_gb > 0:
            speed = stage.gmacs / stage.seconds
            marks.append(_Mark(stage.stage, stage.gmacs / moved_gb, speed))
    if marks:
        return marks
    gmacs = policy["mac_utilisation"] * roof.gmacs
    moved_gb = policy.memory_gb_per_video_by_memory[roof.memory]
    return [_Mark("whole", gmacs * policy.seconds_per_video / moved_gb, gmacs)]
