"""The commands of one memory channel from refresh to refresh, by the timings of its standard.

Model: a controller keeps a queue of reads and one of writes, sorted by bank. Each command - column
command, precharge, activate - is issued at the clock that the timings allow earliest; commands that
may go at the same clock go round robin over the banks, from the one after the last served. A bank
serves the oldest request to its open row, else the oldest request at all, closing the row as soon
as no request for it waits. All commands share one command bus where the standard has only one.
Round robin and precharges on the bus both matter: with column commands always first and precharges
free, four activates per tFAW = 23 clocks lock into a rhythm of 24.

Writes wait for their turn: they are drained in a batch that begins when the queue is four fifths
full (or no read waits) and ends when it is down to a fifth and a read waits. A read holds its slot
of the window until its data has come and its entry of the queue until its column command; the
requester fills what is free at once, in its own order.

The channel starts as a refresh leaves it: all banks closed, the queues full. It ends in time for
the next one: all banks precharged, then tRFC. So every loss to refresh - the refresh itself, the
wait for precharge, rows opened again - is in the count.

Time is in clocks of the DRAM and jumps from command to command, so that an interval takes
milliseconds; nothing is rounded and nothing is drawn at random.

Simplifications: one rank; refreshes are all-bank, neither postponed nor pulled in; a request is
accepted one clock after it arrives and the requester answers data one clock later, whatever lies
between them; no request is preferred because it has waited long.
"""

from collections import deque
from collections.abc import Iterator

from carsim.hardware.memory.base import MemoryStandard
from carsim.hardware.memory.traffic import Burst

ACCEPT_NCK = 1
"""Clocks from the arrival of a request to the first command that it can cause."""

REFILL_NCK = 1
"""Clocks from the last data of a request to the arrival of the one that takes its slot."""

DRAIN_FROM = 0.8
"""Fill of the write queue at which a batch of writes begins (Ramulator 2's default)."""

DRAIN_TO = 0.2
"""Fill of the write queue at which a batch of writes ends (Ramulator 2's default)."""

READ = 0
WRITE = 1

_NEVER = 1 << 60
_NONE, _COLUMN, _PRECHARGE, _ACTIVATE = range(4)


class _Bank:
    """State of one bank and the command that it is due next."""

    def __init__(self, number: int, standard: MemoryStandard) -> None:
        self.number = number
        self.group = number % standard.bank_groups
        # Place in the round robin: the banks of a group one after the other.
        self.order = self.group * standard.banks_per_group + number // standard.bank_groups
        self.row = -1  # none is open
        # Earliest clocks of activate, column command and precharge that the bank itself allows.
        self.act_at = 0
        self.col_at = 0
        self.pre_at = 0
        # Requests that wait, per direction, in order of age: (row, clock of arrival).
        self.queues: tuple[list[tuple[int, int]], ...] = ([], [])
        self.known_at = 0  # since when the controller knows that the bank needs another row
        # The command that is due, as :meth:`update` leaves it.
        self.due = _NONE
        self.head = 0
        self.ready_at = 0

    def update(self, direction: int) -> None:
        """Find the command that is due after a change of this bank."""
        queue = self.queues[direction]
        if not queue:
            self.due = _NONE
            return
        for head, (row, arrival) in enumerate(queue):
            if row == self.row:
                self.due = _COLUMN
                self.head = head
                self.ready_at = max(self.col_at, arrival)
                return
        if self.row >= 0:
            self.due = _PRECHARGE
            self.ready_at = max(self.pre_at, self.known_at)
        else:
            self.due = _ACTIVATE
            self.ready_at = max(self.act_at, self.known_at)


