"""Draw designs, and simulate each with and without fetching ahead across phases.

    git worktree add ../carsim_old 4edbfc4
    PYTHONPATH=../carsim_old python studies/prefetch/measure.py 300 11 designs_11.csv
    PYTHONPATH=../carsim_old python studies/prefetch/measure.py 300 12 designs_12.csv

It runs on commit 4edbfc4, the last one whose machine fetches ahead, and on no later one. Two cores
take four minutes.

Simulated are 5 steps (one of the first frame, four of later ones with drawn decisions) of all
layers; the head and the prompt, where nothing is fetched ahead, are left out. Without fetching
ahead every phase starts with empty buffers.
"""

# ruff: noqa: I001 (packages of another commit)
import csv
import json
import math
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from carsim.cost.fit import check_fit
from carsim.hw import phase as phases_module
from carsim.hw.bench import Ahead, Bench, PhaseResult
from carsim.hw.hardware import Hardware
from carsim.hw.lowering import Lane, lower
from carsim.hw.phase import AttendCase, Phases
from carsim.machine.memo import PhaseMemo
from carsim.machine.patterns import computes_first, pattern_of
from carsim.machine.plan import Plan
from carsim.spec import DenseAttention, Design, StreamingAttention, load_design
from carsim.workload.geometry import Video
from carsim.workload.ops import Category, Stream

MODELS = ("vila_u_7b", "tinyllama_1b", "vila_u_7b", "tinyllama_1b", "tiny")
CONTEXT = {"vila_u_7b": 1100, "tinyllama_1b": 1024, "tiny": 128}
TOKENS_PER_FRAME = {"vila_u_7b": 256, "tinyllama_1b": 256, "tiny": 16}
MEMORIES = {"u280": ("hbm", "ddr"), "zcu102_16gb": ("ps_ddr", "pl_ddr"), "kv260": ("ps_ddr",)}
ARRAYS = [(rows, cols) for rows in (4, 8, 16, 32, 64, 128) for cols in (4, 8, 16, 32, 64, 128)]
BUFFERS = (128, 256, 512, 1024, 2048, 4096)
KV = ({"bits": 8}, {"bits": 4, "group": 128, "scale_bits": 16, "zero_bits": 16})

LEAD = phases_module._lead
"""What the old machine may fetch of a phase before it begins."""

TAIL: dict[int, int] = {}
"""By id of a phase's result: cycles from its last operand's arrival to its end."""

Taken = tuple[str, PhaseResult, int, bool]
"""Kind of a phase, its result, its step, and whether fetching ahead may follow it."""


