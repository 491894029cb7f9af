"""The roofline: multiply-accumulates per second over those per byte, under what the board allows.

Reading the prompt and decoding are marks of their own: a prompt has hundreds of rows for each byte
of weights, a decode step has as many as the batch. Of the design's own policy, each block of a
decode step has a ring: attention reads keys and values of each row, an MLP weights that rows share.

Model: the memory that moves most bytes under the design's own policy, at the rate that it sustains
for long reads (a slope), and all arrays at work in every cycle (a ceiling). A policy below both
loses time to latency, uneven loads or pipelines; one that uses another memory as well can lie
above the slope.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import NamedTuple

from carsim.base.text import number
from carsim.metrics import PHASES
from carsim.report.figures import OWN_MARK, Shown, style
from carsim.report.figures.looks import look_of
from carsim.report.figures.plot import DASHES, Panel, Plot, Series
from carsim.report.figures.policy_looks import looks_of_shown
from carsim.report.stored import StoredPolicy, StoredRun

ROOM = 4.0
"""The axis goes this factor beyond the outermost point."""
ROOM_ABOVE = 2.0
"""The vertical axis goes this factor above the highest roof."""
ROOM_BELOW = 1.5
"""The vertical axis goes this factor below the lowest point."""

MARKS = {"decoding": "o", "prompt": "^", "whole": "o"}
"""Marker of a stage; ``whole`` is a run that an older carsim has stored without its stages."""

SAME = 1e-6
"""Relative distance of two marks that lie on each other."""


class _Roof(NamedTuple):
    """What a board allows a policy.

    Attributes:
        memory: The memory that moves most bytes.
        gmacs: 1e9 multiply-accumulates per second of all arrays.
        gbps: GB/s that the memory sustains for long reads.
    """

    memory: str
    gmacs: float
    gbps: float

    @property
    def ridge(self) -> float:
        """Multiply-accumulates per byte at which memory and arrays are equally fast."""
        return self.gmacs / self.gbps


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
    roof_of_run = {id(shown.run): _roof(shown.run) for shown in policies}
    stages = [_stages(shown.policy, roof_of_run[id(shown.run)]) for shown in policies]
    first = policies[0].run
    first_roof = roof_of_run[id(first)]
    is_comparison = sum(shown.run is first for shown in policies) > 1
    blocks = _block_marks(first.own, first_roof) if is_comparison else []
    marks = list(blocks)
    for of_policy in stages:
        marks += of_policy

    intensities = [first_roof.ridge] + [mark.macs_per_byte for mark in marks]
    x_low = min(intensities) / ROOM
    x_high = max(intensities) * ROOM
    lowest = min([x_low * first_roof.gbps] + [mark.gmacs for mark in marks])
    highest = max(roof.gmacs for roof in roof_of_run.values())
    series = _roofs(policies, roof_of_run, x_range=(x_low, x_high))
    series += _series(policies, stages)
    series += [_ring(first.own, block) for block in blocks]

    memory = first_roof.memory
    has_one_memory = all(roof.memory == memory for roof in roof_of_run.values())
    panel = Panel(
        f"MAC per byte of {memory if has_one_memory else 'the memory'}",
        tuple(series),
        "GMAC/s",
        x_scale="log",
        y_scale="log",
        x_range=(x_low, x_high),
        y_range=(lowest / ROOM_BELOW, ROOM_ABOVE * highest),
    )
    limits = f"{number(first_roof.gmacs)} GMAC/s and {number(first_roof.gbps)} GB/s of {memory}"
    return Plot(
        f"roofline: {first.design}, {limits}",
        (panel,),
        alt="Multiply-accumulates per second over those per byte, with the roof of the board",
        caption="On the slope the memory is the limit, on the ceiling the arrays are. Rings: "
        "blocks of a decode step under the design's own policy.",
        size_in=(6.5, 3.6 + 0.1 * len(series)),
        misfit=not all(shown.run.fits for shown in policies),
    )


# -------------------------------------------------------------------- private


def _roofs(
    policies: Sequence[Shown], roof_of_run: Mapping[int, _Roof], x_range: tuple[float, float]
) -> list[Series]:
    """The roof of each run as a line: a slope up to the ridge, then a ceiling.

    Args:
        policies: Policies, which give runs their names.
        roof_of_run: Identity of a run -> its roof.
        x_range: Ends of the horizontal axis, multiply-accumulates per byte.
    """
    name_of_run = {}
    for name, policy, run in policies:
        is_policy_name = name.removesuffix(OWN_MARK) == policy.policy
        name_of_run[id(run)] = run.design if is_policy_name else name
    series = []
    for (run_id, roof), dash in zip(roof_of_run.items(), cycle(DASHES), strict=False):
        intensities = (x_range[0], roof.ridge, x_range[1])
        gmacs = [min(roof.gmacs, intensity * roof.gbps) for intensity in intensities]
        name = "roof" if len(roof_of_run) == 1 else f"roof of {name_of_run[run_id]}"
        series.append(Series(name, intensities, gmacs, "line", style.GREY, dash=dash))
    return series


def _series(policies: Sequence[Shown], stages: Sequence[Sequence[_Mark]]) -> list[Series]:
    """A point per policy and stage; prompts that lie on each other are one point.

    Args:
        policies: Policies.
        stages: Marks of the stages of each.
    """
    decoding: list[Series] = []
    prompts: list[Series] = []
    prompt_marks: list[_Mark] = []
    is_one_run = len({id(shown.run) for shown in policies}) == 1
    looks = looks_of_shown(policies)
    for shown, marks, look in zip(policies, stages, looks, strict=True):
        for mark in marks:
            if mark.stage != "prompt":
                size = 9.0 if shown.policy.is_chosen else 5.0
                point = _point(shown, mark, shown.name)
                decoding.append(replace(point, colour=look.colour, size=size))
                continue
            if is_one_run and any(_is_same(mark, drawn) for drawn in prompt_marks):
                continue
            prompt_marks.append(mark)
            if is_one_run and len(prompt_marks) == 1:
                prompts.append(_point(shown, mark, "prompt"))
            else:
                point = _point(shown, mark, f"{shown.name}, prompt")
                prompts.append(replace(point, colour=look.colour))
    return decoding + prompts


def _point(shown: Shown, mark: _Mark, name: str) -> Series:
    """A stage of a policy as a small black point."""
    return Series(
        name,
        [mark.macs_per_byte],
        [mark.gmacs],
        "points",
        style.BLACK,
        hover=[f"{shown.policy.policy}, {mark.stage}: {_place(mark)}"],
        marker=MARKS[mark.stage],
        size=5.0,
    )


def _place(mark: _Mark) -> str:
    """Where a mark lies, in words."""
    return f"{number(mark.macs_per_byte)} MAC/B, {number(mark.gmacs)} GMAC/s"


def _block_marks(policy: StoredPolicy, roof: _Roof) -> list[_Mark]:
    """Blocks that compute and move bytes of the roof's memory while a policy decodes."""
    marks = []
    for block in policy.blocks:
        moved_gb = block.memory_gb.get(roof.memory, 0.0)
        if moved_gb and block.gmacs:
            marks.append(_Mark(block.block, block.gmacs / moved_gb, block.gmacs / block.seconds))
    return marks


