"""AnnSA against slow versions that list tokens, and its properties."""

from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_maker import GROUP, KV, WIDTH, Cache, mass_kept

from carsim.decisions.attention import Ann, Query
from carsim.decisions.attention.search import EXACT_BITS, few_bits, hyperplanes
from carsim.decoder.structures import LayerRecord

fields = {"sinks": st.integers(0, 4), "window": st.integers(1, 5)}
by_signature = st.builds(
    Ann, tables=st.integers(1, 4), bits=st.integers(0, 5), seed=st.integers(0, 9), **fields
)
by_few_bits = st.builds(
    Ann,
    search=st.just("quantised"),
    keep=st.floats(0.01, 1).map(lambda share: round(share, 3)),
    key_bits=st.sampled_from([2, 4, EXACT_BITS]),
    **fields,
)


def caches(policies: Any) -> Any:
    return st.builds(Cache, policies, st.integers(1, 60), st.integers(0, 10**6), st.integers(1, 5))


def slow(cache: Cache, row: int, head: int) -> list[int]:
    """Slots that one row and key head read, token by token."""
    policy, end, first = cache.policy, cache.keys.shape[2], int(cache.padding[row])
    forced = {*range(first, min(end, first + policy.sinks))}
    forced |= {*range(max(first, end - policy.window), end)}
    others = [slot for slot in range(first, end) if slot not in forced]
    queries = cache.queries[row, head * GROUP : (head + 1) * GROUP]
    keys = cache.keys[row, head]
    if policy.search == "lsh":
        planes = hyperplanes(policy.tables, policy.bits, WIDTH, policy.seed)

        def codes(vector: Any) -> list[list[bool]]:
            return [[bool(vector @ plane > 0) for plane in table] for table in planes]

        def shares(slot: int) -> bool:
            of_key = codes(keys[slot])
            return any(a == b for q in queries for a, b in zip(codes(q), of_key, strict=True))

        return sorted(forced | {slot for slot in others if shares(slot)})
    kept = few_bits(keys, policy.key_bits)
    ranked = sorted(others, key=lambda slot: (max(q @ kept[slot] for q in queries), slot))
    k = ceil(round(policy.keep * len(others), 9))
    return sorted(forced | set(ranked[len(ranked) - k :]))


@given(caches(by_signature | by_few_bits))
def test_it_reads_what_the_slow_version_reads(cache: Cache) -> None:
    read = cache.read
    for row in range(3):
        for head in range(KV):
            assert np.flatnonzero(read[row, head]).tolist() == slow(cache, row, head)


@given(caches(by_few_bits), st.integers(1, 40))
def test_quantised_at_full_precision_is_exact_top_k(cache: Cache, number: int) -> None:
    exact = {"sinks": 0, "window": 1, "key_bits": EXACT_BITS}
    cache.policy = cache.policy.model_copy(update=exact)
    cache.feed_all()
    read, end = cache.read, cache.keys.shape[2]
    q = cache.queries.reshape(3, KV, GROUP, WIDTH)
    scores = (q @ cache.keys.swapaxes(-1, -2)).max(axis=2)[..., :-1]
    for row, padding in enumerate(cache.padding):
        k = ceil(round(cache.policy.keep * (end - padding - 1), 9))
        for head in range(KV):
            best = padding + np.argsort(-scores[row, head, padding:])[:k]
            assert np.flatnonzero(read[row, head, :-1]).tolist() == sorted(best.tolist())


@given(caches(by_signature))
def test_more_tables_read_more_and_more_bits_less(cache: Cache) -> None:
    """Those of fewer tables are among them, so that recall does not fall."""
    read, masses = [], []
    for tables in (1, 2, 5):
        cache.policy = cache.policy.model_copy(update={"tables": tables})
        cache.feed_all()
        read.append(cache.read)
        masses.append(mass_of(cache))
    assert (read[0] <= read[1]).all()
    assert (read[1] <= read[2]).all()
    assert (np.diff(masses, axis=0) >= -1e-12).all()


def mass_of(cache: Cache) -> Any:
    """Mass kept, [B, H]."""
    query = Query(cache.queries, cache.queries, cache.keys, cache.padding)
    nothing: Any = None
    chosen = cache.policy.select(cache.state, 1, query)
    seen = LayerRecord(0, 1, query, chosen, nothing, None, nothing, nothing, nothing)
    return mass_kept(seen)


@given(caches(by_signature), st.integers(0, 59))
def test_a_key_equal_to_the_query_is_found(cache: Cache, place: int) -> None:
    slot = cache.prompt + place % cache.video
    cache.keys[:, :, slot] = cache.queries[:, ::GROUP]
    cache.feed_all()
    assert cache.read[:, :, slot].all()


@given(caches(by_signature))
def test_empty_buckets_fall_back_to_sinks_and_window(cache: Cache) -> None:
    """Keys opposite to all queries share no plane's side, and so no bucket."""
    cache.policy = cache.policy.model_copy(update={"bits": 3})
    cache.queries[:] = cache.queries[:, :1]
    cache.keys[:] = -cache.queries[:, :1, None]
    cache.feed_all()
    end = cache.keys.shape[2]
    place = np.arange(end) - cache.padding[:, None]
    sinks, window = cache.policy.sinks, cache.policy.window
    alone = (place >= 0) & ((place < sinks) | (np.arange(end) >= end - window))
    assert (cache.read == alone[:, None]).all()


def test_fields_of_the_other_search_are_refused() -> None:
    assert Ann(bits=5).short == "ann lsh 4 5 0 4 16"
    assert "key_bits 4" in Ann(search="quantised").text
    with pytest.raises(ValueError, match="keep: does nothing under search 'lsh'; leave it out"):
        Ann(keep=0.5)
    with pytest.raises(ValueError, match="bits: does nothing under search 'quantised'"):
        Ann(search="quantised", bits=2)


def test_side_work_by_hand() -> None:
    """70 tokens; two query heads and one key head of eight elements."""
    context = np.array([70])
    # 2 x 5 bits are two bytes a key; three vectors get them; five rounds of 16 keys a query head.
    work = Ann(tables=2, bits=5).side_work(context, 2, 1, 8)
    assert (work.macs, work.bytes_read, work.scan_cycles) == (3 * 8 * 10, 140, 10)
    assert (work.element_ops, work.bytes_written) == (0, 2)
    assert Ann(tables=2, bits=5).side_bytes(context, 1, 8) == 140
    # Four bits of eight elements and a scale of 16; every key scored and scanned.
    work = Ann(search="quantised").side_work(context, 2, 1, 8)
    assert (work.macs, work.bytes_read, work.scan_cycles) == (70 * 2 * 8, 70 * 6, 140)
    assert (work.element_ops, work.bytes_written) == (8, 6)
