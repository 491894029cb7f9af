"""What limits the phases of a forward, in words of its own: products, exponentials, buffer, bytes.

A core computes products on its array, exponentials of a softmax, and further element operations, at
the same time; the one that takes longest limits *compute*. Bytes limit a phase for one of two
reasons. Weights that move once may be enough to do so (*bytes*). Or weights, keys and values move
again, and activations spill, because buffers are small (*buffer*): with larger ones, compute would
be the limit.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from carsim.machine.array import gemm_cycles, softmax_cycles, softmax_ops, vector_cycles
from carsim.machine.lanes import operations_of, splits
from carsim.program.block import Block
from carsim.program.reads import Reads
from carsim.workload.ops import Category, Op, Share

if TYPE_CHECKING:
    from carsim.machine.plan import Plan


class Work(NamedTuple):
    """Work of all layers of a forward in blocks of one name, on the fullest core.

    Attributes:
        products: Cycles of the array.
        exponentials: Cycles of the softmax.
        elements: Cycles of all other element operations.
        least_bytes: Bytes that move whatever the buffers hold: weights, once.
        bytes: Bytes that move.
    """

    products: int = 0
    exponentials: int = 0
    elements: int = 0
    least_bytes: int = 0
    bytes: int = 0

    @property
    def compute(self) -> str:
        """What takes longest of what a core computes."""
        cycles = {
            "products": self.products,
            "exponentials": self.exponentials,
            "elements": self.elements,
        }
        return max(cycles, key=lambda name: cycles[name])

    def plus(self, other: "Work") -> "Work":
        """The sum of two works."""
        return Work(*(mine + its for mine, its in zip(self, other, strict=True)))


def forward_works(plan: "Plan") -> dict[str, Work]:
    """Work of a forward by name of block; of chunks in the fullest one."""
    works: dict[str, Work] = {}
    for block, layers in plan.program(decided=False).blocks.items():
        work = _work(plan, block)
        for _ in layers:
            works[block.name] = works.get(block.name, Work()).plus(work)
    return works


def exponentials_of(plan: "Plan") -> dict[str, tuple[int, int]]:
    """Exponentials of all forwards of a batch by name of block, at least and at most.

    Rows that skip a block take none of them; how many rows do is left open.
    """
    machine = plan.machine
    counts: dict[str, tuple[int, int]] = {}
    for kind, steps in plan.forward_kinds:
        program = plan.program(decided=plan.rule is not None, kind=kind)
        for block, layers in program.blocks.items():
            reads = block.reads(plan.steps_at(steps)) if block.reads_tokens else None
            rows = machine.batch * (block.tokens if block.deals == "all_tokens" else 1)
            most = 0
            for op in block.operations(machine.model, reads)(Share(rows)):
                of_steps = np.broadcast_to(op.exponentials, (len(steps), 1))
                most += len(layers) * int(of_steps.sum())
            least_before, most_before = counts.get(block.name, (0, 0))
            is_computed = block.follows is None and not plan.reuses_forwards
            least = most if is_computed else 0
            counts[block.name] = (least_before + least, most_before + most)
    return counts


def named_limit(limit: str, work: Work, *, cycles: float, moving: float) -> str:
    """The limit of a phase in words of a forward.

    Args:
        limit: ``compute``, ``memory``, ``port`` or ``dependency``.
        work: Work of the phase.
        cycles: Cycles of compute.
        moving: Cycles that all bytes take.
    """
    if limit == "compute":
        return work.compute
    if limit == "dependency":
        return limit
    least = moving * work.least_bytes / max(1, work.bytes)
    return "buffer" if least < cycles else "bytes"


def _work(plan: "Plan", block: Block) -> Work:
    """Work of one phase of a block."""
    machine = plan.machine
    split = splits(machine, block)
    reads = None
    if block.reads_tokens:
        of_steps = block.reads(plan.steps_at(plan.fullest_steps))
        assert of_steps is not None
        reads = Reads.of_tokens(int(of_steps.attended.max()))
    rows = machine.batch * (block.tokens if block.deals == "all_tokens" else 1)
    of_core = Share(
        rows=machine.rows_of_fullest_core(rows, split=split),
        of=machine.cores_per_matrix(split=split),
    )
    operations = operations_of(machine, block, reads)
    without_buffers = block.operations(machine.model, reads)
    work = Work()
    for op in operations(of_core):
        work = work.plus(_of_op(plan, op))
    moved = sum(_bytes(op) for op in operations(Share(rows)))
    least = sum(_bytes(op) for op in without_buffers(Share(rows)))
    return work._replace(bytes=moved, least_bytes=least)


def _of_op(plan: "Plan", op: Op) -> Work:
    """Cycles of an operation on the fullest core."""
    machine = plan.machine
    unit = machine.attention_array if op.category == Category.ATTENTION else machine.array
    on_lanes = softmax_ops(machine.vector, op.exponentials)
    in_unit = softmax_cycles(machine.vector, op.exponentials)
    exponentials = np.maximum(vector_cycles(machine.vector, on_lanes), in_unit)
    return Work(
        products=int(np.max(gemm_cycles(unit, op.gemms))),
        exponentials=int(np.max(exponentials)),
        elements=int(np.max(vector_cycles(machine.vector, op.vector_ops))),
    )


def _bytes(op: Op) -> int:
    """Bytes that an operation moves."""
    return int(np.max(op.stream_bytes + op.kv_side_bytes + op.replay_bytes))
