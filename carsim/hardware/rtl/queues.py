"""How deep the queues of the scheduler block must be, by the order in which instructions come.

Model: the block accepts an instruction a cycle in the order of its stream, and waits while the
queue of that instruction's core is full. A core takes an instruction when the one before is done.

Simplification: cores do not contend for memory, but each instruction has a time of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carsim.hardware.schedule import DEFAULT, REPLAYS, Registers

DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Load:
    """A layer to dispatch.

    Attributes:
        sequences: Of the batch.
        cores: Cores.
        computing: Share of sequences that compute.
        instructions: Of each sequence.
        cycles: Mean of an instruction on its core.
        spread: Each takes the mean times 1 - spread to 1 + spread, uniformly.
    """

    sequences: int = 16
    cores: int = 4
    computing: float = 0.5
    instructions: int = Registers().instructions_per_sequence
    cycles: int = 4_000
    spread: float = 0.5


def makespan(
    stream: Sequence[tuple[int, int]], core_of: Sequence[int], cycles: NDArray[np.int64], depth: int
) -> int:
    """Cycles from the first instruction to the end of the last one.

    Args:
        stream: (sequence, instruction) in the order of arrival.
        core_of: Core of each sequence, :data:`carsim.hardware.schedule.REPLAYS` for none.
        cycles: [sequence, instruction] on its core.
        depth: Instructions that a queue holds.

    >>> one_each = np.full((2, 3), 10)
    >>> in_turn = [(b, n) for b in range(2) for n in range(3)]
    >>> makespan(in_turn, [0, 1], one_each, 1), makespan(in_turn, [0, 1], one_each, 3)
    (43, 34)
    """
    taken: list[list[int]] = [[] for _ in range(max(core_of) + 1)]
    free = [0] * len(taken)
    now = -1
    for sequence, instruction in stream:
        now += 1
        core = core_of[sequence]
        if core == REPLAYS:
            continue
        before = taken[core]
        if len(before) >= depth:
            now = max(now, before[-depth])
        begin = max(now + 1, free[core])
        before.append(begin)
        free[core] = begin + int(cycles[sequence, instruction])
    return max(free, default=0)


def by_depth(load: Load, layers: int, seed: int) -> Iterator[tuple[int, list[float]]]:
    """Mean makespan over that of queues without end, by depth.

    Args:
        load: What is dispatched.
        layers: Layers that are drawn.
        seed: Of decisions and times.

    Yields:
        Depth, and [one sequence after the other, an instruction of each sequence in turn].
    """
    places = [(b, n) for b in range(load.sequences) for n in range(load.instructions)]
    orders = (places, sorted(places, key=lambda place: place[1]))
    totals = {depth: [0, 0] for depth in (*DEPTHS, len(places))}
    draw = np.random.default_rng(seed)
    for _ in range(layers):
        computing = draw.random((1, load.sequences)) < load.computing
        (core_of,) = DEFAULT.assign(computing, load.cores).tolist()
        factor = 1 + load.spread * draw.uniform(-1, 1, (load.sequences, load.instructions))
        cycles = np.rint(load.cycles * factor).astype(np.int64)
        for depth, total in totals.items():
            for which, order in enumerate(orders):
                total[which] += makespan(order, core_of, cycles, depth)
    ideal = totals[len(places)]
    for depth in DEPTHS:
        yield depth, [total / best for total, best in zip(totals[depth], ideal, strict=True)]
