"""Who computes in each layer-step, numbered: cores being alike, only their loads matter."""

import numpy as np
from numpy.typing import NDArray

from carsim.machine import drs
from carsim.machine.plan import Plan

Pattern = tuple[tuple[tuple[int, ...], int], ...]
"""(Loads of the cores, most loaded first; sequences that replay) of each register group."""


def pattern_of(plan: Plan, replay: NDArray[np.bool_], scored: bool) -> Pattern:
    """The pattern of one layer-step.

    Args:
        plan: Schedule and machine.
        replay: Decisions of its sequences, bool[B].
        scored: A replay was decided on; if not, every core keeps its own sequences.
    """
    schedule = drs.SCHEDULES[plan.schedule if scored else "static"]
    cores = plan.hw.design.machine.cores
    pattern = []
    for group in plan.register_groups(scored):
        computing = [not replays for replays in replay[group]]
        loads = drs.loads_of(schedule(computing, cores), cores)
        pattern.append((loads, len(computing) - sum(loads)))
    return tuple(pattern)


def computes_first(pattern: Pattern) -> bool:
    """Any sequence of the first register group computes: its weights are sure to be used next."""
    return any(pattern[0][0])


def number_patterns(
    plan: Plan, replay: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], list[Pattern]]:
    """Number the patterns of all layer-steps.

    Args:
        plan: Schedule and machine.
        replay: Decisions, bool[G, S, L, B].

    Returns:
        Number of each layer-step's pattern, intp[G, S, L], and the patterns by number.
    """
    cores = plan.hw.design.machine.cores
    scored = np.array([plan.scored(step) for step in plan.steps])
    numbers = np.zeros(replay.shape[:3], np.intp)
    patterns: list[Pattern] = []
    for is_scored in (False, True):
        computing = ~replay[:, scored == is_scored]
        if not computing.size:
            continue
        if computing.all():
            numbers[:, scored == is_scored] = len(patterns)
            patterns.append(pattern_of(plan, ~computing[0, 0, 0], is_scored))
            continue
        schedule = plan.schedule if is_scored else "static"
        rows, row_of = _different_rows(computing)
        code = np.zeros(len(rows), np.intp)
        for group in plan.register_groups(is_scored):
            loads = drs.loads(schedule, rows[:, group], cores)
            for core in range(cores):
                code, _ = _renumber(code * (rows.shape[1] + 1) + loads[:, core])
        code, example = _renumber(code)
        numbers[:, scored == is_scored] = code[row_of] + len(patterns)
        patterns += [pattern_of(plan, ~row, is_scored) for row in rows[example]]
    return numbers, patterns


def _different_rows(bits: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Rows that stand for all rows, and which of them each row equals.

    Args:
        bits: bool[G, S, L, B].

    Returns:
        bool[R, B], without repetition where a row has up to 16 bits; intp[G, S, L].
    """
    width, shape = bits.shape[-1], bits.shape[:-1]
    rows = bits.reshape(-1, width)
    if width > 16:  # few rows are equal, and a table of all possible ones would be large
        return rows, np.arange(len(rows)).reshape(shape)
    packed = np.packbits(rows, axis=1).astype(np.intp)  # a byte for 8 bits
    code, example = _renumber(packed[:, 0] + 256 * packed[:, 1:].sum(axis=1))
    return rows[example], code.reshape(shape)


def _renumber(code: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Codes renumbered from 0 in their order, and the flat index of an example of each."""
    example = np.full(int(code.max()) + 1, -1, np.intp)
    example[code.ravel()] = np.arange(code.size)
    used = example >= 0
    return (np.cumsum(used) - 1)[code], example[used]
