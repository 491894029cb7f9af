"""Find the machine that reaches a target at the least cost, among boards and chips.

The machines are those of :mod:`carsim.explore.space`. The search has three stages.

1. *Ladder*: for each board, choice of memory and batch, bisection finds the smallest machine of a
   ladder of sizes that reaches the target.
2. *Steps*: each field, and each pair of fields, of the best machine is changed by one step. What
   costs less and reaches the target is kept, until nothing improves.
3. *Proof*: branch and bound over boxes of machines (:mod:`carsim.explore.optimistic`). A box is
   ruled out if not even its optimistic figures reach the target, if it cannot fit, or if it costs
   at least as much as the best machine. Small boxes are simulated machine by machine.

The proof closes if no box is left; then no machine of the space is better. It stops after
:data:`MOST_SPLITS` boxes or :data:`MOST_SIMULATED` machines; then the answer is the best of those
that were tried, and the boxes that are left give the least cost that is not ruled out.

Simplifications: quality at a precision is not known here; boards come as in a shop, chips with the
choices of memory of their technology; of machines of equal cost, the fastest that was found counts.
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, count, product
from math import fsum, inf
from typing import Any, NamedTuple

from carsim.account.limits import shares_by_limit
from carsim.base.errors import InputError
from carsim.cost.fit import least_buffers_kib
from carsim.decisions.trace import load_trace
from carsim.design import Design
from carsim.explore.bench import Bench, Measured
from carsim.explore.evaluate import Fitted
from carsim.explore.expression import Expression
from carsim.explore.optimistic import Box, Optimist
from carsim.explore.possible import Interval, could_hold, limits_of
from carsim.explore.space import (
    ACTIVATION_BUFFER,
    ALL_BOARDS,
    BATCH,
    CLOCK,
    COLS,
    CORES,
    EXPONENTIALS,
    KV_BUFFER,
    LANES,
    MAPPING,
    MEMORY,
    ROWS,
    TILE,
    WEIGHT_BUFFER,
    Space,
    Values,
    spaces_of,
)
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.technology.price import Price
from carsim.metrics import METRICS, Value
from carsim.workload.workload import Workload

Rung = tuple[int, int, int]
LADDER: tuple[Rung, ...] = (
    (1, 16, 16),
    (1, 24, 16),
    (1, 32, 16),
    (1, 48, 16),
    (1, 32, 32),
    (2, 24, 32),
    (2, 32, 32),
    (4, 24, 32),
    (4, 32, 32),
    (4, 48, 32),
    (4, 64, 32),
    (8, 48, 32),
    (8, 64, 32),
    (8, 96, 32),
    (8, 64, 64),
    (8, 96, 64),
    (8, 128, 64),
    (8, 96, 128),
    (8, 128, 128),
    (16, 96, 128),
    (16, 128, 128),
    (16, 192, 128),
    (16, 256, 128),
    (16, 192, 256),
    (16, 256, 256),
)
"""Cores, and rows and columns of their arrays, in steps of a third and a half. The first stage
starts from these; the others leave them."""

PRODUCTS_OF_SCORE = 256
"""Multiply-accumulates for each exponential of attention with heads of 128 elements."""

ROOMS = (1, 8, 64)
"""Activation buffers of the ladder, as multiples of the smallest: a larger one passes over the
weights of a prompt less often."""

ROUND_TRIP = 64
"""Machines that are simulated together in the second stage."""

SMALL_BOX = 32
"""Machines of a box that is simulated instead of being split."""

MOST_SPLITS = 10_000
"""Boxes that the proof splits."""

MOST_SIMULATED = 3_000
"""Machines that the proof simulates."""

LEAST_GAIN = 1e-3
"""Share by which a machine of equal cost must be faster to count as better."""

SAY = "compare metrics with numbers, say frames_per_s >= 2 and latency_s <= 20"
"""Cure of a target that makes no sense."""

WHOLE = next(kind for kind, mapping in MAPPINGS.items() if not mapping.needs_broadcast)
"""Mapping of the ladder where each core has a sequence."""

SPLIT = next(
    kind for kind, mapping in MAPPINGS.items() if mapping.splits_attention and mapping.splits_mlp
)
"""Mapping of the ladder where there are fewer sequences than cores."""

ENERGIES = frozenset({"energy_per_video_j"})
"""Metrics of energy that have an optimistic figure."""

Tell = Callable[[str], None]


def all_of(conditions: Sequence[str]) -> Expression:
    """One target from several conditions, all of which must hold.

    Raises:
        InputError: One of them is no condition.

    >>> all_of(["latency_s <= 2", "cost_usd < 50"]).text
    'latency_s <= 2 and cost_usd < 50'
    """
    texts = [Expression(text, "`target`", SAY).text.strip() for text in conditions]
    if len(texts) == 1:
        return Expression(texts[0], "`target`", SAY)
    bracketed = [f"({text})" if " or " in f" {text} " else text for text in texts]
    return Expression(" and ".join(bracketed), "`target`", SAY)


def check_target(target: Expression) -> None:
    """Refuse a target over what is no metric, and one that asks for less of what is better.

    Raises:
        InputError: No such metric, no comparison, or a limit on the wrong side.
    """
    for name in sorted(target.names):
        METRICS.find(name, "`target`")
    if not target.compares or not target.names:
        raise InputError("`target`", f"{target.text} compares no metric", SAY)
    for limit in limits_of(target):
        better = METRICS[limit.name].better
        if better == ("higher" if limit.is_most else "lower"):
            wrong, right = ("<=", ">=") if limit.is_most else (">=", "<=")
            problem = (
                f"{limit.name} {wrong} {limit.number:g} asks for a worse machine: "
                f"{'more' if better == 'higher' else 'less'} of {limit.name} is better"
            )
            cure = f"did you mean {limit.name} {right} {limit.number:g}?"
            raise InputError("`target`", problem, cure)


@dataclass(frozen=True)
class Wanted:
    """A search as it is asked for: workload, target and boards.

    Attributes:
        workload: What is decoded.
        target: Condition on metrics.
        minimise: Metric of which less is better.
        model: Preset of the model.
        boards: Presets, files or kinds of boards, or :data:`~carsim.explore.space.ALL_BOARDS`.
        bits: Bits of a weight that are allowed, None being those of the model's own file; left
            out: those of the file; 4 for a preset, 8 where it is a network.
        axes: Values of axes of the space in place of the usual ones.
    """

    workload: Workload | None
    target: Expression
    minimise: str = "cost_usd"
    model: str = "vila_u_7b"
    boards: tuple[str, ...] = (ALL_BOARDS,)
    bits: tuple[int | None, ...] | None = None
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_target(self.target)
        if METRICS.find(self.minimise, "`minimise`").better != "lower":
            problem = f"less of {self.minimise} is not better"
            raise InputError("`minimise`", problem, "name a metric such as cost_usd")

    def nearness(self, machine: "SizedMachine") -> float:
        """The first metric of the target, more being better; it orders what does not reach it."""
        first = next(iter(limits_of(self.target)), None)
        name = first.name if first else min(self.target.names)
        return machine.value(name) * (-1 if METRICS[name].better == "lower" else 1)

    def order(self, machine: "SizedMachine") -> tuple[float, float, int]:
        """Least first of what is minimised; of equals, the fastest; of these, the smallest."""
        return machine.value(self.minimise), -self.nearness(machine), machine.bulk

    @property
    def what(self) -> str:
        """The workload in a word."""
        return "the usual work" if self.workload is None else self.workload.text


@dataclass(frozen=True, eq=False)
class SizedMachine:
    """A machine that was simulated.

    Attributes:
        space: The space that it is of.
        values: Its value of each axis.
        measured: The design and its simulation.
        reaches: It reaches the target.
    """

    space: Space
    values: Values
    measured: Measured
    reaches: bool

    @property
    def preset(self) -> str:
        """The board."""
        return self.space.board

    @property
    def choice(self) -> str:
        """The choice of its technology in words; may be empty."""
        return str(self.values[MEMORY])

    @property
    def design(self) -> Design:
        """The design."""
        return self.measured.design

    @property
    def figures(self) -> Mapping[str, Value]:
        """Metrics of the machine, by name."""
        return self.measured.figures

    @property
    def limits(self) -> Mapping[str, float]:
        """Shares of the time by limit, most first."""
        return shares_by_limit(self.measured.row.limits)

    @property
    def gbps(self) -> float:
        """Peak rate of the memories that it uses."""
        memories = self.design.board.memories
        return fsum(memories[name].peak_gbps for name in self.design.machine.memories_in_use)

    @property
    def prices(self) -> tuple[Price, ...]:
        """US dollars by part."""
        return self.measured.fit.prices

    @property
    def machine(self) -> str:
        """Board and choice."""
        return f"{self.preset}, {self.choice}" if self.choice else self.preset

    @property
    def bulk(self) -> int:
        """Multipliers, lanes and KiB of buffers of all cores together."""
        return self.design.machine.bulk

    def value(self, name: str) -> float:
        """A figure; infinite where there is none."""
        figure = self.figures[name]
        return float(figure) if isinstance(figure, int | float) else inf


@dataclass(frozen=True, eq=False)
class Answer:
    """Outcome of a search.

    Attributes:
        machines: The best of each board and choice that was looked at; those that reach the target
            come first, the best of all before all.
        spaces: The spaces that were searched.
        simulated: Machines that were simulated.
        is_closed: Every other machine of the spaces is ruled out by bounds.
        least: No machine that reaches the target has less of what is minimised; -inf if unknown.
        unfit: Boards on which no machine that was tried fits.
        is_binding: Some machine that was simulated misses the target.
    """

    machines: Sequence[SizedMachine]
    spaces: Sequence[Space]
    simulated: int
    is_closed: bool
    least: float
    unfit: Sequence[str]
    is_binding: bool

    @property
    def best(self) -> SizedMachine | None:
        """The machine that reaches the target at the least cost; None if none does."""
        first = next(iter(self.machines), None)
        return first if first is not None and first.reaches else None

    @property
    def size(self) -> int:
        """Machines of all spaces."""
        return sum(space.size for space in self.spaces)


def search_target(
    wanted: Wanted, tell: Tell = lambda now: None, most_splits: int = MOST_SPLITS
) -> Answer:
    """The machine of least cost that reaches a target, with what is proven of it.

    Args:
        wanted: What is asked for.
        tell: Is told what is being done.
        most_splits: Boxes that the proof splits at most.

    Raises:
        InputError: No such board or model, or a workload that the model cannot decode.
    """
    return _Search(wanted, tell, most_splits).answer()


MachineKey = tuple[Any, ...]
"""Board, bits of a weight, and the value of each axis."""


class _Node(NamedTuple):
    """A box that the proof has not looked at yet; they are taken in this order.

    Attributes:
        least: No machine of the box has less of what is minimised.
        turn: Decides between equals: the box that was made last, and of halves the faster one.
        box: The box.
        costs: Intervals of its costs.
    """

    least: float
    turn: int
    box: Box
    costs: Mapping[str, Interval]


class _Search:
    """One search; keeps what its machines share."""

    def __init__(self, wanted: Wanted, tell: Tell, most_splits: int) -> None:
        self._wanted = wanted
        self._tell = tell
        self._most_splits = most_splits
        self._bench = Bench(wanted.workload)
        self._optimist = Optimist(self._bench)
        traces = wanted.workload.traces if wanted.workload else ()
        scope = load_trace(traces[0]).meta.decision_scope if traces else "row"
        self._spaces = spaces_of(
            wanted.boards,
            wanted.model,
            bits=wanted.bits,
            scope=scope,
            axes=wanted.axes,
            workload=wanted.workload,
        )
        self._names = {*wanted.target.names, wanted.minimise}
        self._tried: dict[MachineKey, SizedMachine | None] = {}
        self._best: SizedMachine | None = None
        self._reached: dict[tuple[Any, ...], SizedMachine] = {}
        self._nearest: dict[tuple[Any, ...], SizedMachine] = {}
        self._is_sound = True

    def answer(self) -> Answer:
        """All three stages."""
        self._batches = self._usable_batches()
        self._check_values()
        for space in sorted(self._spaces, key=lambda space: min(space.least_usd.values())):
            if self._is_dear(space):
                break
            self._tell(f"sizing machines on {space.board}")
            self._climb(space)
        for board in {key[0]: machine for key, machine in self._reached.items()}.values():
            self._improve(board)
        self._tell("ruling out other machines")
        is_closed, least = self._prove()
        machines = list(self._reached.values())
        machines += [machine for key, machine in self._nearest.items() if key not in self._reached]
        machines.sort(key=lambda machine: (not machine.reaches, self._wanted.order(machine)))
        boards_that_fit = {machine.preset for machine in machines}
        simulated = [machine for machine in self._tried.values() if machine is not None]
        return Answer(
            machines=machines,
            spaces=self._spaces,
            simulated=self._bench.simulated,
            is_closed=is_closed and self._is_sound,
            least=least if self._is_sound else -inf,
            unfit=[space.board for space in self._spaces if space.board not in boards_that_fit],
            is_binding=any(not machine.reaches for machine in simulated),
        )

    # -------------------------------------------------------- what is tried

    def _usable_batches(self) -> dict[int | None, tuple[Any, ...]]:
        """Batches in which the workload comes, by bits of a weight.

        Raises:
            InputError: It comes in none.
        """
        usable = {}
        for space in {space.bits: space for space in self._spaces}.values():
            batches = []
            refusal = None
            for batch in space.axes[BATCH].values:
                try:
                    design = space.design({BATCH: batch})
                    sources = self._bench.sources(design)
                except InputError as error:
                    refusal = error
                    continue
                is_paired = sources.video.kind == "video" and design.model.network is None
                multiple = 2 if is_paired else 1  # rows of a video come in guidance pairs
                fewest_rows = min(trace.n_rows for trace in sources.traces)
                if batch % multiple == 0 and batch <= fewest_rows:
                    batches.append(batch)
            if not batches:
                batch_texts = ", ".join(map(str, space.axes[BATCH].values))
                problem = f"comes in none of the batches {batch_texts}"
                raise refusal or InputError("`workload`", problem, "allow other batches")
            usable[space.bits] = tuple(batches)
        return usable

    def _try(self, space: Space, machines: Iterable[Values]) -> list[SizedMachine | None]:
        """Simulate machines, those that are new; None stands for one that does not fit."""
        values_of_machines = list(machines)
        new_values = []
        new_fitted = []
        for values in values_of_machines:
            key = self._key(space, values)
            if key in self._tried:
                continue
            self._tried[key] = None
            fitted = self._fitted(space, values)
            if fitted is not None:
                new_values.append(values)
                new_fitted.append(fitted)
        results = self._bench.measure(new_fitted) if new_fitted else []
        for values, measured in zip(new_values, results, strict=True):
            if isinstance(measured, Measured):
                reaches = measured.meets(self._wanted.target)
                machine = SizedMachine(space, values, measured, reaches=reaches)
                self._tried[self._key(space, values)] = machine
                self._note(machine)
        return [self._tried[self._key(space, values)] for values in values_of_machines]

    @staticmethod
    def _key(space: Space, values: Values) -> MachineKey:
        """Key of a machine among all of the search."""
        return space.board, space.bits, *(values[name] for name in space.axes)

    def _fitted(self, space: Space, values: Values) -> Fitted | None:
        """A machine that fits, at a clock that is plausible; None for others."""
        try:
            fitted = self._bench.fitted(space.design(values))
        except InputError:
            return None
        if not fitted.fit.fits:
            return None
        if CLOCK not in self._wanted.axes:
            design = fitted.asked.design
            technology = design.board.technology
            published = technology.published_clock_mhz(design, fitted.fit.resources)
            if published is not None and values[CLOCK] > max(published, space.fastest_mhz):
                return None
        return fitted

    def _note(self, machine: SizedMachine) -> None:
        """Keep a machine if it is the best of its board and choice, or of all."""
        key = (machine.preset, machine.choice, machine.space.bits)
        order = self._wanted.order
        if machine.reaches:
            if key not in self._reached or order(machine) < order(self._reached[key]):
                self._reached[key] = machine
            if self._best is None or order(machine) < order(self._best):
                self._best = machine
        else:
            nearness = self._wanted.nearness
            if key not in self._nearest or nearness(machine) > nearness(self._nearest[key]):
                self._nearest[key] = machine

    def _check_values(self) -> None:
        """Refuse metrics that no machine has, before any search.

        Raises:
            InputError: One of the target, or what is minimised, has no value.
        """
        by_technology = {space.base.board.technology.kind: space for space in self._spaces}
        figures = []
        for space in by_technology.values():
            design = space.design({BATCH: self._batches[space.bits][0]})
            (measured,) = self._bench.measure([self._bench.fitted(design)])
            if isinstance(measured, Measured):
                figures.append(measured.figures)
                measured.meets(self._wanted.target)  # raises where the target compares texts
        for name in (*sorted(self._wanted.target.names), self._wanted.minimise):
            if figures and all(of_machine[name] is None for of_machine in figures):
                where = "`target`" if name in self._wanted.target.names else "`minimise`"
                problem = f"{name} has no value for {self._wanted.what} on these boards"
                cure = "name another metric"
                if name == "cost_usd":
                    cure = f"add a price to the board's file, or {cure}"
                raise InputError(where, problem, cure)

    # ------------------------------------------------------ first stage

    def _is_dear(self, space: Space) -> bool:
        """Two boards reach the target for less than this one costs at least."""
        if self._wanted.minimise != "cost_usd":
            return False
        usd_of_board: dict[str, float] = {}
        for machine in self._reached.values():
            usd = machine.value("cost_usd")
            usd_of_board[machine.preset] = min(usd, usd_of_board.get(machine.preset, inf))
        if len(usd_of_board) < 2:
            return False
        second_usd = sorted(usd_of_board.values())[1]
        return min(space.least_usd.values()) > second_usd

    def _climb(self, space: Space) -> None:
        """Find the smallest rung that reaches the target for each choice of memory and batch."""
        choices = sorted(space.least_usd, key=space.least_usd.__getitem__)
        for choice in choices:
            reached = [
                machine for machine in self._reached.values() if machine.preset == space.board
            ]
            least = min((machine.value(self._wanted.minimise) for machine in reached), default=inf)
            if self._wanted.minimise == "cost_usd" and space.least_usd[choice] >= least:
                break
            is_last = choice == choices[-1] and not reached
            for batch in self._batches[space.bits]:
                for room in ROOMS:
                    self._of_ladder(space, choice, batch=batch, room=room, is_last=is_last)

    def _of_ladder(
        self, space: Space, choice: Any, *, batch: int, room: int, is_last: bool
    ) -> None:
        """The largest rung that fits, and the smallest that reaches the target."""
        different_rungs: dict[MachineKey, Values] = {}
        for rung in LADDER:
            values = self._rung(space, choice, batch=batch, rung=rung, room=room)
            if values is not None:
                different_rungs[self._key(space, values)] = values
        rungs = list(different_rungs.values())
        if not rungs or not (is_last or self._is_possible(space, rungs[-1])):
            return

        @cache
        def reaches(index: int) -> bool:
            (machine,) = self._try(space, [rungs[index]])
            return machine is not None and machine.reaches

        from_largest = reversed(range(len(rungs)))
        largest = next((i for i in from_largest if self._fits(space, rungs[i])), None)
        if largest is not None and reaches(largest):
            # Larger rungs are faster: halving finds the smallest one that reaches the target.
            bisect_left(range(largest), True, key=reaches)

    def _fits(self, space: Space, values: Values) -> bool:
        return self._fitted(space, values) is not None

    def _is_possible(self, space: Space, values: Values) -> bool:
        """The optimistic figures of a machine reach the target."""
        box = self._point(space, values)
        return could_hold(self._wanted.target, self._intervals(box, self._optimist.costs(box)))

    def _rung(
        self, space: Space, choice: Any, *, batch: int, rung: Rung, room: int
    ) -> Values | None:
        """A machine of the ladder, in the values of the axes; None if it is refused."""
        cores, rows, cols = rung
        mapping = WHOLE if batch >= cores else SPLIT
        mappings = space.axes[MAPPING].values
        wanted = {
            CORES: cores,
            ROWS: rows,
            COLS: cols,
            LANES: max(8, rows * cols // 64),
            WEIGHT_BUFFER: 256,
            KV_BUFFER: 128,
            ACTIVATION_BUFFER: 16,
            TILE: 64,
            CLOCK: space.fastest_mhz,
            EXPONENTIALS: rows * cols // PRODUCTS_OF_SCORE,
        }
        values: dict[str, Any] = {
            name: _at_most(space.axes[name].values, number)
            for name, number in wanted.items()
            if name in space.axes
        }
        values[BATCH] = batch
        values[MEMORY] = choice
        values[MAPPING] = mapping if mapping in mappings else mappings[0]
        try:
            design = space.design(values)
            needed = least_buffers_kib(design, self._bench.sources(design).video)
        except InputError:
            return None
        for key, kib in needed.items():
            name = f"machine.{key}"
            least = kib * room if name == ACTIVATION_BUFFER else kib
            values[name] = _at_least(space.axes[name].values, max(least, values[name]))
        return values

    # ------------------------------------------------------ second stage

    def _improve(self, machine: SizedMachine) -> None:
        """Change each field, and each pair of fields, by one step, until nothing improves."""
        while True:
            better = self._better(machine)
            if better is None:
                return
            machine = better

    def _better(self, machine: SizedMachine) -> SizedMachine | None:
        """A machine one or two steps away that is better; None if none is."""
        for changes in (self._single_steps(machine), self._paired_steps(machine)):
            candidates = [values for values in changes if self._may_be_better(machine, values)]
            candidates.sort(key=lambda values: self._usd(machine.space, values))
            for start in range(0, len(candidates), ROUND_TRIP):
                tried = self._try(machine.space, candidates[start : start + ROUND_TRIP])
                fitting = [candidate for candidate in tried if candidate is not None]
                reaching = [candidate for candidate in fitting if candidate.reaches]
                best = min(reaching, key=self._wanted.order, default=None)
                if best is not None and self._is_better(best, machine):
                    return best
        return None

    def _steps(self, machine: SizedMachine) -> dict[str, list[Any]]:
        """Values one step away, by axis."""
        space = machine.space
        steps = {name: space.steps(name, value) for name, value in machine.values.items()}
        batches = self._batches[space.bits]
        steps[BATCH] = [batch for batch in steps[BATCH] if batch in batches]
        return steps

    def _single_steps(self, machine: SizedMachine) -> Iterator[Values]:
        """Machines that differ in one axis, by one step."""
        for name, values in self._steps(machine).items():
            for value in values:
                yield {**machine.values, name: value}

    def _paired_steps(self, machine: SizedMachine) -> Iterator[Values]:
        """Machines that differ in two axes, by one step in each."""
        steps = self._steps(machine)
        for first_axis, second_axis in combinations(steps, 2):
            for first, second in product(steps[first_axis], steps[second_axis]):
                yield {**machine.values, first_axis: first, second_axis: second}

    def _may_be_better(self, machine: SizedMachine, values: Values) -> bool:
        """Bounds do not rule out that a machine reaches the target and costs no more."""
        if self._key(machine.space, values) in self._tried:
            return False
        box = self._point(machine.space, values)
        try:
            costs = self._optimist.costs(box)
            least = costs.get(self._wanted.minimise, Interval(-inf, inf)).low
            most = machine.value(self._wanted.minimise) * (1 + 1e-9)
            if least > most:
                return False
            return could_hold(self._wanted.target, self._intervals(box, costs))
        except InputError:
            return False

    def _is_better(self, machine: SizedMachine, other: SizedMachine) -> bool:
        """Less of what is minimised; or as much, and faster or smaller."""
        cost, negative_speed, bulk = self._wanted.order(machine)
        other_cost, other_negative_speed, other_bulk = self._wanted.order(other)
        if cost != other_cost:
            return cost < other_cost
        gain = other_negative_speed - negative_speed
        if gain > LEAST_GAIN * abs(other_negative_speed):
            return True
        return gain >= 0 and bulk < other_bulk

    def _usd(self, space: Space, values: Values) -> float:
        """Least price of a machine; 0 where no price is known."""
        box = self._point(space, values)
        return self._optimist.costs(box).get("cost_usd", Interval(0.0, inf)).low

    @staticmethod
    def _point(space: Space, values: Values) -> Box:
        """The box of one machine."""
        kinds = {axis.name: values[axis.name] for axis in space.kinds}
        indices = [axis.values.index(values[axis.name]) for axis in space.sizes]
        return Box(space, kinds, tuple((index, index) for index in indices))

    def _intervals(self, box: Box, costs: Mapping[str, Interval]) -> dict[str, Interval]:
        """All intervals that the target and what is minimised may need."""
        intervals = {**costs, **self._optimist.times(box)}
        if self._names & ENERGIES:
            intervals |= self._optimist.joules(box)
        return intervals

    # ------------------------------------------------------ third stage

    def _prove(self) -> tuple[bool, float]:
        """Rule out machines that are not tried.

        Returns:
            All of them are ruled out; and the least of what is minimised that is not ruled out, or
            that of the best machine.
        """
        turns = count()
        heap = list(self._roots(turns))
        heapq.heapify(heap)
        splits = 0
        simulated_before = self._bench.simulated
        while heap:
            node = heapq.heappop(heap)
            if node.least >= self._most():
                return True, self._most()
            simulated = self._bench.simulated - simulated_before
            if splits >= self._most_splits or simulated >= MOST_SIMULATED:
                return False, node.least
            for box in self._left(node):
                splits += 1
                costs = self._costs_or_none(box)
                if costs is not None:
                    least = costs.get(self._wanted.minimise, Interval(-inf, inf)).low
                    heapq.heappush(heap, _Node(max(least, node.least), -next(turns), box, costs))
        return True, self._most()

    def _most(self) -> float:
        """From here on a machine is no better than the best."""
        if self._best is None:
            return inf
        return self._best.value(self._wanted.minimise) * (1 - 1e-9)

    def _roots(self, turns: Iterator[int]) -> Iterator[_Node]:
        """All sizes, for each choice of kinds."""
        for space in self._spaces:
            first_mapping = space.axes[MAPPING].values[0]
            for choice, cores in product(space.axes[MEMORY].values, space.axes[CORES].values):
                if self._wanted.minimise == "cost_usd" and space.least_usd[choice] == inf:
                    continue  # no price is known: no machine can be shown to be cheaper
                costs: dict[str, Interval] | None = None
                for batch, mapping in product(
                    self._batches[space.bits], space.axes[MAPPING].values
                ):
                    if cores == 1 and mapping != first_mapping:
                        continue  # one core cannot tell mappings apart
                    kinds = {BATCH: batch, CORES: cores, MAPPING: mapping, MEMORY: choice}
                    box = Box.whole(space, kinds).trimmed()
                    if box is None:
                        continue
                    if costs is None:  # of resources, none depends on batch and mapping
                        costs = self._costs_or_none(box)
                    if costs is not None:
                        least = costs.get(self._wanted.minimise, Interval(-inf, inf)).low
                        yield _Node(least, -next(turns), box, costs)

    def _costs_or_none(self, box: Box) -> dict[str, Interval] | None:
        """Costs of a box; None if its smallest machine is refused."""
        try:
            return self._optimist.costs(box)
        except InputError:
            return None

    def _left(self, node: _Node) -> Iterator[Box]:
        """Boxes that a box is split into; none if it is ruled out, or simulated."""
        box = node.box
        try:
            intervals = self._intervals(box, node.costs)
            if not could_hold(self._wanted.target, intervals):
                return
            if intervals.get(self._wanted.minimise, Interval(-inf, inf)).low >= self._most():
                return
            if self._optimist.lacks(box):
                return
        except InputError:
            return
        if box.count <= SMALL_BOX:
            self._simulate(box)
            return
        for half in box.split():
            trimmed = half.trimmed()
            if trimmed is not None:
                yield trimmed

    def _simulate(self, box: Box) -> None:
        """Simulate the machines of a small box that bounds do not rule out."""
        best_before = self._best
        possible = []
        for values in box.machines():
            point = self._point(box.space, values)
            try:
                costs = self._optimist.costs(point)
                intervals = self._intervals(point, costs)
                least = intervals.get(self._wanted.minimise, Interval(-inf, inf)).low
                if least < self._most() and could_hold(self._wanted.target, intervals):
                    possible.append(values)
            except InputError:
                continue
        for machine in self._try(box.space, possible):
            if machine is not None:
                self._check(machine)
        if self._best is not None and self._best is not best_before:
            self._improve(self._best)

    def _check(self, machine: SizedMachine) -> None:
        """A machine that is better than its bound voids the proof."""
        point = self._point(machine.space, machine.values)
        for name, interval in self._intervals(point, self._optimist.costs(point)).items():
            figure = machine.figures.get(name)
            if isinstance(figure, int | float):
                slack = 1e-9 * abs(figure)
                if not interval.low - slack <= figure <= interval.high + slack:
                    self._is_sound = False


def _at_most(values: Sequence[Any], wanted: float) -> Any:
    """The largest of ascending values that is at most a number, or the smallest of all."""
    return next((value for value in reversed(values) if value <= wanted), values[0])


def _at_least(values: Sequence[Any], wanted: float) -> Any:
    """The smallest of ascending values that is at least a number, or the largest of all."""
    return next((value for value in values if value >= wanted), values[-1])
