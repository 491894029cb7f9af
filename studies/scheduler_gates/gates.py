"""The units in gates: what they take, their Verilog, and how deep queues must be.

    python -m studies.scheduler_gates.gates table [LIBERTY]
    python -m studies.scheduler_gates.gates verilog FOLDER
    python -m studies.scheduler_gates.gates queues [SPREAD]

``table`` synthesises each unit that ``carsim/hardware/technology/data/gates.csv`` lacks (delete the
file to begin anew: half an hour), and counts gates by the cells of LIBERTY. ``verilog`` writes a
file a unit. ``queues`` prints the time of a layer by depth of queue, relative to queues without
end; times of instructions differ by SPREAD (0.5) to both sides of their mean.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from amaranth.hdl import Elaboratable
from numpy.typing import NDArray

from carsim.decisions.attention.search import MOST_SCORES
from carsim.hardware.rtl.block import SCHEDULES, BlockSize, SchedulerTop
from carsim.hardware.rtl.dispatch import TUNED, Dispatcher
from carsim.hardware.rtl.periodic import PeriodicUnit
from carsim.hardware.rtl.synthesise import FpgaCounts, fmax_mhz, fpga, gate_equivalents, verilog
from carsim.hardware.rtl.tas import TasUnit
from carsim.hardware.rtl.topk import Sorter
from carsim.hardware.schedule import DEFAULT, REPLAYS

TABLE = Path(__file__).parents[2] / "carsim/hardware/technology/data/gates.csv"
HELD_OUT = ((12, 3), (24, 4), (48, 12), (32, 6))
BLOCKS = ((8, 2, 4), (32, 4, 4), (32, 4, 64), (32, 8, 4), (64, 16, 4))
DEPTHS = (1, 2, 4, 8, 16, 32, 64)


class RtlUnit(NamedTuple):
    """A unit as the table names it; 0 stands for a parameter that it lacks.

    Attributes:
        unit: A schedule (its dispatcher), ``block`` or ``tuned block``, ``periodic``, ``score`` or
            ``sorter``.
        sequences: Most sequences.
        cores: Cores that are served.
        heads: Query heads that are scored.
        lanes: Products a cycle.
        entries: Scores of a row; instructions in a queue of a block.
        used_for: ``grid``, or ``held out`` of the rows that are interpolated between.
    """

    unit: str
    sequences: int = 0
    cores: int = 0
    heads: int = 0
    lanes: int = 0
    entries: int = 0
    used_for: str = "grid"


def units() -> Iterator[tuple[RtlUnit, Callable[[], Elaboratable]]]:
    """All units, each with what builds it anew."""
    grid = [(sequences, cores) for sequences in (2, 8, 32, 64) for cores in (1, 4, 16)]
    for used_for, sizes in (("grid", grid), ("held out", HELD_OUT)):
        for kind in SCHEDULES:
            for sequences, cores in sizes:
                built = BlockSize(cores, sequences, schedule=kind)
                unit = RtlUnit(kind, sequences, cores, used_for=used_for)
                yield unit, partial(Dispatcher, built)
    for kind, name in ((DEFAULT.kind, "block"), (TUNED, f"{TUNED} block")):
        for sequences, cores, queue in BLOCKS:
            built = BlockSize(cores, sequences, queue, schedule=kind)
            yield RtlUnit(name, sequences, cores, entries=queue), partial(SchedulerTop, built)
    yield RtlUnit("periodic"), PeriodicUnit
    for heads, lanes in ((32, 4), (32, 16), (1, 4), (1, 16)):
        score = partial(TasUnit, heads=heads, head_dim=128, lanes=lanes)
        yield RtlUnit("score", heads=heads, lanes=lanes), score
    for entries in (8, 64, 256, MOST_SCORES):
        yield RtlUnit("sorter", entries=entries), partial(Sorter, entries)


def table(liberty: Path | None = None) -> None:
    """Add rows that the table lacks; what is stopped goes on."""
    columns = (*RtlUnit._fields, *FpgaCounts._fields, "gate_equivalents", "fmax_mhz")
    rows = list(csv.DictReader(TABLE.read_text().splitlines())) if TABLE.exists() else []
    for number, (unit, build) in enumerate(units()):
        key = {name: str(value) for name, value in unit._asdict().items()}
        if number < len(rows) and key.items() <= rows[number].items():
            continue
        row = {**key, **fpga(build())._asdict(), "fmax_mhz": f"{fmax_mhz(build()):.0f}"}
        if liberty is not None and unit.unit in (*SCHEDULES, "periodic"):
            row["gate_equivalents"] = f"{gate_equivalents(build(), liberty):.0f}"
        rows.insert(number, row)
        with TABLE.open("w", newline="") as lines:
            writer = csv.DictWriter(lines, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(row)


def write_verilog(folder: Path) -> None:
    """A file a unit, named by its parameters."""
    folder.mkdir(parents=True, exist_ok=True)
    for unit, build in units():
        name = "_".join(str(part) for part in unit[:-1] if part).replace(" ", "_")
        (folder / f"{name}.v").write_text(verilog(build(), name))


def makespan(
    stream: Sequence[tuple[int, int]], core_of: Sequence[int], cycles: NDArray[np.int64], depth: int
) -> int:
    """Cycles from the first instruction to the end of the last one.

    The block accepts an instruction a cycle, and waits while the queue of its core is full. A core
    takes an instruction when the one before is done; cores do not contend for memory.

    Args:
        stream: (sequence, instruction) in the order of arrival.
        core_of: Core of each sequence.
        cycles: [sequence, instruction] on its core.
        depth: Instructions that a queue holds.
    """
    taken: list[list[int]] = [[] for _ in range(max(core_of) + 1)]
    free = [0] * len(taken)
    now = -1
    for sequence, instruction in stream:
        now += 1
        core = core_of[sequence]
        if core == REPLAYS:
            continue
        before = taken[core]
        if len(before) >= depth:
            now = max(now, before[-depth])
        begin = max(now + 1, free[core])
        before.append(begin)
        free[core] = begin + int(cycles[sequence, instruction])
    return max(free, default=0)


def queues(spread: float = 0.5) -> None:
    """16 sequences of which half compute, 4 cores, 64 instructions of 4,000 cycles; 100 layers."""
    in_turn = [(b, n) for b in range(16) for n in range(64)]
    orders = (in_turn, sorted(in_turn, key=lambda place: place[1]))
    draw, depths = np.random.default_rng(0), (*DEPTHS, len(in_turn))
    totals = np.zeros((len(depths), len(orders)))
    for _ in range(100):
        (core_of,) = DEFAULT.assign(draw.random((1, 16)) < 0.5, 4).tolist()
        cycles = np.rint(4000 * (1 + spread * draw.uniform(-1, 1, (16, 64)))).astype(np.int64)
        totals += [[makespan(order, core_of, cycles, d) for order in orders] for d in depths]
    print("entries, sequence by sequence, interleaved")
    for depth, (one, other) in zip(depths, totals / totals[-1], strict=True):
        print(f"{depth}, {one:.3f}, {other:.3f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["table", *liberty]:
            table(*map(Path, liberty))
        case ["verilog", folder]:
            write_verilog(Path(folder))
        case ["queues", *spread]:
            queues(*map(float, spread))
        case _:
            sys.exit(__doc__)
