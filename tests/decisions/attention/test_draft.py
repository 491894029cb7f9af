"""DraftAttention against a slow version that lists tokens, and its properties."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_maker import GROUP, KV, Cache

from carsim.base.errors import IgnoredKeyWarning
from carsim.decisions.attention import Draft
from carsim.decisions.attention.search import EXACT_BITS, best, few_bits, vector_bytes


def slow(cache: Cache, row: int, head: int) -> list[int]:
    """Slots that one row and key head read, token by token."""
    policy, scores, size = cache.policy, [], cache.policy.block_tokens
    blocks = [
        range(cache.prompt + i * size, cache.prompt + (i + 1) * size)
        for i in range((cache.video - 1) // size)
    ]
    for number, block in enumerate(blocks):
        mean = sum(cache.keys[row, head, slot] for slot in block) / size
        queries = cache.queries[row, head * GROUP : (head + 1) * GROUP]
        scores.append((max(q @ mean for q in queries), number))
    k = ceil(round(policy.keep * len(blocks), 9))
    unread = {slot for _, i in sorted(scores)[: len(blocks) - k] for slot in blocks[i]}
    return [i for i in range(cache.padding[row], cache.keys.shape[2]) if i not in unread]


policies = st.builds(
    Draft,
    block_tokens=st.integers(1, 6),
    keep=st.floats(0.01, 1).map(lambda share: round(share, 3)),
    pooled_bits=st.just(EXACT_BITS),
)
caches = st.builds(Cache, policies, st.integers(1, 60), st.integers(0, 10**6), st.integers(1, 5))


@given(caches)
def test_it_reads_what_the_slow_version_reads(cache: Cache) -> None:
    assert cache.read_slots == [[slow(cache, row, head) for head in range(KV)] for row in range(3)]


@given(st.integers(1, 6), st.integers(1, 60), st.integers(0, 99), st.integers(0, 2))
def test_a_pooled_key_is_the_mean_of_its_block(size: int, video: int, seed: int, row: int) -> None:
    cache = Cache(Draft(block_tokens=size, pooled_bits=EXACT_BITS), video, seed)
    kept = cache.state.means
    for block in range(cache.video // size):
        first = cache.prompt + block * size
        mean = cache.keys[row, :, first : first + size].mean(axis=1)
        np.testing.assert_allclose(kept[1, row, :, block], mean, atol=1e-12)
    assert not kept[1][:, :, cache.video // size :].any(), "the future"
    assert not kept[0].any(), "another layer"


def test_fields_of_earlier_versions_are_named_or_refused() -> None:
    with pytest.warns(IgnoredKeyWarning, match="draft.tables has no effect: scores of blocks"):
        kept = Draft.model_validate({"scorer": "mean", "tables": 4, "pooled_bits": 4})
    assert kept.text == "draft attention (block_tokens 16, keep 0.25, scorer mean, pooled_bits 4)"
    with pytest.raises(ValueError, match="should be 'mean'"):
        Draft.model_validate({"scorer": "minmax"})


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(1, 9))
def test_of_equal_scores_the_newest_are_best(scores: list[int], k: int) -> None:
    ranked = sorted(range(len(scores)), key=lambda i: (scores[i], i), reverse=True)
    chosen = best(np.array([scores, scores[::-1]]), k)
    assert np.flatnonzero(chosen[0]).tolist() == sorted(ranked[:k])
    assert chosen.sum(axis=1).tolist() == [min(k, len(scores))] * 2


@given(st.integers(2, 16), st.integers(0, 99))
def test_few_bits_move_an_element_by_half_a_step_at_most(bits: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(5, 8))
    step = np.abs(vectors).max(axis=-1, keepdims=True) / (2 ** (bits - 1) - 1)
    kept = few_bits(vectors, bits)
    assert (np.abs(kept - vectors) <= step / 2 + 1e-12).all()
    assert len(np.unique(np.rint(kept / step)[0])) <= 2**bits - 1
    assert few_bits(vectors * 0, bits).tolist() == (vectors * 0).tolist()
    assert few_bits(vectors, EXACT_BITS) is vectors
    assert (vector_bytes(128, 8), vector_bytes(128, EXACT_BITS)) == (130, 512)


def test_side_work_by_hand() -> None:
    """70 tokens are four blocks; two query heads and one key head of eight elements."""
    context = np.array([70])
    work = Draft().side_work(context, 2, 1, 8)
    assert (work.macs, work.bytes_read, work.scan_cycles) == (4 * 2 * 8, 4 * (8 + 2), 8)
    assert (work.element_ops, work.bytes_written) == (8, 1)
    assert Draft().side_bytes(context, 1, 8) == 5 * 10
