"""Fluid against tile fidelity over drawn design points of every regime.

Points are drawn with one seed until each regime has its share, and only those that fit their board
count. The ranges: 1 to 8 cores with arrays of 4 x 4 to 64 x 64, batches of 1 to 12, contexts of 64
to 3,000 tokens, decisions that replay none to all, mappings ``batch`` and ``tensor`` (``heads`` has
its phases from these two), all ways of sharing weights, all kinds of prefetch and of decision,
memories of 16 to 64 bits behind one to four ports, interconnects of 20 to 300 ns, buffers of 2 to 8
tiles of 4 to 64 KiB, a scheduler from fast to slow, and bodies of 256 to 2,048 elements. The regime
of a point is what limits most of its time, see :mod:`carsim.machine.limits`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from carsim.design import DenseAttention, Design, load_design, override
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.limits import phase_limits
from carsim.machine.memo import PhaseMemo
from carsim.machine.plan import Plan
from carsim.machine.simulate import Simulation, simulate
from carsim.technology.fit import check_fit
from carsim.workload.geometry import Video

REGIMES = ("compute", "memory", "port", "dependency")
MEDIAN_BOUND, WORST_BOUND = 0.01, 0.05
"""Stated bounds of the relative difference between the two fidelities."""

STEPS = 3
"""Steps simulated per point: one that computes everything, two with decisions."""


@dataclass(frozen=True, slots=True)
class Point:
    """One design point at both fidelities.

    Attributes:
        regime: What limits most of its time.
        sharing: Mapping and weight sharing, in one word.
        fluid_cycles: Latency at fluid fidelity.
        tile_cycles: Latency at tile fidelity.
    """

    regime: str
    sharing: str
    fluid_cycles: int
    tile_cycles: int

    @property
    def difference(self) -> float:
        """Fluid over tile, less one."""
        return self.fluid_cycles / self.tile_cycles - 1


@dataclass(frozen=True)
class FidelityReport:
    """All points of a comparison."""

    points: tuple[Point, ...]

    def differences(self, regime: str | None = None) -> tuple[float, float]:
        """Median and largest absolute difference, of all points or of those of one regime."""
        found = [abs(point.difference) for point in self.points if regime in (None, point.regime)]
        return float(np.median(found)), max(found)

    @property
    def passes(self) -> bool:
        """Both differences are within their bounds."""
        median, worst = self.differences()
        return median <= MEDIAN_BOUND and worst <= WORST_BOUND

    def document(self) -> dict[str, object]:
        """The report as plain data."""
        median, worst = self.differences()
        return {
            "designs": len(self.points),
            "median_difference": median,
            "worst_difference": worst,
            "median_bound": MEDIAN_BOUND,
            "worst_bound": WORST_BOUND,
            "passes": self.passes,
            "points": [asdict(point) | {"difference": point.difference} for point in self.points],
        }


def compare_fidelities(
    seed: int = 20250521, per_regime: int = 50, tell: Callable[[str], None] = lambda _: None
) -> FidelityReport:
    """Draw and simulate points until every regime has ``per_regime`` of them.

    Args:
        seed: Seed of all draws.
        per_regime: Points of each regime; further points of a full regime are not simulated.
        tell: Called with how far it has come.
    """
    rng = np.random.default_rng(seed)
    base = load_design("u280")
    found: list[Point] = []
    have: Counter[str] = Counter()
    while any(have[regime] < per_regime for regime in REGIMES):
        design = _drawn_design(base, rng, starved=have["dependency"] < per_regime)
        plan, batches = _drawn_work(design, rng)
        if not check_fit(design, plan.video).fits:
            continue
        fluid = _simulated(plan, batches, "fluid")
        regime = _regime(fluid)
        if have[regime] >= per_regime:
            continue
        have[regime] += 1
        machine = design.machine
        sharing = "tensor" if machine.mapping == "tensor" else machine.weight_sharing
        tile = _simulated(plan, batches, "tile")
        found.append(Point(regime, sharing, fluid.cycles, tile.cycles))
        tell(f"{len(found)} of {len(REGIMES) * per_regime} designs")
    return FidelityReport(tuple(found))


def _drawn_design(base: Design, rng: np.random.Generator, *, starved: bool) -> Design:
    mapping = str(rng.choice(["batch", "tensor"]))
    sharing = str(rng.choice(["broadcast", "private", "private_per_sequence"]))
    tile_kib = int(rng.choice([4, 16, 64]))
    heads, head_dim = int(rng.choice([4, 8, 16])), int(rng.choice([64, 128]))
    # Short phases with a slow scheduler are what dependencies limit; without a nudge they are rare.
    is_slow = starved and bool(rng.random() < 0.5)
    layer = {"hidden_size": heads * head_dim, "ffn_size": int(rng.integers(512, 4096))}
    return override(
        base,
        {
            "machine.cores": int(rng.integers(1, 9)),
            "machine.array.rows": int(rng.choice([4, 8, 16, 32, 64])),
            "machine.array.cols": int(rng.choice([4, 8, 16, 32, 64])),
            "machine.array.weight_load": str(rng.choice(["none", "rows"])),
            "machine.vector.lanes": int(rng.choice([16, 64])),
            "machine.mapping": mapping,
            "machine.weight_sharing": "broadcast" if mapping == "tensor" else sharing,
            "machine.prefetch": str(rng.choice(["none", "gated", "speculative"])),
            "machine.decision_at": str(rng.choice(["q", "attention", "residual"])),
            "machine.tile_kib": tile_kib,
            "machine.weight_buffer_kib": tile_kib * int(rng.integers(2, 9)),
            "machine.kv_buffer_kib": tile_kib * int(rng.integers(2, 9)),
            "machine.activation_buffer_kib": 4096,
            "machine.drs.instructions_per_sequence": 20_000 if is_slow else 64,
            "machine.include_head": False,
            "machine.placement.replay": "hbm",
            "board.memories.hbm.standard": "DDR4-2400",
            "board.memories.hbm.channels": 1,
            "board.memories.hbm.density_gbit": 8,
            "board.memories.hbm.channel_bits": int(rng.choice([16, 32, 64])),
            "board.memories.hbm.interconnect_ns": float(rng.integers(20, 300)),
            "board.memories.hbm.ports.count": int(rng.integers(1, 5)),
            "board.memories.hbm.ports.bits": int(rng.choice([64, 128])),
            "board.memories.hbm.ports.clock_mhz": 250.0,
            "model.body.n_layers": 2,
            "model.body.n_heads": heads,
            "model.body.n_kv_heads": heads // int(rng.choice([1, 2])),
            **{f"model.body.{key}": value for key, value in layer.items()},
            "policy.batch": int(rng.integers(1, 13)),
            "policy.schedule": str(rng.choice(["static", "drs", "pack"])),
        },
    )


def _drawn_work(design: Design, rng: np.random.Generator) -> tuple[Plan, Batches]:
    """Three steps at one context: one of the first frame, two with drawn decisions."""
    context = int(rng.integers(64, 3000))
    video = Video(2, context, 1)
    shape = (1, STEPS, design.model.body.n_layers, design.policy.batch)
    replay = rng.random(shape) < rng.choice([0.0, 0.3, 0.6, 0.9])
    replay[:, 0] = False
    plan = Plan(
        PhaseMemo(Hardware(design)).phases,
        video,
        DenseAttention(),
        design.policy.schedule,
        True,
        (context - 1, context, 2 * context - 1),
    )
    return plan, Batches(replay, 1, 0, "independent", "drawn for a comparison of fidelities")


def _simulated(plan: Plan, batches: Batches, fidelity: str) -> Simulation:
    memo = PhaseMemo(replace(plan.hw, fidelity=fidelity))
    simulation = simulate(replace(plan, phases=memo.phases), batches, memo)
    # One token of prompt is no prefill worth comparing.
    layers = {name: total for name, total in simulation.totals.items() if name != "prefill"}
    return replace(simulation, totals=layers)


def _regime(simulation: Simulation) -> str:
    cycles: Counter[str] = Counter()
    for limit in phase_limits(simulation):
        cycles[limit.limit] += limit.cycles
    return cycles.most_common(1)[0][0]
