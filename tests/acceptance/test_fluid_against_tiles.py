"""The fluid model against a tile-by-tile recurrence that shares nothing with it but its inputs.

One lane, tiles in program order, K slots per buffer: a tile is requested when its slot is free,
served one after the other, computed on when it is whole and the tile before is done. That is a
max-plus recurrence, evaluated below without an event loop.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from carsim.machine.bench import FIDELITIES, Ahead, Bench
from carsim.machine.bound import Bound
from carsim.machine.lane import Step
from carsim.machine.lowering import Lane, OpOf, lower
from strategies import raw_design

from carsim.design import build_design
from carsim.machine.hardware import Hardware
from carsim.workload.ops import attend_op, mlp_ops, output_op, qkv_op


def tile_cycles(steps: Sequence[Step], rates: Sequence[Fraction], latencies: Sequence[int]) -> int:
    """Cycles of one lane, tile by tile."""
    done = Fraction(0)
    requested = Fraction(0)
    served = [Fraction(0)] * len(rates)
    freed: dict[bool, list[Fraction]] = {False: [], True: []}
    for step in steps:
        done += step.pre_cycles
        if step.path < 0:
            done += step.cycles
            continue
        slots = step.buffer_bytes // step.tile_bytes
        tiles = -(-step.stream_bytes // step.tile_bytes)
        for tile in range(tiles):
            nbytes = min(step.tile_bytes, step.stream_bytes - tile * step.tile_bytes)
            history = freed[step.is_kv]
            slot_free = history[-slots] if len(history) >= slots else Fraction(0)
            requested = max(requested, slot_free)
            begin = max(requested + latencies[step.path], served[step.path])
            arrived = served[step.path] = begin + nbytes / rates[step.path]
            done = max(done, arrived) + Fraction(step.cycles * nbytes, step.stream_bytes)
            history.append(done)
    return int(done)


def drawn_hardware(rng: np.random.Generator) -> Hardware:
    """Machines from compute-bound to memory-bound, operands of tens to hundreds of tiles."""
    raw = raw_design(
        cores=int(rng.integers(1, 9)),
        array={
            "rows": int(rng.integers(4, 65)),
            "cols": int(rng.integers(4, 65)),
            "weight_load": str(rng.choice(["none", "rows"])),
        },
        vector={"lanes": int(rng.integers(4, 65))},
        weight_buffer_kib=int(rng.choice([16, 32, 64])),
        kv_buffer_kib=int(rng.choice([16, 32, 64])),
        tile_kib=int(rng.choice([4, 8])),
        mapping=str(rng.choice(["batch", "tensor"])),
    )
    raw["board"]["memories"]["ddr"] = raw["board"]["memories"]["ddr"] | {
        "channel_bits": int(rng.choice([16, 32, 64])),
        "interconnect_ns": float(rng.integers(20, 300)),
        "ports": {"count": int(rng.integers(1, 5)), "bits": 128, "clock_mhz": 250.0},
    }
    heads = int(rng.choice([8, 16]))
    raw["model"]["body"] |= {
        "hidden_size": heads * int(rng.choice([32, 64])),
        "n_heads": heads,
        "n_kv_heads": heads // int(rng.choice([1, 2])),
        "ffn_size": int(rng.integers(500, 3000)),
    }
    raw["policy"]["batch"] = int(rng.integers(1, 13))
    return Hardware(build_design(raw, "drawn"))


def cycles(hw: Hardware, lane: Lane, fidelity: str) -> int:
    """Cycles of a lane in a phase of its own."""
    bench = Bench(replace(hw, fidelity=fidelity), None)
    bench.add(lane, Ahead(), None)
    return bench.run(Bound(0, ())).cycles


def layer_ops(hw: Hardware, context: int) -> list[OpOf]:
    """A whole layer-step in one phase: what the fluid model splits at barriers is joined here."""
    model = hw.design.model

    def mlp(index: int) -> OpOf:
        return lambda rows, part, n: mlp_ops(model, rows, part, streams=n)[index]

    return [
        lambda rows, part, n: qkv_op(model, rows, part, streams=n),
        lambda rows, part, n: attend_op(model, rows, context, part),
        lambda rows, part, n: output_op(model, rows, part, streams=n),
        mlp(0),
        mlp(1),
    ]


def test_fluid_is_within_one_percent_of_tiles_in_the_median_and_five_at_worst() -> None:
    rng = np.random.default_rng(20250521)
    errors = []
    for _ in range(240):
        hw = drawn_hardware(rng)
        (lane,) = lower(hw, layer_ops(hw, int(rng.integers(64, 3000))), hw.home_loads)
        rates = [path.rate for path in hw.paths]
        latencies = [path.latency_cycles for path in hw.paths]
        expected = tile_cycles(lane.steps, rates, latencies)
        errors.append([cycles(hw, lane, fidelity) / expected - 1 for fidelity in FIDELITIES])
    fluid, tile = np.abs(errors).T
    print(f"fluid against tiles: median {np.median(fluid):.3%}, worst {fluid.max():.3%}")
    assert np.median(fluid) <= 0.01
    assert fluid.max() <= 0.05
    # The tile model is the recurrence with whole cycles, and contention that one lane cannot have.
    assert tile.max() <= 0.002