def _ring(policy: StoredPolicy, block: _Mark) -> Series:
    """A block as a ring in the colour of its work."""
    title = PHASES.get(block.stage, block.stage)
    return Series(
        f"block: {title}",
        [block.macs_per_byte],
        [block.gmacs],
        "points",
        look_of(title.removesuffix(" and replay")).colour,
        hover=[f"{policy.policy}, decoding, {title}: {_place(block)}"],
        marker="d",
        size=7.0,
        hollow=True,
    )


def _is_same(a: _Mark, b: _Mark) -> bool:
    """Whether two marks lie on each other."""
    x_distance = abs(a.macs_per_byte / b.macs_per_byte - 1)
    y_distance = abs(a.gmacs / b.gmacs - 1)
    return x_distance < SAME and y_distance < SAME


def _roof(run: StoredRun) -> _Roof:
    """The roof of a run: its busiest memory, and all its arrays."""
    moved_gb = run.own.memory_gb_per_video_by_memory
    busiest = max(moved_gb, key=lambda name: moved_gb[name])
    (sustained_gbps,) = [memory.sustained_gbps for memory in run.memories if memory.name == busiest]
    clock_mhz = run.resolved_design["board"]["fabric_clock_mhz"]
    return _Roof(busiest, run.own["macs_per_cycle"] * clock_mhz / 1e3, sustained_gbps)


def _stages(policy: StoredPolicy, roof: _Roof) -> list[_Mark]:
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
