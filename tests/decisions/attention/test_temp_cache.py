"""TempCache: groups as an obvious version lists them, in the decoder, in a trace, on a machine."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decoder_oracle import decode_with
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_design, tiny_trace

from carsim.base.errors import InputError
from carsim.cost.capacity import contents as contents_of
from carsim.decisions.attention import CacheShape, Dense, TempCache
from carsim.decisions.trace import Trace
from carsim.decisions.trace.file import check_trace
from carsim.decoder.structures import Config, DecoderPolicy, rotary_table
from carsim.runs.pipeline import run as run_design
from carsim.testing.decoder import MASK, DecodedLog, make_config, make_inputs, make_weights
from carsim.testing.decoder import decode_rows as run
from carsim.workload.geometry import Video

SEARCHES = ("aligned", "window3x3", "full")
every_search = pytest.mark.parametrize("search", SEARCHES)


def slow_groups(
    policy: TempCache, per_frame: int, prompt: int, token: int, plain: Any
) -> list[list[int]]:
    """The groups that a token reads, members in order, from a head's keys before rotation."""

    def cosine(i: int, j: int) -> float:
        return float(plain[i] @ plain[j] / (np.linalg.norm(plain[i]) * np.linalg.norm(plain[j])))

    def looks_at(place: int, other: int) -> bool:  # a place of the frame before
        if policy.search == "full":
            return True
        side = int(per_frame**0.5)
        near = max(abs(place // side - other // side), abs(place % side - other % side)) <= 1
        same = place == other
        return 0 <= other < per_frame and (same if policy.search == "aligned" else near)

    under_way = max(0, (token - prompt) // per_frame)
    unmerged = min(token + 1, prompt + per_frame * max(0, under_way - 1))
    groups: list[list[int]] = []
    for begin in range(prompt, unmerged, per_frame):
        earlier = sorted(groups, key=lambda group: group[-1])
        joined: list[tuple[int, list[int] | None]] = []
        for i in range(begin, begin + per_frame):
            before = begin - per_frame
            seen = [group for group in earlier if looks_at(i - begin, group[-1] - before)]
            best = max(seen, key=lambda group: cosine(i, group[-1]), default=None)
            alike = best is not None and cosine(i, best[-1]) >= policy.theta
            joined.append((i, best if alike else None))
        for i, group in joined:  # only now, so that all have looked at the same groups
            if group is None:
                groups.append([i])
            else:
                group.append(i)
    alone = [*range(min(prompt, token + 1)), *range(max(unmerged, prompt), token + 1)]
    return [[i] for i in alone] + groups


def make_video(n_frames: int = 6) -> Config:
    """Frames of 2 x 2 tokens, long enough for groups to form and to be read."""
    return replace(make_config(), tokens_per_frame=4, n_frames=n_frames)


def decoded(policy: Any, rows: Any = slice(None), config: Config | None = None) -> DecodedLog:
    return run(config or make_video(), DecoderPolicy((0.0, 0.0), attention=policy), rows)[2]


@every_search
@given(seed=st.integers(0, 99))
def test_frames_that_repeat_exactly_are_decoded_as_if_nothing_merged(search: Any, seed: int):
    """Where the rotary embedding turns keys by nothing, merging equal keys is exact (lemma 5.1).

    Of two pairs of a head, the first turns by a radian a place and is empty; the other by 1e-20.
    """
    shape = make_config().geometry.model_copy(update={"n_heads": 2, "n_kv_heads": 1, "head_dim": 4})
    config = replace(make_video(5), geometry=shape, rope_theta=1e40)
    weights = make_weights(config, seed)
    weights.w_qkv[:, :, [8, 10]] = 0  # first pair of the key head, after two query heads
    prompt, embeddings = make_inputs(config, seed=seed)
    repeated = np.tile(embeddings[:4], (5, 1, 1))

    (dense, *_), (merged, state, _) = (
        decode_with(
            config, DecoderPolicy((None, None), attention=each), weights, (prompt, repeated)
        )
        for each in (Dense(), TempCache(theta=1 - 1e-12, search=search))
    )
    assert state.kept[0].max() <= MASK.sum(axis=1).max() + 2 * 4, "the first layer has one frame"
    np.testing.assert_allclose(merged, dense, atol=1e-10)


@st.composite
def caches(draw: st.DrawFn) -> tuple[TempCache, CacheShape, Any, Any, Any]:
    """A policy, a cache, and keys before and after rotation, and values, as a decoding has them."""
    policy = TempCache(
        theta=draw(st.sampled_from([0.0, 0.5, 0.9, 0.99])), search=draw(st.sampled_from(SEARCHES))
    )
    heads, per_frame = draw(st.integers(1, 3)), draw(st.sampled_from([1, 4, 9]))
    padding = np.array(draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)))
    slots = 4 + per_frame * draw(st.integers(3, 6))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    kinds = rng.normal(size=(draw(st.integers(1, 4)), 4))
    size = (len(padding), heads, slots)
    plain = kinds[rng.integers(0, len(kinds), size)] + rng.normal(size=(*size, 4)) / 4
    cos, sin = rotary_table(slots, 4, 1e4, np.dtype(float))
    position = np.maximum(0, np.arange(slots) - padding[:, None])[:, None]  # [B, 1, slots]
    keys = plain * cos[position] + np.roll(plain, 2, axis=-1) * sin[position]
    shape = CacheShape(1, heads, heads, 4, per_frame, 4, slots, padding, 1e4, np.dtype(float))
    return policy, shape, plain, keys, rng.normal(size=keys.shape)


@given(caches())
def test_groups_are_those_of_the_obvious_version(drawn: Any) -> None:
    policy, shape, plain, keys, values = drawn
    state, kept_keys, first_values = policy.begin(shape), keys.copy(), values.copy()
    for end in range(4 + shape.tokens_per_frame, shape.n_slots + 1, shape.tokens_per_frame):
        held = policy.end_of_frame(state, 0, keys[:, :, :end], values[:, :, :end])
        counts = state.members[0, :, :, :end]
        for row, padding in enumerate(shape.padding):
            most = 0
            for head in range(shape.n_kv_heads):
                own = plain[row, head, padding:]
                groups = slow_groups(
                    policy, shape.tokens_per_frame, 4 - padding, end - padding, own
                )
                groups.remove([end - padding])  # the token to come
                members = sorted(i for group in groups for i in group)
                assert members == list(range(end - padding)), "each in one group"
                assert counts[row, head, padding:].sum() == end - padding
                found = np.flatnonzero(counts[row, head, padding:])
                assert found.tolist() == sorted(group[-1] for group in groups), "the newest member"
                assert len(found) <= end - padding
                for group in groups:
                    slot = padding + group[-1]
                    assert counts[row, head, slot] == len(group)
                    mean = first_values[row, head, padding:][group].mean(axis=0)
                    np.testing.assert_allclose(values[row, head, slot], mean, atol=1e-12)
                    assert state.bias[0, row, head, slot] == np.log(len(group))
                most = max(most, len(groups))
            if held is not None:
                assert held[row] == most
    np.testing.assert_array_equal(keys, kept_keys)


def test_what_it_cannot_decode() -> None:
    with pytest.raises(InputError, match="'window3x3' needs square frames, got 3 tokens a frame"):
        run(make_config(), DecoderPolicy((0.0, 0.0), attention=TempCache(search="window3x3")))
    long = CacheShape(1, 1, 1, 2, 4, 4, 2**16, np.array([0]), 1e4, np.dtype(float))
    with pytest.raises(InputError, match="65,536 tokens are more than a count of 16 bits holds"):
        TempCache().begin(long)


# ----------------------------------------------------------------------------------- the machine


def test_work_by_hand() -> None:
    # 100 keys are held, frames have 10 tokens, two key heads of four elements serve four queries.
    held, shape = np.array([100]), {"n_kv_heads": 2, "head_dim": 4}
    step = TempCache().side_work(held, n_heads=4, **shape)
    assert (step.element_ops, step.bytes_read) == (100 * 4, 100 * 2 * 2)  # a sum a score; m
    # Ten keys meet one each and have their length taken; 2 x 10 are turned back; 10 means; all
    # keys and values are moved, with 4 bytes beside them.
    aligned = TempCache().frame_work(held, 10, **shape)
    assert aligned.macs == (10 + 10) * 8
    assert aligned.element_ops == 3 * 20 * 8 + 10 * 2 + 10 * (3 * 8 + 2)
    assert aligned.kv_elements == 20 * 8 + 2 * 2 * 100 * 8
    assert aligned.bytes_read == aligned.bytes_written == 100 * 2 * 4
    assert TempCache(search="window3x3").frame_work(held, 10, **shape).macs == (90 + 10) * 8
    full = TempCache(search="full").frame_work(held, 10, **shape)
    assert full.macs == (10 * 100 + 10) * 8
    assert full.element_ops == 3 * 110 * 8 + 10 * 100 * 2 + 10 * (3 * 8 + 2)
    assert full.kv_elements == 110 * 8 + 2 * 2 * 100 * 8
    assert TempCache().side_bytes(held, **shape) == 100 * 2 * 4
    never = TempCache(theta=2.0)
    assert never.frame_work(held, 10, **shape).macs == never.side_bytes(held, **shape) == 0


def tiny_merged(held: int) -> Trace:
    """The toy's trace of three frames of 16 tokens, of which the last step reads what is given."""
    trace = tiny_trace(attention=TempCache(), n_frames=4)
    after = np.minimum(trace.context()[15::16], 10**6)[:, None].repeat(4, axis=1)  # [T, L, B]
    after[2:] = np.minimum(after[2:], held)
    before = np.concatenate([np.array([5, 2, 4, 2])[None, None].repeat(4, axis=1), after[:-1]])
    steps = np.arange(64)
    tokens = before[steps // 16] + (steps % 16 + 1)[:, None, None]
    tokens = tokens[:, :, None].repeat(4, axis=2)
    return replace(trace, kv_tokens=tokens, kv_runs=np.ones_like(tokens), kv_held=after)


OWN = "policy.attention={kind: temp_cache}"


def test_a_machine_pays_for_what_is_held() -> None:
    trace = tiny_merged(40)
    check_trace(trace, "toy")
    design = tiny_design(OWN)
    report = run_design(design, [trace])
    body, held = design.model.body, np.array([5, 5 + 16, 5 + 32, 40])
    # Means over rows of what was read, rounded up, in 16 steps of 4 frames.
    tokens = -(-trace.kv_tokens[:, 0].sum(axis=(1, 2)) // 16)
    work = report.row("temp_cache/static").simulation.totals["attention"].macs
    in_step = 2 * tokens * body.q_size + 2 * body.kv_size  # scores and sums; search and lengths
    assert work == in_step.sum() * 4 * 4
    (use,) = [each for each in report.fit.memories if each.contents]
    contents = {each.content: each.nbytes for each in use.contents}
    most = int(held.max()) + 16  # the frame under way is not merged
    assert contents["KV cache"] == 4 * 4 * design.model.kv.bytes_of(2 * most * body.kv_size)
    assert contents["data of the policy"] == 4 * 4 * most * 4 * 4
    dense = {each.content: each.nbytes for each in contents_of(design, Video(4, 16, 5))}
    assert dense["KV cache"] > contents["KV cache"], "without a trace, nothing is known to merge"


def test_bytes_of_a_step_are_those_of_the_policy() -> None:
    trace = tiny_merged(40)
    design = tiny_design(OWN)
    policy, kv = design.policy.attention, design.model.kv
    tokens = -(-trace.kv_tokens[:, 0].sum(axis=(1, 2)) // 16)
    step = policy.side_work(tokens, 4, 4, 16)
    frame = policy.frame_work(tokens, 16, 4, 16)
    own = (
        step.bytes_read + 2 * -(-frame.bytes_read // 16) + kv.bytes_of(-(-frame.kv_elements // 16))
    )
    row = run_design(design, [trace]).row("temp_cache/static")
    moved = sum(row.simulation.totals["attention"].dram_bytes)
    assert moved == 4 * 4 * (kv.bytes_of(2 * tokens * 64) + kv.bytes_of(2 * 64) + own).sum()
