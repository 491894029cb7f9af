"""AnnCA: which keys of the prompt are read, as an obvious version lists them, and what it costs."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from carsim.decisions.attention import AnnCa
from carsim.decisions.attention.search import hyperplanes, signatures
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.structures import DecoderPolicy, LayerRecord
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
    state, _ = prefill(config, DecoderPolicy((0.0, 0.0), attention=policy), weights, prompt, MASK)
    planes = np.random.default_rng(policy.seed).standard_normal((policy.tables, policy.bits, 2))
    seen: list[LayerRecord] = []
    queries: dict[tuple[int, int], list[Any]] = {}  # by frame and layer

    def share(q: Any, k: Any) -> bool:
        return any(all((p @ q > 0) == (p @ k > 0) for p in table) for table in planes)

    for step, x in enumerate(embeddings):
        seen.clear()
        decode_step(state, x, seen.append)
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
    same = signatures(np.stack([vector, vector * 3, -vector]), hyperplanes(2, bits, 4, seed))
    np.testing.assert_array_equal(same[0], same[1])
    assert (same[0] + same[2] == 2**bits - 1).all()


def test_work_by_hand() -> None:
    # Four query heads of eight elements, three tables of five signs.
    work = AnnCa(bits=5, tables=3).side_work(np.array([9]), 4, 2, 8)
    assert (work.macs, work.element_ops) == (4 * 15 * 8, 4 * (15 + 3))
    assert AnnCa(bits=0).side_work(np.array([9]), 4, 2, 8).macs == 0
    assert AnnCa().reads(np.array([8, 9])).runs.tolist() == [4, 5]  # every other key
