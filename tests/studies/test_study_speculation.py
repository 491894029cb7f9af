"""Studies of speculation and of sets: what they decode is what the decoder decodes."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_maker import LAYERS, N_CODES, PROMPT, make_model

from carsim import load_design, load_trace, override
from carsim.cost.fit import check_fit
from carsim.decisions.replay import InputChange, Tas
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.layers import gated, rms_norm, rotate
from carsim.decoder.structures import Config, rotary_table, stack_weights
from carsim.workload.geometry import Video
from studies import record, rules, simulated, whole
from studies.content import ROOT, Row
from studies.league import orders, sets
from studies.speculation import run as speculation


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return record.Archive(make_model(), tmp_path_factory.mktemp("out"), n_frames=3, workers=1)


def make_pairs(clips, *, blank=True, n_frames=3):
    """Rows of clips with codes that half stay from frame to frame."""
    rows = []
    for clip in clips:
        rng = np.random.default_rng([len(clip), ord(clip[0])])
        frames = rng.integers(0, N_CODES, (n_frames, TOKENS_PER_FRAME))
        for before, frame in pairwise(frames):
            stays = rng.random(TOKENS_PER_FRAME) < 0.5
            frame[stays] = before[stays]
        rows += [Row(clip, PROMPT, frames.ravel()), Row(clip, b"a", frames.ravel())]
    return tuple(rows)


def slowly(model, config, codes, size):
    """Hidden states of rows that predict, each decoded for itself; nothing replays."""
    n, plain = config.tokens_per_frame, whole.Decoder(model, config).decode(None, PROMPT, codes)
    found = plain.hidden.copy()
    for step in range(n, config.n_steps):
        start, fed = step - step % size, codes.copy()
        if step > start:
            fed[step - 1] = codes[step - 1 - n]
        found[step] = _last_row(model, config, fed, step, start)
    return found


def _last_row(model, config, codes, step, start):
    """The row of a step that sees the prompt, steps before ``start``, and itself."""
    weights, shape, first = stack_weights(config, model.arrays), config.geometry, len(PROMPT)
    text = model.arrays["embed_text"][list(PROMPT)]
    video = [model.arrays["begin"], *model.arrays["embed_visual"][codes[:-1]]]
    x = np.concatenate([text, video[:start], [video[step]]]).astype(config.dtype)
    positions = [*range(first + start), first + step]
    cos, sin = rotary_table(first + config.n_steps, shape.head_dim, 10000.0, np.dtype("float64"))
    cos, sin = cos[positions][:, None], sin[positions][:, None]
    for layer in range(shape.n_layers):
        normed = rms_norm(x, weights.ln_attn[layer], config.rms_eps)
        heads = (normed @ weights.w_qkv[layer]).reshape(len(x), -1, shape.head_dim)
        rotated = rotate(heads[:, : -shape.n_kv_heads], cos, sin)
        q, k, v = np.split(
            np.concatenate([rotated, heads[:, -shape.n_kv_heads :]], axis=1),
            [shape.n_heads, shape.n_heads + shape.n_kv_heads],
            axis=1,
        )
        x = x + whole.attend(q, k, v, whole.Dense()) @ weights.w_out[layer]
        u = rms_norm(x, weights.ln_mlp[layer], config.rms_eps)
        x = x + gated(u, weights.w_gate_up[layer]) @ weights.w_down[layer]
    return rms_norm(x, weights.ln_final, config.rms_eps)[-1]


scored = st.sampled_from(
    [rules.TasScore(), rules.TasScore(Tas(offset=1)), rules.ChangeScore(InputChange(bits=None))]
)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([-0.5, 0.0, 0.3]), scored, st.sampled_from([1, 2, 4]), st.integers(0, 99))
def test_sets_of_one_token_are_decoding_token_by_token(tau, measure, n_kv_heads, seed):
    model = make_model(n_kv_heads)
    config = Config(model.geometry, tokens_per_frame=4, n_frames=4, dtype="float64")
    codes = np.random.default_rng(seed).integers(0, N_CODES, config.n_steps)
    rule = rules.Threshold(measure, tau)
    decoder = sets.SetDecoder(model, config)
    plain = decoder.decode(rule, PROMPT, codes)
    for each in (rule, sets.OfSets(rule, 1)):
        found = decoder.decode_in_sets(each, PROMPT, codes, 1)
        assert np.array_equal(found.replay, plain.replay)
        assert np.allclose(found.hidden, plain.hidden, rtol=0, atol=1e-9)
        assert np.allclose(found.score, plain.score, rtol=0, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_a_set_sees_earlier_sets_and_guesses_what_it_is_fed(size):
    model = make_model()
    config = Config(model.geometry, tokens_per_frame=6, n_frames=3, dtype="float64")
    codes = np.random.default_rng(1).integers(0, N_CODES, config.n_steps)
    found = sets.SetDecoder(model, config).decode_in_sets(None, PROMPT, codes, size)
    assert np.allclose(found.hidden, slowly(model, config, codes, size), rtol=0, atol=1e-9)
    # Nothing hangs on a token of its own set, or of a later one.
    other = codes.copy()
    other[6 + size - 1 :] = (other[6 + size - 1 :] + 1) % N_CODES
    again = sets.SetDecoder(model, config).decode_in_sets(None, PROMPT, other, size)
    assert np.array_equal(again.hidden[: 6 + size], found.hidden[: 6 + size])


def test_whole_sets_decide_by_their_mean():
    model = make_model()
    config = Config(model.geometry, tokens_per_frame=6, n_frames=4, dtype="float64")
    codes = np.random.default_rng(1).integers(0, N_CODES, config.n_steps)
    rule = sets.OfSets(rules.Threshold(rules.TasScore(), (0.0, np.inf)), 3)
    found = sets.SetDecoder(model, config).decode_in_sets(rule, PROMPT, codes, 3)
    decided = found.replay.reshape(-1, 3, LAYERS)
    assert (decided.all(axis=1) == decided.any(axis=1)).all()
    assert 0 < found.replay[6:, 0].mean() < 1
    assert not found.replay[:, 1].any()
    means = found.score[6:].reshape(-1, 3, LAYERS).mean(axis=1)
    assert np.array_equal(decided[2:, 0, 0], means[:, 0] > 0)


def test_whole_sets_of_a_pair_beside_chance():
    replay = np.zeros((8, 1, 2), bool)
    replay[:4] = True
    assert orders.unanimous(replay, 4) == (0.5, 0.5**8)
    replay[0, 0, 1] = False
    assert orders.unanimous(replay, 4)[0] == 0.0
    assert orders.unanimous(replay, 1)[0] == 3 / 8


def test_orders_compares_every_size_and_way(archive, monkeypatch):
    monkeypatch.setattr(orders, "rows_of", make_pairs)
    rule = rules.Threshold(rules.TasScore(), 0.0)
    table, decisions = orders.decode_all(archive, rule, ("still_0", "cut_0"))
    assert len(table) == 2 * (2 + 3 + 3)
    found = orders.compared(table, decisions).set_index(["size", "way"])
    assert found.loc[(4, orders.DENSE), "added"] == 0
    assert found.loc[(1, orders.DENSE), "over_tokens"] == 0
    assert 0 < found.loc[(16, orders.TOKENS), "ratio"] < 1
    by_set = decisions[4, orders.SETS].reshape(-1, 4, LAYERS, 4)
    assert (by_set.all(axis=1) == by_set.any(axis=1)).all()


def test_orders_simulates_its_decisions():
    like = load_trace(ROOT / "traces/vilau_8f.npz")
    replay = like.replay[..., :4].copy()
    decisions = {(1, orders.TOKENS): replay, (4, orders.TOKENS): replay}
    found = orders.machines(("zcu102_head",), like, decisions).set_index("size")
    assert found.loc[4, "dense_s"] < found.loc[1, "dense_s"]
    assert (found["replay"] > 1).all()
    assert (found["attention"] > found["streaming"]).all()


def test_room_is_made_for_more_tokens():
    like, design = load_trace(ROOT / "traces/vilau_8f.npz"), load_design("zcu102_head")
    roomy = simulated.with_room(design, like, 4)
    many = override(roomy, {"policy.tokens_per_step": 4})
    assert not any("buffer" in cure for cure in check_fit(many, Video(8, 256, 62)).cures)
    assert roomy.machine.kv_buffer_kib > design.machine.kv_buffer_kib
    assert simulated.with_room(design, like, 1) == design


def test_chances_are_those_of_the_draw():
    logits = np.log(np.array([[0.4, 0.3, 0.2, 0.1]] * 3))
    few = speculation.DRAWN.model_copy(update={"k": 2})
    found = speculation.chances(logits, np.array([0, 1, 2]), few)
    assert np.allclose(found, [4 / 7, 3 / 7, 0])
    greedy = speculation.chances(logits, np.array([0, 1, 2]), speculation.GREEDY)
    assert greedy.tolist() == [1, 0, 0]


def test_speculation_measures_every_way(archive, monkeypatch):
    monkeypatch.setattr(speculation, "rows_of", make_pairs)
    table = speculation.cells(archive, ("still_0", "cut_0"), ("cut_0",))
    assert len(table) == (2 * 2 + 1) * 2 * len(speculation.MOST)
    assert table["acceptance"].between(0, 1).all()
    by_most = table.groupby(["clip", "way", "sampling"])["tokens"]
    assert by_most.apply(lambda tokens: tokens.is_monotonic_increasing).all()
    assert (table["tokens"] <= table["m"]).all()
    means = speculation.by_pace(table)
    one = means[(means["way"] == speculation.TRUE) & (means["pace"] == "all") & (means["m"] == 4)]
    assert (one["scenes"] == 2).all()
    again = speculation.cells(archive, ("still_0", "cut_0"), ("cut_0",))
    pd.testing.assert_frame_equal(table, again)


def test_speculation_says_what_pays_on_a_machine():
    measured = pd.DataFrame(
        {
            "way": speculation.TRUE,
            "sampling": "top_k",
            "m": speculation.MOST,
            "pace": "all",
            "passes": 0.5,
        }
    )
    like = load_trace(ROOT / "traces/vilau_8f.npz")
    found = speculation.machines(("zcu102_head",), like, measured)
    dense = found[~found["replays"]].set_index("m")
    assert (dense["gain_all_accepted"] > 1).all()
    assert (dense["tokens_to_break_even"] > 1).all()
    pays = dense["tokens_to_break_even"] < 2
    assert ((dense["gain_all"] > 1) == pays).all()
