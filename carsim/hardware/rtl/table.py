"""The table of resources: which units are synthesised, and the CSV that keeps what they take.

Rows of ``grid`` are what :mod:`carsim.hardware.technology.gates` interpolates between; rows ``held
out`` say how far that is off.
"""

import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from amaranth.hdl import Elaboratable

from carsim.decisions.attention.search import MOST_SCORES
from carsim.hardware.rtl.block import BlockSize, SchedulerTop
from carsim.hardware.rtl.checker import Program
from carsim.hardware.rtl.scheduler import OwnChecks, Scheduler
from carsim.hardware.rtl.synthesise import FpgaCounts, fmax_mhz, fpga, gate_equivalents
from carsim.hardware.rtl.tas import Comparator, TasUnit
from carsim.hardware.rtl.topk import Sorter
from carsim.hardware.schedule import BASELINE, DEFAULT, SCHEDULES, Registers

SEQUENCES, CORES, FEWER_CORES = (2, 8, 32, 64), (1, 2, 4, 8, 16), (1, 4, 16)
BLOCKS = ((8, 2, 4), (32, 4, 4), (32, 4, 64), (32, 8, 4), (64, 16, 4))
"""Sequences, cores and entries of a queue of the scheduler blocks."""
HELD_OUT = ((12, 3), (24, 4), (48, 12), (32, 6))

FAST = Registers(latch_cycles=1, scan_cycles_per_sequence=0, cycles_per_instruction=1)
"""The fastest that the gates can be: instructions follow each other cycle by cycle."""


@dataclass(frozen=True)
class RtlUnit:
    """A unit to synthesise; 0 stands for a parameter that it does not have.

    Attributes:
        unit: A schedule by its name, ``block``, ``program``, ``comparator``, ``score``,
            ``sorter``.
        sequences: Most sequences.
        cores: Cores that are served.
        scan_cycles: Cycles of the scan a sequence; where there are none, no Mapping Registers.
        instructions: Of each sequence.
        heads: Query heads that are scored.
        lanes: Products a cycle.
        entries: Scores of a row; instructions in a queue of a block.
        used_for: ``grid`` or ``held out``.
    """

    unit: str
    sequences: int = 0
    cores: int = 0
    scan_cycles: int = 0
    instructions: int = 0
    heads: int = 0
    lanes: int = 0
    entries: int = 0
    used_for: str = "grid"

    def build(self) -> Elaboratable:
        """The unit in Amaranth; a new one each time, as each can be used once."""
        if self.unit in SCHEDULES:
            timing = Registers() if self.scan_cycles else FAST
            registers = timing.model_copy(
                update={
                    "index_register_bits": self.sequences,
                    "instructions_per_sequence": self.instructions,
                }
            )
            if SCHEDULES[self.unit].central:
                return Scheduler(self.unit, self.cores, registers)
            return OwnChecks(self.cores, registers)
        if self.unit == "block":
            return SchedulerTop(BlockSize(self.cores, self.sequences, self.entries))
        if self.unit == "program":
            return Program(self.sequences, self.instructions)
        if self.unit == "score":
            return TasUnit(heads=self.heads, head_dim=128, lanes=self.lanes)
        if self.unit == "sorter":
            return Sorter(self.entries)
        return Comparator()

    @property
    def counts_gates(self) -> bool:
        """Gates are counted, too: not of multipliers and memories, which a chip takes as macros."""
        return self.unit in SCHEDULES or self.unit == "comparator"

    @property
    def is_placed(self) -> bool:
        """Its clock is measured: it has paths from register to register."""
        return self.unit not in ("comparator", "program")

    @property
    def key(self) -> tuple[str, ...]:
        """As it stands in the table."""
        return tuple(str(value) for value in asdict(self).values())


def units() -> Iterator[RtlUnit]:
    """All units of the table."""
    instructions = Registers().instructions_per_sequence
    for kind in (DEFAULT.kind, BASELINE.kind):
        for sequences in SEQUENCES:
            for cores in CORES if kind == DEFAULT.kind else FEWER_CORES:
                yield RtlUnit(kind, sequences, cores, 1, instructions)
    yield RtlUnit("comparator")
    for kind, schedule in SCHEDULES.items():
        # Of the default, what it takes without a scan; of the other central ones, with it.
        scan_cycles = int(kind != DEFAULT.kind)
        for sequences in SEQUENCES[1:] if schedule.central else ():
            for cores in FEWER_CORES[1:]:
                yield RtlUnit(kind, sequences, cores, scan_cycles, instructions)
    for kind in (DEFAULT.kind, BASELINE.kind):
        for sequences, cores in HELD_OUT:
            yield RtlUnit(kind, sequences, cores, 1, instructions, used_for="held out")
    yield RtlUnit(DEFAULT.kind, 32, 4, 1, 4 * instructions, used_for="held out")
    yield RtlUnit("program", 32, instructions=instructions)
    for heads in (32, 1):
        for lanes in (4, 16):
            yield RtlUnit("score", heads=heads, lanes=lanes)
    for entries in (8, 64, 256, MOST_SCORES):
        yield RtlUnit("sorter", entries=entries)
    for sequences, cores, entries in BLOCKS:
        yield RtlUnit("block", sequences, cores, entries=entries)


COLUMNS = [*asdict(RtlUnit("")), *FpgaCounts._fields, "gate_equivalents", "fmax_mhz"]


def make(path: Path, liberty: Path | None) -> Iterator[dict[str, Any]]:
    """Synthesise what the table lacks, a row at a time, so that what is stopped goes on.

    Args:
        path: The CSV; rows that it has are kept.
        liberty: Library of cells; without one, gate equivalents stay empty.

    Yields:
        Each new row.
    """
    done: dict[tuple[str, ...], dict[str, Any]] = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as lines:
            done = {key_of(row): row for row in csv.DictReader(lines)}
    for unit in units():
        row = done.get(unit.key)
        if row is None:
            row = {**asdict(unit), **fpga(unit.build())._asdict()}
            if liberty is not None and unit.counts_gates:
                row["gate_equivalents"] = f"{gate_equivalents(unit.build(), liberty):.0f}"
        elif row.get("fmax_mhz") or not unit.is_placed:
            continue
        if unit.is_placed:
            row["fmax_mhz"] = f"{fmax_mhz(unit.build()):.0f}"
        done[unit.key] = row
        with path.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(done[each.key] for each in units() if each.key in done)
        yield row


def key_of(row: dict[str, str]) -> tuple[str, ...]:
    """Of a row of the table, as :attr:`RtlUnit.key`."""
    return tuple(row[name] for name in asdict(RtlUnit("")))
