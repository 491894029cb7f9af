"""Proof that a plan stays within 64 bits and within memory, before an array of it is made.

Figures of phases are int64 arrays, which wrap around without a word. So the longest phase of each
kind is worked out here in Python's integers, by the ops that phases are made of, on the fullest
core. From it follow the largest products that are formed anywhere:

* moments of a phase in the units of its memories: cycles times the numerator of the fastest rate,
  and bytes times the denominator;
* work of a step: cycles of all cores, operations, bytes on chip, of all layers;
* cycles of the whole video. Sums over batches are Python's integers again
  (:func:`carsim.account.totals.exact_sums`).

A product is at least half of any that is formed: leftovers of a hybrid mapping fill a second
pipeline, and other contexts or loads take less.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from carsim.base.errors import InputError
from carsim.base.section import Section
from carsim.base.yaml_file import shown
from carsim.decisions.trace.decisions import check_memory
from carsim.design import override
from carsim.machine.array import gemm_cycles, softmax_cycles, softmax_ops, vector_cycles
from carsim.machine.arrays import MachineArrays
from carsim.machine.cases import CONTIGUOUS_BYTES, chunk_bytes, key_bytes
from carsim.machine.hardware import Hardware
from carsim.machine.kernels import most_cycles
from carsim.machine.lanes import operations_of, splits
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.program.block import Block
from carsim.program.head import Head
from carsim.program.prompt import PromptLayer
from carsim.program.reads import Reads, Steps
from carsim.program.sample import text_block
from carsim.workload.elements import SOFTMAX_OPS
from carsim.workload.ops import Category, Op, Share, Stream

LIMIT = 1 << 60
"""No product is larger: twice as much, and a sum of several, is still within 64 bits."""

PROMPT = "`workload` prompt"
TOKENS = "`workload` tokens"
"""Numbers of a text as messages name them."""

USUAL: Mapping[str, int] = {
    "hidden_size": 1 << 14,
    "ffn_size": 1 << 16,
    "vocabulary": 1 << 18,
    "codebook_size": 1 << 18,
    "prompt_tokens": 1 << 17,
    PROMPT: 1 << 12,
    TOKENS: 1 << 17,
    "tokens_per_frame": 1 << 12,
    "batch": 64,
    "cores": 32,
}
"""Large values of fields that often exceed 1024."""

FAR_BEYOND = 8
"""A field so many times beyond what is usual is named before a buffer that would help."""

MOST_DOUBLINGS = 12
"""Of the activation buffer, before it is no cure."""

DEALS = "batch"
"""Mapping that deals the tokens of a forward to the cores."""

LENGTHS = ("n_frames", "tokens_per_frame", "prompt_tokens")


class Work(NamedTuple):
    """Operations on the fullest core, in Python's integers.

    Attributes:
        n_ops: Operations.
        cycles: Of the core, and of the exchange before it.
        streamed: Bytes of the operand of one lane.
        moved: Bytes of all lanes, those beside the operand included.
        done: Operations, or bytes on chip, of all cores, whichever are more.
    """

    n_ops: int
    cycles: int
    streamed: int
    moved: int
    done: int


def sum_of(works: Sequence[Work], times: Sequence[int]) -> Work:
    """The sum of works that occur so many times each."""

    def total(figures: Iterable[int]) -> int:
        return sum(n * figure for n, figure in zip(times, figures, strict=True))

    return Work(
        n_ops=total(work.n_ops for work in works),
        cycles=total(work.cycles for work in works),
        streamed=total(work.streamed for work in works),
        moved=total(work.moved for work in works),
        done=total(work.done for work in works),
    )


def check_plan(plan: Plan) -> None:
    """Prove that a plan can be simulated; what was proven of its phases is not proven again.

    Raises:
        InputError: A product or an array is too large; the field that makes it so is named.
    """
    key = plan.video, plan.attention, plan.rule
    steps = len(plan.steps)
    if plan.phases.proven.get(key, 0) < steps:
        _check_memory(plan)
        size, product = largest(plan)
        n_designs = plan.machine.n_designs
        if size >= LIMIT and n_designs == 1:
            raise _too_large(plan, size, product)
        if size >= LIMIT:
            for design in range(n_designs):
                check_plan(plan.of_design(design))
        # A rule of replay, and further steps, only add work.
        plan.phases.proven[key] = steps
        plan.phases.proven[plan.video, plan.attention, None] = steps


def _check_memory(plan: Plan) -> None:
    """Refuse the arrays that grow with two numbers at once: bytes were measured, see below."""
    machine = plan.machine
    of_tokens = len(plan.steps) * bytes_of_step(machine.streams)
    check_memory(plan.video.kind, f"{len(plan.steps):,} steps", of_tokens, "ask for less")
    if machine.streams > 1:
        of_bound = 190 * machine.rows * machine.streams * machine.home_loads.size
        rows_on_cores = f"{machine.rows:,} rows on {machine.streams:,} cores"
        check_memory(
            "policy.batch", rows_on_cores, of_bound, "take fewer, or weight_sharing broadcast"
        )


def bytes_of_step(streams: int) -> int:
    """Memory that each step of a video takes on each design, as it was measured."""
    return 750 + 160 * streams


def largest(plan: Plan) -> tuple[int, str]:
    """The largest product of a plan, and what it is; of several designs at least the largest."""
    plan = replace(plan, phases=plan.phases.exact)
    machine = plan.machine
    layers = machine.model.body.n_layers
    # Rates are 4096ths, and neither part of one is larger than these.
    rates = [path.rate for hardware in machine.hardwares for path in hardware.paths]
    numerator = ceil(4096 * max(rates))
    denominator = 4096
    slowest = _slowest(plan)
    latency = max(int(np.max(cycles)) for cycles in machine.latencies) + 2
    tile_bytes = int(np.min(machine.tile_bytes))
    dispatch_cycles = machine.dispatch_cycles(plan.schedule_of(True))
    video_cycles = int(np.max(machine.host_cycles)) * len(plan.steps)
    tabled_cycles = 0
    if machine.kernels is not None:
        tabled_cycles = most_cycles(
            machine.kernels,
            machine.rows,
            tokens=plan.video.max_context,
            clock_mhz=float(machine.clocks_mhz.max()),
        )
    products: list[tuple[int, str]] = []
    for kind in kinds(plan):
        work = kind.work
        requests = work.streamed // tile_bytes + work.n_ops
        cycles = work.cycles + tabled_cycles + dispatch_cycles + requests * latency
        length = cycles + ceil(work.moved / slowest)
        of_all_cores = layers * machine.home_loads.size * cycles
        of_all_layers = layers * max(work.done, work.moved)
        products += [
            (length * numerator, f"time of {kind.name} in parts of a cycle"),
            (work.moved * denominator, f"time of the bytes of {kind.name} in parts of a cycle"),
            (of_all_cores, f"cycles of all cores in {kind.name}"),
            (of_all_layers, f"operations or bytes of {kind.name}"),
        ]
        video_cycles += kind.visits * length
    products.append((video_cycles, f"cycles of the whole {plan.video.kind}"))
    return max(products)


def _slowest(plan: Plan) -> Fraction:
    """Bytes per cycle of the slowest memory; of keys, in the shortest runs in which they lie."""
    machine = plan.machine
    runs = [key_bytes(machine, plan.attention)]
    if not plan.attention.records:
        steps = plan.steps_at(np.arange(len(plan.steps)))
        blocks = plan.program(decided=False).blocks
        reads = [block.reads(steps) for block in blocks if block.reads_tokens]
        runs = [
            int(chunk_bytes(machine, of_block).min()) for of_block in reads if of_block is not None
        ]
    shortest = min(runs, default=CONTIGUOUS_BYTES)
    kv_path = machine.path_of[Stream.KV]
    rates = [hardware.gather_rate(kv_path, shortest) for hardware in machine.hardwares]
    rates += [path.rate for hardware in machine.hardwares for path in hardware.paths]
    return min(rates)


class Kind(NamedTuple):
    """A kind of phase with the longest context.

    Attributes:
        name: English name.
        visits: Phases of this kind in a video.
        work: Work of one phase.
    """

    name: str
    visits: int
    work: Work


def kinds(plan: Plan) -> Iterator[Kind]:
    """Kinds of phases of a plan: the blocks of all layers, the passes of the head, the prompt."""
    machine = plan.machine
    for block, visits in _visits_of_blocks(plan).items():
        yield _kind(plan, block, visits)
    if machine.include_head:
        yield Kind("head", len(plan.steps), _work_of_head(plan))
    if machine.model.network is not None:
        text = text_block(machine.model)
        if text is not None:
            assert machine.model.sample is not None
            yield _kind(plan, text, machine.model.sample.prompts)
        return
    body = machine.model.body
    for of_layer, layers in machine.model.layer_kinds().items():
        dense = of_layer.dense
        prompt = PromptLayer(tokens=plan.video.prompt_tokens, dense=dense, group=of_layer.group)
        is_special = dense and body.experts is not None
        name = "dense prompt" if is_special else "prompt"
        yield _kind(plan, prompt, layers)._replace(name=name)


def _visits_of_blocks(plan: Plan) -> dict[Block, int]:
    """The blocks of all kinds of steps, and how often each is a phase of the run."""
    visits: Counter[Block] = Counter()
    for decided in (False, True):
        for kind, steps in plan.forward_kinds:
            n_steps = int(np.count_nonzero(plan.decided[steps] == decided))
            if n_steps:
                program = plan.program(decided=decided, kind=kind)
                for block, layers in program.blocks.items():
                    visits[block] += len(layers) * n_steps
    if plan.reuses_forwards:  # some of the steps; which ones is not asked
        for block, layers in plan.of_whole_forwards.program(decided=True).blocks.items():
            visits[block] += len(layers) * len(plan.steps)
    return visits


def _longest_reads(plan: Plan, block: Block) -> Reads | None:
    """What a block reads in the longest context, in Python's integers."""
    if not block.reads_tokens:
        return None
    longest = np.array([plan.video.max_context], object)
    if not block.follows_context:
        # Forwards are not ordered by what they read.
        of_steps = block.reads(plan.steps_at(np.arange(len(plan.steps))))
        assert of_steps is not None
        return of_steps.change(lambda figure: figure.max(keepdims=True).astype(object))
    steps = Steps(longest.astype(np.int64), plan.video, plan.attention)
    reads = block.reads(steps)
    assert reads is not None
    return reads._replace(
        attended=longest,
        runs=np.ones_like(longest),
        contexts=longest,
        aligned_outside=block.scores is not None,
    )


