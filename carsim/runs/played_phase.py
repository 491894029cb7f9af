"""A phase played tile by tile, as slices of tracks, with what each wait waits for.

The spans are those of :mod:`carsim.account.booking`, so that they sum to what a run books. Where a
core works on an operand, the tiles that the SimPy machine has played cut its span further: each
group of tiles has what the core waited for them, and its work on them.

Simplifications: within a group of several tiles, all stalls stand in front of the work; sequences
that one core computes together share its slices, as each tile serves all of them; where a leftover
sequence is split over all cores, it is named on the core that it was assigned to; replaying
sequences are dealt to the cores that add them in turn. A phase of more than :data:`MOST_TILES`
tiles is not played, as in forwards of large networks: it has the moments of fidelity ``fluid``, and
its operands are not cut at tiles.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.account.booking import BUSY, CORE, DISPATCHER, EXCHANGE, REPLAY, Span, spans
from carsim.hardware.schedule import REPLAYS, Schedule
from carsim.machine.arrays import MachineArrays
from carsim.machine.build import build
from carsim.machine.cases import Cases
from carsim.machine.lanes import splits
from carsim.machine.phase import REPLAYER, Outcome, Phase, Timing, outcome
from carsim.machine.solve.solver import solve
from carsim.program.block import Block

if TYPE_CHECKING:
    from carsim.machine.play.core import TileTimes

REPLAYS_TRACK = "replays"
"""Track of cached outputs that are read and added."""

COMPUTES = "computes"
DECIDED_REPLAY = "replays"
"""Decisions."""

IDLE = "idle"
"""A core without work in a phase, which no account books."""

NAMED_REQUESTERS = 2
"""Requesters that a wait names at most, those that the port served longest."""


MOST_TILES = 50_000
"""Tiles of a phase that are played one by one: 1 s at some 20 us a tile. A layer of Wan 1.3B at
480p on a ZCU102 has 1.6 million."""


class Piece(NamedTuple):
    """A slice of a phase, in cycles from its begin.

    Attributes:
        track: Track that it lies on.
        kind: Work or wait, as :mod:`carsim.account.booking` names it; empty for a whole block.
        start: First cycle.
        end: Cycle after the last.
        is_busy: The track works.
        rows: Rows of the phase that it is about.
        decision: :data:`COMPUTES`, :data:`DECIDED_REPLAY` or empty.
        operand: Operand that it is about; empty for none.
        tiles: First and last tile of the operand, from 1; empty for none.
        cause: Track that a wait waits for; empty for none.
        note: What happens, in a sentence; empty where the name says all.
        others: Rows that the core computes that is waited for.
    """

    track: str
    kind: str
    start: int
    end: int
    is_busy: bool = False
    rows: tuple[int, ...] = ()
    decision: str = ""
    operand: str = ""
    tiles: tuple[int, ...] = ()
    cause: str = ""
    note: str = ""
    others: tuple[int, ...] = ()


class Arrow(NamedTuple):
    """An arrow from one slice to another, in cycles from the begin of a phase or a timeline.

    Attributes:
        name: ``instructions``, from the dispatcher to a core; or ``waits for``.
        from_track: Track at which it begins.
        from_cycle: Cycle within the slice at which it begins.
        to_track: Track at which it ends.
        to_cycle: Cycle within the slice at which it ends, not before ``from_cycle``.
    """

    name: str
    from_track: str
    from_cycle: int
    to_track: str
    to_cycle: int


class TileGroup(NamedTuple):
    """Consecutive tiles of an operand, and what the lane did until the last was computed.

    Attributes:
        first: Number of the first tile, from 1.
        last: Number of the last tile.
        start: Cycle at which the lane came to the first.
        stalled: Cycles in which the array waited for these tiles.
        computed: Cycles in which the array worked on them.
    """

    first: int
    last: int
    start: int
    stalled: int
    computed: int

    @property
    def end(self) -> int:
        """Cycle at which the last tile was computed."""
        return self.start + self.stalled + self.computed


def tile_groups(tiles: "Sequence[TileTimes]", start: int, most: int) -> list[TileGroup]:
    """Tiles in groups, each about twice as long as the one before.

    Stalls are longest at the first tiles of an operand, so that these stand alone.

    Args:
        tiles: Tiles of an operand, in order.
        start: Cycle at which the array was ready for the first.
        most: Groups at most.

    >>> from carsim.machine.play.core import TileTimes
    >>> tiles = [TileTimes(arrived=0, begun=5 * n, ended=5 * n + 3, cycles=3) for n in range(1, 9)]
    >>> [(group.first, group.last) for group in tile_groups(tiles, 0, most=4)]
    [(1, 1), (2, 2), (3, 4), (5, 8)]
    >>> tile_groups(tiles, 0, most=1)
    [TileGroup(first=1, last=8, start=0, stalled=19, computed=24)]
    """
    lasts = [1 << number for number in range(most - 1) if 1 << number < len(tiles)]
    groups = []
    first = 1
    for last in [*lasts, len(tiles)]:
        computed = sum(tile.ended - tile.begun for tile in tiles[first - 1 : last])
        end = tiles[last - 1].ended
        stalled = end - start - computed
        groups.append(TileGroup(first, last, start=start, stalled=stalled, computed=computed))
        start = end
        first = last + 1
    return groups


def tiles_text(tiles: Sequence[int]) -> str:
    """Numbers of the first and the last tile in words.

    >>> tiles_text((3, 3)), tiles_text((3, 8))
    ('tile 3', 'tiles 3 to 8')
    """
    first, last = tiles
    return f"tile {first}" if first == last else f"tiles {first} to {last}"


def tile_count(phase: Phase) -> int:
    """Tiles that the lanes of a single phase take in."""
    counts = [-(-step.stream_bytes // np.maximum(1, step.tile_bytes)) for step in phase.steps]
    return int(sum(np.broadcast_to(each, (1, phase.lanes)).sum() for each in counts))


class Unplayed(NamedTuple):
    """What is known of a phase that was not played: no tiles, no services, no instructions.

    Attributes:
        exposed_cycles: Cycles of dispatch still to go when the phase began.
        replay_end: When the last replay was over.
        sent: Instructions; none are known.
    """

    exposed_cycles: int
    replay_end: int
    sent: tuple[tuple[int, int, int, int], ...] = ()

    def tiles_of(self, lane: int, step: int) -> "list[TileTimes]":
        """None."""
        return []

    def served(self, memory: int) -> list[tuple[int, int, int]]:
        """Nothing."""
        return []


class PlayedPhase:
    """A single phase of one design, played tile by tile where it has not too many tiles.

    Args:
        machine: The numbers of one design.
        block: The block.
        schedule: Who computes, where some rows do not.
        cases: One case.
        most_groups: Groups of tiles that an operand is shown in at most.

    Attributes:
        outcome: Time and work of the phase.
    """

    def __init__(
        self,
        machine: MachineArrays,
        block: Block,
        schedule: Schedule | None,
        cases: Cases,
        *,
        most_groups: int,
    ) -> None:
        # SimPy: a run that draws no timeline does not need it.
        from carsim.machine.play.player import PhaseRun, timing_of

        self._machine = machine
        self._block = block
        self._schedule = schedule
        self._cases = cases
        self._most_groups = most_groups
        self._phase: Phase = build(machine, block, schedule, cases)
        self._run: PhaseRun | Unplayed
        self._timing: Timing
        self._tiles = tile_count(self._phase)
        if self._tiles <= MOST_TILES:
            played = PhaseRun(self._phase, 0, watched=True)
            self._run = played
            self._timing = timing_of(self._phase, [played])
        else:
            self._timing = solve(self._phase)
            self._run = Unplayed(
                exposed_cycles=int(self._phase.exposed_cycles[0]),
                replay_end=int(self._timing.replay_end[0]),
            )
        self.outcome: Outcome = outcome(self._phase, self._timing)

    @property
    def is_played(self) -> bool:
        """Whether its tiles were played, as there were not too many."""
        return not isinstance(self._run, Unplayed)

    # ------------------------------------------------------------------ who is where

    @cached_property
    def _is_split(self) -> bool:
        return splits(self._machine, self._block)

    @cached_property
    def _assigned(self) -> NDArray[np.int64]:
        """Core of each row, :data:`REPLAYS` for one that replays."""
        rows = self._cases.rows
        if rows is not None:
            assert self._schedule is not None
            return self._machine.assign(self._schedule, rows.computing)[0]
        by_sequence = self._block.deals == "sequences"
        count = self._machine.batch if by_sequence else self._machine.rows
        return np.asarray(self._machine.home_of(np.arange(count)), np.int64)

    @cached_property
    def _core_at(self) -> list[int]:
        """The core that each place among the loads stands for; the fullest comes first."""
        rows = self._cases.rows
        if rows is None or self._is_split:
            return list(range(self._machine.cores))
        assert self._schedule is not None
        return np.argsort(rows.lanes(self._machine, self._schedule)[0]).tolist()

    def _rows_of(self, core: int) -> tuple[int, ...]:
        """Rows that a core computes."""
        computing = self._assigned != REPLAYS
        own = computing if self._is_split else self._assigned == core
        return tuple(np.flatnonzero(own).tolist())

    @cached_property
    def replaying(self) -> tuple[int, ...]:
        """Rows that replay, where the block holds outputs for them."""
        if self._phase.replay is None:
            return ()
        return tuple(np.flatnonzero(self._assigned == REPLAYS).tolist())

    def _operand(self, step: int) -> str:
        """Name of the operand of a step; what it is, where it has no name, as in forwards."""
        of_phase = self._phase.steps[step]
        if of_phase.operand or of_phase.path < 0:
            return of_phase.operand
        return "K, V" if of_phase.is_kv else "weights"

    def _lane_of(self, place: int) -> int:
        return place if self._phase.lanes > 1 else 0

    def _requester(self, number: int) -> str:
        """Name of a requester of a memory."""
        if number == REPLAYER:
            return "replays"
        return self._lane_name(number - REPLAYER - 1)

    def _lane_name(self, lane: int) -> str:
        return f"core {self._core_at[lane]}" if self._phase.lanes > 1 else "all cores"

    # ------------------------------------------------------------------ slices

    @cached_property
    def _spans(self) -> list[Span]:
        """What is booked, by track in order."""
        every = spans(self._machine, self._phase, self._timing, self.outcome.cycles)
        return [span for span in every if span.end[0] > span.start[0]]

    @cached_property
    def pieces(self) -> list[Piece]:
        """All slices; those of a track nest, and a slice comes after the one that encloses it."""
        by_track: dict[str, list[Span]] = {}
        for span in self._spans:
            by_track.setdefault(span.track, []).append(span)
        place_of = {name: place for place, name in enumerate(self._machine.core_names)}
        pieces: list[Piece] = []
        for track, of_track in by_track.items():
            if track in place_of:
                pieces += self._core_pieces(place_of[track], of_track)
            elif track.startswith("DMA"):
                pieces += self._dma_pieces(track, of_track)
            elif track.startswith("port "):
                pieces += self._port_pieces(of_track)
        return [*self._dispatch_pieces(), *self._replay_pieces(), *pieces, *self._idle_pieces()]

    def _idle_pieces(self) -> Iterator[Piece]:
        """Cores without a computing sequence, which idle for as long as others compute."""
        names = self._machine.core_names
        at_work = {span.track for span in self._spans if span.track in names}
        end = int(self.outcome.cycles[0])
        fullest = self._core_at[0]
        for place, name in enumerate(names):
            if name in at_work or not self._rows_of(fullest):
                continue
            core = self._core_at[place]
            reason = "no computing sequence is left for it"
            if self._schedule is not None and not self._schedule.central:
                reason = "its own sequences replay, and others keep their cores"
            yield Piece(
                f"core {core}",
                IDLE,
                start=0,
                end=end,
                cause=f"core {fullest}",
                note=f"core {core} idles {end:,} cycles: {reason}. It waits for core {fullest}",
                others=self._rows_of(fullest),
            )

    def _core_pieces(self, place: int, of_core: Sequence[Span]) -> Iterator[Piece]:
        """A core: its block, and within it the work and the waits."""
        core = self._core_at[place]
        track = f"core {core}"
        rows = self._rows_of(core)
        decision = COMPUTES if rows and self._cases.rows is not None else ""
        if any(span.state == BUSY and span.step < 0 for span in of_core):
            rows = self._replays_on(place)
            decision = DECIDED_REPLAY
        start = int(of_core[0].start[0])
        end = int(of_core[-1].end[0])
        note = ""
        if not self.is_played:
            note = f"{self._tiles:,} tiles are too many to be shown one by one"
        yield Piece(track, "", start=start, end=end, rows=rows, decision=decision, note=note)
        for step in dict.fromkeys(span.step for span in of_core):
            of_step = [span for span in of_core if span.step == step]
            tiles = self._run.tiles_of(self._lane_of(place), step) if step >= 0 else []
            plain = [self._piece_of(place, span, of_step) for span in of_step]
            for piece in self._operand_pieces(place, step, of_step, tiles) if tiles else plain:
                yield piece._replace(rows=rows, decision=decision)

    def _replays_on(self, place: int) -> tuple[int, ...]:
        """Rows whose cached output a core adds that computes nothing."""
        free = [p for p in range(self._machine.cores) if not self._rows_of(self._core_at[p])]
        return self.replaying[free.index(place) :: len(free)] if place in free else self.replaying

    def _piece_of(self, place: int, span: Span, of_step: Sequence[Span]) -> Piece:
        """A span without tiles as a slice."""
        start = int(span.start[0])
        end = int(span.end[0])
        track = f"core {self._core_at[place]}"
        waits = f"{track} waits {end - start:,} cycles"
        cause = ""
        note = ""
        others: tuple[int, ...] = ()
        kind = span.name
        if span.state == CORE:
            other = self._core_at[span.cause]
            kind = f"waits for core {other}"
            cause = f"core {other}"
            note = f"{waits} for {cause}"
            others = self._rows_of(other)
        elif span.state == DISPATCHER:
            assert self._phase.dispatch is not None
            cause = self._phase.dispatch.schedule.label
            note = f"{waits} for instructions: {cause} still checks those of all sequences"
        elif span.state == REPLAY:
            cause = REPLAYS_TRACK
            note = f"{waits} for replays to be added"
        elif span.state in self._machine.memories:
            cause = f"port {span.state}"
            is_replay = any(other.state == BUSY for other in of_step)
            what = "cached outputs" if is_replay else "writes to be over"
            if span.step >= 0 and not self.is_played:
                what = f"tiles of {self._operand(span.step)}"
            note = f"{waits} for {what}: port {span.state} is at work"
        elif span.state == EXCHANGE:
            note = f"{track} exchanges activations with other cores for {end - start:,} cycles"
        is_busy = span.state == BUSY
        operand = self._operand(span.step) if is_busy and span.step >= 0 else ""
        return Piece(
            track,
            kind,
            start=start,
            end=end,
            is_busy=is_busy,
            operand=operand,
            cause=cause,
            note=note,
            others=others,
        )

    def _operand_pieces(
        self, place: int, step: int, of_step: Sequence[Span], tiles: "Sequence[TileTimes]"
    ) -> Iterator[Piece]:
        """Work on an operand, cut at its tiles.

        Args:
            place: Place of the core among the loads.
            step: Number of the step.
            of_step: Its spans on this core.
            tiles: Tiles of its lane.
        """
        track = f"core {self._core_at[place]}"
        of_phase = self._phase.steps[step]
        operand = self._operand(step)
        for span in of_step:
            if span.state == EXCHANGE:
                yield self._piece_of(place, span, of_step)
        others = [span for span in of_step if span.state != EXCHANGE]
        start = int(others[0].start[0])
        busy = sum(int(span.end[0] - span.start[0]) for span in others if span.state == BUSY)
        work = next(span for span in others if span.state == BUSY)
        lane = self._lane_of(place)
        lead = int(_of_lane(of_phase.pre_cycles, lane) - _of_lane(of_phase.exchange_cycles, lane))
        ready = min(start + lead, tiles[0].begun)
        groups = tile_groups(tiles, ready, self._most_groups)
        at_work = ready - start + sum(group.computed for group in groups)
        memory = list(self._machine.memories)[of_phase.path]

        def shared(worked: int) -> int:
            """Cycles in which this core was busy of the first so many of its lane."""
            return busy * worked // max(1, at_work)

        worked = ready - start
        if shared(worked):
            end = start + shared(worked)
            yield Piece(track, work.name, start=start, end=end, is_busy=True)
        if ready > start + shared(worked):
            yield self._for_slowest(track, start + shared(worked), ready)
        for group in groups:
            numbers = group.first, group.last
            if group.stalled:
                note = f"{track} waits {group.stalled:,} cycles for {tiles_text(numbers)} of "
                yield Piece(
                    track,
                    f"waits for {memory}",
                    start=group.start,
                    end=group.start + group.stalled,
                    operand=operand,
                    tiles=numbers,
                    cause=f"port {memory}",
                    note=f"{note}{operand}: {self._served(of_phase.path, memory, lane, group)}",
                )
            begun = group.start + group.stalled
            done = begun + shared(worked + group.computed) - shared(worked)
            worked += group.computed
            if done > begun:
                yield Piece(
                    track,
                    work.name,
                    start=begun,
                    end=done,
                    is_busy=True,
                    operand=operand,
                    tiles=numbers,
                )
            if group.end > done:
                yield self._for_slowest(track, done, group.end)

    def _for_slowest(self, track: str, start: int, end: int) -> Piece:
        """A wait for the core that has most to do on the same tile, or for instructions."""
        slowest = f"core {self._core_at[0]}"
        waits = f"{track} waits {end - start:,} cycles for"
        dispatch = self._phase.dispatch
        if slowest == track or self._phase.lanes > 1:
            label = "instructions" if dispatch is None else dispatch.schedule.label
            note = f"{waits} instructions"
            return Piece(
                track, "waits for instructions", start=start, end=end, cause=label, note=note
            )
        return Piece(
            track,
            f"waits for {slowest}",
            start=start,
            end=end,
            cause=slowest,
            note=f"{waits} {slowest}",
            others=self._rows_of(self._core_at[0]),
        )

    @cached_property
    def _services(self) -> Mapping[int, NDArray[np.int64]]:
        """What each port served: requester, start and end, int64[services, 3], by memory."""
        return {
            path: np.array([service[:3] for service in self._run.served(path)], np.int64).reshape(
                -1, 3
            )
            for path in range(len(self._phase.latencies))
        }

    def _served(self, path: int, memory: str, lane: int, group: TileGroup) -> str:
        """What a port did while a lane waited for tiles."""
        requester, start, end = self._services[path].T
        stalls_end = group.start + group.stalled if group.first == group.last else group.end
        cycles = np.clip(np.minimum(end, stalls_end) - np.maximum(start, group.start), 0, None)
        total = int(cycles.sum())
        if not total:
            return f"the request is on its way to port {memory}"
        by_requester = np.bincount(requester, weights=cycles)
        longest = np.argsort(-by_requester, kind="stable")[:NAMED_REQUESTERS]
        own = REPLAYER + 1 + lane
        if by_requester[own] == total:
            return (
                f"port {memory} brings them"
                if group.last > group.first
                else (f"port {memory} brings it")
            )
        told = [
            f"{self._requester(int(number))} ({100 * by_requester[number] / total:.0f} %)"
            for number in longest
            if by_requester[number] > 0
        ]
        if len(told) == 1:
            return f"port {memory} serves {told[0].partition(' (')[0]}"
        return f"port {memory} serves {' and '.join(told)}"

    def _dma_pieces(self, track: str, of_track: Sequence[Span]) -> Iterator[Piece]:
        """A DMA, by the core that it belongs to."""
        lane = int(track.removeprefix("DMA").strip() or 0)
        name = f"DMA {self._core_at[lane]}" if self._phase.lanes > 1 else "DMA"
        for span in of_track:
            yield self._transfer(name, span, "")

    def _port_pieces(self, of_track: Sequence[Span]) -> Iterator[Piece]:
        """A port, with the cores that it serves."""
        for span in of_track:
            nobody = span.step < 0 or self._phase.lanes == 1
            receivers = "" if nobody else self._receivers(span.step)
            yield self._transfer(span.track, span, receivers)

    def _receivers(self, step: int) -> str:
        """Cores that an operand goes to."""
        nbytes = np.broadcast_to(self._phase.steps[step].stream_bytes, (1, self._phase.lanes))[0]
        cores = sorted(self._core_at[lane] for lane in np.flatnonzero(nbytes))
        return f" for core{'s' * (len(cores) > 1)} {', '.join(map(str, cores))}"

    def _transfer(self, track: str, span: Span, receivers: str) -> Piece:
        operand = self._operand(span.step) if span.step >= 0 else ""
        cycles = int(span.end[0] - span.start[0])
        is_busy = span.state == BUSY
        note = f"{track} moves {operand or span.name}{receivers} for {cycles:,} cycles"
        if not is_busy:
            note = f"{track} {span.name} for {cycles:,} cycles"
        return Piece(
            track,
            span.name,
            start=int(span.start[0]),
            end=int(span.end[0]),
            is_busy=is_busy,
            operand=operand,
            note=note,
        )

    def _replay_pieces(self) -> Iterator[Piece]:
        """Rows that replay: from their request until they are added."""
        if self._run.replay_end > self._run.exposed_cycles and self.replaying:
            yield Piece(
                REPLAYS_TRACK,
                "replay",
                start=self._run.exposed_cycles,
                end=self._run.replay_end,
                is_busy=True,
                rows=self.replaying,
                decision=DECIDED_REPLAY,
                note="cached outputs are read and added",
            )

    # ------------------------------------------------------------------ the dispatcher

    @cached_property
    def _last_sent(self) -> dict[int, int]:
        """Cycle at which the last instruction of each row was sent."""
        return {row: cycle for cycle, row, _, _ in self._run.sent}

    def _dispatch_pieces(self) -> Iterator[Piece]:
        """The dispatcher; of a central one, the instructions of each row after the other."""
        dispatch = self._phase.dispatch
        if dispatch is None:
            return
        track = dispatch.schedule.label
        start = -int(dispatch.known_cycles[0])
        end = max([start + dispatch.cycles, *self._last_sent.values()])
        if end <= start:
            return
        if not dispatch.schedule.central:
            yield Piece(track, "dispatch", start=start, end=end, is_busy=True)
            return
        yield Piece(track, "", start=start, end=end)
        registers = self._machine.registers
        rows = len(self._assigned)
        begun = start + registers.latch_cycles + rows * registers.scan_cycles_per_sequence
        if begun > start:
            note = "decisions are latched, and each computing sequence gets a core"
            yield Piece(track, "dispatch", start=start, end=begun, is_busy=True, note=note)
        for row, core in enumerate(self._assigned.tolist()):
            sent = self._last_sent.get(row, begun + registers.check_cycles)
            if sent <= begun:
                continue
            told = f"go to core {core}" if core != REPLAYS else "are discarded: it replays"
            yield Piece(
                track,
                "dispatch",
                start=begun,
                end=sent,
                is_busy=True,
                rows=(row,),
                decision=COMPUTES if core != REPLAYS else DECIDED_REPLAY,
                cause="" if core == REPLAYS else f"core {core}",
                note=f"its instructions {told}",
            )
            begun = sent

    # ------------------------------------------------------------------ arrows and slots

    @cached_property
    def arrows(self) -> list[Arrow]:
        """Arrows: from instructions to cores, and from waits to what they wait for."""
        return [*self._instruction_arrows(), *self._wait_arrows()]

    def _instruction_arrows(self) -> Iterator[Arrow]:
        dispatch = self._phase.dispatch
        if dispatch is None or self._is_split:
            return
        blocks = {piece.track: piece for piece in self.pieces if not piece.kind}
        for row, core in enumerate(self._assigned.tolist()):
            block = blocks.get(f"core {core}")
            if core == REPLAYS or block is None or row not in self._last_sent:
                continue
            sent = self._last_sent[row] - 1
            place = self._core_at.index(core)
            begun = int(self._timing.step_start[0][0, self._lane_of(place)])
            yield Arrow(
                "instructions",
                dispatch.schedule.label,
                from_cycle=sent,
                to_track=block.track,
                to_cycle=min(max(begun, sent, block.start), block.end - 1),
            )

    def _wait_arrows(self) -> Iterator[Arrow]:
        by_track: dict[str, list[Piece]] = {}
        for piece in self.pieces:
            if piece.kind:
                by_track.setdefault(piece.track, []).append(piece)
        for piece in self.pieces:
            if piece.is_busy or not piece.cause:
                continue

            def overlap(other: Piece, wait: Piece = piece) -> tuple[int, bool]:
                shared = min(other.end, wait.end) - max(other.start, wait.start)
                return shared, other.is_busy

            causes = [other for other in by_track.get(piece.cause, ()) if overlap(other)[0] > 0]
            if causes:
                cause = max(causes, key=overlap)
                yield Arrow(
                    "waits for",
                    piece.track,
                    from_cycle=piece.start,
                    to_track=cause.track,
                    to_cycle=max(piece.start, cause.start),
                )

    @cached_property
    def full_slots(self) -> list[tuple[int, int]]:
        """Tiles that buffers hold, all lanes together: at the end of each group of tiles."""
        arrivals: list[int] = []
        ends: list[int] = []
        moments = set()
        for lane in range(self._phase.lanes):
            for step in range(len(self._phase.steps)):
                tiles = self._run.tiles_of(lane, step)
                if not tiles:
                    continue
                arrivals += [tile.arrived for tile in tiles]
                ends += [tile.ended for tile in tiles]
                groups = tile_groups(tiles, tiles[0].begun, self._most_groups)
                moments |= {tiles[0].arrived, *(group.end for group in groups)}
        arrived = np.sort(np.array(arrivals, np.int64))
        ended = np.sort(np.array(ends, np.int64))
        return [
            (
                moment,
                int(np.searchsorted(arrived, moment, "right"))
                - int(np.searchsorted(ended, moment, "right")),
            )
            for moment in sorted(moments)
        ]


def _of_lane(figure: NDArray[np.int64], lane: int) -> int:
    """The figure of one lane in the only phase."""
    return int(figure[0, lane if figure.shape[1] > 1 else 0])
