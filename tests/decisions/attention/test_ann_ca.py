"""AnnCA: which keys of the prompt are read, as an obvious version lists them, and what it costs."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_design, tiny_trace

from carsim.decisions.attention import AnnCa
from carsim.decisions.attention.search import hyperplanes, signatures
from carsim.decisions.trace.file import check_trace
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.structures import DecoderPolicy, LayerRecord
from carsim.runs.pipeline import run as run_design
from carsim.testing.decoder import MASK, PROMPT, make_config, make_inputs, make_weights

policies = st.builds(
    AnnCa,
    bits=st.integers(0, 6),
    tables=st.integers(1, 3),
    sinks=st.integers(0, 5),
    seed=st.integers(0, 9),
)


@given(policies)
def test_what_is_read_of_the_prompt_equals_the_obvious_version(policy: AnnCa) -> None:
    """Sign by sign, over all queries of the frame before; and it is what attention used."""
    config = make_config()
    weights, (prompt, embeddings) = make_weights(config), make_inputs(config)
    taken = DecoderPolicy((0.0, 0.0), attention=policy)
    state, _ = prefill(config, taken, weights, prompt, MASK)
    planes = np.random.default_rng(policy.seed).standard_normal((policy.tables, policy.bits, 2))
    seen: list[LayerRecord] = []
    queries: dict[tuple[int, int], list[Any]] = {}  # by frame and layer

    def share(q: Any, k: Any) -> bool:
        return any(all((p @ q > 0) == (p @ k > 0) for p in table) for table in planes)

    for step, x in enumerate(embeddings):
        seen.clear()
        decode_step(config, taken, weights, state, x, seen.append)
        frame = step // 3
        for record in seen:
            queries.setdefault((frame, record.layer), []).append(record.query.q_rotated.copy())
            before = queries.get((frame - 1, record.layer))
            for row, head, slot in np.ndindex(4, 2, PROMPT):
                token = slot - (PROMPT - MASK[row].sum())  # of the row
                found = token >= 0 and (
                    before is None
                    or token < policy.sinks
                    or any(
                        share(q[row, served], record.query.keys[row, head, slot])
                        for q in before
                        for served in (2 * head, 2 * head + 1)
                    )
                )
                assert record.read[head, row, slot] == found
            assert record.read[:, :, PROMPT:].all()


@given(seed=st.integers(0, 99), bits=st.integers(0, 12))
def test_equal_vectors_share_a_bucket_and_opposite_ones_none(seed: int, bits: int) -> None:
    vector = np.random.default_rng(seed).normal(size=4)
    planes = hyperplanes(2, bits, 4, seed)
    same = signatures(np.stack([vector, vector * 3, -vector]), planes)
    np.testing.assert_array_equal(same[0], same[1])
    assert (same[0] + same[2] == 2**bits - 1).all()


def test_a_machine_reads_fewer_keys_and_hashes_queries() -> None:
    policy = AnnCa(bits=5, tables=3)
    trace = tiny_trace(attention=policy)
    context = trace.context()[:, None, None]
    dropped = np.where(np.arange(48) >= 16, 1, 0)[:, None, None, None]  # one key of the fifth on
    tokens = np.broadcast_to(context - dropped * (context[0] > 5), (48, 4, 4, 4))
    held = np.broadcast_to(trace.context()[15::16, None], (3, 4, 4))
    trace = replace(trace, kv_tokens=tokens, kv_runs=np.ones_like(tokens), kv_held=held)
    check_trace(trace, "toy")
    own = "policy.attention={kind: ann_ca, bits: 5, tables: 3}"
    row = run_design(tiny_design(own), [trace]).row("ann_ca/static")
    read = -(-tokens[:, 0].sum(axis=(1, 2)) // 16)  # means over heads and rows
    assert row.simulation.totals["attention"].macs == 16 * (2 * read * 64 + 4 * 15 * 16).sum()


def test_work_by_hand() -> None:
    # Four query heads of eight elements, three tables of five signs.
    work = AnnCa(bits=5, tables=3).side_work(np.array([9]), 4, 2, 8)
    assert (work.macs, work.element_ops) == (4 * 15 * 8, 4 * (15 + 3))
    assert AnnCa(bits=0).side_work(np.array([9]), 4, 2, 8).macs == 0
