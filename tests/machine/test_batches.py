"""Rows of a trace cut into batches, and their layer-steps into patterns."""

import numpy as np
import pytest
from ideal import ideal_hardware

from carsim.design import DenseAttention, StreamingAttention
from carsim.errors import InputError
from carsim.machine.batches import make_batches
from carsim.machine.bench import Ahead
from carsim.machine.memo import PhaseMemo
from carsim.machine.patterns import computes_first, number_patterns, pattern_of
from carsim.machine.plan import Plan
from carsim.policy import Pairs
from carsim.trace import Decisions
from carsim.workload.geometry import Video


def decisions(rows: int, pairs: Pairs = ()) -> Decisions:
    """One step of one layer for each bit of the row's number, so that rows can be told apart."""
    bits = np.array([[row >> bit & 1 for row in range(rows)] for bit in range(3)], bool)
    return Decisions(bits[:, None, :], "captured", "made up", pairs)


def rows_of(replay: np.ndarray) -> list[list[int]]:
    """The numbers of the rows in each batch: the reverse of :func:`decisions`."""
    return (replay[:, :, 0, :] * np.array([1, 2, 4])[None, :, None]).sum(axis=1).tolist()


def test_rows_without_guidance_are_taken_in_their_order() -> None:
    batches = make_batches(decisions(6), 2)
    assert rows_of(batches.replay) == [[0, 1], [2, 3], [4, 5]]
    assert batches.videos_per_batch == 2
    assert batches.left_out_rows == 0


def test_pairs_stay_whole_and_make_one_video_each() -> None:
    pairs = ((0, 3), (1, 4), (2, 5))
    batches = make_batches(decisions(6, pairs), 2)
    assert rows_of(batches.replay) == [[0, 3], [1, 4], [2, 5]]
    assert batches.videos_per_batch == 1
    batches = make_batches(decisions(6, pairs), 4)
    assert rows_of(batches.replay) == [[0, 3, 1, 4]]
    assert batches.videos_per_batch == 2
    assert batches.left_out_rows == 2  # half a batch is none


def test_rows_outside_of_pairs_are_left_out() -> None:
    # A video of one row beside videos of two would make "per video" mean two things.
    batches = make_batches(decisions(6, ((1, 4), (0, 5))), 2)
    assert rows_of(batches.replay) == [[1, 4], [0, 5]]
    assert batches.left_out_rows == 2
    with pytest.raises(InputError) as caught:
        make_batches(decisions(6, ((1, 4),)), 4)
    assert str(caught.value).startswith(
        "policy.batch: 4 sequences are more than the 2 rows in guidance pairs of the trace; "
    )


def test_labels_travel_along() -> None:
    batches = make_batches(decisions(2), 2)
    assert (batches.source, batches.label) == ("captured", "made up")


def test_a_batch_of_more_rows_than_the_trace_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        make_batches(decisions(6), 8)
    assert str(caught.value) == (
        "policy.batch: 8 sequences are more than the 6 rows of the trace; take a smaller batch, or "
        "pass --resample to draw further rows from the trace"
    )


def test_a_batch_that_splits_a_pair_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        make_batches(decisions(6, ((0, 1), (2, 3), (4, 5))), 3)
    assert str(caught.value) == (
        "policy.batch: 3 sequences would split a guidance pair of the trace; take an even batch"
    )


VIDEO = Video(n_frames=2, tokens_per_frame=3, prompt_tokens=4)


def make_plan(schedule: str = "drs", replays: bool = True, **machine: object) -> Plan:
    memo = PhaseMemo(ideal_hardware(**machine))
    steps = range(VIDEO.n_steps)
    return Plan(memo.phases, VIDEO, DenseAttention(), schedule, replays, steps)  # type: ignore[arg-type]


