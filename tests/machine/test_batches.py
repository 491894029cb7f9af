"""Rows of a trace cut into batches, and the different rows of their decisions."""

import re
from dataclasses import replace

import numpy as np
import pytest
from ideal import ideal_hardware

from carsim.base.errors import InputError
from carsim.decisions.attention import Dense
from carsim.decisions.attention.base import KvReads
from carsim.decisions.replay import FASTCAR, Pairs, ReplayRule
from carsim.decisions.trace import Decisions
from carsim.decisions.trace.decisions import dense
from carsim.machine.batches import Batches, make_batches
from carsim.machine.cases import RowCases
from carsim.machine.numbering import distinct_rows
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.workload.geometry import Video


def decisions(rows: int, pairs: Pairs = ()) -> Decisions:
    """One step of one layer for each bit of the row's number, so that rows can be told apart."""
    bits = np.array([[row >> bit & 1 for row in range(rows)] for bit in range(3)], bool)
    return Decisions(bits[:, None, :], "captured", "made up", pairs)


def rows_of(replay: np.ndarray) -> list[list[int]]:
    """The numbers of the rows in each batch: the reverse of :func:`decisions`."""
    return (replay[:, :, 0, :] * np.array([1, 2, 4])[None, :, None]).sum(axis=1).tolist()


@pytest.mark.parametrize(
    ("pairs", "batch", "rows", "videos", "left_out"),
    [
        ((), 2, [[0, 1], [2, 3], [4, 5]], 2, 0),
        (((0, 3), (1, 4), (2, 5)), 2, [[0, 3], [1, 4], [2, 5]], 1, 0),
        (((0, 3), (1, 4), (2, 5)), 4, [[0, 3, 1, 4]], 2, 2),  # half a batch is none
        # A video of one row beside videos of two would make "per video" mean two things.
        (((1, 4), (0, 5)), 2, [[1, 4], [0, 5]], 1, 2),
    ],
)
def test_rows_are_taken_in_their_order_and_pairs_stay_whole(pairs, batch, rows, videos, left_out):
    batches = make_batches(decisions(6, pairs), batch)
    assert rows_of(batches.replay) == rows
    assert (batches.videos_per_batch, batches.left_out_rows) == (videos, left_out)


def test_a_part_reads_what_its_own_steps_read() -> None:
    tokens = np.arange(12).reshape(2, 3, 2)
    batches = replace(make_batches(decisions(4), 2), reads=(tokens, tokens + 1))
    part = batches.at_steps(np.array([0, 2]), n_batches=1)
    assert part.replay.tolist() == batches.replay[:1, [0, 2]].tolist()
    assert part.reads[0].tolist() == [[[0, 1], [4, 5]]]
    assert part.reads[1].tolist() == [[[1, 2], [5, 6]]]


@pytest.mark.parametrize(
    ("made", "batch", "line"),
    [
        (
            decisions(6),
            8,
            "8 sequences are more than the 6 rows of the trace; take a smaller batch,",
        ),
        (decisions(6, ((1, 4),)), 4, "4 sequences are more than the 2 rows in guidance pairs of"),
        (decisions(6, ((0, 1), (2, 3), (4, 5))), 3, "3 sequences would split a guidance pair"),
    ],
)
def test_a_batch_that_rows_do_not_make_up_is_refused(made: Decisions, batch: int, line: str):
    with pytest.raises(InputError, match=f"^policy.batch: {re.escape(line)}"):
        make_batches(made, batch)


VIDEO = Video(n_frames=2, tokens_per_frame=3, prompt_tokens=4)


def make_plan(schedule: str = "drs", rule: ReplayRule | None = FASTCAR, **machine: object) -> Plan:
    phases = Phases(ideal_hardware(**machine))  # type: ignore[arg-type]
    return Plan(phases, VIDEO, Dense(), schedule, rule, range(VIDEO.n_steps))