def draw(rng: np.random.Generator, model: str) -> dict[str, Any]:
    """A design, as its YAML has it."""

    def pick(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    mapping = pick("batch", "batch", "tensor", "heads")
    sharing = "broadcast"
    if mapping == "batch":
        sharing = pick("broadcast", "private", "private_per_sequence")
    cores, batch = int(rng.integers(1, 9)), int(rng.integers(2, 17))
    board = pick("u280", "u280", "zcu102_16gb", "kv260")
    memories = MEMORIES[board]
    weights = memories[0] if rng.random() < 0.7 else memories[-1]
    kv = weights if rng.random() < 0.6 else pick(*memories)
    is_tiny = model == "tiny"
    tile = pick(4, 16) if is_tiny else pick(16, 64)
    return {
        "board": {"preset": board, "fabric_clock_mhz": float(pick(150, 200, 250, 300))},
        "machine": {
            "cores": cores,
            "array": {
                "rows": 16,
                "cols": 16,
                "arithmetic": "int8",
                "dataflow": pick("dot_product", "dot_product", "weight_stationary"),
                "weight_load": pick("none", "none", "rows"),
            },
            "vector": {"lanes": pick(8, 16, 32, 64)},
            "weight_buffer_kib": max(2 * tile, pick(*((16, 64, 128) * is_tiny + BUFFERS))),
            "kv_buffer_kib": max(
                2 * tile, pick(*((16, 64, 128, *BUFFERS[:3]) if is_tiny else BUFFERS))
            ),
            "activation_buffer_kib": 256,
            "tile_kib": tile,
            "weight_sharing": sharing,
            "mapping": mapping,
            "prefetch": pick("none", "gated", "speculative"),
            "decision_at": pick("q", "attention", "residual"),
            "exchange_bytes_per_cycle": pick(64, 256),
            "include_head": False,
            "placement": {"weights": weights, "kv": kv, "replay": pick(*memories), "head": weights},
        },
        "model": {"preset": model, "kv": pick(*KV)},
        "policy": {"batch": batch, "schedule": pick("static", "drs", "pack")},
        "energy": {"preset": "fpga_16nm"},
    }


def build(raw: dict[str, Any]) -> Design:
    """The design of a mapping."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.yaml"
        path.write_text(yaml.safe_dump(json.loads(json.dumps(raw, default=int))))
        return load_design(str(path))


def balance(raw: dict[str, Any], rows: int, cols: int, context: int) -> float:
    """Compute over bytes of a dense layer-step, as if nothing overlapped."""
    raw["machine"]["array"].update(rows=rows, cols=cols)
    hw = Hardware(build(raw))
    phases = Phases(hw)
    attention = phases._attend(AttendCase(False, context, False, Ahead()))
    mlp = lower(hw, phases._mlp_of(), hw.home_loads)
    compute, nbytes = 0, [0] * len(hw.paths)
    for lanes in (phases._qkv[False], attention, phases._output, mlp):
        compute += max(sum(s.pre_cycles + s.cycles for s in lane.steps) for lane in lanes)
        for lane in lanes:
            for step in lane.steps:
                if step.path >= 0:
                    nbytes[step.path] += lane.cores * step.stream_bytes
    return compute / max(float(n / path.rate) for n, path in zip(nbytes, hw.paths, strict=True))


def walk(plan: Plan, replay: np.ndarray, memo: PhaseMemo) -> list[list[Taken]]:
    """The phases of each step, in order."""
    steps = []
    n_layers = replay.shape[1]
    for decisions, step in zip(replay, plan.steps, strict=True):
        scored, ahead, taken = plan.scored(step), Ahead(), []
        for layer in range(n_layers):
            pattern = pattern_of(plan, decisions[layer], scored)
            computes = computes_first(pattern)
            lead_to_mlp = plan.output_case(scored, computes, Ahead()).mlp_lead
            qkv = memo.layer_phase(plan.qkv_case(step, ahead))
            attended = memo.layer_phase(plan.attend_case(step, qkv.ahead))
            output = memo.layer_phase(plan.output_case(scored, computes, attended.ahead))
            taken += [("qkv", qkv, step, True), ("attention", attended, step, True)]
            taken.append(("output", output, step, lead_to_mlp and not _changes_hands(plan)))
            known = int(plan.slack_cycles(np.int64(attended.cycles), np.int64(output.cycles)))
            exposed = max(0, plan.dispatch_cycles(scored) - known)
            ahead = output.ahead
            for index, (loads, replaying) in enumerate(pattern):
                last = layer == n_layers - 1 or index < len(pattern) - 1
                case = plan.mlp_case(loads, replaying, scored, last, exposed, ahead)
                mlp = memo.layer_phase(case)
                taken.append(("mlp", mlp, step, not last and not _changes_hands(plan)))
                ahead, exposed = mlp.ahead, plan.dispatch_cycles(scored)
        steps.append(taken)
    return steps


def credits_of(plan: Plan, steps: list[list[Taken]]) -> dict[str, float]:
    """Cycles that stand for fetching ahead, by rule, given phases without it.

    ``credit_idle``: the lesser of what all buffers that fill at once take at the memory's rate, and
    the cycles in which the phase leaves the memory idle. ``credit_operand``: the same with the next
    phase's first operand, at most its buffers, and only where the machine would fetch it.
    ``credit_tail``: that operand, the time from the phase's last byte to its end, or the next
    phase's wait for memory, whichever is least.
    """
    hw, phases = plan.hw, Phases(plan.hw)
    machine, attention_hw = hw.design.machine, hw.of_attention
    weights, kv = hw.path_of[Stream.WEIGHTS], hw.path_of[Stream.KV]
    one = tuple(min(1, load) for load in hw.home_loads)

    def filled(of: Hardware, is_kv: bool = False) -> int:
        if of.is_lockstep:
            return machine.cores if of.is_tensor or is_kv else 1
        return sum(load > 0 for load in of.home_loads)

    def operand(lanes: tuple[Lane, ...]) -> int:
        lead = LEAD(lanes)
        return 0 if lead is None else lead.nbytes * sum(lane.cores for lane in lanes)

    operands = {
        "attention": operand(phases._output),
        "output": operand(lower(hw, phases._mlp_of()[:1], one)),
        "mlp": operand(phases._qkv[False]),
    }
    buffers = {
        "qkv": machine.kv_buffer_bytes * filled(attention_hw, is_kv=True),
        "attention": machine.weight_buffer_bytes * filled(attention_hw),
        "output": machine.weight_buffer_bytes * filled(hw),
        "mlp": machine.weight_buffer_bytes * filled(attention_hw),
    }
    credit = dict.fromkeys(("credit_idle", "credit_operand", "credit_tail"), 0.0)
    for taken in steps:
        step = taken[0][2]
        case = AttendCase(plan.scored(step), plan.attended(step), False, Ahead())
        operands["qkv"] = operand(phases._attend(case))
        for (kind, result, _, leads), (_, following, _, _) in pairwise(taken):
            path = hw.paths[kv if kind == "qkv" else weights]
            moved = result.dram_bytes[kv if kind == "qkv" else weights]
            idle = max(0.0, result.cycles - moved / float(path.rate))
            credit["credit_idle"] += min(buffers[kind] / float(path.rate), idle)
            if leads:
                own = operands[kind] / float(path.rate)
                tail = max(0, TAIL[id(result)] - path.latency_cycles)
                credit["credit_operand"] += min(own, idle)
                credit["credit_tail"] += min(own, tail, following.times[Category.WAIT_DDR])
    return credit


def measure(rng: np.random.Generator, model: str) -> dict[str, Any]:
    """A row: a drawn design, and cycles with and without fetching ahead."""
    raw = draw(rng, model)
    target = float(2 ** rng.uniform(-1, 1)) if rng.random() < 0.6 else None
    if target is None:
        rows, cols = ARRAYS[rng.integers(len(ARRAYS))]
    else:
        rows, cols = min(
            ARRAYS, key=lambda each: abs(math.log(balance(raw, *each, CONTEXT[model]) / target))
        )
    ratio = balance(raw, rows, cols, CONTEXT[model])
    design, machine = build(raw), raw["machine"]
    tokens = TOKENS_PER_FRAME[model]
    video = Video(8, tokens, 64)
    later = sorted(int(step) for step in rng.integers(tokens, 8 * tokens, 4))
    steps = [int(rng.integers(0, tokens)), *later]
    is_dense = rng.random() < 0.75
    attention = DenseAttention() if is_dense else StreamingAttention(window=tokens)
    replays = rng.random() < 0.8
    share = float(rng.choice([0.2, 0.5, 0.8])) if replays else 0.0
    shape = (len(steps), design.model.body.n_layers, design.policy.batch)
    replay = rng.random(shape) < share
    replay[0] = False

    def run(lead: Any) -> tuple[Plan, list[list[Taken]]]:
        phases_module._lead = lead
        memo = PhaseMemo(Hardware(design))
        plan = Plan(memo.phases, video, attention, design.policy.schedule, replays, steps)
        taken = walk(plan, replay, memo)
        phases_module._lead = LEAD
        return plan, taken

    _, ahead = run(LEAD)
    plan, alone = run(lambda lanes: None)
    return {
        "model": model,
        "board": raw["board"]["preset"],
        "clock_mhz": raw["board"]["fabric_clock_mhz"],
        "mapping": machine["mapping"],
        "weight_sharing": machine["weight_sharing"],
        "cores": machine["cores"],
        "batch": design.policy.batch,
        "array": f"{rows}x{cols}",
        "weight_buffer_kib": machine["weight_buffer_kib"],
        "kv_buffer_kib": machine["kv_buffer_kib"],
        "prefetch": machine["prefetch"],
        "replay": share,
        "compute_over_bytes": round(ratio, 3),
        "fits": check_fit(design, video).fits,
        "with_cycles": _cycles(ahead),
        "without_cycles": _cycles(alone),
        **{name: round(value) for name, value in credits_of(plan, alone).items()},
    }


def _cycles(steps: list[list[Taken]]) -> int:
    return sum(result.cycles for taken in steps for _, result, _, _ in taken)


def _changes_hands(plan: Plan) -> bool:
    """Attention is split over the cores and the MLP is not: buffers cannot be filled ahead."""
    return plan.hw.of_attention is not plan.hw


def _noting_tails(run: Any) -> Any:
    def noting(self: Bench, *args: Any) -> PhaseResult:
        result: PhaseResult = run(self, *args)
        fetched = [max(core._fetched_at.values(), default=0) for core in self.cores]
        TAIL[id(result)] = result.cycles - max(fetched, default=0)
        return result

    return noting


def main() -> None:
    """Write the rows of so many designs, drawn with a seed."""
    count, seed, path = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    rng = np.random.default_rng(seed)
    Bench.run = _noting_tails(Bench.run)
    rows = [measure(rng, MODELS[number % len(MODELS)]) for number in range(count)]
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
