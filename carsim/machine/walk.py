"""Walk a program: the phases of all layer-steps of one kind of step, section by section.

A layer-step of a section is one of n *cases*, whatever the design: what it reads, who computes, and
for how long the decision has been known. Layer-steps are counted by case once. Each block of the
section then takes n phases on each of D designs.

``tests/plainly.py`` takes the layer-steps one after the other instead: the reference of this way.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.hardware.schedule import Schedule
from carsim.machine.arrays import MachineArrays
from carsim.machine.batches import Batches, DistinctPatterns
from carsim.machine.cases import Cases, RowCases, TokenCases, distinct_reads, with_usual_runs
from carsim.machine.lanes import Ints, splits
from carsim.machine.numbering import distinct, distinct_rows, renumber
from carsim.machine.phase import Outcome, by_design
from carsim.machine.plan import Plan
from carsim.machine.token_batches import TokenBatches
from carsim.machine.visits import Index, Visits, counted
from carsim.program.block import Block
from carsim.program.program import Program, Section
from carsim.program.reads import Reads, Steps

MOST_COUNTED = 1 << 23
"""Numbers in a table of counts: 64 MB. Of more cases, only those that occur are counted."""

MOST_CODED = 62
"""Rows whose decisions fit into the bits of one whole number."""


class BlockCycles(NamedTuple):
    """Cycles that a block took in some layers.

    Attributes:
        layers: The layers.
        cycles: Of each layer-step, int64[D, G or 1, s, l or 1].
    """

    layers: Sequence[int]
    cycles: Ints

    def at(self, layers: Sequence[int]) -> Ints:
        """Cycles in other layers, int64[D, G or 1, s, l or 1]; 0 where the block is not in one."""
        layers_are_equal = self.cycles.shape[3] == 1
        if layers == self.layers or (layers_are_equal and set(layers) <= set(self.layers)):
            return self.cycles
        cycles = np.zeros((*self.cycles.shape[:3], len(layers)), np.int64)
        for column, layer in enumerate(layers):
            if layer in self.layers:
                column_here = 0 if layers_are_equal else self.layers.index(layer)
                cycles[..., column] = self.cycles[..., column_here]
        return cycles


@dataclass
class Walk:
    """Steps of a run that take one program. G batches, s steps, L layers.

    Attributes:
        plan: Policy and machine.
        program: The blocks of these steps.
        decisions: Decisions of all steps, by name.
        recorded: Tokens that attention reads and runs in which they lie, int64[G, S, L] each, where
            they depend on data; else None.
        steps: Numbers of the steps, int[s].
        detail: Outcomes are kept for each layer-step.
    """

    plan: Plan
    program: Program
    decisions: Mapping[str, Batches]
    recorded: tuple[Ints, Ints] | None
    steps: Index
    detail: bool = False
    _cycles_at: dict[int, list[BlockCycles]] = field(default_factory=dict)  # by position

    def visits(self) -> Iterator[Visits]:
        """The phases of all layer-steps, in the order of the positions of their blocks."""
        for section in self.program.sections:
            if section.follows is None:
                yield self._computed_by_all(section)
                continue
            tokens = self.decisions[section.follows].tokens
            if tokens is not None:
                yield from self._computed_by_tokens(section, tokens)
                continue
            for cases in self._cases_of(section):
                yield from self._computed_by_some(section, cases)

    # ---------------------------------------------------------------- private

    def _computed_by_all(self, section: Section) -> Visits:
        """Visits of a block that all rows compute."""
        (block,) = section.blocks
        reads, case_of = self._reads(section)
        outcome = self.plan.phases.of(block, Cases(reads.get(block)))
        self._record_cycles(section.position, section.layers, outcome, case_of)
        n = len(outcome.cycles) // self.plan.machine.n_designs
        layers_per_case = len(section.layers) // case_of.shape[2]
        return Visits(
            name=block.name,
            outcome=outcome,
            counts=counted(case_of[None], n) * layers_per_case,
            counts_to_first_token=self._of_first_step(case_of, n) * layers_per_case,
            outcome_of=self._of_layer_steps(section.layers, case_of),
        )

    def _computed_by_some(self, section: Section, cases: "SectionCases") -> Iterator[Visits]:
        """Visits of blocks that rows skip, one block after the other."""
        plan = self.plan
        machine = plan.machine
        schedule = plan.schedule_of(self.program.decided)
        dispatch_cycles = machine.dispatch_cycles(schedule)
        known_cycles = cases.known_cycles
        arrives_at = first_unsplit(machine, section.blocks)
        for number, block in enumerate(section.blocks):
            # Dispatch of this block is over after so many cycles; to know more does not matter.
            known_to_block = np.minimum(known_cycles, dispatch_cycles)
            phases, phase_of = self._phases_of(block, cases, known_to_block)
            phases = phases._replace(arrives=block is arrives_at)
            outcome = self._take(block, phases, schedule, is_varied=number > 0)
            n_phases = phases.n
            outcome_of = None
            position = section.position + number
            if cases.case_of is not None and (self.detail or position in self._timed_positions):
                phase_of_layer_step = phase_of[cases.case_of]
                self._record_cycles(position, section.layers, outcome, phase_of_layer_step)
                outcome_of = self._of_layer_steps(section.layers, phase_of_layer_step)
            yield Visits(
                name=block.name,
                outcome=outcome,
                counts=_summed(cases.counts, phase_of, n_phases),
                counts_to_first_token=_summed(cases.counts_of_first_step, phase_of, n_phases),
                outcome_of=outcome_of,
            )
            if self.program.decided:  # instructions of the next block follow those of this one
                block_cycles = by_design(outcome.cycles, machine.n_designs)[:, phase_of]
                known_cycles = np.maximum(0, known_cycles + block_cycles - dispatch_cycles)

    def _computed_by_tokens(self, section: Section, tokens: TokenBatches) -> Iterator[Visits]:
        """Visits of blocks that tokens skip, one block after the other."""
        plan = self.plan
        schedule = plan.schedule_of(self.program.decided)
        computing = tokens.computing[:, self.steps][:, :, section.layers]
        loads, load_of = tokens.loads(plan.machine, schedule, computing)
        reads, read_of = self._reads(section)
        n_reads = 1 + int(read_of.max(initial=0))
        codes, case_of = renumber(n_reads * load_of + read_of, n_reads * len(loads))
        load_of_case, read_of_case = np.divmod(codes, n_reads)
        for number, block in enumerate(section.blocks):
            of_block = reads.get(block)
            # Cases are one phase to a block that reads nothing, if they differ in reads alone.
            used = np.arange(len(codes))
            phase_of = np.arange(len(codes))
            if of_block is None:
                _, used, phase_of = np.unique(load_of_case, return_index=True, return_inverse=True)
            cases = Cases(
                reads=None if of_block is None else of_block.take(read_of_case[used]),
                arrives=number == 0,
                tokens=TokenCases(loads[load_of_case[used]], of=tokens.tokens),
            )
            outcome = plan.phases.of(block, cases, schedule)
            phase_of_layer_step = phase_of.ravel()[case_of]
            position = section.position + number
            self._record_cycles(position, section.layers, outcome, phase_of_layer_step)
            yield Visits(
                name=block.name,
                outcome=outcome,
                counts=counted(phase_of_layer_step[None], len(used)),
                counts_to_first_token=self._of_first_step(phase_of_layer_step, len(used)),
                outcome_of=self._of_layer_steps(section.layers, phase_of_layer_step),
            )

    def _phases_of(
        self, block: Block, cases: "SectionCases", known_cycles: Ints
    ) -> tuple[Cases, Index]:
        """The different phases of a block in the n cases of its section.

        Cases of the section are one phase to a block that reads nothing, if they differ in what
        other blocks read.

        Args:
            block: The block.
            cases: The n cases.
            known_cycles: Cycles for which the decision is known before the block, int64[D, n].

        Returns:
            The phases, and the phase of each case, [n].
        """
        reads = cases.reads.get(block)
        read_of = np.zeros_like(cases.read_of) if reads is None else cases.read_of
        # In this order, phases come in the order of the cases.
        example_of, phase_of = distinct(np.array([cases.pattern_of, read_of, *known_cycles]))
        rows = RowCases(
            computing=cases.patterns[cases.pattern_of[example_of]],
            known_cycles=known_cycles[:, example_of] if self.program.decided else None,
            home=cases.home,
        )
        reads_of_phases = None if reads is None else reads.take(cases.read_of[example_of])
        return Cases(reads_of_phases, rows), phase_of

    def _take(self, block: Block, phases: Cases, schedule: Schedule, *, is_varied: bool) -> Outcome:
        """Outcomes of phases of a block that rows skip.

        Args:
            block: The block.
            phases: The phases.
            schedule: Who computes.
            is_varied: The phases depend on more than who computes: two runs have some of them in
                common and hardly ever all. Each is looked up by itself.
        """
        assert phases.rows is not None
        is_varied |= phases.reads is not None
        if is_varied and phases.rows.computing.shape[1] < MOST_CODED:
            return self.plan.phases.of_each_case(block, phases, schedule)
        return self.plan.phases.of(block, phases, schedule)

    # Cases.

    def _reads(self, section: Section) -> tuple[dict[Block, Reads], Index]:
        """Cases of what blocks of a section read.

        Returns:
            What each block reads in the n different cases; the case of each layer-step, [G or 1, s,
            l or 1].
        """
        of_steps = {
            block: block.reads(self._steps) for block in section.blocks if block.reads_tokens
        }
        reads_of_steps = {block: reads for block, reads in of_steps.items() if reads is not None}
        if not reads_of_steps:
            return {}, np.zeros((1, len(self.steps), 1), np.intp)
        of_layer_steps = [self._of_data(reads, section.layers) for reads in reads_of_steps.values()]
        shape = np.broadcast_shapes(*(reads.attended.shape for reads in of_layer_steps))
        of_all_layer_steps = [
            reads.change(lambda figure: np.broadcast_to(figure, shape)) for reads in of_layer_steps
        ]
        cases, case_of = distinct_reads(of_all_layer_steps)
        return dict(zip(reads_of_steps, cases, strict=True)), case_of

    def _of_data(self, reads: Reads, layers: Sequence[int]) -> Reads:
        """Reads of layer-steps, [G or 1, s, l or 1]: where they depend on data, the recorded."""
        reads = reads.change(lambda figure: figure.reshape(1, -1, 1))
        if self.recorded is None or not reads.policy.records:
            return reads
        of_all_tokens, runs_of_all = self.recorded
        attended = of_all_tokens[:, self.steps][..., layers]
        runs = runs_of_all[:, self.steps][..., layers]
        contexts = np.broadcast_to(reads.contexts, attended.shape)
        reads = reads._replace(attended=attended, runs=runs, contexts=contexts)
        return with_usual_runs(self.plan.machine, reads)

    def _cases_of(self, section: Section) -> "Iterator[SectionCases]":
        """Cases of the rows that are dispatched together, in front of a section."""
        plan = self.plan
        decided = self.program.decided
        assert section.follows is not None
        batches = self.decisions[section.follows].of_layers(section.layers)
        reads, read_of = self._reads(section)
        n_reads = 1 + int(read_of.max(initial=0))
        known_cycles, known_of = self._known(section)
        for number, (group, home) in enumerate(plan.groups(decided)):
            if number > 0:  # the register takes the next group once the one before has left
                known_cycles = np.zeros_like(known_cycles[:, :1])
                known_of = np.zeros((1, 1, 1), np.intp)
            n_known = known_cycles.shape[1]
            n_pairs = n_known * n_reads
            patterns = batches.distinct_patterns(self.steps, group, by_step=n_pairs > 1)
            example_of, class_of = self._classes_of(section, patterns, home)
            counting = Counting(
                patterns=patterns,
                class_of=class_of,
                n_classes=len(example_of),
                pair_of=known_of + n_known * read_of,
                n_pairs=n_pairs,
                first_steps=self._n_first_steps,
            )
            case_of = None
            if self._needs_case_of_layer_steps(section) or not counting.is_small:
                codes, case_of = counting.cases()
                counts = counted(case_of[None], len(codes))
                counts_of_first_step = self._of_first_step(case_of, len(codes))
            else:
                codes, counts, counts_of_first_step = counting.counts()
            class_of_case, pair = np.divmod(codes, n_pairs)
            read_of_case, known_of_case = np.divmod(pair, n_known)
            yield SectionCases(
                home=home,
                patterns=patterns.computing[example_of],
                pattern_of=class_of_case,
                reads=reads,
                read_of=read_of_case,
                known_cycles=known_cycles[:, known_of_case],
                counts=counts,
                counts_of_first_step=counts_of_first_step,
                case_of=case_of,
            )

    def _classes_of(
        self, section: Section, patterns: DistinctPatterns, home: int
    ) -> tuple[Index, Index]:
        """Classes of patterns with equal phases in all blocks of a section, as cores are alike.

        Args:
            section: The section.
            patterns: Patterns that occur, P of them.
            home: Core of the first row in front of the section.

        Returns:
            A pattern of each class; the class of each pattern, [P].
        """
        machine = self.plan.machine
        schedule = self.plan.schedule_of(self.program.decided)
        now = np.zeros(1, np.int64) if self.program.decided else None
        rows = RowCases(patterns.computing, now, home)
        section_splits = {splits(machine, block) for block in section.blocks}
        loads = [
            rows.load_figures(machine, schedule, split=split) for split in sorted(section_splits)
        ]
        return distinct_rows(np.concatenate(loads, axis=1), machine.rows + 1)

    def _needs_case_of_layer_steps(self, section: Section) -> bool:
        """The case of each layer-step is asked for: in detail, or by a later section."""
        end = section.position + len(section.blocks)
        positions = range(section.position, end)
        return self.detail or not self._timed_positions.isdisjoint(positions)

    # Cycles since a decision.

    @cached_property
    def _timed_positions(self) -> frozenset[int]:
        """Positions of a layer between a decision and a section that follows it."""
        positions: set[int] = set()
        for section in self.program.sections:
            positions.update(self._since_decision(section))
        return frozenset(positions)

    def _since_decision(self, section: Section) -> range:
        """Positions of a layer between the decision of a section and the section."""
        if section.follows is None or not self.program.decided:
            return range(0)
        layer = self.program.layers[section.layers[0]]
        return range(self.program.known_from(layer, section.follows), section.position)

    def _known(self, section: Section) -> tuple[Ints, Index]:
        """Cycles for which a decision is known when its section begins.

        More than the dispatcher takes for all blocks of the section make no difference.

        Returns:
            The n different ones on each design, int64[D, n]; which of them each layer-step has, [G
            or 1, s, l or 1].
        """
        layer = self.program.layers[section.layers[0]]
        schedule = self.plan.schedule_of(self.program.decided)
        most = len(section.blocks) * self.plan.machine.dispatch_cycles(schedule)
        known_cycles: Ints = np.zeros((1, 1, 1, 1), np.int64)
        # Blocks that all rows compute come first: they have few cases, and may be enough.
        positions = sorted(
            self._since_decision(section),
            key=lambda position: layer[position].follows is not None,
        )
        for position in positions:
            if (known_cycles < most).any():
                for block_cycles in self._cycles_at[position]:
                    known_cycles = known_cycles + block_cycles.at(section.layers)
        known_cycles = np.minimum(known_cycles, most)
        of_layer_steps = known_cycles.reshape(len(known_cycles), -1)
        if (of_layer_steps == of_layer_steps[:, :1]).all():
            return of_layer_steps[:, :1], np.zeros((1, 1, 1), np.intp)
        example_of, known_of = distinct(of_layer_steps)
        return of_layer_steps[:, example_of], known_of.reshape(known_cycles.shape[1:])

    def _record_cycles(
        self, position: int, layers: Sequence[int], outcome: Outcome, phase_of: Index
    ) -> None:
        """Remember how long a block took in each layer-step, if a later section asks.

        Args:
            position: Position of the block in its layers.
            layers: The layers.
            outcome: Its phases.
            phase_of: The phase of each layer-step, [G or 1, s, l or 1].
        """
        if position in self._timed_positions:
            cycles = by_design(outcome.cycles, self.plan.machine.n_designs)[:, phase_of]
            self._cycles_at.setdefault(position, []).append(BlockCycles(layers, cycles))

    @cached_property
    def _steps(self) -> Steps:
        return self.plan.steps_at(self.steps)

    # Counting.

    def _of_first_step(self, case_of: Index, n: int) -> Ints:
        """Visits of the run's first steps to n cases, [G or 1, s, l or 1] -> [1, G or 1, n]."""
        return counted(case_of[None, :, : self._n_first_steps], n)

    @property
    def _n_first_steps(self) -> int:
        """Steps of this walk before the run's first output is there."""
        return int(np.count_nonzero(self.steps < self.plan.first_steps))

    def _of_layer_steps(self, layers: Sequence[int], case_of: Index) -> Index | None:
        """The outcome of each layer-step of all steps and layers; -1 elsewhere."""
        if not self.detail:
            return None
        shape = next(iter(self.decisions.values())).replay.shape[1:3]
        outcome_of = np.full((case_of.shape[0], *shape), -1, np.intp)
        outcome_of[:, self.steps[:, None], np.asarray(layers)] = case_of
        return outcome_of


