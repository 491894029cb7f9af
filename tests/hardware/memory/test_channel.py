"""The schedule of a channel: each timing holds to the clock, and no command comes late."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from carsim.hardware.memory import STANDARDS, AccessPattern, MemoryStandard
from carsim.hardware.memory.channel import Channel
from carsim.hardware.memory.traffic import Burst, bursts

DDR4 = STANDARDS["DDR4-2400"]
NAMES = ["DDR3-1600", "DDR4-2400", "DDR4-3200-x16", "LPDDR4-4267", "HBM2-2000"]
Command = tuple[int, str, int, int]
"""Clock, command, bank, row."""


class Recorded(Channel):
    """A channel that keeps its commands."""

    def __init__(self, *given: Any) -> None:
        self.commands: list[Command] = []
        super().__init__(*given)

    def _close(self, bank: Any, at: int) -> None:
        self.commands.append((at, "PRE", bank.number, bank.row))
        super()._close(bank, at)

    def _open(self, bank: Any, at: int) -> None:
        super()._open(bank, at)
        self.commands.append((at, "ACT", bank.number, bank.row))

    def _move(self, bank: Any, at: int) -> None:
        self.commands.append((at, ("RD", "WR")[self._direction], bank.number, bank.row))
        super()._move(bank, at)


def schedule(timings: MemoryStandard, source: Iterator[Burst], window: int = 32) -> list[Command]:
    """Run one interval and return its commands in order of time."""
    channel = Recorded(timings, source, window)
    assert channel.run() == sum(name in ("RD", "WR") for _, name, _, _ in channel.commands)
    return sorted(channel.commands)


def of_access(timings: MemoryStandard, access: AccessPattern) -> list[Command]:
    burst_bytes = timings.burst_length * timings.channel_bits // 8
    window = access.requests * access.bursts_per_request(timings, burst_bytes)
    return schedule(timings, bursts(timings, access, burst_bytes), window)


def repeat(*listed: tuple[int, int, bool]) -> Iterator[Burst]:
    """The bursts listed, over and over."""
    return (Burst(*each) for each in itertools.cycle(listed))


def clocks(commands: list[Command], name: str) -> list[int]:
    return [clock for clock, found, _, _ in commands if found == name]


# Sentences, worked out by hand.


def test_a_conflict_precharges_after_tras_and_activates_trp_later() -> None:
    commands = schedule(DDR4, repeat((0, 7, False), (0, 8, False)), window=2)
    # the read at tRCD = 17 frees the bank at 17 + tRTP = 26, but the row is open until tRAS = 39
    assert commands[:4] == [
        (0, "ACT", 0, 7),
        (17, "RD", 0, 7),
        (39, "PRE", 0, 7),
        (39 + 17, "ACT", 0, 8),
    ]


def test_a_fifth_activate_waits_for_the_window_of_four() -> None:
    commands = schedule(DDR4, repeat(*((bank, bank, False) for bank in range(16))))
    # tRRD_S = 4 between the first four, then tFAW = 26 from the first
    assert clocks(commands, "ACT")[:5] == [0, 4, 8, 12, 26]


def test_reads_of_one_bank_group_are_tccd_l_apart_and_of_two_tccd_s() -> None:
    one = schedule(DDR4, repeat((0, 1, False)))
    two = schedule(DDR4, repeat((0, 1, False), (1, 1, False)))
    assert {b - a for a, b in itertools.pairwise(clocks(one, "RD"))} == {DDR4.tccd_l_nck}
    assert clocks(two, "RD")[-1] - clocks(two, "RD")[-2] == DDR4.tccd_s_nck
    alone = clocks(schedule(STANDARDS["DDR4-1866"], repeat((0, 1, False)), window=1), "RD")
    assert alone[1] - alone[0] == 13 + 4 + 2, "CL, data, and a clock each to refill and to accept"


def test_a_row_that_a_waiting_request_wants_stays_open() -> None:
    # Row 8 is asked for before the second burst of row 7, which still goes first.
    source = repeat((0, 7, False), (0, 8, False), (0, 7, False), (0, 8, False))
    commands = schedule(DDR4, source, window=4)
    assert [(name, row) for _, name, _, row in commands][:6] == [
        ("ACT", 7), ("RD", 7), ("RD", 7), ("PRE", 7), ("ACT", 8), ("RD", 8),
    ]  # fmt: skip


def test_writes_wait_and_are_drained_in_batches() -> None:
    commands = of_access(DDR4, AccessPattern(read_fraction=0.5, chunk_bytes=1024))
    kinds = [name for _, name, _, _ in commands if name in ("RD", "WR")]
    batches = [len(list(same)) for name, same in itertools.groupby(kinds) if name == "WR"]
    # 32 fit the queue: from 26 on they are drained down to 6, and those that come meanwhile too
    assert min(batches[:-1]) >= 20


def test_the_bus_turns_when_the_queue_of_writes_is_four_fifths_full() -> None:
    # Of seven reads and a write in turn, the 26th of 32 writes comes behind 26 x 7 reads, of which
    # 32 may be under way.
    commands = schedule(DDR4, repeat(*[(0, 7, False)] * 7, (1, 7, True)))
    kinds = [name for _, name, _, _ in commands if name in ("RD", "WR")]
    assert 26 * 7 - 32 <= kinds.index("WR") <= 26 * 7


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bank", [0, 1])
def test_a_turn_of_the_bus_takes_what_the_datasheet_says(name: str, bank: int) -> None:
    """Reads of bank 0, writes of bank 0 or 1, all rows open: only the turn is in the way."""
    t = STANDARDS[name]
    commands = schedule(t, repeat((0, 1, False), (bank, 1, True)), window=4)
    columns = [(clock, command) for clock, command, _, _ in commands if command in ("RD", "WR")]
    turns = defaultdict(set)
    for (before, first), (after, second) in itertools.pairwise(columns[20:]):
        turns[first, second].add(after - before)
    wait = t.twtr_l_nck if bank % t.bank_groups == 0 else t.twtr_s_nck
    assert min(turns["RD", "WR"]) == t.cl_nck + t.tdqsck_nck + t.burst_nck + 2 - t.cwl_nck
    assert min(turns["WR", "RD"]) == t.cwl_nck + t.burst_nck + wait


def test_all_banks_are_precharged_in_time_for_the_refresh() -> None:
    for access in (
        AccessPattern(),
        AccessPattern(chunk_bytes=64, random=True),
        AccessPattern(read_fraction=0.0),
    ):
        commands = of_access(DDR4, access)
        refresh_at = DDR4.trefi_nck - DDR4.trfc_nck
        last = commands[-1]
        done = {"RD": DDR4.trtp_nck, "WR": DDR4.cwl_nck + DDR4.burst_nck + DDR4.twr_nck}
        columns = [command for command in commands if command[1] in done]
        assert all(clock + done[name] + DDR4.trp_nck <= refresh_at for clock, name, _, _ in columns)
        assert last[0] > refresh_at - 200  # and not much earlier


# Every rule for every pair of commands, checked by a plain reading of the datasheet.


def spacing(t: MemoryStandard, first: Command, second: Command) -> int:
    """Clocks that must lie between two commands, in this order; very negative where none must."""
    same_bank = first[2] == second[2]
    same_group = first[2] % t.bank_groups == second[2] % t.bank_groups
    write_done = t.cwl_nck + t.burst_nck
    rules = {
        ("ACT", "ACT"): max(
            t.trrd_l_nck if same_group else t.trrd_s_nck, t.tras_nck + t.trp_nck if same_bank else 0
        ),
        ("ACT", "RD"): t.trcd_nck if same_bank else None,
        ("ACT", "WR"): t.trcd_nck if same_bank else None,
        ("ACT", "PRE"): t.tras_nck if same_bank else None,
        ("PRE", "ACT"): t.trp_nck if same_bank else None,
        ("RD", "PRE"): t.trtp_nck if same_bank else None,
        ("WR", "PRE"): write_done + t.twr_nck if same_bank else None,
        ("RD", "RD"): t.tccd_l_nck if same_group else t.tccd_s_nck,
        ("WR", "WR"): t.tccd_l_nck if same_group else t.tccd_s_nck,
        ("WR", "RD"): write_done + (t.twtr_l_nck if same_group else t.twtr_s_nck),
        ("RD", "WR"): t.cl_nck + t.tdqsck_nck + t.burst_nck + 2 - t.cwl_nck,
    }
    rule = rules.get((first[1], second[1]))
    return -(1 << 30) if rule is None else rule


ACCESSES = [
    AccessPattern(),
    AccessPattern(chunk_bytes=64, random=True),
    AccessPattern(chunk_bytes=1024, random=True, read_fraction=0.6),
    AccessPattern(5, 256, read_fraction=0.8, outstanding=12),
    AccessPattern(chunk_bytes=64, random=True, read_fraction=0.0),
]


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_is_broken_and_every_rule_binds_somewhere(name: str) -> None:
    timings = STANDARDS[name]
    slack: dict[tuple[str, str, bool], int] = defaultdict(lambda: 1 << 30)
    windows = []
    for access in ACCESSES:
        commands = of_access(timings, access)
        assert len(commands) > 200
        for index, second in enumerate(commands):
            for first in reversed(commands[max(0, index - 40) : index]):
                rule = spacing(timings, first, second)
                if rule < 0:
                    continue
                room = second[0] - first[0] - rule
                assert room >= 0, (access, first, second)
                grouped = first[2] % timings.bank_groups == second[2] % timings.bank_groups
                key = (first[1], second[1], grouped)
                slack[key] = min(slack[key], room)
        acts = clocks(commands, "ACT")
        windows += [later - first for first, later in zip(acts, acts[4:], strict=False)]
    assert min(windows) == max(timings.tfaw_nck, 4 * timings.trrd_s_nck)
    # Nothing is later than it may, but where another rule of the standard always comes first.
    binding = {key for key, room in slack.items() if room == 0}
    for first, second in [("ACT", "RD"), ("ACT", "WR"), ("PRE", "ACT"), ("RD", "PRE")]:
        assert (first, second, True) in binding
    for command in ("RD", "WR"):
        assert (command, command, timings.bank_groups == 1) in binding


@pytest.mark.parametrize("name", NAMES)
def test_column_commands_go_to_rows_that_are_open(name: str) -> None:
    for access in ACCESSES:
        commands = of_access(STANDARDS[name], access)
        open_row: dict[int, int] = {}
        order = {"PRE": 0, "ACT": 1, "RD": 2, "WR": 2}
        for _, command, bank, row in sorted(commands, key=lambda c: (c[0], order[c[1]])):
            if command == "ACT":
                assert bank not in open_row
                open_row[bank] = row
            elif command == "PRE":
                assert open_row.pop(bank) == row
            else:
                assert open_row[bank] == row


@pytest.mark.parametrize("name", ["DDR3-1600", "DDR4-2400", "LPDDR4-4267"])
def test_all_commands_share_the_command_bus(name: str) -> None:
    timings = STANDARDS[name]
    commands = of_access(timings, AccessPattern(chunk_bytes=256, random=True))
    for (clock, command, *_), (later, *_) in itertools.pairwise(commands):
        kind = {"PRE": "precharge", "ACT": "activate"}.get(command, "column")
        assert later - clock >= getattr(timings.family, f"{kind}_nck") > 0