@pytest.mark.parametrize("batch", [1, 8, 9, 16, 17, 40])
def test_distinct_patterns_stand_for_all_layer_steps(batch: int) -> None:
    """Rows of up to 16 sequences and of more, which are numbered in different ways."""
    replay = np.random.default_rng(batch).random((2, 6, 5, batch)) < 0.4
    batches = Batches(replay, 1, 0, "", "")
    for group in (slice(0, batch), slice(batch // 2, batch)):
        found = batches.distinct_patterns(np.arange(3, 6), group)
        assert (found.computing[found.pattern_of()] == ~replay[:, 3:6, :, group]).all()
        assert (
            len(np.unique(found.computing, axis=0))
            == len(found.computing)
            == found.pattern_of().max() + 1
        )
        for g in range(2):
            counts = np.bincount(found.pattern_of()[g].ravel(), minlength=len(found.computing))
            assert (found.counts[g] == counts).all()
    # Most of the steps are counted by leaving out the others; few patterns also step by step.
    for steps in (np.arange(6), np.arange(1, 6), np.array([0, 2, 3, 5])):
        for by_step in (False, True):
            whole = slice(0, batch)
            found = batches.distinct_patterns(steps, whole, by_step=by_step)
            for number, pattern in enumerate(found.computing):
                occurs = (~replay[:, steps] == pattern).all(axis=-1)
                assert (found.counts[:, number] == occurs.sum(axis=(1, 2))).all()
                if found.counts_by_step is not None:
                    assert (found.counts_by_step[:, number] == occurs.sum(axis=2)).all()
            assert (found.counts_by_step is not None) == (by_step and batch == 1)
    computing = (~replay).sum(axis=-1).ravel()
    assert (batches.computing_counts == np.bincount(computing, minlength=batch + 1)).all()


@pytest.mark.parametrize("batch", [1, 4, 16, 17])
@pytest.mark.parametrize("is_counted", [False, True])
def test_joined_decisions_have_the_patterns_of_their_rows(batch: int, is_counted: bool) -> None:
    """Codes and counts of members, put side by side, are those of the joined decisions."""
    rng = np.random.default_rng(batch)
    members = [Batches(rng.random((2, 6, 5, batch)) < share, 1, 0, "", "") for share in (0.2, 0.8)]
    whole = slice(0, batch)
    if is_counted:
        for member in members:
            member.distinct_patterns(np.arange(6), whole, by_step=True)
    joined = Batches.joined(members)
    some_layers = joined.of_layers([1, 3])
    some_steps = joined.at_steps(np.array([0, 2, 5]))
    fewer = replace(joined, replay=joined.replay[:1])
    for batches in (joined, some_layers, some_steps, fewer):
        alone = Batches(batches.replay, 1, 0, "", "")
        for by_step in (False, True):
            steps = np.arange(batches.replay.shape[1])
            found = batches.distinct_patterns(steps, whole, by_step=by_step)
            wanted = alone.distinct_patterns(steps, whole, by_step=by_step)
            assert (found.computing[found.pattern_of()] == ~batches.replay).all()
            assert (found.computing == wanted.computing).all()
            assert (found.counts == wanted.counts).all()
            assert found.counts.shape == wanted.counts.shape
            assert (found.counts_by_step is None) == (wanted.counts_by_step is None)
            if found.counts_by_step is not None:
                assert (found.counts_by_step == wanted.counts_by_step).all()
        assert (batches.computing_counts == alone.computing_counts).all()


def test_where_nothing_is_decided_every_core_keeps_its_own() -> None:
    # Of four sequences on three cores with room for two, pack would leave a core idle.
    plan, everyone = make_plan("pack", cores=3), RowCases(np.ones((1, 4), bool), None)
    assert everyone.loads(plan.machine, plan.schedule_of(True), split=False)[0].tolist() == [
        [2, 2, 0]
    ]
    assert everyone.loads(plan.machine, plan.schedule_of(False), split=False)[0].tolist() == [
        [2, 1, 1]
    ]


def test_sequences_are_assigned_in_parts_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan("pack", cores=3)
    cases = RowCases(np.random.default_rng(0).random((23, 4)) < 0.5, np.zeros(23, np.int64))
    whole = cases.loads(plan.machine, plan.schedule_of(True), split=False)
    monkeypatch.setattr("carsim.machine.cases.ASSIGNED", 12)  # three cases at a time
    np.testing.assert_equal(cases.loads(plan.machine, plan.schedule_of(True), split=False), whole)


@pytest.mark.parametrize("width", [3, 20, 70])  # one whole number for a row, two, seven
def test_rows_of_any_width_are_told_apart(width: int) -> None:
    rows = np.random.default_rng(width).integers(0, 40, (200, width))[[*range(200), *range(150)]]
    first, index = distinct_rows(rows, 40)
    assert len(first) == len(np.unique(rows, axis=0)) == 200
    assert (rows[first][index] == rows).all()


@pytest.mark.parametrize(
    ("tokens", "runs", "pairs", "expected"),
    [
        # Two heads of two rows read 3, 4, 6 and 6 tokens, 4.75 in the mean, in 1, 1, 1 and 2 runs.
        ([[3, 4], [6, 6]], [[1, 1], [1, 2]], (), (5, 2)),
        # Of four rows, those that are kept alone.
        ([[10, 20, 30, 44]], [[1, 2, 3, 4]], ((3, 1),), (32, 3)),
    ],
)
def test_reads_of_a_batch_are_the_mean_of_its_heads_and_rows_rounded_up(
    tokens: list[list[int]], runs: list[list[int]], pairs: Pairs, expected: tuple[int, int]
) -> None:
    reads = KvReads(*(np.array([[each]]) for each in (tokens, runs)))
    found = make_batches(replace(dense(1, 1, len(tokens[0])), pairs=pairs, reads=reads), 2).reads
    assert found is not None
    assert tuple(each.item() for each in found) == expected