class Counting(NamedTuple):
    """Counts the cases of layer-steps. P patterns of decisions, G batches, s steps, l layers.

    A case is who computes, as far as it matters, and a pair of what is read and how long the
    decision has been known: its code is ``n_pairs`` times the first plus the second.

    Attributes:
        patterns: The patterns that occur: which rows of a layer-step compute.
        class_of: The class of each pattern, [P]; patterns of one class have equal phases.
        n_classes: Classes of patterns.
        pair_of: Number of the pair (what is read, cycles for which the decision is known) of each
            layer-step, [G or 1, s, l or 1].
        n_pairs: Different pairs.
        first_steps: Steps, the first of these, before the run's first output is there.
    """

    patterns: DistinctPatterns
    class_of: Index
    n_classes: int
    pair_of: Index
    n_pairs: int
    first_steps: int

    @property
    def is_small(self) -> bool:
        """A table of all possible cases in all batches takes little memory."""
        return len(self.patterns.codes) * self.n_codes <= MOST_COUNTED

    @property
    def n_codes(self) -> int:
        """Codes of all possible cases."""
        return self.n_classes * self.n_pairs

    def cases(self) -> tuple[Index, Index]:
        """Codes of the n cases that occur, and the case of each layer-step, [G, s, l]."""
        class_of_layer_step = self.class_of[self.patterns.pattern_of()]
        return renumber(self.n_pairs * class_of_layer_step + self.pair_of, self.n_codes)

    def counts(self) -> tuple[Index, Ints, Ints]:
        """Count without a case for each layer-step.

        Returns:
            Codes of the n cases that occur; visits of each batch, int64[1, G, n]; visits of the
            run's first steps, int64[1, G or 1, n].
        """
        if self.n_pairs == 1:
            counts = self._by_class(self.patterns.counts)
        elif self.pair_of.shape[2] == 1 and self.patterns.counts_by_step is not None:
            counts = self._count_by_step(self.patterns.counts_by_step)
        else:
            counts = self._count(slice(None))
        counts_of_first_steps = np.zeros((1, self.n_codes), np.int64)
        if self.first_steps:
            counts_of_first_steps = self._count(slice(self.first_steps))
        codes = np.flatnonzero(counts.any(axis=0))
        if len(codes) < self.n_codes:
            counts = counts[:, codes]
            counts_of_first_steps = counts_of_first_steps[:, codes]
        return codes, counts[None], counts_of_first_steps[None]

    def _by_class(self, counts: Ints) -> Ints:
        """Occurrences of classes from those of patterns, int64[G, P, ...] -> [G, classes, ...].

        Every class has a pattern. Of 16 rows there are some 4,600 patterns, and summing the sorted
        ones takes a twentieth of the time of a loop over them.
        """
        order = np.argsort(self.class_of, kind="stable")
        first_of_class = np.searchsorted(self.class_of[order], np.arange(self.n_classes))
        by_class: Ints = np.add.reduceat(counts[:, order], first_of_class, axis=1)
        return by_class

    def _count_by_step(self, counts_by_step: Ints) -> Ints:
        """Occurrences of every possible case, where all layers of a step have one pair.

        Args:
            counts_by_step: Occurrences of each pattern in each step, int64[G, P, s].

        Returns:
            By batch and code, int64[G, cases].
        """
        by_class = self._by_class(counts_by_step)  # [G, classes, s]
        n_batches, n_classes = by_class.shape[:2]
        pair_of_steps = self.pair_of[..., 0]  # [G or 1, s]
        if np.array_equal(pair_of_steps, np.arange(self.n_pairs)[None]):
            return by_class.reshape(n_batches, -1)  # each step has a pair of its own
        counts = np.zeros((n_batches, n_classes, self.n_pairs), np.int64)
        for number, pair_of_step in enumerate(pair_of_steps):
            # One row of pairs stands for all batches, or each batch has its own.
            batches = slice(None) if len(pair_of_steps) == 1 else slice(number, number + 1)
            order = np.argsort(pair_of_step, kind="stable")
            pairs, first_of_pair = np.unique(pair_of_step[order], return_index=True)
            of_pairs = np.add.reduceat(by_class[batches][..., order], first_of_pair, axis=2)
            counts[batches, :, pairs] = of_pairs
        return counts.reshape(n_batches, -1)

    def _count(self, steps: slice) -> Ints:
        """Occurrences of every possible case in some steps, int64[G, cases]."""
        first_code_of = self.n_pairs * self.class_of[self.patterns.number_of]
        pair_of = self.pair_of[:, steps]
        by_batch = []
        for batch, pattern_codes in enumerate(self.patterns.codes[:, steps]):  # fits into a cache
            codes = first_code_of[pattern_codes] + pair_of[batch if len(pair_of) > 1 else 0]
            by_batch.append(np.bincount(codes.ravel(), minlength=self.n_codes))
        return np.array(by_batch, np.int64)


