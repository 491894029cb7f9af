"""AnnSA against slow versions that list tokens, and its properties."""

from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_maker import GROUP, KV, WIDTH, Cache

from carsim.decisions.attention import Ann, SelectionUnit
from carsim.decisions.attention.search import EXACT_BITS, few_bits, hyperplanes

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
    assert cache.read_slots == [[slow(cache, row, head) for head in range(KV)] for row in range(3)]


def test_signatures_without_a_bit_find_every_key() -> None:
    assert Cache(Ann.trivial(), 40, 7, prompt=1).read.all()


def test_fields_of_the_other_search_are_refused() -> None:
    assert Ann(bits=5).short == "ann lsh 4 5 0 4 16"
    every_second = Ann(sinks=1, window=4).reads(np.array([21]))  # of 16 others, and the sink
    assert every_second.runs == 8 + 1
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
    assert Ann(tables=2, bits=5).side_bytes(context, 2, 8) == 280
    # A list of 4,096 scores with their places, of 16 bits each.
    assert Ann(tables=2, bits=5).unit() == SelectionUnit(16 * 10, 4096 * 4, 32)
    # Four bits of eight elements and a scale of 16; every key scored and scanned.
    work = Ann(search="quantised").side_work(context, 2, 1, 8)
    assert (work.macs, work.bytes_read, work.scan_cycles) == (70 * 2 * 8, 70 * 6, 140)
    assert (work.element_ops, work.bytes_written) == (8, 6)
