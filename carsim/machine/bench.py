"""One event loop with the memories of the hardware and the lanes of one phase."""

from collections.abc import Callable, Generator
from fractions import Fraction
from typing import Any, NamedTuple

import simpy

from carsim.machine.bound import Bound
from carsim.machine.clock import Clock
from carsim.machine.core import Core
from carsim.machine.ddr import FluidMemory
from carsim.machine.dispatch import dispatch
from carsim.machine.hardware import Hardware
from carsim.machine.lane import Emit, LaneModel, Lead, Step
from carsim.machine.lowering import Lane
from carsim.machine.tile import TileCore, TileMemory
from carsim.workload.ops import CATEGORY_LABELS, Category

LEAD_GRAIN_BYTES = 1024
"""What was fetched ahead is levelled to this at a barrier; the rest is fetched again."""


class Fidelity(NamedTuple):
    """The models of memory and lane that go together."""

    memory: Callable[[Clock, Fraction], Any]
    lane: type[LaneModel]


FIDELITIES = {
    "fluid": Fidelity(FluidMemory, Core),
    "tile": Fidelity(TileMemory, TileCore),
}
"""Fidelity by name, coarse to fine."""


class Ahead(NamedTuple):
    """What one phase has fetched for the next.

    Attributes:
        nbytes: Bytes of the next phase's first operand, in the buffer of every core.
        streaming: More is on its way, so that the next phase's first request waits for nothing.
    """

    nbytes: int = 0
    streaming: bool = False


def levelled(fetched_bytes: int, wanted_bytes: int) -> Ahead:
    """What a barrier leaves of what a core has fetched for the next phase."""
    kept_bytes = fetched_bytes
    if fetched_bytes < wanted_bytes:
        kept_bytes = fetched_bytes // LEAD_GRAIN_BYTES * LEAD_GRAIN_BYTES
    return Ahead(kept_bytes, streaming=0 < fetched_bytes < wanted_bytes)


class PhaseResult(NamedTuple):
    """What a phase took and did; times in cycles.

    Attributes:
        cycles: From start to end.
        times: Cycles by category along the lane that finished last; they sum to ``cycles``.
        compute_cycles: Cycles that this lane computed.
        busy_cycles: Cycles that cores computed, summed over cores.
        macs: Multiply-accumulates executed.
        vector_ops: Element operations executed.
        sram_bytes: On-chip bytes read and written.
        dram_bytes: Bytes moved, by memory.
        wasted_bytes: Of the bytes moved, weights that were fetched and never used.
        peak_weight_buffer_bytes: Highest level of a weight buffer (of all, where they act as one).
        peak_kv_buffer_bytes: Highest level of a KV buffer, likewise.
        bound_cycles: What no schedule can beat, see :mod:`carsim.machine.bound`.
        bound_dram_bytes: Bytes moved, by memory, at that bound.
        ahead: What it has fetched for the next phase.
    """

    cycles: int
    times: tuple[int, ...]
    compute_cycles: int
    busy_cycles: int
    macs: int
    vector_ops: int
    sram_bytes: int
    dram_bytes: tuple[int, ...]
    wasted_bytes: int
    peak_weight_buffer_bytes: int
    peak_kv_buffer_bytes: int
    bound_cycles: int
    bound_dram_bytes: tuple[int, ...]
    ahead: Ahead


