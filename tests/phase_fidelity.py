"""Single phases at fidelity fluid against fidelity tile: python tests/phase_fidelity.py [PHASES].

Designs are those of ``carsim validate fidelity``, of all mappings, some with queues of limited
depth; of each, one phase of a drawn kind. Prints a table for docs/reference/validation.md.
"""

import sys
from collections import defaultdict
from importlib.resources import files
from typing import Any

import numpy as np
from ideal import arrays, built

from carsim.base.yaml_file import parse_yaml
from carsim.decisions.replay import FASTCAR
from carsim.design import Design, load_design, override
from carsim.hardware.schedule import BASELINE
from carsim.machine import play
from carsim.machine.build import build
from carsim.machine.cases import Cases, RowCases
from carsim.machine.hardware import Hardware
from carsim.machine.phase import Phase, outcome
from carsim.machine.phases import Phases
from carsim.machine.solve import solver
from carsim.program.prompt import PromptLayer
from carsim.program.reads import Reads
from carsim.validate.fidelity import drawn_design

SEED = 27
DEPTHS = (1, 16, 48, 64)
"""Instructions in a queue, of 64 a sequence."""


def designs(rng: np.random.Generator) -> Any:
    """Designs of the space, of one more mapping, and some with queues of limited depth."""
    text = (files("carsim.validate") / "data" / "drawn_designs.yaml").read_text(encoding="utf-8")
    space = parse_yaml(text, "drawn_designs.yaml")
    base = override(load_design(space["base"]), space["fixed"])
    while True:
        design = drawn_design(base, space, rng, starved=False)
        if design.machine.mapping == "heads" and rng.random() < 0.5:
            design = override(design, {"machine.mapping": "hybrid"})
        if design.machine.weight_sharing != "broadcast" and rng.random() < 0.5:
            depth = {"machine.drs.core_queue_instructions": int(rng.choice(DEPTHS))}
            design = override(design, depth)
        yield design


def phase_of(design: Design, rng: np.random.Generator) -> Phase:
    """A phase of a drawn kind; every second one is an MLP."""
    hw, rule = Hardware(design), FASTCAR if rng.random() < 0.5 else None
    kind = str(rng.choice(["qkv", "attention", "output", "prefill", *["mlp"] * 4]))
    if kind in ("qkv", "output"):
        return built(hw, kind, rule)
    if kind == "prefill":
        prompt = PromptLayer(tokens=int(rng.integers(1, 65)))
        return build(arrays(hw), prompt, None, Cases())
    if kind == "attention":
        return built(hw, kind, rule, reads=Reads.of_tokens(rng.integers(64, 3000, 1)))
    computing = rng.random((1, hw.batch)) < rng.choice([0.3, 0.6, 1.0])
    schedule = Phases(hw).schedule(design.policy.schedule) if rule else BASELINE
    known = rng.choice([0, 500, 10**6], 1) if rule else None
    return built(hw, kind, rows=RowCases(computing, known), schedule=schedule)


def group_of(design: Design, phase: Phase) -> str:
    """Row of the table."""
    if phase.dispatch is not None and phase.dispatch.queues is not None:
        return "private, queues of limited depth"
    sharing = design.machine.weight_sharing
    return "one stream for all cores" if sharing == "broadcast" else sharing


def main(number: int = 2000) -> None:
    """Compare phases and print the table."""
    rng, errors = np.random.default_rng(SEED), defaultdict(list)
    drawn = designs(rng)
    for _ in range(number):
        design = next(drawn)
        phase = phase_of(design, rng)
        solved, played = (
            int(outcome(phase, rung(phase)).cycles[0]) for rung in (solver.solve, play.play_phases)
        )
        for group in ("all", group_of(design, phase)):
            errors[group].append(solved / played - 1)
    print("| phases | number | equal to the cycle | 95 % within | 99 % within | worst |")
    print("|---|---:|---:|---:|---:|---:|")
    for group, found in sorted(errors.items(), key=lambda each: -len(each[1])):
        sizes = np.abs(found)
        at = [100 * np.quantile(sizes, share) for share in (0.95, 0.99, 1)]
        figures = " | ".join(f"{each:.2f} %" for each in at)
        print(f"| {group} | {len(found)} | {100 * np.mean(sizes == 0):.1f} % | {figures} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
