"""Outcomes of the phases of one design's hardware, or several: a repeated case is looked up.

A phase is a block of a layer for the rows of one step (:mod:`carsim.program.block`), the prompt's
layer, a pass of the head, or the host. Phases are built by :mod:`carsim.machine.build`.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.groups import grouped
from carsim.decisions.attention import PLAIN, AttentionPolicy
from carsim.decisions.replay import FASTCAR, ReplayRule
from carsim.hardware.schedule import SCHEDULES, Schedule
from carsim.machine.arrays import MachineArrays
from carsim.machine.bounds import Bound, skip_bound
from carsim.machine.build import build
from carsim.machine.case_table import CaseTable
from carsim.machine.cases import Cases, RowCases, chunk_bytes
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import Buffer, Ints, buffers_of
from carsim.machine.phase import Outcome, Phase, Timing, outcome
from carsim.machine.solve import solver
from carsim.program.block import Block
from carsim.program.head import Head
from carsim.program.layers import FurtherRules, decoder_program, skips_mlp_alone
from carsim.program.program import Program
from carsim.program.prompt import USUAL_CACHE, PromptCache, PromptLayer
from carsim.program.reads import Reads
from carsim.program.sample import sample_program
from carsim.workload.forwards import ForwardKind
from carsim.workload.head import HeadPass, HeadStep
from carsim.workload.model import USUAL_LAYER, LayerKind
from carsim.workload.ops import Category
from carsim.workload.workload import TokenReuse

Take = Callable[[Block, Schedule | None, Cases], Outcome]

Book = Callable[[MachineArrays, Phase, Timing, Ints], Ints]
"""Machine, n phases, their timing and their cycles -> booked cycles, [n, tracks * states]."""

SOLVED = "fluid"
"""The default fidelity."""


def _play(phase: Phase) -> Timing:
    """Play phases in SimPy (:func:`carsim.machine.play.play_phases`), loaded when first needed."""
    from carsim.machine import play

    return play.play_phases(phase)


FIDELITIES: Mapping[str, Callable[[Phase], Timing]] = {SOLVED: solver.solve, "tile": _play}
"""Fidelity levels: solved for all phases at once, or played tile by tile in SimPy."""


MOST_TOGETHER = 1 << 12
"""Cases at most that are simulated on several designs at once."""

MOST_KEPT = 1 << 18
"""Phases of a hardware that are kept for later runs: some 50 MB. The longest unused go first."""


class Lender(NamedTuple):
    """Phases of a hardware that differs in the size of a buffer alone.

    Attributes:
        phases: Its phases.
        buffer: The buffer.
    """

    phases: "Phases"
    buffer: Buffer


class Phases:
    """Outcomes of the phases of a hardware at one fidelity; a repeated case is looked up.

    Of several designs, n cases have the outcomes of n phases on each, one design after the other.

    Args:
        machine: The numbers of one design or more, or the hardware of one.
        fidelity: A key of :data:`FIDELITIES`.
        book: Books the cycles of each core and port in phases
            (:func:`carsim.account.booking.booked`); None: nobody asks for them.
        lender: Phases from which those of some blocks are taken.

    Attributes:
        machine: The numbers of D designs.
        fidelity: The fidelity.
        simulated: Phases that were simulated at this fidelity so far.
        kept: Phases that are kept for later runs.
        interpolated: The times of some phases were interpolated between those of others.
        proven: Steps of what :mod:`carsim.account.ranges` has found to be within 64 bits.
        most_work: Work that :mod:`carsim.account.ranges` has found blocks to have at most.

    Raises:
        InputError: No such fidelity.
    """

    def __init__(
        self,
        machine: MachineArrays | Hardware,
        fidelity: str = SOLVED,
        *,
        book: Book | None = None,
        lender: "Lender | None" = None,
    ) -> None:
        if fidelity not in FIDELITIES:
            kinds = ", ".join(FIDELITIES)
            raise InputError("`fidelity`", f"no fidelity {fidelity!r}", f"choose one of {kinds}")
        if isinstance(machine, Hardware):
            machine = MachineArrays.of([machine])
        self.machine = machine
        self.fidelity = fidelity
        self.book = book
        self.interpolated = False
        self.simulated = 0
        self._memo: OrderedDict[Hashable, Outcome] = OrderedDict()  # used last stands last
        self.kept = 0  # phases in it
        self.proven: dict[Hashable, int] = {}
        self.most_work: dict[Hashable, tuple[int, ...]] = {}
        self._tables: dict[Hashable, CaseTable] = {}
        self._bounds: dict[tuple[Block, int], Bound] = {}
        self._programs: dict[Hashable, Program] = {}
        self._schedules: dict[str, Schedule] = {}
        self._lender = lender
        self._is_lent: dict[Block, bool] = {}

    @property
    def hw(self) -> Hardware:
        """The hardware of a single design."""
        (hardware,) = self.machine.hardwares
        return hardware

    @cached_property
    def exact(self) -> "Phases":
        """Phases of these designs in Python's integers, with which ranges are proven."""
        designs = np.arange(self.machine.n_designs)
        return Phases(self.machine.at(designs, exact=True))

    def with_larger(self, buffer: Buffer, hardware: Hardware) -> "Phases":
        """Phases of a hardware that differs from this one in the size of a buffer alone.

        Phases of blocks that do not use the buffer are equal, and are taken from these.
        """
        return Phases(hardware, self.fidelity, lender=Lender(phases=self, buffer=buffer))

    def _lender_of(self, block: Block, reads: Reads | None) -> "Phases | None":
        """The lender, if its phases of a block are equal to these."""
        if self._lender is None:
            return None
        if block not in self._is_lent:
            first_reads = None if reads is None else reads.take(slice(1))
            buffers = buffers_of(self.machine, block, first_reads)
            self._is_lent[block] = self._lender.buffer not in buffers
        return self._lender.phases if self._is_lent[block] else None

    def of(self, block: Block, cases: Cases, schedule: Schedule | None = None) -> Outcome:
        """Phases of a block; equal arrays of cases are looked up.

        Args:
            block: The block.
            cases: What each of n phases reads, and who computes.
            schedule: Who computes, where some rows do not.

        Returns:
            n outcomes on each design, one design after the other.
        """
        lender = self._lender_of(block, cases.reads)
        if lender is not None:
            return lender.of(block, cases, schedule)
        return self._by_length_class(self._take, block, schedule, cases)

    def of_each_case(self, block: Block, cases: Cases, schedule: Schedule) -> Outcome:
        """Phases of a block that rows skip; each case that any run has met is looked up.

        Args:
            block: The block.
            cases: Cases of at most 62 rows.
            schedule: Who computes.

        Returns:
            n outcomes on each design, one design after the other.
        """
        lender = self._lender_of(block, cases.reads)
        if lender is not None:
            return lender.of_each_case(block, cases, schedule)
        key, columns = _numbers_of(cases, self.machine.n_designs)
        key = block, schedule, key
        if key not in self._tables:
            self._tables[key] = CaseTable(self.machine.n_designs)
        table = self._tables[key]
        n_before = table.n_phases

        def solve(new: NDArray[np.intp]) -> Outcome:
            return self._by_length_class(self._solve, block, schedule, cases.take(new))

        outcome = table.look_up(columns, solve)
        self.kept += table.n_phases - n_before
        while self.kept > MOST_KEPT and len(self._tables) > 1:
            longest_unused = next(other_key for other_key in self._tables if other_key != key)
            self.kept -= self._tables.pop(longest_unused).n_phases
        return outcome

    def _by_length_class(
        self, take: Take, block: Block, schedule: Schedule | None, cases: Cases
    ) -> Outcome:
        """Take cases whose reads lie in runs of one length class together."""
        if cases.reads is None:
            return take(block, schedule, cases)
        chunks = chunk_bytes(self.machine, cases.reads)
        sizes = sorted(set(chunks.tolist()))
        if len(sizes) == 1:
            return take(block, schedule, cases)
        indices = [np.flatnonzero(chunks == size) for size in sizes]
        by_size = [take(block, schedule, cases.take(index)) for index in indices]
        designs = self.machine.n_designs
        first_phase = cases.n * np.arange(designs)[:, None]
        order = first_phase + np.argsort(np.concatenate(indices))
        return Outcome.join(by_size, designs).take(order.ravel())

    def bound(self, block: Block, n_rows: int) -> Bound:
        """Lower bound of a block by how many of some rows compute; see :func:`skip_bound`."""
        lender = self._lender_of(block, None)
        if lender is not None:
            return lender.bound(block, n_rows)
        key = block, n_rows
        if key not in self._bounds:
            self._bounds[key] = skip_bound(self.machine, block, n_rows)
        return self._bounds[key]

    def program(  # noqa: PLR0913 - the options of a program, by name
        self,
        rule: ReplayRule | None,
        *,
        decided: bool,
        reuse: TokenReuse | None = None,
        attention: AttentionPolicy = PLAIN,
        further_rules: FurtherRules = (),
        kind: ForwardKind | None = None,
    ) -> Program:
        """The layers of a step.

        Args:
            rule: Rule of replay; None where nothing ever replays.
            decided: Decisions are taken in the step.
            reuse: What tokens of forwards reuse; None where whole rows decide.
            attention: Attention policy.
            further_rules: Rules of further decisions, by name.
            kind: Kind of the forward of a sample in chunks; None: the fullest.
        """
        machine = self.machine
        shares = attention.shares_layers or attention.shares_heads
        sharing = attention if shares else PLAIN
        key = rule, decided, reuse, sharing, further_rules, kind
        if key not in self._programs and machine.model.network is not None:
            skip = None if rule is None else machine.skip
            self._programs[key] = sample_program(
                machine.model,
                skip,
                decided=decided,
                rule=rule,
                reuse=reuse,
                kind=kind,
            )
        if key not in self._programs:
            self._programs[key] = decoder_program(
                machine.model,
                machine.skip,
                rule,
                decision_at=machine.decision_at,
                tokens=machine.tokens_per_step,
                decided=decided,
                policy=sharing,
                further_rules=further_rules,
            )
        return self._programs[key]

    @cached_property
    def head(self) -> Outcome:
        """All dependent passes of the head, for one step of all sequences."""
        times = Counter(self.head_passes)
        designs = self.machine.n_designs
        codes_by_steps = grouped((one.steps, one.codes) for one in times)
        outcomes = []
        for steps, codes in codes_by_steps.items():
            counts = np.array([times[HeadPass(steps, n)] for n in codes])
            outcomes.append(self.head_pass(steps, codes).summed(counts, designs))
        once = np.ones(len(outcomes), np.int64)
        return Outcome.join(outcomes, designs).summed(once, designs)

    @property
    def head_passes(self) -> tuple[HeadPass, ...]:
        """Passes of the head in their order."""
        return self.machine.head_passes

    def head_pass(self, steps: tuple[HeadStep, ...], codes: Sequence[int] | Ints) -> Outcome:
        """A pass of the head, for n numbers of codes that its attention reads."""
        return self.of(Head(steps=steps), Cases(Reads.of_tokens(codes)))

    def prefill_layer(
        self,
        tokens: int,
        kind: LayerKind = USUAL_LAYER,
        cache: PromptCache = USUAL_CACHE,
    ) -> Outcome:
        """One layer of the prompt, ``tokens`` per sequence, all computing.

        Args:
            tokens: Tokens of the prompt.
            kind: Kind of the layer.
            cache: How keys and values are kept.
        """
        window = None if kind.window and kind.window >= tokens else kind.window
        layer = PromptLayer(
            tokens=tokens,
            window=window,
            dense=kind.dense,
            group=kind.group,
            cache=cache,
        )
        return self.of(layer, Cases())

    def schedule(self, kind: str) -> Schedule:
        """A schedule; one that is fitted looks at the longest block that rows skip.

        Rows may not move to another core within a section, so that one fit serves all its blocks.
        """
        if kind not in self._schedules:
            self._schedules[kind] = self.machine.fitted(SCHEDULES[kind], self._cycles_of)
        return self._schedules[kind]

    def seconds(self, seconds: float) -> Outcome:
        """A phase of stated seconds."""
        cycles_of_designs = []
        for hardware in self.machine.hardwares:
            clock_mhz = hardware.design.board.fabric_clock_mhz
            cycles_of_designs.append(round(seconds * 1e6 * clock_mhz))
        return self.stated(np.array(cycles_of_designs, np.int64))

    def _cycles_of(self, schedule: Schedule, n_computing: int) -> int:
        """Cycles of the longest block that rows skip, if the first of them compute."""
        width = self.machine.dispatched_together(schedule)
        known_cycles = np.array([self.machine.dispatch_cycles(schedule)])
        rows = RowCases(np.arange(width)[None] < n_computing, known_cycles)
        skipped = self.program(FASTCAR, decided=False).skipped
        n_layers = {block: len(layers) for block, layers in skipped.items()}
        usual = [block for block, n in n_layers.items() if n == max(n_layers.values())]
        cycles = [
            int(self.of(block, Cases(rows=rows), schedule).cycles[0])
            for block in usual
            if not block.reads_tokens
        ]
        return max(cycles, default=0)

    @cached_property
    def skips_mlp_alone(self) -> bool:
        """Rows skip the MLP of every layer, and nothing else."""
        return skips_mlp_alone(self.machine.model, self.machine.skip)

    @cached_property
    def skipped_launch_cycles(self) -> Ints:
        """Cycles of launches that a layer saves where all rows skip its blocks, int64[D].

        Simplifications: every product with weights of a layer takes an equal share of ``layer_us``,
        whatever starts the kernels; the share is saved where no row on any core computes the
        blocks, and adding what replays starts no kernel of its own. Layers that skip different
        blocks save their mean.
        """
        program = self.program(None, decided=False)
        skipped, products = program.skipped_share_of_products(self.machine.model)
        if not products:
            return np.zeros(self.machine.n_designs, np.int64)
        launches = self.machine.layer_launch_cycles
        share = Fraction(skipped, max(1, products))
        return np.array([floor(cycles * share) for cycles in launches], np.int64)

    def host(self, idle_layers: Ints) -> Outcome:
        """Time of the host in a token step, after layers and head; no core or memory works.

        Args:
            idle_layers: Layers in which all rows skip blocks, whose kernels are not started, in
                each of n steps, int64[n].
        """
        saved = self.skipped_launch_cycles[:, None] * idle_layers
        return self.stated((self.machine.host_cycles[:, None] - saved).ravel())

    def stated(self, cycles: Ints) -> Outcome:
        """Phases that take stated cycles, in which no core or memory works.

        Args:
            cycles: Cycles of n phases of each design, int64[D n].
        """
        nothing = np.zeros_like(cycles)
        nbytes = np.zeros((len(cycles), len(self.machine.memories)), np.int64)
        idle = Timing.of(np.zeros((5, 0, len(cycles), 1), np.int64), cycles, nothing)
        phase = Phase(
            steps=(),
            latencies=self.machine.latencies,
            bound_cycles=cycles,
            bound_dram_bytes=nbytes,
        )
        of_host = outcome(phase, idle)
        of_host.times[:] = 0
        of_host.times[:, Category.HOST] = cycles
        return of_host

    def _take(self, block: Block, schedule: Schedule | None, cases: Cases) -> Outcome:
        """Phases of one length class of reads, looked up or solved."""
        key = block, schedule, identity(cases)
        if key in self._memo:
            self._memo.move_to_end(key)
            return self._memo[key]
        outcome = self._solve(block, schedule, cases)
        self._memo[key] = outcome
        self.kept += len(outcome.cycles)
        while self.kept > MOST_KEPT and len(self._memo) > 1:
            _, oldest = self._memo.popitem(last=False)
            self.kept -= len(oldest.cycles)
        return outcome

    def _solve(self, block: Block, schedule: Schedule | None, cases: Cases) -> Outcome:
        """Simulate phases at this fidelity.

        Many cases are simulated on one design after the other: all designs at once would leave the
        caches of the processor, and take twice the time.
        """
        if self.machine.n_designs == 1 or cases.n <= MOST_TOGETHER:
            return self._solve_on(self.machine, block, schedule, cases)
        outcomes = [
            self._solve_on(machine, block, schedule, cases.on_design(number))
            for number, machine in enumerate(self._single_machines)
        ]
        return Outcome.join(outcomes)

    @cached_property
    def _single_machines(self) -> list[MachineArrays]:
        """The numbers of each design by itself."""
        return [MachineArrays.of([hardware]) for hardware in self.machine.hardwares]

    def _solve_on(
        self, machine: MachineArrays, block: Block, schedule: Schedule | None, cases: Cases
    ) -> Outcome:
        """Simulate phases on some of the designs."""
        phase = build(machine, block, schedule, cases)
        timing = FIDELITIES[self.fidelity](phase)
        solved = outcome(phase, timing)
        if self.book is not None:
            booked = self.book(machine, phase, timing, solved.cycles)
            solved = replace(solved, booked=booked)
        self.simulated += phase.n
        self.interpolated |= timing.interpolated
        return solved


def identity(given: object) -> Hashable:
    """Arrays by their bytes, in tuples of any depth."""
    if isinstance(given, np.ndarray):
        return given.shape, given.tobytes()
    return tuple(map(identity, given)) if isinstance(given, tuple) else given


def _numbers_of(cases: Cases, designs: int) -> tuple[Hashable, Ints]:
    """Key of what n cases have in common, and the numbers in which they may differ, int64[k, n]."""
    reads = cases.reads
    rows = cases.rows
    assert rows is not None
    width = rows.computing.shape[1]
    columns = [rows.computing @ (1 << np.arange(width, dtype=np.int64))]
    if reads is not None:
        columns += [reads.attended, reads.runs, reads.contexts]
    if rows.known_cycles is not None:
        columns += [*np.broadcast_to(rows.known_cycles, (designs, cases.n))]
    of_reads = None if reads is None else reads[3:]
    key = of_reads, rows.home, width, rows.known_cycles is None, cases.arrives
    return key, np.array(columns)
