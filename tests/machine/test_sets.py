"""Sets of tokens: weights are fetched once for all tokens of a step, caches once for a sequence."""

from dataclasses import replace

import numpy as np
import pytest
from tiny import tiny_design, tiny_trace

from carsim.base.errors import InputError
from carsim.decisions.attention import KvReads
from carsim.decisions.trace import captured
from carsim.machine.batches import make_batches
from carsim.runs.pipeline import run
from carsim.runs.report import Report

SETS = "policy.tokens_per_step="


def report(sets: int, *changes: str) -> Report:
    return run(tiny_design(f"{SETS}{sets}", *changes), [tiny_trace()], allow_misfit=True)


def test_the_tokens_of_a_step_stand_sequence_by_sequence() -> None:
    trace = tiny_trace()
    alone, sets = (make_batches(captured(trace), 4, n).replay for n in (1, 4))
    assert sets.shape == (1, 12, 4, 16)
    for step in range(48):
        assert np.array_equal(alone[0, step], sets[0, step // 4, :, 4 * (step % 4) :][:, :4])


def test_labels_and_warnings_name_the_sets() -> None:
    found = report(16)
    assert found.chosen.batches.label.endswith("; made a token a step, run with 16")
    assert "64 tokens are scheduled in 2 groups" in " ".join(found.fit.warnings)
    assert found.chosen.replay_eligible == report(1).chosen.replay_eligible


def test_recorded_reads_are_of_single_tokens() -> None:
    made = captured(tiny_trace())
    reads = np.ones((48, 4, 4, 4), np.int64)
    with pytest.raises(InputError, match="recorded for one token at a time"):
        make_batches(replace(made, reads=KvReads(reads, reads)), 4, 2)