def _kind(plan: Plan, block: Block, visits: int) -> Kind:
    """A block on the fullest core, with all work that it has in any step.

    Plans of one machine have most blocks in common, so that their work is kept.
    """
    most_work = plan.phases.most_work
    key = block, (plan.video, plan.attention) if block.reads_tokens else None
    if key not in most_work:
        most_work[key] = _work_of_block(plan.machine, block, _longest_reads(plan, block))
    return Kind(block.label, visits, Work._make(most_work[key]))


def _work_of_head(plan: Plan) -> Work:
    """All passes of the head in one step on the fullest core."""
    most_work = plan.phases.most_work
    key = plan.phases.head_passes
    if key not in most_work:
        times = Counter(key)
        works = [
            _work_of_block(plan.machine, Head(steps=steps), Reads.of_tokens(codes))
            for steps, codes in times
        ]
        most_work[key] = sum_of(works, [*times.values()])
    return Work._make(most_work[key])


def _work_of_block(machine: MachineArrays, block: Block, reads: Reads | None) -> Work:
    split = splits(machine, block)
    rows = machine.batch if block.deals == "sequences" else machine.rows
    if block.deals == "all_tokens":
        rows = machine.batch * block.tokens
    rows = machine.rows_of_fullest_core(rows, split=split)
    streams = rows if machine.streams_per_sequence else 1
    if block.deals == "all_tokens":
        # Choices between loop orders make arrays of whole numbers; as objects they never overflow.
        rows = np.array([[rows]], object)  # type: ignore[assignment]
    share = Share(rows, machine.cores_per_matrix(split=split), streams)
    ops = operations_of(machine, block.widest, reads)(share)
    if block.holds:
        of_rows = share._replace(rows=machine.rows) if block.deals == "all_tokens" else share
        ops = [*ops, block.replay(machine.model, of_rows)]
    works = [work_of(machine, op, split) for op in ops]
    return sum_of(works, [1] * len(works))


