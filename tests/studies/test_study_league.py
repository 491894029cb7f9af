"""The league: whole frames decode as step by step under every policy; rules for longer videos."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_maker import mass_kept
from study_maker import LAYERS, N_CODES, make_model

from carsim.decisions.attention import Ann, AnnCa, Dense, Draft, Streaming, TempCache
from carsim.decisions.replay import InputChange, Tas
from carsim.decisions.trace.precision import PRODUCTS, Grouped
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.precision import Arithmetic, Inputs
from carsim.decoder.structures import Config, DecoderPolicy, stack_weights
from studies import whole
from studies.content import ROOT
from studies.frames import READERS
from studies.league import cells, measured, tables
from studies.rules import ChangeScore, TasScore, Threshold
from studies.run import quoted_pages

PROMPT = b"abcdefgh"
TAUS = (0.0, 0.3)
RULES = [Tas(), Tas(form="paper", head=2), Tas(form="paper", offset=1)]
POLICIES = [
    Dense(),
    Streaming(sinks=2, window=7),
    Draft(block_tokens=4, keep=0.4),
    Ann(bits=2, tables=2, sinks=1, window=2),
    Ann(search="quantised", keep=0.3, sinks=1, window=2),
    TempCache(theta=0.3),
    TempCache(theta=0.9),
    AnnCa(bits=4, tables=1, sinks=0),
]


def config_of(model, tokens_per_frame=9, n_frames=4):
    return Config(model.geometry, tokens_per_frame, n_frames, dtype="float64")


def codes_of(config, seed=0):
    return np.random.default_rng(seed).integers(0, N_CODES, config.n_steps)


def slowly(model, config, policy, codes, weights):
    """The reference: hidden states, replays, reads, mass and what is held, of one row."""
    text = model.arrays["embed_text"][list(PROMPT)].astype(config.dtype)[None]
    state, _ = prefill(config, policy, weights, text, np.ones((1, len(PROMPT)), bool))
    heads = config.n_steps, LAYERS, config.geometry.n_kv_heads
    found = {
        "tokens": np.zeros(heads, int),
        "runs": np.zeros(heads, int),
        "mass": np.zeros(heads[:2]),
        "score": np.full(heads[:2], np.nan),
        "replay": np.zeros(heads[:2], bool),
        "held": np.zeros((config.n_frames, LAYERS), int),
    }

    def note(seen):
        at = seen.step, seen.layer
        found["tokens"][at], found["runs"][at] = seen.reads.tokens[:, 0], seen.reads.runs[:, 0]
        found["mass"][at], found["replay"][at] = mass_kept(seen).mean(), seen.replay[0]
        if seen.tas is not None:
            found["score"][at] = seen.tas[0]

    hidden = []
    for step in range(config.n_steps):
        fed = model.arrays["embed_visual"][codes[step - 1]] if step else model.arrays["begin"]
        hidden.append(decode_step(state, fed.astype(config.dtype)[None], note)[0])
        found["held"][step // config.tokens_per_frame] = state.kept[:, 0]
    return found | {"hidden": np.stack(hidden)}


def quickly(model, config, policy, codes, weights=None, chance=None):
    """The same by whole frames."""
    reader = READERS[policy.attention.kind](policy.attention, config, len(PROMPT), chance)
    decoder = whole.Decoder(model, config, weights)
    scored = TasScore if policy.rule.kind == "tas" else ChangeScore
    rule = Threshold(scored(policy.rule), policy.tau)
    decoded = decoder.decode(rule, PROMPT, codes, attention=reader)
    counted = {name: getattr(reader, name) for name in ("tokens", "runs", "mass", "held")}
    return counted | vars(decoded)


def assert_alike(got, expected, policy):
    for name in ("hidden", "mass", "score"):
        assert np.allclose(got[name], expected[name], rtol=0, atol=1e-6, equal_nan=True), name
    assert np.array_equal(got["replay"], expected["replay"])
    assert np.array_equal(got["tokens"], expected["tokens"])
    if policy.attention.records:
        assert np.array_equal(got["runs"], expected["runs"])
        assert np.array_equal(got["held"], expected["held"])


@pytest.mark.parametrize("n_kv_heads", [2, 4])
@pytest.mark.parametrize("attention", POLICIES, ids=repr)
def test_whole_frames_decode_as_step_by_step(attention, n_kv_heads):
    model = make_model(n_kv_heads)
    config = config_of(model)
    policy = DecoderPolicy(TAUS, TasScore().rule, attention=attention)
    codes = codes_of(config)
    expected = slowly(model, config, policy, codes, stack_weights(config, model.arrays))
    assert expected["replay"].any()
    if attention.kind != "dense":
        assert expected["mass"].min() < 0.99
    assert_alike(quickly(model, config, policy, codes), expected, policy)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*[st.sampled_from([-np.inf, -0.5, 0.0, 0.3, np.inf])] * 2),
    st.just(Dense()) | st.builds(Streaming, sinks=st.integers(0, 3), window=st.integers(1, 12)),
    st.sampled_from([*RULES, InputChange(bits=None), InputChange(bits=4, elements=5)]),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 99),
)
def test_any_rule_decides_as_step_by_step(taus, attention, rule, n_kv_heads, seed):
    """A score within rounding of a threshold may decide otherwise; none lies there."""
    model = make_model(n_kv_heads)
    config = config_of(model, tokens_per_frame=5)
    policy, codes = DecoderPolicy(taus, rule, attention=attention), codes_of(config, seed)
    expected = slowly(model, config, policy, codes, stack_weights(config, model.arrays))
    assert_alike(quickly(model, config, policy, codes), expected, policy)


@pytest.mark.parametrize("attention", [Dense(), Draft(block_tokens=4, keep=0.4)], ids=repr)
def test_few_bits_decode_as_step_by_step(attention):
    model = make_model()
    config = config_of(model)
    samples = np.random.default_rng(3).normal(size=(LAYERS, 50, 24))
    sizes = {"qkv": 16, "out": 16, "gate_up": 16, "down": 24}
    inputs = {
        name: [Inputs.of(x[:, : sizes[name]], 4, polish=name == "down") for x in samples]
        for name in PRODUCTS
    }
    weights = replace(
        stack_weights(config, model.arrays), arithmetic=Arithmetic(inputs, Grouped(bits=4), 8)
    )
    policy = DecoderPolicy(TAUS, TasScore().rule, attention=attention)
    codes = codes_of(config)
    expected = slowly(model, config, policy, codes, weights)
    exact = slowly(model, config, policy, codes, stack_weights(config, model.arrays))
    assert np.abs(expected["hidden"] - exact["hidden"]).max() > 0.01
    assert_alike(quickly(model, config, policy, codes, weights), expected, policy)


@pytest.mark.parametrize(
    "attention", [each for each in POLICIES if READERS[each.kind].has_floor], ids=repr
)
def test_chance_reads_as_many_keys_as_the_policy(attention):
    model = make_model()
    config = config_of(model)
    policy = DecoderPolicy((np.inf,) * LAYERS, TasScore().rule, attention=attention)
    codes = codes_of(config)
    own, floor, again = (quickly(model, config, policy, codes, None, c) for c in (None, 1, 1))
    first = slice(None), 0  # of the first layer, whose queries are those of the policy
    assert np.array_equal(own["tokens"][first], floor["tokens"][first])
    assert not np.array_equal(own["mass"][first], floor["mass"][first])
    assert np.array_equal(floor["hidden"], again["hidden"])


def cells_table():
    """Two scenes, of which the second is harder for all alike."""
    losses = {
        ("dense", "", False, ""): 1.0,
        ("draft", "0.25", False, ""): 1.25,
        ("draft", "0.25", False, "keys"): 2.0,
        ("replay", "", True, ""): 1.5,
        ("replay", "", True, "skips"): 1.625,
        ("draft", "0.25", True, ""): 1.5,
    }
    who = [
        (cells.Contestant(family, strength, replays=replays, floor=floor), loss)
        for (family, strength, replays, floor), loss in losses.items()
    ]
    return pd.DataFrame(
        {"contestant": each.name, "family": each.family, "strength": each.strength}
        | {"replays": each.replays, "floor": each.floor, "clip": clip, "nats": loss + harder}
        | dict.fromkeys(measured.MEANS, 0.5)
        for each, loss in who
        for clip, harder in (("still_0", 0.0), ("fast_0", 2.0))
    )


def test_losses_are_held_against_the_right_contestant():
    found = measured.quality(cells_table()).set_index("contestant")
    assert found.loc["dense", ["nats", "excess"]].tolist() == [2.0, 0.0]
    assert found.loc["draft 0.25", "excess"] == 0.25
    assert found.loc["draft 0.25", "excess_low"] == 0.25  # both scenes differ alike
    assert found.loc["draft 0.25", "over_chance"] == -0.75
    assert found.loc["replay", ["excess", "added", "over_chance"]].tolist() == [0.5, 0.5, -0.125]
    assert found.loc["draft 0.25 + replay", ["excess", "added"]].tolist() == [0.5, 0.25]
    assert np.isnan(found.loc["draft 0.25, random keys", "added"])


def test_the_readme_quotes_what_the_tables_have():
    folder = ROOT / "studies/league"
    quality, table = tables.joined(folder)
    pages = quoted_pages(folder / "README.md", tables.numbers(quality, table))
    for page, text in pages.items():
        assert page.read_text(encoding="utf-8") == text, page

    again = measured.quality(pd.read_csv(folder / "cells.csv", keep_default_na=False))
    both = again.set_index("contestant"), quality.set_index("contestant")
    for column in ("excess", "excess_low", "added_high", "density"):
        close = np.isclose(*(each[column] for each in both), rtol=0, atol=2e-4, equal_nan=True)
        assert close.all(), column
