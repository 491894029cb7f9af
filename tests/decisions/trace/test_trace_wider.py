"""Traces of several decisions, and of steps with kinds and places (schema version 3)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim import load_trace, run, save_trace
from carsim.base.errors import InputError
from carsim.decisions.replay import InputChange, Tas
from carsim.decisions.trace import Trace, trace_stats
from carsim.decisions.trace.file import Scored
from carsim.decisions.trace.meta import DecisionMeta, StepKind, StepsMeta, parse_meta
from carsim.decisions.trace.steps import turns_of
from tests.trace_maker import make_meta, make_trace

ROOT = Path(__file__).parents[3]
ATTENTION = DecisionMeta(
    known="qkv", blocks=("attention", "output"), holds=("output",), rule=Tas(), tau=0.2, scope="row"
)
STEPS = StepsMeta(
    count=10,
    kinds=(
        StepKind(name="denoise", tokens=6),
        StepKind(name="commit", tokens=6, decides=False),
    ),
)


def two_decisions(seed: int = 0) -> Trace:
    """A trace with a decision about attention beside that about MLPs."""
    plain, other = make_trace(seed), make_trace(seed + 1, tau=0.2)
    meta = plain.meta.model_copy(
        update={"schema_version": 3, "decisions": {"attention": ATTENTION}}
    )
    return replace(plain, meta=meta, further={"attention": Scored(other.replay, other.tas)})


def denoised(max_age: int | None = None) -> Trace:
    """Two chunks of four denoising steps and one that commits; decisions from step to step."""
    rule = InputChange(max_age=max_age)
    meta = make_meta(schema_version=3, steps=STEPS, rule=rule, tau=-0.5)
    kinds = np.array([0, 0, 0, 0, 1] * 2, np.uint8)
    places = np.repeat(np.array([0, 1], np.int32), 5)
    tas = -np.random.default_rng(0).random((10, 2, 4)).astype(np.float32)
    made = Trace(np.zeros(tas.shape, bool), tas, meta, kinds=kinds, places=places)
    scored = made.order.scored(meta.replay)
    tas = np.where(scored[:, :, None], tas, np.nan)
    replay = made.order.decided(meta.replay, tas, meta.tokens_per_frame)
    return replace(made, replay=replay, tas=tas)


@pytest.mark.parametrize("name", ["small_8f_periodic", "vilau_8f_pair"])
def test_a_file_of_today_is_read_unchanged_and_written_byte_for_byte(
    name: str, tmp_path: Path
) -> None:
    shipped = ROOT / f"traces/{name}.npz"
    trace = load_trace(shipped)
    assert (trace.meta.schema_version, trace.meta.decisions, trace.further) == (2, None, {})
    save_trace(tmp_path / "again.npz", trace)
    assert (tmp_path / "again.npz").read_bytes() == shipped.read_bytes()


@given(seed=st.integers(0, 99))
def test_several_decisions_come_back_from_a_file(seed: int, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("wider") / "two.npz"
    trace = save_trace(path, two_decisions(seed))
    again = load_trace(path)
    assert again.meta == trace.meta
    assert set(again.arrays()) == {"replay", "tas", "replay.attention", "tas.attention"}
    for name, array in trace.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], array)
    assert again.sha256 == trace.sha256


def test_kinds_and_places_of_steps_come_back_and_decide(tmp_path: Path) -> None:
    trace = save_trace(tmp_path / "chunks.npz", denoised())
    again = load_trace(tmp_path / "chunks.npz")
    assert again.order.turns.tolist() == [0, 1, 2, 3, -1] * 2
    assert again.replay[1:4].any()
    assert not again.replay[[0, 4, 5, 9]].any()  # the first of a chunk, and the last, which commits
    np.testing.assert_array_equal(again.replay, trace.replay)
    assert trace_stats(again).by_frame.shape == (4,)
    with pytest.raises(InputError, match="not the tokens of frames"):
        run("zcu102", [again])


def test_ages_count_from_one_step_of_a_place_to_the_next() -> None:
    always = np.full((10, 2, 4), 0.0, np.float32)
    trace = denoised(max_age=2)
    replay = trace.meta.replay.decide_in_turn(always, np.repeat([0, 1], 5))
    assert replay[:, 0, 0].tolist() == [True, True, False, True, True] * 2


def test_first_and_later_steps_of_places() -> None:
    assert turns_of(np.array([3, 1, 3, 3, 1])).tolist() == [0, 0, 1, 2, 1]
    assert turns_of(np.array([], int)).tolist() == []


def test_what_contradicts_itself_is_refused(tmp_path: Path) -> None:
    two, chunks = two_decisions(), denoised()
    other = two.further["attention"]
    flipped = other.replay.copy()
    flipped[-1, 0, 0] ^= True
    early = chunks.replay.copy()
    early[5] = True
    for trace, words in (
        (replace(two, further={}), "array 'replay.attention': missing"),
        (replace(two, further={"mlp": other}), "array 'replay.attention': missing"),
        (
            replace(two, further={"attention": Scored(flipped, other.tas)}),
            "array 'replay.attention': contradicts tas > tau",
        ),
        (replace(chunks, places=None), "array 'places': missing"),
        (replace(chunks, kinds=chunks.kinds + 2), "array 'kinds': a kind that the metadata"),
        (replace(two, kinds=np.zeros(12, np.uint8)), "array 'kinds': not expected"),
    ):
        with pytest.raises(InputError, match=words):
            save_trace(tmp_path / "bad.npz", trace)
    with pytest.raises(InputError, match="never evaluated \\(first step of a place"):
        save_trace(tmp_path / "bad.npz", replace(chunks, replay=early))


def test_metadata_of_decisions_that_makes_no_sense_is_refused() -> None:
    text = two_decisions().meta.model_dump_json()
    assert '"schema_version":3' in text
    assert parse_meta(text, "x").replay_of("attention").tau == (0.2, 0.2)
    for old, new, words in (
        ('"schema_version":3', '"schema_version":2', "is of schema version 3, got 2"),
        ('"holds":["output"]', '"holds":["mlp"]', "holds 'mlp', which is not among its blocks"),
        ('"attention":{"skip"', '"token":{"skip"', "are those of the trace"),
        ('"tau":0.2', '"tau":[0.2]', "1 taus for 2 layers"),
        ('"attention":{"skip"', '"A B":{"skip"', "should match pattern"),
    ):
        assert old in text
        with pytest.raises(InputError, match=words):
            parse_meta(text.replace(old, new), "x")


def test_a_run_says_which_decisions_it_leaves_out_and_what_else_was_skipped() -> None:
    base = load_trace("vilau_8f_fast")
    token = DecisionMeta(skip="attention_too", known="qkv", blocks=("attention", "output", "mlp"))
    meta = base.meta.model_copy(
        update={
            "schema_version": 3,
            "decisions": {"token": token, "attention": ATTENTION.model_copy(update={"tau": 9.0})},
        }
    )
    further = {"attention": Scored(base.tas > 9.0, base.tas)}
    label = run("zcu102", [replace(base, meta=meta, further=further)]).chosen.batches.label
    assert "made under skip attention_too, run under skip mlp (open loop)" in label
    assert "without the decisions attention of the trace" in label
