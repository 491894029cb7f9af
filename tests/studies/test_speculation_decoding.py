"""Speculative decoding yields what plain decoding yields, and draws from its distribution."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_model import random_model

from carsim.decisions.attention import (
    Ann,
    AnnCa,
    AttentionPolicy,
    Dense,
    Draft,
    Streaming,
    TempCache,
)
from carsim.decisions.replay import InputChange, Periodic, ReplayRule, Tas
from carsim.decisions.trace import Geometry
from carsim.decoder.content import Codebook
from carsim.decoder.decoding import TokenSampling
from carsim.decoder.group import Decoded, Decoding, RowGroup, decode_group
from carsim.decoder.model import DecoderModel
from carsim.decoder.sampling import mix_guidance, top_k
from carsim.decoder.structures import Config, DecoderPolicy
from studies.speculation.decoding import Speculated, speculate
from studies.speculation.passes import expected_passes, passes_of

DRAWN = TokenSampling(method="top_k", k=4, temperature=0.7, guidance_scale=1.5)
GREEDY = TokenSampling(method="greedy", guidance_scale=1.5)


def make_model(n_codes: int = 6, tame: float = 1.0) -> DecoderModel:
    """``tame`` divides the logits, so that more than one token is likely."""
    shape = Geometry(
        name="tiny",
        n_layers=2,
        hidden_size=16,
        n_heads=4,
        n_kv_heads=2,
        head_dim=4,
        ffn_size=24,
    )
    pixels = np.random.default_rng(0).integers(0, 256, (n_codes, 48)).astype(np.uint8)
    model = random_model(shape, Codebook(pixels), seed=3)
    return replace(model, arrays={**model.arrays, "head": model.arrays["head"] / np.float32(tame)})


MODEL = make_model(tame=3.0)


def make_group(
    sampling: TokenSampling | None = DRAWN,
    seed: int = 0,
    *,
    tau: tuple[float | None, ...] = (-0.2, 0.1),
    rule: ReplayRule | None = None,
    attention: AttentionPolicy | None = None,
    given: int = 4,
    shape: tuple[int, int] = (4, 4),
    model: DecoderModel = MODEL,
    **policy: Any,
) -> RowGroup:
    per_frame, frames = shape
    config = Config(model.geometry, per_frame, frames, dtype="float64")
    tokens = np.random.default_rng(7).integers(0, model.n_codes, (config.n_steps, 1))
    return RowGroup(
        config=config,
        policy=DecoderPolicy(
            tau, rule or Tas(form="paper"), attention or Dense(), pairs=((0, 1),), **policy
        ),
        model=model,
        prompts=(b"abc", b"a"),
        prompt_tokens=4,
        tokens=tokens,
        given_steps=config.n_steps if sampling is None else given,
        sampling=sampling,
        seeds=((5, seed),),
    )


def plainly(group: RowGroup) -> Decoded:
    return decode_group(group, lambda done: None)


def at_once(group: RowGroup, most: int) -> Speculated:
    return speculate(group, most, lambda done: None)


def assert_same(found: Decoded, wanted: Decoded) -> None:
    for name in ("tokens", "replay", "tas", "nats"):
        assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes(), name
    assert found.kv.keys() == wanted.kv.keys()
    for name in found.kv:
        np.testing.assert_array_equal(found.kv[name], wanted.kv[name], err_msg=name)


ATTENTIONS = [
    Dense(),
    Streaming(sinks=1, window=3),
    TempCache(theta=0.5, search="full"),
    TempCache(theta=0.3),
    Draft(block_tokens=2, keep=0.4),
    Draft(block_tokens=2, keep=0.4, scorer="lsh", tables=2, bits=2),
    Ann(bits=2, tables=2, sinks=1, window=2),
    AnnCa(bits=3, sinks=1),
]


@settings(max_examples=30, deadline=None)
@given(
    sampling=st.sampled_from([DRAWN, GREEDY]),
    seed=st.integers(0, 99),
    most=st.integers(1, 6),
    attention=st.sampled_from(ATTENTIONS),
    rule=st.sampled_from(
        [
            Tas(form="paper", gain=0.5, max_age=1),
            Tas(offset=1),
            InputChange(bits=4),
            Periodic(gain=0.5),
        ]
    ),
    scope=st.sampled_from(["row", "pair"]),
    tau=st.sampled_from([(-0.2, 0.1), (None, -np.inf), (np.inf, 0.0)]),
    given_steps=st.integers(0, 9),
)
def test_it_yields_what_plain_decoding_yields_to_the_bit(
    sampling, seed, most, attention, rule, scope, tau, given_steps
) -> None:
    """Greedy or drawn, whatever replays and whatever is attended to: refused rows leave no mark."""
    group = make_group(
        sampling, seed, tau=tau, rule=rule, attention=attention, scope=scope, given=given_steps
    )
    plain, found = plainly(group), at_once(group, most)
    assert_same(found.decoded, plain)
    passes = found.passes
    assert passes.emitted.sum() == group.config.n_steps
    assert len(found.replay) == passes.rows.sum()
    assert (passes.rows <= most).all()
    assert ((passes.emitted >= 1) & (passes.emitted <= passes.rows)).all()


@pytest.mark.parametrize("search", ["aligned", "full"])
def test_a_refused_row_that_ends_a_frame_merges_nothing(search) -> None:
    for seed in range(8):
        group = make_group(seed=seed, attention=TempCache(theta=0.0, search=search), shape=(4, 5))
        found = at_once(group, 4)
        assert_same(found.decoded, plainly(group))
        passes = found.passes
        ends = (passes.first + passes.rows) % 4 == 0
        assert (ends & (passes.rows > 1) & (passes.emitted < passes.rows)).sum() > 2


@pytest.mark.parametrize("sampling", [DRAWN, GREEDY])
def test_passes_are_those_of_the_tokens_that_stay(sampling) -> None:
    """How many tokens a pass yields follows from which tokens equal those one frame before."""
    refused = accepted = 0
    for seed in range(6):
        found = at_once(make_group(sampling, seed), 3)
        tokens = found.decoded.tokens[:, 0]
        stays = np.concatenate([np.zeros(4, bool), tokens[4:] == tokens[:-4]])
        wanted = passes_of(stays, 4, 3)
        np.testing.assert_array_equal(found.passes.first, wanted.first)
        np.testing.assert_array_equal(found.passes.emitted, wanted.emitted)
        refused += int((found.passes.rows - found.passes.emitted).sum())
        accepted += int((found.passes.emitted - 1).sum())
    assert refused
    assert accepted, "both happen"


def test_given_tokens_are_not_proposed() -> None:
    found = at_once(make_group(None), 4)
    assert (found.passes.rows == 1).all()


def test_refused_rows_decide_too() -> None:
    """A machine fetches weights for them; what stays of each pass is among all rows."""
    found = at_once(make_group(seed=1), 4)
    begins = np.concatenate([[0], np.cumsum(found.passes.rows)[:-1]])
    for begin, first, emitted in zip(begins, found.passes.first, found.passes.emitted, strict=True):
        np.testing.assert_array_equal(
            found.replay[begin : begin + emitted], found.decoded.replay[first : first + emitted]
        )
    assert 0 < found.replay.mean() < 1


def test_one_pair_at_a_time() -> None:
    group = make_group()
    with pytest.raises(ValueError, match="4 rows, 2 a pass"):
        speculate(replace(group, prompts=group.prompts * 2), 2, lambda done: None)
    with pytest.raises(ValueError, match="2 rows, 0 a pass"):
        at_once(group, 0)


def chances_of(group: RowGroup) -> dict[tuple[int, ...], float]:
    """Chance of every sequence of tokens after the given ones, by feeding each."""
    config, sampling = group.config, group.sampling
    assert sampling is not None
    chances = {}
    for free in product(range(group.model.n_codes), repeat=config.n_steps - group.given_steps):
        tokens = np.concatenate([group.tokens[: group.given_steps, 0], free])
        decoding, chance, fed = Decoding(group), 1.0, None
        for step, token in enumerate(tokens):
            mixed = mix_guidance(decoding.feed(fed), sampling.guidance_scale)[0]
            if step >= group.given_steps:
                odds = np.exp((mixed - mixed.max()) / sampling.temperature)
                odds[np.argsort(-mixed, kind="stable")[sampling.k :]] = 0
                chance *= odds[token] / odds.sum()
            fed = np.array([token])
        chances[free] = chance
    return chances


def test_many_seeds_draw_sequences_as_often_as_they_are_likely() -> None:
    """Chi-squared against enumeration: 3^4 sequences of two frames, half of the MLPs replayed."""
    model = make_model(n_codes=3, tame=3.0)
    sampling = TokenSampling(method="top_k", k=3, temperature=1.0, guidance_scale=1.5)
    group = make_group(sampling, model=model, shape=(2, 3), given=2)
    wanted = chances_of(group)
    assert sum(wanted.values()) == pytest.approx(1)
    n, counts = 1000, dict.fromkeys(wanted, 0)
    passes = 0
    for seed in range(n):
        found = at_once(replace(group, seeds=((9, seed),)), 2)
        counts[tuple(found.decoded.tokens[2:, 0].tolist())] += 1
        passes += len(found.passes.after(2).first)
    assert 0 < plainly(group).replay.mean() < 1
    assert passes < 0.9 * 4 * n, "many a proposal is accepted"
    # Rare sequences together, so that each class expects five or more.
    order = sorted(wanted, key=lambda free: wanted[free])
    rare = [free for free in order if n * wanted[free] < 5]
    expected = [n * wanted[free] for free in order if free not in rare]
    seen = [counts[free] for free in order if free not in rare]
    expected.append(n * sum(wanted[free] for free in rare) or 1e-9)
    seen.append(sum(counts[free] for free in rare))
    chi_squared = sum((s - e) ** 2 / e for s, e in zip(seen, expected, strict=True))
    freedom = len(seen) - 1
    # Wilson and Hilferty (1931): what a thousandth of all experiments exceeds.
    limit = freedom * (1 - 2 / (9 * freedom) + 3.09 * np.sqrt(2 / (9 * freedom))) ** 3
    assert chi_squared < limit


def test_a_draw_that_is_compared_is_the_rule_of_speculative_sampling() -> None:
    """x is accepted with chance p(x); else the draw is of p without x, renormalised."""
    p, x, n = np.array([0.5, 0.3, 0.15, 0.05]), 1, 20_000
    drawn = top_k(None, 1.0, [np.random.default_rng([3, i]) for i in range(n)])(
        np.tile(np.log(p), (n, 1))
    )
    assert (drawn == x).mean() == pytest.approx(p[x], abs=4 * np.sqrt(p[x] * (1 - p[x]) / n))
    others = np.bincount(drawn[drawn != x], minlength=4) / (drawn != x).sum()
    np.testing.assert_allclose(others, np.where(np.arange(4) == x, 0, p) / (1 - p[x]), atol=0.015)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=7),
    st.integers(1, 9),
)
def test_expected_passes_are_the_mean_over_all_outcomes(chances, most) -> None:
    chances = np.array(chances)
    n, mean = len(chances), 0.0
    for outcome in product([False, True], repeat=n):
        accepted = np.array(outcome)
        chance = np.prod(np.where(accepted, chances, 1 - chances))
        whole = np.concatenate([np.zeros(n, bool), accepted])
        mean += chance * len(passes_of(whole, n, most).after(n).first)
    assert expected_passes(chances, most) == pytest.approx(mean)


def test_a_long_frame_with_one_chance_follows_the_published_formula() -> None:
    n, a, m = 4000, 0.6, 4
    tokens = n / expected_passes(np.full(n, a), m)
    assert tokens == pytest.approx((1 - a**m) / (1 - a), rel=2e-3)