def work_of(machine: MachineArrays, op: Op, is_split: bool) -> Work:
    """An op on the fullest core."""
    model = machine.model
    cores = machine.home_loads.size if is_split else int(np.count_nonzero(machine.home_loads))
    unit = machine.attention_array if op.category == Category.ATTENTION else machine.array
    # Handed over, or gathered: more than any phase exchanges.
    exchanged = cores * op.gathered_elements + 2 * machine.rows * model.body.hidden_size
    element_ops = op.vector_ops + softmax_ops(machine.vector, op.exponentials)
    cycles = (
        gemm_cycles(unit, op.gemms)
        + machine.kernel_cycles * len(op.gemms)
        + vector_cycles(machine.vector, element_ops)
        + softmax_cycles(machine.vector, op.exponentials)
        + vector_cycles(machine.vector, op.serial_vector_ops)
        + op.scan_cycles
        + model.activations.bytes_of(exchanged) // machine.exchange_bytes_per_cycle
    )
    if machine.core_rate is not None:
        rate = machine.core_rate
        cycles = cycles + -(-op.stream_bytes * rate.denominator // rate.numerator)
    # One stream of weights feeds all cores, of those experts that any of their tokens chooses.
    one = not op.stream.is_kv and model.body.experts is None
    streams = 1 if one and machine.is_lockstep(is_split) and not is_split else cores
    lanes = 1 if machine.is_lockstep(is_split) else cores
    side_bytes = op.kv_side_bytes + op.replay_bytes + op.far_side_bytes
    moved = streams * op.stream_bytes + cores * side_bytes
    read = sum(gemm.macs // max(1, gemm.k) * 3 + gemm.macs for gemm in op.gemms)
    on_chip = 2 * streams * op.stream_bytes + model.activations.bytes_of(read)
    elements = op.vector_ops + SOFTMAX_OPS * op.exponentials
    done = max(int(np.max(op.macs + elements)), int(np.max(on_chip)))
    return Work(
        n_ops=1,
        cycles=int(np.max(cycles)),
        streamed=int(np.max(moved // lanes)),
        moved=int(np.max(moved)),
        done=int(cores * done),
    )


def _too_large(plan: Plan, size: int, product: str) -> InputError:
    """The error that names the number furthest beyond what is usual, or a buffer that helps."""
    design = plan.hw.design
    video = plan.video
    beyond = f"{product} would be {size:.3g}, beyond {LIMIT:.3g}"
    if design.model.network is not None and _deals_enough(plan):
        problem = f"{design.machine.mapping!r} makes a forward too long: {beyond}"
        return InputError("machine.mapping", problem, f"take {DEALS}, which deals tokens to cores")
    values = _values(plan)
    beyond_usual = {
        path: value / USUAL.get(path.rpartition(".")[2], 1024) for path, value in values.items()
    }
    path = max(beyond_usual, key=lambda path: beyond_usual[path])
    may_help = path == PROMPT or beyond_usual[path] < FAR_BEYOND
    if may_help and (enough_kib := _enough_activations_kib(plan)):
        has_kib = design.machine.activation_buffer_kib
        streams = f"a prompt of {video.prompt_tokens:,} tokens"
        cure = f"give {enough_kib} or more, or shorten the prompt"
        if design.model.network is not None:
            streams = "a forward"
            cure = f"give {enough_kib} or more"
        problem = (
            f"{shown(has_kib)} is too small: {streams} streams the weights so often that {beyond}"
        )
        return InputError("machine.activation_buffer_kib", problem, cure)
    value = shown(values[path])
    problem = f"{value} is too large: {beyond}"
    return InputError(path, problem, "simulate less of it")


def _deals_enough(plan: Plan) -> bool:
    """The plan could be simulated if its tokens were dealt to the cores, and they are not."""
    machine = plan.hw.design.machine
    if not (machine.splits_attention or machine.splits_mlp):
        return False
    try:
        dealt = override(plan.hw.design, {"machine.mapping": DEALS})
        size, _ = largest(replace(plan, phases=Phases(Hardware(dealt))))
    except InputError:
        return False
    return size < LIMIT


def _values(plan: Plan) -> dict[str, float]:
    """The numbers of a plan that may be too large, by the path at which a user finds them."""
    design = plan.hw.design
    video = plan.video
    values: dict[str, float] = {}
    for section in ("model", "machine", "policy"):
        values |= dict(_numbers(getattr(design, section), section))
    values.pop("model.context", None)  # a limit of texts, with which nothing is computed
    if video.kind == "text":
        of_videos = [path for path in values if path.startswith("model.video.")]
        for path in of_videos:
            del values[path]
        return values | {PROMPT: video.prompt_tokens, TOKENS: video.n_steps}
    usual_video = {
        f"model.video.{name.removeprefix('n_')}": getattr(video, name) for name in LENGTHS
    }
    return usual_video | values


def _enough_activations_kib(plan: Plan) -> int | None:
    """Least doubling of the activation buffer with which the plan can be simulated; None if none.

    A larger buffer takes a prompt in fewer passes over the weights.
    """
    kib = plan.hw.design.machine.activation_buffer_kib
    for _ in range(MOST_DOUBLINGS):
        kib *= 2
        try:
            larger = override(plan.hw.design, {"machine.activation_buffer_kib": kib})
            size, _ = largest(replace(plan, phases=Phases(Hardware(larger))))
        except InputError:
            return None  # no design has so large a buffer
        if size < LIMIT:
            return kib
    return None


def _numbers(section: Section | dict[str, Any], path: str) -> Iterator[tuple[str, float]]:
    """Each number of a section, by its path."""
    for name, value in dict(section).items():
        if isinstance(value, Section | dict):
            yield from _numbers(value, f"{path}.{name}")
        elif isinstance(value, int | float):
            yield f"{path}.{name}", value
