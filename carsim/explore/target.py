"""Find the machine that reaches a target at the least cost, among boards and chips.

Model: every preset of a board is a machine; some give one for each choice of memory
(:meth:`~carsim.hardware.technology.Technology.choices`). On each machine, and for each of
:data:`BATCHES`, the largest of :data:`SIZES` that fits is simulated. Where it reaches the target,
bisection finds the smallest that does. Machines are looked at in the order of their least price,
until two presets reach the target for less than the next one costs at least.

Precision is W4A8 with 8-bit keys and values; what it costs in quality is not known here.

Simplifications: a larger array is never slower; clocks are the presets'; of each machine, the
smallest arrays that reach the target count, whatever is minimised.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import fsum, inf, nan
from pathlib import Path
from typing import Any, NamedTuple

from carsim.base.errors import InputError
from carsim.base.text import choose
from carsim.cost.fit import least_buffers_kib
from carsim.decisions.choose import Sources
from carsim.decisions.trace import load_trace
from carsim.design import Design, override
from carsim.design.load import design_of, preset_board, shipped_presets
from carsim.explore.evaluate import Asked, Fitted, Machines
from carsim.explore.expression import Expression
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.technology import TECHNOLOGIES
from carsim.hardware.technology.price import Price, total
from carsim.machine.limits import shares_by_limit
from carsim.metrics import METRICS, Setting, Value, figures
from carsim.runs.first import Choice, Wish
from carsim.runs.pipeline import fit_of, sources_of
from carsim.workload.workload import Workload

BATCHES = (32, 16, 8, 4, 2, 1)


Size = tuple[int, int, int]
SIZES: tuple[Size, ...] = (
    *((1, 16, 16), (1, 24, 16), (1, 32, 16), (1, 48, 16), (1, 32, 32), (2, 24, 32), (2, 32, 32)),
    *((4, 24, 32), (4, 32, 32), (4, 48, 32), (4, 64, 32), (8, 48, 32), (8, 64, 32), (8, 80, 32)),
    *((8, 96, 32), (8, 64, 64), (8, 96, 64), (8, 128, 64)),
)
"""Cores, and rows and columns of their arrays: from 256 multipliers to 65,536, in steps of a third
and a half."""

SAY = "compare metrics with numbers, say frames_per_s >= 2 and latency_s <= 20"
"""Cure of a target that makes no sense."""

EVERY = "all"
"""Stands for all boards, as a kind of technology stands for those that are made in it."""

WHOLE = next(kind for kind, mapping in MAPPINGS.items() if not mapping.needs_broadcast)
SPLIT = next(kind for kind, each in MAPPINGS.items() if each.splits_attention and each.splits_mlp)
"""Mappings: of whole sequences, and where there are fewer of them than cores."""


@dataclass(frozen=True)
class Wanted:
    """What is asked for.

    Attributes:
        workload: What is decoded.
        target: Condition on metrics.
        minimise: Metric of which less is better.
        model: Preset of the model.
        boards: Presets of boards, kinds of technology, or :data:`EVERY`.
    """

    workload: Workload | None
    target: Expression
    minimise: str = "cost_usd"
    model: str = "vila_u_7b"
    boards: tuple[str, ...] = (EVERY,)

    def __post_init__(self) -> None:
        for name in sorted(self.target.names):
            METRICS.find(name, "`target`")
        if not self.target.compares or not self.target.names:
            problem = f"{self.target.text} compares no metric"
            raise InputError("`target`", problem, SAY)
        if METRICS.find(self.minimise, "`minimise`").better != "lower":
            problem = f"less of {self.minimise} is not better"
            raise InputError("`minimise`", problem, "name a metric such as cost_usd")

    def nearness(self, found: "SizedMachine") -> float:
        """The first metric of the target, more being better; it orders what does not reach it."""
        name = min(self.target.names, default="tokens_per_s")
        return found.value(name) * (-1 if METRICS[name].better == "lower" else 1)

    def order(self, found: "SizedMachine") -> tuple[float, float]:
        """Least first of what is to be small; of equals, the nearest to the target, or beyond."""
        return found.value(self.minimise), -self.nearness(found)

    @property
    def what(self) -> str:
        """The workload in a word."""
        return "the usual work" if self.workload is None else self.workload.text

    @property
    def presets(self) -> list[str]:
        """Presets of the boards.

        Raises:
            InputError: No such board.
        """
        made = {name: preset_board(name, "`boards`") for name in shipped_presets()["board"]}
        groups = {EVERY: [*made]}
        for kind, technology in TECHNOLOGIES.items():
            groups[kind] = [n for n in made if isinstance(made[n].technology, technology)]
        groups |= {name: [name] for name in made}
        for board in self.boards:
            if board not in groups:
                raise InputError("`boards`", f"no board {board!r}", choose(board, groups))
        return [*dict.fromkeys(name for board in self.boards for name in groups[board])]


class SizedMachine(NamedTuple):
    """A machine that was looked at, with the best design that was found on it.

    Attributes:
        preset: Preset of the board.
        choice: What was chosen of it; may be empty.
        design: The design.
        figures: Its metrics.
        reaches: It reaches the target.
        limits: Shares of the time by limit, most first.
        gbps: Peak rate of the memories that it uses.
        prices: US dollars by part.
    """

    preset: str
    choice: str
    design: Design
    figures: Mapping[str, Value]
    reaches: bool
    limits: Mapping[str, float]
    gbps: float
    prices: tuple[Price, ...]

    @property
    def machine(self) -> str:
        """Preset and choice."""
        return f"{self.preset}, {self.choice}" if self.choice else self.preset

    def value(self, name: str) -> float:
        """A figure; infinite where there is none."""
        found = self.figures[name]
        return float(found) if isinstance(found, int | float) else inf


def search_target(wanted: Wanted) -> list[SizedMachine]:
    """The best of each machine that was looked at, those that reach the target first.

    Raises:
        InputError: No such board or model, or a workload that the model cannot decode.
    """
    search = _Search(wanted)
    tried: list[SizedMachine] = []
    for machine in sorted(search.machines(), key=lambda each: (each.least_usd, each.preset)):
        prices = [(each.value("cost_usd"), each.preset) for each in tried if each.reaches]
        least = {preset: usd for usd, preset in sorted(prices, reverse=True)}
        enough = sorted(least.values())[1:2]
        if wanted.minimise == "cost_usd" and enough and machine.least_usd > enough[0]:
            break
        if found := search.best(machine):
            tried.append(found)
    for name in (*wanted.target.names, wanted.minimise) if tried else ():
        if all(each.figures[name] is None for each in tried):
            where = "`target`" if name in wanted.target.names else "`minimise`"
            problem = f"{name} has no value for {wanted.what} on these boards"
            raise InputError(where, problem, "name another metric")
    return sorted(tried, key=lambda each: (not each.reaches, *wanted.order(each)))


class _Machine(NamedTuple):
    """A board with what is chosen of it, its least price, and its smallest design."""

    least_usd: float
    preset: str
    choice: str
    base: Design


class _Search:
    """One search; keeps what its machines share."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._machines = Machines("fluid")
        self._sources: dict[int, Sources] = {}
        traces = wanted.workload.traces if wanted.workload else ()
        self._scope = load_trace(traces[0]).meta.decision_scope if traces else "row"

    def machines(self) -> Iterator[_Machine]:
        """Every machine, none simulated."""
        for preset in self._wanted.presets:
            base = self._smallest(preset)
            for text, changes in base.board.technology.choices(base.board):
                design = override(base, dict(changes)) if changes else base
                price = total(design.board.technology.prices(design))
                yield _Machine(inf if price is None else price.value, preset, text, design)

    def best(self, machine: _Machine) -> SizedMachine | None:
        """The best design that reaches the target, else the fastest; None where none fits."""
        batches = self._batches(machine.base)
        tried = [found for batch in batches for found in self._of_batch(machine, batch)]
        reached = [each for each in tried if each.reaches]
        if reached:
            return min(reached, key=self._wanted.order)
        return max(tried, key=self._wanted.nearness, default=None)

    # ---------------------------------------------------------------- private

    def _of_batch(self, machine: _Machine, batch: int) -> Iterator[SizedMachine]:
        """The largest design that fits, and the least that reaches the target, if any does."""
        at = cache(partial(self._tried, machine, batch))
        largest = next((place for place in reversed(range(len(SIZES))) if at(SIZES[place])), 0)
        most = at(SIZES[largest])
        if most is None:
            return
        yield most
        if most.reaches:
            smaller = SIZES[:largest]
            least = bisect_left(smaller, True, key=lambda size: getattr(at(size), "reaches", False))
            yield from filter(None, [at(SIZES[least])])

    def _tried(self, machine: _Machine, batch: int, size: Size) -> SizedMachine | None:
        """A design of this size, simulated; None where it does not fit."""
        design, sources = self._sized(machine.base, batch, size), self._sources[batch]
        fit = fit_of(design, sources, sources.video)
        if not fit.fits:
            return None
        asked = Asked(design, sources, sources.video, sources.replays_any)
        (row,) = self._machines.rows([Fitted(asked, fit)])
        values = figures(row, Setting(design, fit))
        numbers = {name: nan if value is None else value for name, value in values.items()}
        memories = (design.board.memories[name] for name in design.machine.memories_in_use)
        return SizedMachine(
            machine.preset,
            machine.choice,
            design,
            values,
            self._wanted.target.holds(numbers.__getitem__),  # without a figure, nothing holds
            shares_by_limit(row.limits),
            fsum(memory.peak_gbps for memory in memories),
            fit.prices,
        )

    def _sized(self, base: Design, batch: int, size: Size) -> Design:
        """A design whose buffers hold at least what they must."""
        cores, rows, cols = size
        changes: dict[str, Any] = {
            "policy.batch": batch,
            "machine.cores": cores,
            "machine.array.rows": rows,
            "machine.array.cols": cols,
            "machine.vector.lanes": max(8, rows * cols // 64),
            "machine.mapping": WHOLE if batch >= cores else SPLIT,
        }
        design = override(base, changes)
        video = self._sources[batch].video
        needed = {
            f"machine.{key}": kib
            for key, kib in least_buffers_kib(design, video).items()
            if kib > getattr(design.machine, key)
        }
        return override(design, needed) if needed else design

    def _batches(self, base: Design) -> list[int]:
        """Batches in which the workload comes; its decisions are kept for all machines.

        Raises:
            InputError: It comes in none.
        """
        for batch in () if self._sources else BATCHES:
            of_batch = override(base, {"policy.batch": batch})
            try:
                sources = sources_of(of_batch, (), self._wanted.workload)
            except InputError:
                if batch == BATCHES[-1] and not self._sources:
                    raise
                continue
            least = 2 if sources.video.kind == "video" else 1  # a video has guidance
            if least <= batch <= min(trace.n_rows for trace in sources.traces):
                self._sources[batch] = sources
        return [*self._sources]

    def _smallest(self, preset: str) -> Design:
        """A design for a board, of which the search changes batch, arrays and buffers."""
        wish = Wish.of(preset, self._wanted.model)
        technology = preset_board(preset, "`boards`").technology
        usual: dict[str, dict[str, Any]] = {"policy": {"batch": 2, "decision_scope": self._scope}}
        usual["energy"] = {"preset": technology.energy_preset}
        contents = wish.contents(Choice(array=(16, 16), weight_buffer_kib=256), usual)
        return design_of(contents, Path(f"{self._wanted.model} on {preset}"))
