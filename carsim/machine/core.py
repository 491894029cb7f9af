"""A compute core (or several in lockstep) working through the steps of a phase.

Model: two processes. *Fetch* brings the operands of the steps in from memory, in order; *compute*
executes the steps, in order. Per step of ``w`` streamed bytes, ``c`` compute cycles, tiles of ``t``
bytes and a buffer of ``Q`` bytes:

* the *lead*, the first min(w, Q) bytes, is fetched once the operands of earlier steps are in and
  the last of them in the same buffer is being read; for as long as it is, room appears only as fast
  as the core consumes, so that is the most that the flow may take;
* the array starts when the step before has ended and the first tile is in;
* the *body*, the rest, follows once the array has started, no faster than the array consumes it;
* the step ends at the later of start + c and (arrival of the last byte) + (time of the last tile).

A fetch that follows another without a gap costs no latency, since requests are in flight ahead of
the data; one that was idle pays the latency of its memory first. Element operations that must
precede the array (norms) run before it; all others run beside it. Writes, and operands so small
that they are not streamed, are side flows: they take bandwidth, nobody waits for them but the
phase.

Simplifications: the level of a buffer is linear between events; a tile is consumed at a constant
rate; instructions reach the core for free (the check of MLP instructions is the dispatcher's).
"""

from collections.abc import Sequence

from carsim.machine.clock import Signal
from carsim.machine.ddr import Flow, FluidMemory
from carsim.machine.lane import LaneModel, Process, Step
from carsim.machine.many import smaller


