"""The reference decoder against a naive one, and against what must hold whatever the weights."""

from typing import Any

import numpy as np
import pytest
from decoder_oracle import naive_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from carsim.decisions.attention import Dense, Streaming
from carsim.decisions.replay import Tas, decision_units
from carsim.decoder.layers import gated
from carsim.decoder.structures import DecoderPolicy, rotary_table
from carsim.testing.decoder import decode_rows as run
from carsim.testing.decoder import make_config

TAUS = st.one_of(st.none(), st.floats(-0.4, 0.4))
ATTENTIONS = st.one_of(
    st.just(Dense()), st.builds(Streaming, sinks=st.integers(0, 5), window=st.integers(1, 9))
)


@settings(max_examples=40)
@given(
    n_kv_heads=st.sampled_from([1, 2, 4]),
    tau=st.tuples(TAUS, TAUS),
    rule=st.builds(
        Tas,
        form=st.sampled_from(["released", "paper"]),
        head=st.none() | st.integers(0, 3),
        offset=st.integers(0, 1),
        gain=st.sampled_from([1.0, 0.5, (1.0, 0.75)]),
        max_age=st.none() | st.just(1),
    ),
    attention=ATTENTIONS,
    scope=st.sampled_from(["row", "pair", "batch"]),
)
def test_equals_the_naive_decoder(n_kv_heads: int, tau: Any, rule: Tas, attention: Any, scope: Any):
    """Caches, batches, padding and masks change nothing but the speed."""
    config = make_config(n_kv_heads)
    policy = DecoderPolicy(tau, rule, scope, ((0, 1), (2, 3)), attention)
    hidden, _, kept = run(config, policy)
    naive = naive_rows(config, policy, units=decision_units(scope, policy.pairs, 4))
    np.testing.assert_array_equal(kept.replay, naive.replay)
    np.testing.assert_allclose(kept.tas, naive.tas, atol=1e-10)
    np.testing.assert_allclose(kept.mlp, naive.mlp, atol=1e-10)
    np.testing.assert_allclose(kept.residual, naive.residual, atol=1e-10)
    np.testing.assert_allclose(hidden, naive.hidden, atol=1e-10)


def test_recording_changes_no_bit() -> None:
    for dtype in ("float32", "float64"):
        config, policy = make_config(dtype=dtype), DecoderPolicy((0.0, 0.0))
        seen, state_seen, kept = run(config, policy, record=True)
        unseen, state_unseen, _ = run(config, policy, record=False)
        assert 0 < kept.replay.mean() < 1
        assert seen.tobytes() == unseen.tobytes()
        for name in ("k", "v", "computed"):
            a, b = (getattr(state, name) for state in (state_seen, state_unseen))
            assert a.tobytes() == b.tobytes()
        ages = [state.decisions["token"].age for state in (state_seen, state_unseen)]
        assert ages[0].tobytes() == ages[1].tobytes()
        held, held_unseen = state_seen.held, state_unseen.held
        assert list(held) == list(held_unseen) == ["mlp"]
        assert held["mlp"].tobytes() == held_unseen["mlp"].tobytes()


def test_planes_of_a_head_turn_by_powers_of_theta() -> None:
    """arXiv 2104.09864: 10000^(-2 i / 6) a position; the i-th plane is of elements i and i + 3."""
    cos, sin = rotary_table(4, 6, 10_000.0, np.dtype(np.float64))
    angles = 3 * np.array([1.0, 0.0464158883, 0.0021544347])
    np.testing.assert_allclose(cos[3], np.tile(np.cos(angles), 2), rtol=1e-8)
    np.testing.assert_allclose(sin[3], [*-np.sin(angles), *np.sin(angles)], rtol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_swiglu_neither_overflows_nor_loses_its_tail(dtype: str) -> None:
    out = gated(np.array([[-1e4], [-90.0], [-20.0], [0.0], [1e4]], dtype), np.ones((1, 2), dtype))
    assert np.isfinite(out).all()
    assert out[:2, 0] == pytest.approx(0, abs=1e-20)
    assert out[2, 0] == pytest.approx(400 * np.exp(-20.0), rel=1e-5)
    assert out[4, 0] == pytest.approx(1e8)