def test_a_pattern_is_loads_and_replays() -> None:
    replay = np.array([False, True, False, True])
    assert pattern_of(make_plan("drs"), replay, True) == (((1, 1), 2),)
    # Sequences 0 and 2 share core 0 of two.
    assert pattern_of(make_plan("static"), replay, True) == (((2, 0), 2),)
    assert pattern_of(make_plan("pack"), replay, True) == (((2, 0), 2),)


def test_where_nothing_is_decided_every_core_keeps_its_own() -> None:
    # Of four sequences on three cores with room for two, pack would leave a core idle.
    plan, everyone = make_plan("pack", cores=3), np.zeros(4, bool)
    assert pattern_of(plan, everyone, True) == (((2, 2, 0), 0),)
    assert pattern_of(plan, everyone, False) == (((2, 1, 1), 0),)


def test_patterns_of_a_small_register_are_per_group() -> None:
    plan = make_plan(drs={"index_register_bits": 3})
    replay = np.array([True, True, True, False])
    pattern = pattern_of(plan, replay, True)
    assert pattern == (((0, 0), 3), ((1, 0), 0))
    # What is fetched ahead serves the first group.
    assert not computes_first(pattern)
    assert computes_first(pattern_of(plan, ~replay, True))


def test_equal_patterns_have_equal_numbers() -> None:
    replay = np.zeros((1, 6, 1, 4), bool)
    replay[0, 3, 0] = [True, True, False, False]
    replay[0, 4, 0] = [False, True, True, False]
    numbers, patterns = number_patterns(make_plan("drs"), replay)
    assert numbers[0, 3, 0] == numbers[0, 4, 0]  # DRS cares how many, not which
    assert patterns[numbers[0, 3, 0]] == (((1, 1), 2),)
    assert patterns[numbers[0, 5, 0]] == (((2, 2), 0),)
    numbers, patterns = number_patterns(make_plan("static"), replay)
    # 2 and 3 on a core each; 0 and 3 on a core each; the same for cores that are alike.
    assert numbers[0, 3, 0] == numbers[0, 4, 0]


@pytest.mark.parametrize("batch", [1, 8, 9, 16, 17, 40])
@pytest.mark.parametrize("schedule", ["static", "drs"])
def test_numbers_lead_to_the_pattern_of_each_layer_step(batch: int, schedule: str) -> None:
    """Rows of up to a byte, of two, and of more, which are numbered in different ways."""
    replay = np.random.default_rng(batch).random((2, 6, 5, batch)) < 0.4
    replay[:, :3] = False  # the first frame
    plan = make_plan(schedule, batch=batch, cores=3)
    numbers, patterns = number_patterns(plan, replay)
    for g, s, layer in np.ndindex(numbers.shape):
        expected = pattern_of(plan, replay[g, s, layer], plan.scored(s))
        assert patterns[numbers[g, s, layer]] == expected
    assert len(patterns) == numbers.max() + 1


@pytest.mark.parametrize(("schedule", "moves"), [("static", False), ("drs", True), ("pack", True)])
def test_activations_move_where_cores_are_mapped(schedule: str, moves: bool) -> None:
    plan = make_plan(schedule)
    for scored in (False, True):
        case = plan.mlp_case((2, 2), 0, scored, False, 0, Ahead())
        assert case.handed_over == (moves and scored)


def test_a_decision_is_taken_from_the_second_frame_on() -> None:
    plan = make_plan()
    assert [plan.scored(step) for step in range(6)] == [False] * 3 + [True] * 3
    assert not any(make_plan(replays=False).scored(step) for step in range(6))


def test_an_aligned_key_is_read_apart_where_the_window_is_shorter_than_a_frame() -> None:
    # N = 3: the key of 3 tokens ago is the fourth of the window, the current token included.
    memo = PhaseMemo(ideal_hardware())
    outside = [
        Plan(memo.phases, VIDEO, attention, "drs", True, range(6))
        .attend_case(3, Ahead())
        .aligned_outside
        for attention in (
            DenseAttention(),
            StreamingAttention(sinks=0, window=3),
            StreamingAttention(sinks=0, window=4),
        )
    ]
    assert outside == [False, True, False]
