"""A machine whose every figure can be worked out by hand.

Two cores of 32 x 96 multipliers and 1024 vector lanes without pipelines, tiles of 1 KiB in buffers
of 4 KiB, memory of 8 bytes a cycle and 10 cycles of latency. Four sequences, two to a core, of a
model with d = 32, 4 heads of 8, ff = 48, weights and cache of one byte, activations and replay
cache of two. Per core (2 rows) and matrix:

    QKV       32 x 96 = 3072 bytes, norm 1 cycle, products 2 + 2 cycles
    output    32 x 32 = 1024 bytes,               product  2 cycles
    gate, up  32 x 96 = 3072 bytes, norm 1 cycle, product  2 cycles
    down      48 x 32 = 1536 bytes,               product  4 cycles (48 lanes are two tiles of 32)

and 2 x 32 = 64 bytes of replay cache per sequence.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from strategies import raw_design

from carsim.decisions.replay import FASTCAR, ReplayRule
from carsim.design import build_design
from carsim.hardware.schedule import SCHEDULES, Schedule
from carsim.machine.arrays import MachineArrays
from carsim.machine.bounds import Bound
from carsim.machine.build import build
from carsim.machine.cases import Cases, RowCases
from carsim.machine.hardware import Hardware, Path
from carsim.machine.lanes import LaneOp
from carsim.machine.phase import Outcome, Phase
from carsim.machine.phases import Phases
from carsim.program.block import Block
from carsim.program.reads import Reads
from carsim.workload.ops import Category


def block_of(
    phases: Phases, name: str, rule: ReplayRule | None = None, *, decided: bool = True
) -> Block:
    """A block of the first layer, in steps that a rule scores."""
    layer = phases.program(rule, decided=decided).layers[0]
    return next(block for block in layer if block.name == name)


def qkv(phases: Phases, rule: ReplayRule | None = None) -> Outcome:
    """Norm and QKV projection, where a rule scores rows."""
    return phases.of(block_of(phases, "qkv", rule), Cases())


def attend(
    phases: Phases, attended: Any, rule: ReplayRule | None = None, outside: bool = False
) -> Outcome:
    """Dense attention over so many tokens each."""
    reads = Reads.of_tokens(attended)._replace(aligned_outside=outside)
    return phases.of(block_of(phases, "attention", rule), Cases(reads))


def output(phases: Phases, rule: ReplayRule | None = None) -> Outcome:
    """Output projection, where a rule scores rows."""
    return phases.of(block_of(phases, "output", rule), Cases())


def mlp(
    phases: Phases, schedule: Schedule, rows: RowCases, rule: ReplayRule | None = FASTCAR
) -> Outcome:
    """MLPs that some rows skip."""
    block = block_of(phases, "mlp", rule, decided=rows.known_cycles is not None)
    return phases.of(block, Cases(rows=rows), schedule)


def mlp_bound(phases: Phases, n_rows: int, rule: ReplayRule | None = FASTCAR) -> Bound:
    """Lower bound of an MLP by how many rows compute."""
    return phases.bound(block_of(phases, "mlp", rule), n_rows)


def compute(
    phases: Phases,
    computing: str = "1111",
    known: int | None = None,
    *,
    schedule: str = "static",
    rule: ReplayRule | None = FASTCAR,
    home: int = 0,
) -> Outcome:
    """An MLP phase of a video that replays; ``computing`` has a 1 for each that computes."""
    bits = np.array([[bit == "1" for bit in computing]])
    rows = RowCases(bits, None if known is None else np.array([known]), home)
    return mlp(phases, SCHEDULES[schedule], rows, rule)


def built(
    hw: Hardware,
    name: str,
    rule: ReplayRule | None = None,
    *,
    reads: Reads | None = None,
    rows: RowCases | None = None,
    schedule: Schedule | None = None,
) -> Phase:
    """Phases of a block of the first layer, as the rungs are given them."""
    phases = Phases(hw)
    decided = rows is None or rows.known_cycles is not None
    block = block_of(phases, name, rule, decided=decided)
    return build(phases.machine, block, schedule, Cases(reads, rows))


def ideal_hardware(
    *,
    batch: int = 4,
    rate: int = 8,
    second_rate: int | None = None,
    latency: int = 10,
    body: dict[str, Any] | None = None,
    head: dict[str, Any] | None = None,
    **machine: Any,
) -> Hardware:
    """The machine above; ``body`` and further keyword arguments replace fields."""
    array = {"rows": 32, "cols": 96, "pipeline_cycles": 0}
    vector = {"lanes": 1024, "pipeline_cycles": 0}
    raw = raw_design(**({"array": array, "vector": vector} | machine))
    raw["policy"]["batch"] = batch
    raw["model"]["body"] |= body or {}
    raw["model"]["head"] = head or raw["model"]["head"]
    hw = Hardware(build_design(raw, "ideal"))
    # What a DRAM sustains is no figure for a derivation by hand: round ones take its place.
    path = Path("ddr", Fraction(rate), latency, 1.0, 1.0, 1.0)
    second = replace(path, name="second", rate=Fraction(second_rate or rate))
    vars(hw)["paths"] = (path, second)
    vars(hw)["fastest_rates"] = (path.rate, second.rate)
    return hw


def arrays(hw: Hardware) -> MachineArrays:
    """The numbers of a single design."""
    return MachineArrays.of([hw])


APART = {"weights": "ddr", "kv": "ddr", "replay": "second", "head": "ddr"}
"""A placement: cached outputs have a memory of their own."""

TWO_CODES = {
    **{"kind": "depth_transformer", "n_layers": 1, "hidden_size": 16, "n_heads": 2},
    **{"ffn_size": 64, "n_codes": 2, "codebook_size": 10},
}
"""A head of two passes."""


def operand(
    nbytes: Sequence[int], cycles: Sequence[int], tile: int, slots: int, rate: Fraction
) -> LaneOp:
    """An operand of each of several cores."""
    zero, none = np.zeros((1, 1), np.int64), np.zeros(1, np.int64)
    return LaneOp(
        category=Category.MLP,
        pre_cycles=zero,
        exchange_cycles=zero,
        cycles=np.array([cycles]),
        balanced_cycles=np.array([cycles]),
        path=0,
        rate=rate,
        stream_bytes=np.array([nbytes]),
        tile_bytes=np.array([[tile]]),
        slots=slots,
        is_kv=False,
        sides=(),
        busy_cycles=none,
        macs=none,
        vector_ops=none,
        sram_bytes=none,
    )