class Bench:
    """Runs one phase.

    Args:
        hw: The hardware.
        emit: Observer of slices of time, or None.

    Attributes:
        cores: Its lanes, in the order in which they were added.
    """

    def __init__(self, hw: Hardware, emit: Emit | None) -> None:
        self._env = Clock()
        self._emit = emit
        self.cores: list[LaneModel] = []
        self._model = FIDELITIES[hw.fidelity]
        self._memories = [self._model.memory(self._env, path.rate) for path in hw.paths]
        self._latencies = [path.latency_cycles for path in hw.paths]
        self._exposed_dispatch = 0
        self._replay_done: simpy.Event | None = None
        self._replay_end = -1
        self._replay_step: Step | None = None

    def add(
        self,
        lane: Lane,
        before: Ahead,
        lead_out: Lead | None,
        *,
        fetch_gate: simpy.Event | None = None,
        start_gate: simpy.Event | None = None,
    ) -> None:
        """A lane of cores; see :class:`~carsim.machine.core.Core`."""
        self.cores.append(
            self._model.lane(
                self._env,
                f"lane {len(self.cores)} (x{lane.cores})",
                lane.steps,
                lane.cores,
                self._memories,
                self._latencies,
                lead_in_bytes=before.nbytes,
                is_streaming=before.streaming,
                lead_out=lead_out,
                fetch_gate=fetch_gate,
                start_gate=start_gate,
                emit=self._emit,
            )
        )

    def dispatch(self, exposed_cycles: int) -> simpy.Event:
        """The dispatcher; returns the event of its last instruction."""
        dispatched = self._env.event()
        self._exposed_dispatch = exposed_cycles
        self._env.process(dispatch(self._env, exposed_cycles, dispatched))
        if self._emit is not None and exposed_cycles:
            self._emit("DRS", CATEGORY_LABELS[Category.DRS], 0, exposed_cycles)
        return dispatched

    def replay(self, step: Step, dispatched: simpy.Event) -> None:
        """The replaying sequences, beside the lanes."""
        self._replay_step = step
        self._replay_done = self._env.process(self._replay(step, dispatched))

    def run(self, bound: Bound, wasted_bytes: int = 0) -> PhaseResult:
        """Run to the end of the phase."""
        for core in self.cores:
            self._env.run_to(core.done)
            for side in core.sides:
                self._env.run_to(side)
        if self._replay_done is not None:
            self._env.run_to(self._replay_done)
        end = self._env.cycle
        steps = [step for core in self.cores for step in core.executed]
        if self._replay_step is not None:
            steps.append(self._replay_step)
        ahead = self._ahead()
        if self._emit is not None:
            for core in self.cores:
                if 0 <= core.lead_begun < end:
                    self._emit(
                        f"{core.name} fetch", "ahead, for the next phase", core.lead_begun, end
                    )
        moved = [memory.moved_bytes for memory in self._memories]
        for core in self.cores:
            for path, nbytes in core.unfetched_lead(ahead.nbytes):
                moved[path] -= nbytes
        times, compute_cycles = self._critical(end)
        return PhaseResult(
            cycles=end,
            times=times,
            compute_cycles=compute_cycles,
            busy_cycles=sum([step.busy_cycles for step in steps]),
            macs=sum([step.macs for step in steps]),
            vector_ops=sum([step.vector_ops for step in steps]),
            sram_bytes=sum([step.sram_bytes for step in steps]),
            dram_bytes=tuple(moved),
            wasted_bytes=wasted_bytes,
            peak_weight_buffer_bytes=max(core.weight_buffer.peak_bytes for core in self.cores)
            if self.cores
            else 0,
            peak_kv_buffer_bytes=max(core.kv_buffer.peak_bytes for core in self.cores)
            if self.cores
            else 0,
            bound_cycles=bound.cycles,
            bound_dram_bytes=bound.dram_bytes,
            ahead=ahead,
        )

    def _replay(self, step: Step, dispatched: simpy.Event) -> Generator[simpy.Event, Any, None]:
        if not dispatched.triggered:
            yield dispatched
        begun = self._env.cycle
        yield self._env.timeout(self._latencies[step.path])
        yield self._memories[step.path].start(step.stream_bytes).done
        yield self._env.timeout(step.cycles)
        self._replay_end = self._env.cycle
        if self._emit is not None:
            self._emit("replay", CATEGORY_LABELS[Category.REPLAY], begun, self._replay_end)

    def _ahead(self) -> Ahead:
        leads = [core.lead_out_bytes() for core in self.cores if core.lead_out is not None]
        if not leads:
            return Ahead()
        return levelled(*min(leads))

    def _critical(self, end: int) -> tuple[tuple[int, ...], int]:
        """Times by category along the lane that ended last, and its compute cycles."""
        times = [0] * len(CATEGORY_LABELS)
        compute_cycles = 0
        working = [core for core in self.cores if core.executed]
        if working:
            last = max(working, key=lambda core: core.step_ends[-1])
            times = list(last.times)
            compute_cycles = sum([step.pre_cycles + step.cycles for step in last.executed])
        times[Category.DRS] += self._exposed_dispatch
        # What is left after the last core: a replay that took longer, or writes that drain.
        late = Category.REPLAY if self._replay_end == end else Category.WAIT_DDR
        times[late] += end - sum(times)
        return tuple(times), compute_cycles
