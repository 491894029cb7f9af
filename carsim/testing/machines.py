"""Small machines, and the contract of a mapping on them."""

from functools import cache
from itertools import product

import numpy as np

from carsim.design import Design, load_design
from carsim.hardware.mapping import Mapping
from carsim.hardware.schedule import BASELINE
from carsim.machine.cases import Cases, RowCases
from carsim.machine.hardware import Hardware
from carsim.machine.phase import Outcome
from carsim.machine.phases import Phases
from carsim.program.reads import Reads
from carsim.runs.pipeline import run
from carsim.runs.report import Report
from carsim.testing.promise import holds

USUAL = "batch"
"""Mapping whose work all others do, too."""


def small_design(*changes: str) -> Design:
    """The model ``tiny`` on a zcu102, with changes as of the command line."""
    return load_design("zcu102", ["model.preset=tiny", *changes])


@cache
def small_report() -> Report:
    """A run of the small design."""
    return run(small_design(), what_if=False, allow_misfit=True)


def layer_phases(mapping: str, batch: int, cores: int, rows: int) -> dict[str, Outcome]:
    """One phase of each kind; in blocks that rows skip, all sequences compute but the first.

    Args:
        mapping: Name of the mapping.
        batch: Sequences.
        cores: Cores.
        rows: Rows of their arrays, which have four columns.
    """
    design = small_design(
        f"machine.mapping={mapping}",
        f"policy.batch={batch}",
        f"machine.cores={cores}",
        f"machine.array={{rows: {rows}, cols: 4, pipeline_cycles: 0}}",
    )
    phases = Phases(Hardware(design))
    computing = np.ones((1, batch), np.bool_)
    computing[0, 0] = batch == 1
    outcomes = {"head": phases.head, "prefill": phases.prefill_layer(3)}
    for block in phases.program(None, decided=False).layers[0]:
        reads = Reads.of_tokens(20) if block.reads_tokens else None
        of_rows = RowCases(computing, None) if block.follows else None
        outcomes[block.name] = phases.of(block, Cases(reads, of_rows), BASELINE)
    return outcomes


def does_the_same_work(mapping: Mapping) -> None:
    """Equal MACs and bytes as any other mapping, and no more than the arrays can do."""
    for batch, cores, rows in product((1, 3, 5), (1, 3), (1, 4)):
        tested = layer_phases(mapping.kind, batch, cores=cores, rows=rows)
        usual = layer_phases(USUAL, batch, cores=cores, rows=rows)
        for name, outcome in tested.items():
            holds(outcome.macs == usual[name].macs, f"{name}: the multiplications of others")
            holds(outcome.dram_bytes == usual[name].dram_bytes, f"{name}: the bytes of others")
            possible = outcome.cycles * cores * rows * 4
            holds(possible >= outcome.macs, f"{name}: no more than the arrays multiply")
            holds(outcome.cycles >= outcome.bound_cycles, f"{name}: no less than the bound")
            holds(outcome.busy_cycles <= cores * outcome.cycles, f"{name}: busy at most always")
            if cores == 1:
                is_equal = outcome.cycles == usual[name].cycles
                holds(is_equal, f"{name}: on a single core all mappings are one")


MAPPING_CHECKS = (does_the_same_work,)
