"""Outcomes of the phases of one design's hardware, or several: a repeated case is looked up.

A layer-step is QKV projection, attention, output projection, then dispatch, MLP and replay.
Attention is a phase of its own because only it depends on the context. Phases are built by
:mod:`carsim.machine.builders`.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from carsim.base.errors import InputError
from carsim.decisions.replay import ReplayRule
from carsim.hardware.schedule import SCHEDULES, Schedule
from carsim.machine import solver
from carsim.machine.booking import booked
from carsim.machine.bounds import Bound, mlp_bound
from carsim.machine.builders import BUILDERS
from carsim.machine.cases import AttendCases, MlpCases
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import Ints
from carsim.machine.phase import Outcome, Phase, Timing, outcome
from carsim.machine.phase_ops import at_residual, decided_at, felt_by_mlp
from carsim.workload.head import HeadPass, HeadStep, head_passes
from carsim.workload.ops import Category

SOLVED = "fluid"
"""The default rung."""


def _simulated(phase: Phase) -> Timing:
    """As :func:`carsim.machine.parts.simulate`, which is loaded when it is first asked for."""
    from carsim.machine import parts

    return parts.simulate(phase)


FIDELITIES: Mapping[str, Callable[[Phase], Timing]] = {SOLVED: solver.solve, "tile": _simulated}
"""Rungs of the ladder: solved for all phases at once, or simulated tile by tile."""


MOST_KEPT = 1 << 18
"""Phases of a hardware that are kept for later runs: some 50 MB. The longest unused go first."""


class Phases:
    """Outcomes of the phases of a hardware on one rung; a repeated case is looked up.

    Of several designs, n cases have the outcomes of n phases on each, one design after the other.

    Args:
        hw: The hardware of one design or more.
        fidelity: A key of :data:`FIDELITIES`.
        books: Cycles of each core and port are booked.

    Attributes:
        hw: The hardware.
        fidelity: The rung.
        simulated: Phases that were taken through the rung so far.
        kept: Phases that are kept for later runs.
        interpolated: The rung took the times of some phases from those of others.
        proven: Steps of what :mod:`carsim.machine.ranges` has found to be within 64 bits.

    Raises:
        InputError: No such rung.
    """

    def __init__(self, hw: Hardware, fidelity: str = SOLVED, *, books: bool = False) -> None:
        if fidelity not in FIDELITIES:
            known = ", ".join(FIDELITIES)
            raise InputError("`fidelity`", f"no rung {fidelity!r}", f"choose one of {known}")
        self.hw, self.fidelity, self.books = hw, fidelity, books
        self.interpolated = False
        self.simulated = 0
        self._memo: OrderedDict[Hashable, Outcome] = OrderedDict()  # used last stands last
        self.kept = 0  # phases in it
        self.proven: dict[Hashable, int] = {}
        self._mlp_bounds: dict[Hashable, Bound] = {}
        self._schedules: dict[str, Schedule] = {}

    def qkv(self, rule: ReplayRule | None) -> Outcome:
        """Norm and QKV projection; ``rule``: by which this step is scored, None if it is not."""
        return self._take("qkv", rule if decided_at(self.hw, rule) == "q" else None)

    def attention(self, rule: ReplayRule | None, cases: AttendCases) -> Outcome:
        """Attention over the cache, for n cases.

        Args:
            rule: Rule of replay by which these steps are scored, None if they are not.
            cases: Keys that are read.
        """
        cases = cases._replace(aligned_outside=cases.aligned_outside and rule is not None)
        chunks = cases.chunk_bytes(self.hw)
        sizes = sorted(set(chunks.tolist()))
        if len(sizes) == 1:
            return self._take("attention", rule, cases)
        places = [np.flatnonzero(chunks == size) for size in sizes]
        found = [self._take("attention", rule, cases.take(at)) for at in places]
        designs = len(self.hw.designs)
        first = len(cases.attended) * np.arange(designs)[:, None]
        order = first + np.argsort(np.concatenate(places))
        return Outcome.join(found, designs).take(order.ravel())

    def output(self, rule: ReplayRule | None = None) -> Outcome:
        """Output projection and residual; norm and score where ``rule`` looks at the residual."""
        return self._take("output", rule if at_residual(rule) else None)

    def mlp(self, schedule: Schedule, cases: MlpCases, rule: ReplayRule | None = None) -> Outcome:
        """Dispatch, MLP and replay of n layer-steps.

        Args:
            schedule: Who computes.
            cases: Who computes what, and since when that is known.
            rule: Rule of replay of the whole video: what it holds is written in any step.
        """
        return self._take("mlp", schedule, cases, felt_by_mlp(self.hw, rule))

    def mlp_bound(self, batch: int, rule: ReplayRule | None = None, dense: bool = False) -> Bound:
        """Lower bound of MLPs by how many of B sequences compute; see :func:`bounds.mlp_bound`."""
        rule = felt_by_mlp(self.hw, rule)
        key = batch, rule, dense
        if key not in self._mlp_bounds:
            self._mlp_bounds[key] = mlp_bound(self.hw, *key)
        return self._mlp_bounds[key]

    @cached_property
    def head(self) -> Outcome:
        """All dependent passes of the head, for one step of all sequences."""
        times, designs = Counter(self.head_passes), len(self.hw.designs)
        found = []
        for steps in dict.fromkeys(each.steps for each in times):
            alike = [each for each in times if each.steps == steps]
            passes = self.head_pass(steps, np.array([each.codes for each in alike]))
            found.append(passes.summed(np.array([times[each] for each in alike]), designs))
        return Outcome.join(found, designs).summed(np.ones(len(found), np.int64), designs)

    @cached_property
    def head_passes(self) -> tuple[HeadPass, ...]:
        """Phases of the head in their order; rows without pairs pay for the mixing of guidance."""
        cores = self.hw.design.machine.cores
        return head_passes(self.hw.design.model, guided=self.hw.batch % 2 == 0, cores=cores)

    def head_pass(self, steps: tuple[HeadStep, ...], codes: Ints) -> Outcome:
        """A pass of the head, for n numbers of codes that its attention reads."""
        return self._take("head", steps, codes)

    def prefill_layer(self, tokens: int, window: int | None = None, dense: bool = False) -> Outcome:
        """One layer of the prompt, ``tokens`` per sequence, all computing.

        Args:
            tokens: Tokens of the prompt.
            window: Newest tokens that each attends to; None: all.
            dense: The layer has one MLP for all tokens, whatever others have.
        """
        window = None if window and window >= tokens else window
        return self._take("prefill", tokens, window, dense)

    def schedule(self, kind: str) -> Schedule:
        """A schedule, fitted to this hardware of a single design if it looks at what MLPs take."""
        if kind not in self._schedules:
            schedule = SCHEDULES[kind]
            width, cores = self.hw.held(schedule), self.hw.design.machine.cores

            def cycles_of(tried: Schedule, computing: int) -> int:
                known = np.array([self.hw.dispatch_cycles(tried)])
                first = MlpCases(np.arange(width)[None] < computing, known)
                return int(self.mlp(tried, first).cycles[0])

            self._schedules[kind] = schedule.fitted(cycles_of, width, cores)
        return self._schedules[kind]

    def host(self) -> Outcome:
        """Time of the host in a token step, after layers and head; no core or memory works."""
        cycles, nothing = np.ravel(self.hw.host_cycles), np.zeros(len(self.hw.designs), np.int64)
        nbytes = np.zeros((len(cycles), len(self.hw.paths)), np.int64)
        idle = Timing.of(np.zeros((5, 0, len(cycles), 1), np.int64), cycles, nothing)
        found = outcome(Phase((), self.hw.latencies, cycles, nbytes), idle)
        found.times[:] = 0
        found.times[:, Category.HOST] = cycles
        return found

    def _take(self, kind: str, *given: Any) -> Outcome:
        """Phases of a kind, with what its builder is given besides the hardware."""
        key = kind, identity(given)
        if key in self._memo:
            self._memo.move_to_end(key)
            return self._memo[key]
        phase = BUILDERS[kind](self.hw, *given)
        timing = FIDELITIES[self.fidelity](phase)
        found = outcome(phase, timing)
        if self.books:
            found = replace(found, booked=booked(self.hw, phase, timing, found.cycles))
        self.simulated += phase.n
        self.interpolated |= timing.interpolated
        self._memo[key] = found
        self.kept += phase.n
        while self.kept > MOST_KEPT and len(self._memo) > 1:
            _, oldest = self._memo.popitem(last=False)
            self.kept -= len(oldest.cycles)
        return found


def identity(given: Any) -> Hashable:
    """Arrays by their bytes, in tuples of any depth."""
    if isinstance(given, np.ndarray):
        return given.shape, given.tobytes()
    return tuple(map(identity, given)) if isinstance(given, tuple) else given
