"""Fluid against tile fidelity over drawn designs of every regime.

Designs are drawn with one seed until each regime has its share, and only those that fit their board
count. What they are drawn from is in ``data/drawn_designs.yaml``; contexts are 64 to 3,000 tokens,
decisions replay none to all. The regime of a design is what limits most of its time: compute,
memory, port or dependency, see :mod:`carsim.account.limits`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.account.limits import phase_limits, shares_by_limit
from carsim.account.simulation import simulate_policy
from carsim.base.yaml_file import parse_yaml
from carsim.cost.fit import check_fit
from carsim.decisions.replay import FASTCAR
from carsim.design import Design, load_design, override
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.metrics.comparison import Comparison
from carsim.validate.part import Group, Part
from carsim.workload.geometry import Video

REGIMES = ("compute", "memory", "port", "dependency")
MEDIAN_BOUND = 0.01
"""Stated bound of the median relative difference between the two fidelities."""

WORST_BOUND = 0.05
"""Stated bound of the largest relative difference between the two fidelities."""

SEED = 20250521
"""Seed of all draws."""

FULL_PER_REGIME = 50
"""Designs of each regime in the full form."""

SHORT_PER_REGIME = 5
"""Designs of each regime in the short form."""

STEPS = 3
"""Steps simulated per design: one that computes everything, two with decisions."""

Bools = NDArray[np.bool_]


def validate_fidelity(
    progress: Callable[[str], None] = lambda _: None,
    *,
    seed: int = SEED,
    per_regime: int = FULL_PER_REGIME,
) -> Part:
    """Draw and simulate designs until every regime has ``per_regime`` of them.

    Args:
        progress: Told how far it has come.
        seed: Seed of all draws.
        per_regime: Designs of each regime; further ones of a full regime are not simulated.
    """
    rng = np.random.default_rng(seed)
    text = (files("carsim.validate") / "data" / "drawn_designs.yaml").read_text(encoding="utf-8")
    space = parse_yaml(text, "drawn_designs.yaml")
    base = override(load_design(space["base"]), space["fixed"])
    rows: dict[str, list[Comparison]] = {regime: [] for regime in REGIMES}
    number = 0
    while any(len(of_regime) < per_regime for of_regime in rows.values()):
        number += 1
        design = drawn_design(base, space, rng, starved=len(rows["dependency"]) < per_regime)
        context = int(rng.integers(64, 3000))
        replay = _drawn_replay(design, rng)
        if not check_fit(design, _video(context)).fits:
            continue
        fluid, regime = cycles(design, "fluid", context, replay)
        if len(rows[regime]) >= per_regime:
            continue
        tile, _ = cycles(design, "tile", context, replay)
        rows[regime].append(
            Comparison(
                f"draw {number}: {design.machine.mapping}, {design.machine.weight_sharing}",
                tile,
                ours=fluid,
                rival=None,
                bound=None,
                source="fidelity tile",
                unit="cycles",
            )
        )
        n_drawn = sum(len(of_regime) for of_regime in rows.values())
        progress(f"{n_drawn} of {len(REGIMES) * per_regime} designs")
    all_rows = tuple(row for of_regime in rows.values() for row in of_regime)
    bounds = {"median": MEDIAN_BOUND, "worst": WORST_BOUND}
    groups = [Group("all designs", all_rows, bounds=bounds, shown=False)]
    for regime, of_regime in rows.items():
        groups.append(Group(f"limited by {regime}", tuple(of_regime), shown=False))
    title = "Latency at fidelity fluid against fidelity tile, over drawn designs"
    return Part("fidelity", title, tuple(groups))


def drawn_design(
    base: Design, space: Mapping[str, Any], rng: np.random.Generator, *, starved: bool
) -> Design:
    """A design of the space.

    Args:
        base: What the draws override.
        space: Contents of ``drawn_designs.yaml``.
        rng: Source of randomness.
        starved: Too few designs are limited by dependencies.
    """
    chosen: dict[str, Any] = {}
    for choices in space["drawn"].values():
        chosen |= choices[int(rng.integers(len(choices)))]
    if rng.random() < 0.5 and starved:
        chosen |= space["slow"]
    return override(base, chosen)


def _drawn_replay(design: Design, rng: np.random.Generator) -> Bools:
    """Decisions, bool[STEPS, L, B]; the first step computes everything."""
    shape = (STEPS, design.model.body.n_layers, design.policy.batch)
    replay: Bools = rng.random(shape) < rng.choice([0.0, 0.3, 0.6, 0.9])
    replay[0] = False
    return replay


def _video(context: int) -> Video:
    """Two frames, so that the middle steps attend to about ``context`` tokens."""
    return Video(n_frames=2, tokens_per_frame=context, prompt_tokens=1)


def cycles(design: Design, fidelity: str, context: int, replay: Bools) -> tuple[int, str]:
    """Simulate three steps: the last of the first frame, the first and last of the second.

    The only place of this part that calls the machine.

    Args:
        design: The design.
        fidelity: Of the simulation.
        context: Tokens of a frame.
        replay: Decisions, bool[STEPS, L, B].

    Returns:
        Cycles without the prompt, and what limits most of them.
    """
    phases = Phases(Hardware(design), fidelity)
    steps = (context - 1, context, 2 * context - 1)
    policy = design.policy
    plan = Plan(
        phases,
        _video(context),
        attention=policy.attention,
        schedule=policy.schedule,
        rule=FASTCAR,
        steps=steps,
    )
    simulation = simulate_policy(plan, Batches(replay[None], 1, 0, "independent", "drawn"))
    # One token of prompt is no prefill worth comparing.
    totals = {name: total for name, total in simulation.totals.items() if name != "prefill"}
    by_limit = shares_by_limit(phase_limits(replace(simulation, totals=totals)))
    largest_limit = next(iter(by_limit))
    return sum(total.cycles for total in totals.values()), largest_limit