def last_tile_cycles(step: Step) -> int:
    """Cycles that the array works on the last tile of an operand."""
    return -(-step.cycles * smaller(step.tile_bytes, step.stream_bytes) // step.stream_bytes)


class Core(LaneModel):
    """The fluid model of a lane; see :class:`~carsim.machine.lane.LaneModel` for its arguments."""

    _memories: Sequence[FluidMemory]

    def _prepare(self) -> None:
        streamed = [index for index, step in enumerate(self._steps) if step.path >= 0]
        self._first_tile = {index: Signal(self._env) for index in streamed}
        self._fetched = {index: Signal(self._env) for index in streamed}
        self._started = {index: Signal(self._env) for index in streamed}
        self._fetched_at: dict[int, int] = {}
        self._waits_for = -1
        self._running = -1
        self._run_start = 0
        self._fetching = -1
        self._flow: Flow | None = None
        self._last_flow: Flow | None = None
        self._path = -1
        self._lead_flow: Flow | None = None

    def lead_out_bytes(self) -> tuple[int, int]:
        """Bytes per core fetched by now for the phase that follows, and bytes wanted."""
        if self.lead_out is None:
            return 0, 0
        wanted = self.lead_out.nbytes
        if self._lead_flow is None:
            return 0, wanted
        memory = self._memories[self.lead_out.path]
        return memory.progress_bytes(self._lead_flow, wanted), wanted

    def unfetched_lead(self, kept_bytes: int) -> list[tuple[int, int]]:
        """(Memory, bytes) booked for the next phase beyond the bytes that are kept of it."""
        if self._lead_flow is None or self.lead_out is None:
            return []
        return [(self.lead_out.path, self.cores * (self.lead_out.nbytes - kept_bytes))]

    # ------------------------------------------------------------------ compute

    def _compute_streamed(self, index: int, step: Step) -> Process:
        env = self._env
        self._waits_for = index
        if not self._first_tile[index].triggered:
            yield self._first_tile[index]
        self._array_begun = env.cycle
        self._run(index)
        self._started[index].succeed()
        if not self._fetched[index].triggered:
            yield self._fetched[index]
        last_read = self._fetched_at[index] + last_tile_cycles(step)
        end = max(self._run_start + step.cycles, last_read)
        if end > env.cycle:
            yield env.timeout(end - env.cycle)
        self._buffer(step).release(step.stream_bytes)
        self._waits_for = -1
        self._run(-1)

    def _run(self, index: int) -> None:
        self._running, self._run_start = index, self._env.cycle
        if self._flow is not None:
            self._memories[self._path].set_cap(self._flow, self._cap())

    def _read_bytes(self, is_kv: bool) -> int:
        """Bytes of the step under way that the array has read, if they are in this buffer."""
        if self._running < 0 or self._steps[self._running].is_kv != is_kv:
            return 0
        step = self._steps[self._running]
        elapsed = self._env.cycle - self._run_start
        if elapsed >= step.cycles:
            return step.stream_bytes
        return -(-step.stream_bytes * elapsed // step.cycles)

    # -------------------------------------------------------------------- fetch

    def _fetch(self) -> Process:
        if self._fetch_gate is not None and not self._fetch_gate.triggered:
            yield self._fetch_gate
        held = self._lead_in_bytes
        if held:
            self._buffer(self._steps[0]).arrive(held, 0)
        for index, step in enumerate(self._steps):
            if step.path < 0:
                continue
            yield from self._room(index, step.is_kv)
            self._fetching = index
            first = min(step.stream_bytes, step.tile_bytes)
            lead = min(step.stream_bytes, step.buffer_bytes)
            if held < first:
                yield from self._bring(step, first - held)
                held = first
            self._first_tile[index].succeed()
            if held < lead and not self._needs(index):
                yield from self._bring(step, lead - held)
                held = lead
            if held < step.stream_bytes:
                if not self._needs(index):
                    yield self._started[index]
                yield from self._bring(step, step.stream_bytes - held)
            self._fetched_at[index] = self._env.cycle
            self._fetched[index].succeed()
            held = 0
        if self.lead_out is not None:
            yield from self._room(len(self._steps), self.lead_out.is_kv)
            yield from self._request(self.lead_out.path)
            self._fetching = len(self._steps)
            self.lead_begun = self._env.cycle
            self._lead_flow = self._start_flow(self.lead_out.path, self.lead_out.nbytes)

    def _room(self, index: int, is_kv: bool) -> Process:
        """Wait until the step before in the same buffer is being read, which is what makes room."""
        for before in range(index - 1, -1, -1):
            step = self._steps[before]
            if step.path >= 0 and step.is_kv == is_kv:
                if not self._started[before].triggered:
                    yield self._started[before]
                return

    def _needs(self, index: int) -> bool:
        """The array works on this step, or will in this very cycle."""
        return self._waits_for == index

    def _bring(self, step: Step, nbytes: int) -> Process:
        yield from self._request(step.path)
        begun = self._env.cycle
        flow = self._start_flow(step.path, nbytes)
        yield flow.done
        self._flow = None
        self._buffer(step).arrive(nbytes, self._read_bytes(step.is_kv))
        if self._emit is not None:
            kind = "KV" if step.is_kv else "weights"
            self._emit(f"{self.name} fetch", kind, begun, self._env.cycle)

    def _request(self, path: int) -> Process:
        """Wait for the latency of the memory, unless requests are already in flight."""
        if not self._is_back_to_back(path):
            yield self._env.timeout(self._latencies[path])

    def _is_back_to_back(self, path: int) -> bool:
        if self._is_streaming:
            self._is_streaming = False
            return True
        return self._last_flow is not None and self._follows(self._last_flow, path)

    def _follows(self, last: Flow, path: int) -> bool:
        return last.finished_at == self._env.cycle and path == self._path

    def _start_flow(self, path: int, nbytes: int) -> Flow:
        last = self._last_flow
        spare = last.spare_credits if last is not None and self._follows(last, path) else 0
        self._path = path
        self._flow = self._last_flow = self._memories[path].start(
            nbytes, weight=self.cores, cap=self._cap(), spare_credits=spare
        )
        return self._flow

    def _cap(self) -> tuple[int, int] | None:
        """Bytes and cycles of the step whose consumption makes room for the fetch under way."""
        if self._waits_for == self._fetching and self._first_tile[self._fetching].triggered:
            pace = self._steps[self._fetching]
        elif self._running >= 0:
            pace = self._steps[self._running]
            if pace.is_kv != self._fetches_kv():
                return None
        else:
            return None
        return (pace.stream_bytes, pace.cycles) if pace.cycles else None

    def _fetches_kv(self) -> bool:
        if self._fetching < len(self._steps):
            return self._steps[self._fetching].is_kv
        return self.lead_out is not None and self.lead_out.is_kv
