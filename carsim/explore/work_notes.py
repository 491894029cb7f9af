"""Notes at the end of a sweep: rows of a trace that no batch holds, and measured bandwidths.

``carsim run`` warns of both. The points of a study share few values of the fields on which these
depend, so that one point for each combination of these values is looked at.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, product

from carsim.base.errors import InputError
from carsim.base.paths import overlap
from carsim.base.text import count
from carsim.decisions.attention import PLAIN
from carsim.explore.evaluate import Asked, Evaluator
from carsim.explore.points import changes_of
from carsim.explore.study import Study
from carsim.hardware.memory.path import bandwidth_remarks
from carsim.machine.batches import make_batches

MOST_COMBINATIONS = 20
"""Combinations of values that are looked at."""

OF_BANDWIDTH = ("design", "board")
"""Fields on which the bandwidth of a memory depends."""

OF_ROWS = ("design", "trace", "workload", "policy.batch", "model")
"""Fields on which the rows of a trace and of a batch depend."""


def work_notes(study: Study) -> list[str]:
    """Notes of a study, a sentence each; every one of them once.

    Args:
        study: The study. Values of axes that are refused have no note.
    """
    evaluator = Evaluator(study)
    notes: list[str] = []
    for point in _asked(study, evaluator, OF_ROWS):
        notes += _rows_left_out(point)
    for point in _asked(study, evaluator, OF_BANDWIDTH):
        board = point.design.board
        remarks = bandwidth_remarks(board.memories, board.fabric_clock_mhz)
        notes += [f"{remark}." for remark in remarks]
    return list(dict.fromkeys(notes))


def _asked(study: Study, evaluator: Evaluator, fields: tuple[str, ...]) -> Iterator[Asked]:
    """One point for each combination of the values of axes that change some fields."""
    choices = []
    for axis in study.axes:
        is_varied = any(overlap(path, field) for path in axis.paths for field in fields)
        choices.append(axis.values if is_varied else axis.values[:1])
    names = [axis.name for axis in study.axes]
    for values in islice(product(*choices), MOST_COMBINATIONS):
        with suppress(InputError):
            yield evaluator.asked(changes_of(study, dict(zip(names, values, strict=True))))


def _rows_left_out(asked: Asked) -> Iterator[str]:
    """A note on rows of the trace that fill no whole batch."""
    policy = asked.design.policy
    with suppress(InputError):
        decisions = asked.sources.decisions(PLAIN, replays=False)
        batches = make_batches(decisions, policy.batch, policy.tokens_per_step)
        if batches.left_out_rows:
            yield (
                f"{batches.left_out_rows} of the {count(decisions.n_rows, 'row')} of the trace "
                f"are not decoded with batches of {policy.batch}: the batch does not divide them."
            )
