"""The league: whole frames decode as step by step under every policy; rules for longer videos."""

from dataclasses import replace

import numpy as np
import pytest
from study_maker import LAYERS, N_CODES, make_model

from carsim import load_trace
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.precision import Arithmetic, Inputs
from carsim.decoder.recall import mass_kept
from carsim.decoder.structures import Config, Policy, stack_weights
from carsim.policy import Ann, AnnCa, Dense, Draft, Streaming, TempCache
from carsim.trace.file import check_trace
from carsim.trace.precision import PRODUCTS, Grouped
from studies.decisions import whole
from studies.decisions.rules import TasScore, Threshold
from studies.league import cells, longer, machines
from studies.league.frames import READERS

PROMPT = b"abcdefgh"
TAUS = (0.0, 0.3)
POLICIES = [
    Dense(),
    Streaming(sinks=2, window=7),
    Draft(block_tokens=4, keep=0.4),
    Draft(block_tokens=3, keep=0.3, scorer="minmax"),
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
        "replay": np.zeros(heads[:2], bool),
        "held": np.zeros((config.n_frames, LAYERS), int),
    }

    def note(seen):
        at = seen.step, seen.layer
        found["tokens"][at], found["runs"][at] = seen.reads.tokens[:, 0], seen.reads.runs[:, 0]
        found["mass"][at], found["replay"][at] = mass_kept(seen).mean(), seen.replay[0]

    hidden = []
    for step in range(config.n_steps):
        fed = model.arrays["embed_visual"][codes[step - 1]] if step else model.arrays["begin"]
        x = fed.astype(config.dtype)[None]
        hidden.append(decode_step(config, policy, weights, state, x, note)[0])
        found["held"][step // config.tokens_per_frame] = state.kept[:, 0]
    return found | {"hidden": np.stack(hidden)}


def quickly(model, config, policy, codes, weights=None, chance=None):
    """The same by whole frames."""
    reader = READERS[policy.attention.kind](policy.attention, config, len(PROMPT), chance)
    decoder = whole.Decoder(model, config, weights)
    rule = Threshold(TasScore(policy.rule), policy.tau)
    decoded = decoder.decode(rule, PROMPT, codes, attention=reader)
    counted = {name: getattr(reader, name) for name in ("tokens", "runs", "mass", "held")}
    return counted | {"hidden": decoded.hidden, "replay": decoded.replay}


def assert_alike(got, expected, policy):
    for name in ("hidden", "mass"):
        assert np.allclose(got[name], expected[name], rtol=0, atol=1e-6), name
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
    policy = Policy(TAUS, TasScore().rule, attention)
    codes = codes_of(config)
    expected = slowly(model, config, policy, codes, stack_weights(config, model.arrays))
    assert expected["replay"].any()
    if attention.kind != "dense":
        assert expected["mass"].min() < 0.99
    assert_alike(quickly(model, config, policy, codes), expected, policy)


@pytest.mark.parametrize("attention", [Dense(), Draft(block_tokens=4, keep=0.4)], ids=repr)
def test_few_bits_decode_as_step_by_step(attention):
    model = make_model()
    config = config_of(model)
    samples = np.random.default_rng(3).normal(size=(LAYERS, 50, 24))
    sizes = {"qkv": 16, "out": 16, "gate_up": 16, "down": 24}
    inputs = {
        name: Inputs.of(samples[..., : sizes[name]], 4, polish=name == "down") for name in PRODUCTS
    }
    weights = replace(
        stack_weights(config, model.arrays), arithmetic=Arithmetic(inputs, Grouped(bits=4), 8)
    )
    policy = Policy(TAUS, TasScore().rule, attention)
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
    policy = Policy((np.inf,) * LAYERS, TasScore().rule, attention)
    codes = codes_of(config)
    own, floor, again = (quickly(model, config, policy, codes, None, c) for c in (None, 1, 1))
    first = slice(None), 0  # of the first layer, whose queries are those of the policy
    assert np.array_equal(own["tokens"][first], floor["tokens"][first])
    assert not np.array_equal(own["mass"][first], floor["mass"][first])
    assert np.array_equal(floor["hidden"], again["hidden"])


def kept_by(attention, n_frames, codes, taus=TAUS):
    """What a trace would hold of a row of so many frames, and its metadata's like."""
    model = make_model()
    config = config_of(model, n_frames=n_frames)
    policy = Policy(taus, TasScore().rule, attention)
    found = quickly(model, config, policy, codes[: config.n_steps])
    names = ("replay", "tokens", "runs", "held")
    return longer.Kept(*(found[name].astype(found[name].dtype) for name in names))


RECORDING = [each for each in POLICIES if each.records]


@pytest.mark.parametrize("attention", RECORDING, ids=repr)
def test_longer_videos_are_such_as_a_trace_can_hold(attention):
    codes = codes_of(config_of(make_model(), n_frames=12))
    short, real = kept_by(attention, 6, codes), kept_by(attention, 12, codes)
    made = longer.continued(attention, short, len(PROMPT), 12)
    decoded = 6 * 9
    for got, wanted in zip(made, real, strict=True):
        assert got.shape == wanted.shape
    for name in ("replay", "tokens", "runs"):
        same = getattr(made, name)[:decoded], getattr(short, name)
        assert np.array_equal(*same), name
    if attention.kind == "draft" or (attention.kind, attention.used.get("search")) == (
        "ann",
        "quantised",
    ):
        assert np.array_equal(made.tokens, real.tokens)
    assert not np.array_equal(made.replay[decoded:], short.replay[-decoded:])
    like = load_trace("vilau_8f_pair")
    meta = like.meta.model_copy(
        update={"tokens_per_frame": 9, "decoded": make_model().geometry, "prompt_tokens": 8}
    )
    who = cells.Contestant("x", attention=attention, replays=True)
    trace = machines.trace_of(who, [made, made], [len(PROMPT)] * 2, replace(like, meta=meta))
    check_trace(trace, "made")  # raises where a policy could not have read or held so much
    assert trace.n_frames == 12


def test_dense_reads_all_of_a_longer_video():
    codes = codes_of(config_of(make_model(), n_frames=8))
    made = longer.continued(Dense(), kept_by(Dense(), 4, codes), len(PROMPT), 8)
    assert np.array_equal(made.tokens, kept_by(Dense(), 8, codes).tokens)
    assert (made.held[-1] == len(PROMPT) + 8 * 9).all()