class SectionCases(NamedTuple):
    """The n cases of the layer-steps of a section.

    Attributes:
        home: Core of the first row in front of the section.
        patterns: Rows that compute, bool[P, W].
        pattern_of: The pattern of each case, [n].
        reads: What blocks read; a block that is not there reads nothing.
        read_of: The one of these reads that each case has, [n].
        known_cycles: Cycles for which the decision is known, int64[D, n].
        counts: Visits of each batch, int64[1, G, n].
        counts_of_first_step: Visits of the run's first step, int64[1, G or 1, n].
        case_of: The case of each layer-step, [G, s, l]; None where nobody asks.
    """

    home: int
    patterns: NDArray[np.bool_]
    pattern_of: Index
    reads: dict[Block, Reads]
    read_of: Index
    known_cycles: Ints
    counts: Ints
    counts_of_first_step: Ints
    case_of: Index | None


def first_unsplit(machine: MachineArrays, blocks: Sequence[Block]) -> Block | None:
    """The block in front of which rows travel to the core that computes them.

    It is the first whose matrices are not split; all cores work on every row of a split one.
    """
    return next((block for block in blocks if not splits(machine, block)), None)


def _summed(counts: Ints, phase_of: Index, n_phases: int) -> Ints:
    """Visits of cases that are one phase, int64[1, G, cases] -> [1, G, n]."""
    if n_phases == len(phase_of) and (phase_of[1:] > phase_of[:-1]).all():
        return counts
    if (phase_of[1:] < phase_of[:-1]).any():
        counts = counts[..., np.argsort(phase_of, kind="stable")]
    cases_of_phase = np.bincount(phase_of, minlength=n_phases)
    first_of_phase = np.cumsum(cases_of_phase) - cases_of_phase
    return np.add.reduceat(counts, first_of_phase, axis=2)
