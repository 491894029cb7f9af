"""Proof that a plan stays within 64 bits and within memory, before an array of it is made.

Figures of phases are int64 arrays, which wrap around without a word. So the longest phase of each
kind is worked out here in Python's integers, by the ops that phases are made of, on the fullest
core. From it follow the largest products that are formed anywhere:

* moments of a phase in the units of its memories: cycles times the numerator of the fastest rate,
  and bytes times the denominator;
* work of a step: cycles of all cores, operations, bytes on chip, of all layers;
* cycles of the whole video. Sums over batches are Python's integers again
  (:func:`carsim.machine.phase.exactly`).

A product is at least half of any that is formed: leftovers of a hybrid mapping fill a second
pipeline, and other contexts or loads take less.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from carsim.base.errors import InputError
from carsim.base.section import Section
from carsim.base.yaml_file import shown
from carsim.decisions.trace.decisions import check_memory
from carsim.machine import phase_ops
from carsim.machine.array import gemm_cycles, vector_cycles
from carsim.machine.cases import key_bytes
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import OpsOf
from carsim.machine.phases import Phases
from carsim.workload.mlp import replay_op
from carsim.workload.ops import Category, Op, Share, Stream

if TYPE_CHECKING:
    from carsim.machine.plan import Plan

LIMIT = 1 << 60
"""No product is larger: twice as much, and a sum of several, is still within 64 bits."""

USUAL: Mapping[str, int] = {
    "hidden_size": 1 << 14,
    "ffn_size": 1 << 16,
    "vocabulary": 1 << 18,
    "codebook_size": 1 << 18,
    "prompt_tokens": 1 << 17,
    "tokens_per_frame": 1 << 12,
    "batch": 64,
    "cores": 32,
}
"""Large values of fields that often exceed 1024."""

LENGTHS = ("n_frames", "tokens_per_frame", "prompt_tokens")


class Work(NamedTuple):
    """An op on the fullest core, in Python's integers.

    Attributes:
        cycles: Of the core, and of the exchange before it.
        streamed: Bytes of the operand of one lane.
        moved: Bytes of all lanes, those beside the operand included.
        done: Operations, or bytes on chip, of all cores, whichever are more.
    """

    cycles: int
    streamed: int
    moved: int
    done: int


def check_plan(plan: "Plan") -> None:
    """Prove that a plan can be simulated; what was proven of its phases is not proven again.

    Raises:
        InputError: A product or an array is too large; the field that makes it so is named.
    """
    key, steps = (plan.video, plan.attention, plan.rule), len(plan.steps)
    if plan.phases.proven.get(key, 0) < steps:
        _check_memory(plan)
        size, what = largest(plan)
        designs = range(len(plan.hw.designs))
        if size >= LIMIT and len(designs) == 1:
            raise _too_large(plan, size, what)
        for each in designs if size >= LIMIT else ():
            check_plan(plan.of_design(each))
        # A rule of replay, and further steps, only add work.
        plan.phases.proven |= dict.fromkeys((key, (*key[:-1], None)), steps)


def _check_memory(plan: "Plan") -> None:
    """Refuse the arrays that grow with two numbers at once: bytes were measured, see below."""
    hw = plan.hw
    of_tokens = len(plan.steps) * bytes_of_step(hw)
    check_memory(plan.video.kind, f"{len(plan.steps):,} steps", of_tokens, "ask for less")
    if hw.streams > 1:
        of_bound = 190 * hw.rows * hw.streams * hw.home_loads.size
        what = f"{hw.rows:,} rows on {hw.streams:,} cores"
        check_memory("policy.batch", what, of_bound, "take fewer, or weight_sharing broadcast")


def bytes_of_step(hw: Hardware) -> int:
    """Memory that each step of a video takes on each design, as it was measured."""
    return 750 + 160 * hw.streams


def largest(plan: "Plan") -> tuple[int, str]:
    """The largest product of a plan, and what it is; of several designs at least the largest."""
    plan = replace(plan, phases=Phases(plan.hw.spread(np.arange(len(plan.hw.designs)), exact=True)))
    hw = plan.hw
    layers = hw.design.model.body.n_layers
    # Rates are 4096ths, and neither part of one is larger than these.
    rates = [path.rate for each in hw.designs for path in each.paths]
    numerator, denominator = ceil(4096 * max(rates)), 4096
    slowest, latency = _slowest(plan), int(np.max(hw.latencies)) + 2
    tile_bytes = int(np.min(hw.design.machine.tile_bytes))
    of_video, found = int(np.max(hw.host_cycles)) * len(plan.steps), []
    for name, often, is_split, ops in kinds(plan):
        works = [(work_of(hw, op, is_split), times) for op, times in ops]
        cycles, streamed, moved, done = (
            sum(getattr(work, field) * times for work, times in works) for field in Work._fields
        )
        requests = streamed // tile_bytes + sum(times for _, times in works)
        cycles += hw.dispatch_cycles(plan.schedule_of(True)) + requests * latency
        length = cycles + ceil(moved / slowest)
        found += [
            (length * numerator, f"time of {name} in parts of a cycle"),
            (moved * denominator, f"time of the bytes of {name} in parts of a cycle"),
            (layers * hw.home_loads.size * cycles, f"cycles of all cores in {name}"),
            (layers * max(done, moved), f"operations or bytes of {name}"),
        ]
        of_video += often * length
    return max([*found, (of_video, f"cycles of the whole {plan.video.kind}")])


def _slowest(plan: "Plan") -> Fraction:
    """Bytes per cycle of the slowest memory; of keys, in the shortest runs in which they lie."""
    hw, attention = plan.hw, plan.attention
    runs = [key_bytes(hw, attention)]
    if not attention.records:
        windows = hw.design.model.body.layers_by_window()
        runs = [int(plan.reads[each].chunk_bytes(hw).min()) for each in windows]
    rates = [each.gather_rate(hw.path_of[Stream.KV], min(runs)) for each in hw.designs]
    return min(rates + [path.rate for each in hw.designs for path in each.paths])


def kinds(plan: "Plan") -> Iterator[tuple[str, int, bool, list[tuple[Op, int]]]]:
    """Kinds of phases: (name, visits in a video, matrices are split, ops and how often)."""
    hw, phases, rule = plan.hw, plan.phases, plan.rule
    machine, mapping, model = hw.design.machine, hw.mapping, hw.design.model
    longest = np.array([plan.video.max_context], object)
    usual = next(iter(plan.reads.values()))
    cases = usual._replace(attended=longest, runs=np.ones_like(longest), contexts=longest)
    attend = phase_ops.attend_ops(hw, rule, cases._replace(aligned_outside=rule is not None))

    def on_a_core(ops: OpsOf, rows: int, is_split: bool, times: int = 1) -> list[tuple[Op, int]]:
        rows = machine.sequences_per_core(rows, split=is_split)
        streams = rows if machine.weight_sharing == "private_per_sequence" else 1
        return [(op, times) for op in ops(Share(rows, machine.sharing(split=is_split), streams))]

    of_layers, split = model.body.n_layers * len(plan.steps), mapping.splits_attention
    yield "QKV projection", of_layers, split, on_a_core(phase_ops.qkv_ops(hw, rule), hw.rows, split)
    yield "attention", of_layers, split, on_a_core(attend, hw.batch, split)
    output = on_a_core(phase_ops.output_ops(hw, rule), hw.rows, split)
    yield "output projection", of_layers, split, output
    split = mapping.splits_mlp
    first = {False: "", True: "dense " * (model.body.experts is not None)}
    for dense, alike in model.body.layers_by_mlp().items():
        mlp = on_a_core(phase_ops.mlp_ops(hw, dense=dense, rule=rule), hw.rows, split)
        mlp += on_a_core(lambda share: [replay_op(model, share)], hw.rows, split)
        yield first[dense] + "MLP", len(alike) * len(plan.steps), split, mlp
    if machine.include_head:
        every: list[tuple[Op, int]] = []
        for (steps, codes), times in Counter(phases.head_passes).items():
            every += on_a_core(phase_ops.head_ops(hw, steps, codes), hw.rows, split, times)
        yield "head", len(plan.steps), split, every
    for (_, dense), n in model.body.prompt_layers().items():
        prompt = phase_ops.prefill_ops(hw, plan.video.prompt_tokens, None, dense)
        yield first[dense] + "prompt", n, split, on_a_core(prompt, hw.batch, split)


def work_of(hw: Hardware, op: Op, is_split: bool) -> Work:
    """An op on the fullest core."""
    machine, model = hw.design.machine, hw.design.model
    cores = hw.home_loads.size if is_split else int(np.count_nonzero(hw.home_loads))
    unit = machine.attention_array if op.category == Category.ATTENTION else machine.array
    # Handed over, or gathered: more than any phase exchanges.
    exchanged = cores * op.gathered_elements + 2 * hw.rows * model.body.hidden_size
    cycles = (
        gemm_cycles(unit, op.gemms)
        + machine.overheads.kernel_cycles * len(op.gemms)
        + vector_cycles(machine.vector, op.vector_ops)
        + vector_cycles(machine.vector, op.serial_vector_ops)
        + op.scan_cycles
        + model.activations.bytes_of(exchanged) // machine.exchange_bytes_per_cycle
    )
    # One stream of weights feeds all cores, of those experts that any of their tokens chooses.
    one = op.stream is not Stream.KV and model.body.experts is None
    streams = 1 if one and hw.is_lockstep(is_split) and not is_split else cores
    lanes = 1 if hw.is_lockstep(is_split) else cores
    moved = streams * op.stream_bytes + cores * (op.kv_side_bytes + op.replay_bytes)
    read = sum(gemm.macs // max(1, gemm.k) * 3 + gemm.macs for gemm in op.gemms)
    on_chip = 2 * streams * op.stream_bytes + model.activations.bytes_of(read)
    done = max(int(np.max(op.macs + op.vector_ops)), int(np.max(on_chip)))
    figures = cycles, moved // lanes, moved, cores * done
    return Work(*(int(np.max(figure)) for figure in figures))


def _too_large(plan: "Plan", size: int, what: str) -> InputError:
    """The error that names the number that is furthest beyond what is usual."""
    design, video = plan.hw.design, plan.video
    found = {f"model.video.{each.removeprefix('n_')}": getattr(video, each) for each in LENGTHS}
    for section in ("model", "machine", "policy"):
        found |= dict(_numbers(getattr(design, section), section))
    path = max(found, key=lambda each: found[each] / USUAL.get(each.rpartition(".")[2], 1024))
    problem = f"{shown(found[path])} is too large: {what} would be {size:.3g}, beyond {LIMIT:.3g}"
    return InputError(path, problem, "simulate less of it")


def _numbers(section: Any, path: str) -> Iterator[tuple[str, float]]:
    """Each number of a section, by its path."""
    for name, value in dict(section).items():
        if isinstance(value, Section | dict):
            yield from _numbers(value, f"{path}.{name}")
        elif isinstance(value, int | float):
            yield f"{path}.{name}", value