class Channel:
    """A channel and its controller over one refresh interval.

    Args:
        standard: Timings.
        source: What is asked for, in order.
        window: Reads in flight, in bursts.
        queue: Bursts that each queue holds; as many as the window if left out.
    """

    def __init__(
        self,
        standard: MemoryStandard,
        source: Iterator[Burst],
        window: int,
        queue: int | None = None,
    ) -> None:
        t = self._t = standard
        self._source = source
        self._next = next(source)
        self._banks = [_Bank(number, t) for number in range(t.banks)]
        ordered = sorted(self._banks, key=lambda bank: bank.order)
        self._round = [ordered[first:] + ordered[:first] for first in range(t.banks)]
        self._queue = min(window, queue or window)
        # Clocks at which slots are free.
        self._free = (deque([0] * window), deque([0] * self._queue))
        self._waiting = [0, 0]
        self._drain_from = max(1, round(DRAIN_FROM * self._queue))
        self._drain_to = round(DRAIN_TO * self._queue)
        self._direction = READ
        self._now = 0
        self._turn_of = 0  # the bank, by its order, that round robin serves first
        self._bursts = 0
        # Earliest clocks that all banks share: of column commands by direction, of activates.
        self._bus_at = 0
        self._column_at = [0, 0]
        self._group_column_at = [[0] * t.bank_groups, [0] * t.bank_groups]
        self._act_at = 0
        self._group_act_at = [0] * t.bank_groups
        self._window_of_acts = deque([-t.tfaw_nck] * 4, maxlen=4)
        self._set_spacing()

    def _set_spacing(self) -> None:
        """Distances between column commands, and from the last of them to the refresh."""
        t = self._t
        burst = t.burst_nck
        write_done = t.cwl_nck + burst
        # Data of a write may follow that of a read after two clocks: preamble and turn of the bus.
        read_to_write = t.cl_nck + t.tdqsck_nck + burst + 2 - t.cwl_nck
        # Rows: direction of the command; columns: direction of the next one.
        column_to_column = max(t.tccd_s_nck, burst)
        self._spacing = (
            (column_to_column, read_to_write),
            (write_done + t.twtr_s_nck, column_to_column),
        )
        column_to_column_in_group = max(t.tccd_l_nck, burst)
        self._group_spacing = (
            (column_to_column_in_group, read_to_write),
            (write_done + t.twtr_l_nck, column_to_column_in_group),
        )
        self._to_precharge = (t.trtp_nck, write_done + t.twr_nck)
        precharge_at = t.trefi_nck - t.trfc_nck - t.trp_nck
        self._last_at = tuple(precharge_at - clocks for clocks in self._to_precharge)
        self._slot_nck = ACCEPT_NCK + t.cl_nck + t.tdqsck_nck + burst + REFILL_NCK

    def run(self) -> int:
        """Schedule commands until the next refresh.

        Returns:
            Bursts that were read or written until then.
        """
        issue = {_COLUMN: self._move, _PRECHARGE: self._close, _ACTIVATE: self._open}
        family = self._t.family
        # Clocks for which a command occupies the command bus, by the kind of command.
        command_bus_nck = (0, family.column_nck, family.precharge_nck, family.activate_nck)
        while True:
            arrival = self._arrival()
            if arrival <= self._now:
                arrival = self._admit()
            if self._waiting[WRITE] or self._direction == WRITE:
                self._turn()
            bank, issue_at = self._earliest()
            if min(issue_at, arrival) > self._last_at[self._direction]:
                return self._bursts
            if bank is None or arrival <= issue_at:
                self._now = arrival
                continue
            self._now = issue_at
            self._bus_at = issue_at + command_bus_nck[bank.due]
            self._turn_of = (bank.order + 1) % len(self._banks)
            issue[bank.due](bank, issue_at)
            bank.update(self._direction)

    def _arrival(self) -> int:
        """Clock at which the next request finds a slot and an entry of the queue."""
        is_write = self._next.is_write
        slots = self._free[is_write]
        queue_has_room = self._waiting[is_write] < self._queue
        return slots[0] if slots and queue_has_room else _NEVER

    def _admit(self) -> int:
        """Take in the requests that have found a slot by now, and say when the next one does."""
        now = self._now
        while (arrival := self._arrival()) <= now:
            number, row, is_write = self._next
            self._free[is_write].popleft()
            bank = self._banks[number]
            if is_write == self._direction and bank.due == _NONE:
                bank.known_at = now
            bank.queues[is_write].append((row, now))
            self._waiting[is_write] += 1
            bank.update(self._direction)
            self._next = next(self._source)
        return arrival

    def _turn(self) -> None:
        """Choose between reads and writes; where the direction changes, update all banks."""
        reads, writes = self._waiting
        if reads + writes == 0:
            return
        if self._direction == READ:
            changes = writes >= self._drain_from or (writes > 0 and reads == 0)
        else:
            changes = writes == 0 or (writes <= self._drain_to and reads > 0)
        if not changes:
            return
        self._direction = WRITE if self._direction == READ else READ
        for bank in self._banks:
            bank.known_at = max(bank.known_at, self._now)
            bank.update(self._direction)

    def _earliest(self) -> tuple[_Bank | None, int]:
        """The bank whose command may be issued first, and the clock; (None, never) if none may."""
        # The time to simulate an interval is spent here: the loop compares, and calls nothing.
        column_at = self._column_at[self._direction]
        group_column_at = self._group_column_at[self._direction]
        act_at = self._act_at
        group_act_at = self._group_act_at
        floor = max(self._now, self._bus_at)
        best = None
        best_at = _NEVER
        for bank in self._round[self._turn_of]:
            due = bank.due
            if due == _NONE:
                continue
            issue_at = bank.ready_at
            if issue_at < floor:
                issue_at = floor
            if due == _COLUMN:
                if issue_at < column_at:
                    issue_at = column_at
                if issue_at < (group_at := group_column_at[bank.group]):
                    issue_at = group_at
            elif due == _ACTIVATE:
                if issue_at < act_at:
                    issue_at = act_at
                if issue_at < (group_at := group_act_at[bank.group]):
                    issue_at = group_at
            if issue_at < best_at:
                best = bank
                best_at = issue_at
                if issue_at == floor:
                    break
        return best, best_at

    def _close(self, bank: _Bank, at: int) -> None:
        """Precharge the open row, for which no request waits."""
        bank.row = -1
        bank.act_at = at + self._t.trp_nck

    def _open(self, bank: _Bank, at: int) -> None:
        """Activate the row of the bank's oldest request."""
        t = self._t
        oldest_row, _ = bank.queues[self._direction][0]
        bank.row = oldest_row
        bank.col_at = at + t.trcd_nck
        bank.pre_at = at + t.tras_nck
        self._window_of_acts.append(at)
        self._act_at = max(at + t.trrd_s_nck, self._window_of_acts[0] + t.tfaw_nck)
        self._group_act_at[bank.group] = at + t.trrd_l_nck

    def _move(self, bank: _Bank, at: int) -> None:
        """Read or write one burst of the open row."""
        direction = self._direction
        bank.queues[direction].pop(bank.head)
        bank.pre_at = max(bank.pre_at, at + self._to_precharge[direction])
        bank.known_at = at
        for following in (READ, WRITE):
            spacing = self._spacing[direction][following]
            group_spacing = self._group_spacing[direction][following]
            self._column_at[following] = at + spacing
            self._group_column_at[following][bank.group] = at + group_spacing
        # A read holds its slot until its data has come; a write leaves it with its command.
        slot_free_at = at + self._slot_nck if direction == READ else at
        self._free[direction].append(slot_free_at)
        self._waiting[direction] -= 1
        self._bursts += 1
