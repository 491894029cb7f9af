"""Studies of decisions: whole clips decode as step by step, and analyses find what was put in."""

import doctest

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carsim.decoder.content import TOKENS_PER_FRAME, Codebook
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.model import Model, random_model
from carsim.decoder.structures import Config, Policy, stack_weights
from carsim.policy import Dense, Streaming
from carsim.replay import Tas
from carsim.trace import Geometry
from studies.correlation import run as correlation
from studies.decisions import ranks, record, whole
from studies.decisions.content import Row
from studies.drift import run as drift
from studies.open_loop import run as open_loop
from studies.per_layer import run as per_layer
from studies.redundancy import run as redundancy
from studies.score import run as score
from studies.tau import run as tau
from studies.tau import thresholds

N_CODES, LAYERS = 12, 2
PROMPT = b"abc"


def make_model(n_kv_heads: int = 2) -> Model:
    shape = Geometry(
        name="tiny",
        n_layers=LAYERS,
        hidden_size=16,
        n_heads=4,
        n_kv_heads=n_kv_heads,
        head_dim=4,
        ffn_size=24,
    )
    pixels = np.random.default_rng(0).integers(0, 256, (N_CODES, 48)).astype(np.uint8)
    return random_model(shape, Codebook(pixels), seed=3)


def step_by_step(model: Model, config: Config, policy: Policy, codes: np.ndarray):
    """The reference: hidden states, scores and decisions of one row."""
    weights = stack_weights(config, model.arrays)
    text = model.arrays["embed_text"][list(PROMPT)].astype(config.dtype)[None]
    state, _ = prefill(config, policy, weights, text, np.ones((1, len(PROMPT)), bool))
    tas = np.full((config.n_steps, LAYERS), np.nan)
    replay = np.zeros(tas.shape, bool)

    def note(seen):
        replay[seen.step, seen.layer] = seen.replay[0]
        if seen.tas is not None:
            tas[seen.step, seen.layer] = seen.tas[0]

    fed = [model.arrays["begin"], *model.arrays["embed_visual"][codes[:-1]]]
    hidden = [
        decode_step(config, policy, weights, state, x.astype(config.dtype)[None], note)[0]
        for x in fed
    ]
    return np.stack(hidden), tas, replay


taus = st.sampled_from([None, -np.inf, -0.5, 0.0, 0.3, np.inf])
attentions = st.sampled_from([Dense()]) | st.builds(
    Streaming, sinks=st.integers(0, 3), window=st.integers(1, 12)
)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(taus, taus),
    attentions,
    st.builds(
        Tas,
        form=st.sampled_from(["released", "paper"]),
        head=st.none() | st.integers(0, 3),
        offset=st.sampled_from([0, 1]),
    ),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 99),
)
def test_whole_clips_decode_as_step_by_step(taus, attention, rule, n_kv_heads, seed):
    model = make_model(n_kv_heads)
    config = Config(model.geometry, tokens_per_frame=5, n_frames=4, dtype="float64")
    policy = Policy(taus, rule, attention)
    codes = np.random.default_rng(seed).integers(0, N_CODES, config.n_steps)
    hidden, tas, replay = step_by_step(model, config, policy, codes)
    decoded = whole.Decoder(model, config).decode(policy, PROMPT, codes)
    assert np.allclose(decoded.tas, tas, rtol=0, atol=1e-9, equal_nan=True)
    # A score within rounding of a threshold may decide otherwise; none lies there.
    assert np.array_equal(decoded.replay, replay)
    assert np.allclose(decoded.hidden, hidden, rtol=0, atol=1e-9)


def test_more_queries_than_a_block_attend_alike(monkeypatch):
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((40, heads, 4)) for heads in (4, 2, 2))
    for attention in (Dense(), Streaming(sinks=2, window=7)):
        at_once = whole.attend(q, k, v, attention)
        with monkeypatch.context() as patch:
            patch.setattr(whole, "_BLOCK", 3)
            assert np.allclose(whole.attend(q, k, v, attention), at_once)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return record.Archive(make_model(), tmp_path_factory.mktemp("out"), n_frames=2)


def make_rows(n: int, still: bool = False) -> tuple[Row, ...]:
    rng = np.random.default_rng(5)
    rows = []
    for number in range(n):
        frame = rng.integers(0, N_CODES, TOKENS_PER_FRAME)
        other = frame if still else rng.integers(0, N_CODES, TOKENS_PER_FRAME)
        rows.append(Row(number, PROMPT, np.concatenate([frame, other])))
    return tuple(rows)


def test_rows_are_decoded_once_and_seen_from_inside(archive):
    rows = make_rows(2)
    closed = archive.closed(archive.dense, rows)
    spent = archive.seconds
    seen = archive.observed(rows)
    again = archive.closed(archive.dense, rows[:1])
    assert archive.seconds == spent
    assert np.array_equal(again.tas[..., 0], closed.tas[..., 0], equal_nan=True)
    assert seen.paper.shape == (2, LAYERS, TOKENS_PER_FRAME)
    eligible = closed.tas[TOKENS_PER_FRAME:]
    assert np.allclose(seen.paper, np.moveaxis(eligible, (0, 1, 2), (2, 1, 0)), atol=1e-5)
    assert (np.abs(seen.mlp_cosine) <= 1.00001).all()
    other = archive.closed(Policy((0.0,) * LAYERS, Tas(form="paper")), rows)
    assert archive.seconds > spent
    assert other.ratio > 0
    assert other.agreement(other).tolist() == [1, 1]
    assert np.allclose(closed.loss, closed.nats[TOKENS_PER_FRAME:].mean(axis=0))


def test_losses_are_those_of_the_true_codes(archive):
    row = make_rows(1)[0]
    closed = archive.closed(archive.dense, [row])
    decoded = whole.Decoder(archive.model, archive.config).decode(
        archive.dense, row.prompt, row.codes
    )
    logits = decoded.hidden[-1].astype(float) @ archive.model.arrays["head"].T
    odds = np.exp(logits) / np.exp(logits).sum()
    assert np.isclose(closed.nats[-1, 0], -np.log(odds[row.codes[-1]]), atol=1e-4)
    assert closed.best[-1, 0] == odds.argmax()


@pytest.mark.parametrize("module", [ranks, thresholds])
def test_doctests_of_studies(module):
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed


def observed(rng, rows=4, layers=4, places=300, **fields) -> record.Observed:
    """Independent noise in every field but those given."""
    names = record.Observed.__dataclass_fields__
    noise = {name: rng.uniform(0, 1, (rows, layers, places)) for name in names}
    return record.Observed(**(noise | fields))


def test_the_form_that_follows_the_cosine_is_found(monkeypatch):
    rng = np.random.default_rng(0)
    likeness = rng.uniform(0, 1, (4, 4, 300))
    forms = score.compare_forms(observed(rng, mlp_cosine=likeness, paper=likeness**3))
    assert (forms["auc_paper"] == 1).all()
    assert (forms["rank_corr_paper"] > 0.999).all()
    assert (forms["auc_released"] - 0.5).abs().max() < 0.1


def test_what_the_score_adds_to_the_bound_is_told_from_what_the_input_does():
    rng = np.random.default_rng(0)
    shape = (8, 4, 300)
    entered, cosines = rng.uniform(0, 1, shape), rng.uniform(-1, 1, shape)
    helps = observed(
        rng,
        *shape,
        input_change=entered,
        cosine_paper=cosines,
        mlp_change=entered + 2 * np.sqrt(1 - cosines),
    )
    table = score.check_bound(helps, slice(4, None), slice(4))
    assert (table["gain"] > 0.3).all()
    assert (table["rank_corr_bound"] > 0.7).all()
    idle = observed(rng, *shape, input_change=entered, cosine_paper=cosines, mlp_change=3 * entered)
    table = score.check_bound(idle, slice(4, None), slice(4))
    assert table["gain"].abs().max() < 1e-3
    assert (table["rank_corr_input"] > 0.999).all()
    assert (table["least_c"] <= 3).all()


def test_least_error_spends_replays_where_they_cost_nothing():
    rng = np.random.default_rng(0)
    cheap = np.array([1.0, 1.0, 1.0, 0.001])[None, :, None] * np.ones((4, 4, 300))
    seen = observed(rng, mlp_change=cheap, middle_length=np.ones((4, 4, 300)))
    taus = thresholds.least_error(seen, 1 / 4, first_layer=0)
    assert taus == (np.inf, np.inf, np.inf, -np.inf)
    exempt = thresholds.least_error(seen, 1 / 2, first_layer=2)
    assert exempt == (np.inf, np.inf, np.inf, -np.inf)


def test_families_replay_the_share_that_is_wanted():
    rng = np.random.default_rng(0)
    paper = rng.normal(np.arange(8)[None, :, None], 1, (4, 8, 400))
    seen = observed(rng, 4, 8, 400, paper=paper, released=paper / 2)
    for family in per_layer.LEVELS:
        for share in (0.3, 0.7):
            limits, form = per_layer.thresholds(family, share, seen)
            scores = getattr(seen, form)
            replayed = (scores > np.array(limits)[:, None]).mean()
            assert replayed == pytest.approx(share * 5 / 8, abs=0.02), family


def points(family: str, losses: dict[float, float], noise=0.0) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "family": family,
            "level": level,
            "clip": clip,
            "tau": -level,
            "ratio_eligible": level,
            "ratio_all": level / 2,
            "nats": 1 + loss + noise * rng.normal(),
            "nats_dense": 1.0,
            "agreement": 1.0,
        }
        for level, loss in losses.items()
        for clip in range(4)
    )


def test_families_are_compared_at_the_same_ratio():
    table = pd.concat(
        [points(per_layer.ONE, {0.2: 0.2, 0.6: 0.6}), points("equal shares", {0.4: 0.5, 0.1: 0.05})]
    )
    compared = per_layer.against_one(table).set_index("level")
    assert compared.loc[0.4, "difference"] == pytest.approx(0.1)
    assert compared.loc[0.1, "difference"] == pytest.approx(-0.05)
    assert compared["half_width"].tolist() == pytest.approx([0, 0])
    line = per_layer.curve(table, per_layer.ONE)
    assert line["excess"].tolist() == pytest.approx([0, 0.2, 0.6])


def test_phi_and_savings_of_rows_that_decide_alike_and_alone():
    rng = np.random.default_rng(0)
    alone = rng.random((4000, 2, 4)) < 0.5
    alike = alone.copy()
    alike[..., 1::2] = alike[..., 0::2]
    by_kind = correlation.phis(alike).set_index("between")
    assert by_kind.loc["pair", "phi"] == pytest.approx(1)
    assert abs(by_kind.loc["clips", "phi"]) < 0.05
    assert correlation.unfetched(alike, 2) == pytest.approx(0.5, abs=0.02)
    assert correlation.unfetched(alone, 2) == pytest.approx(0.25, abs=0.02)
    assert correlation.unfetched(alike, 4) == pytest.approx(0.25, abs=0.02)


def test_expected_savings_of_independent_rows(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(correlation, "BATCHES", (2, 4))
    ratios = np.array([0.2, 0.9])[:, None]
    table = correlation.saved(rng.random((4000, 2, 4)) < ratios).set_index("batch")
    for batch in (2, 4):
        by_layer = (ratios**batch).mean()
        for column in ("measured", "independent_by_layer", "by_row", "pairs_as_one"):
            assert table.loc[batch, column] == pytest.approx(by_layer, abs=0.02), column
        assert table.loc[batch, "independent"] == pytest.approx(0.55**batch, abs=0.02)


def test_batches_are_whole_pairs():
    rng = np.random.default_rng(0)
    for batch in (2, 4, 8):
        for rows in correlation.batches_of(8, batch, rng):
            assert len(set(rows)) == batch
            assert all(row ^ 1 in rows for row in rows)


def capture(scores: np.ndarray, limits) -> open_loop.Capture:
    tas = np.concatenate([np.full((TOKENS_PER_FRAME, *scores.shape[1:]), np.nan), scores])
    return open_loop.Capture(tas, open_loop.decide(tas, limits), limits)


def test_blended_scores_of_an_affine_change_are_exact():
    rng = np.random.default_rng(0)
    scores, drift_of = rng.normal(size=(2, TOKENS_PER_FRAME, 3, 2))
    low, middle, high = (
        capture(scores + t * drift_of, (t, t, t)) for t in (0.0, 0.25, 1.0)
    )  # scores change in proportion to the threshold
    blended = open_loop.blend(low, high, (0.0, 1.0), 0.25)
    assert np.array_equal(open_loop.decide(blended, (0.25,) * 3), middle.replay)
    off = open_loop.errors(open_loop.decide(low.tas, (0.25,) * 3), middle.replay, {}, {})
    assert off["flipped"] > 0.01
    assert not middle.replay[:TOKENS_PER_FRAME].any()


def test_trust_is_lost_where_any_error_is_too_large():
    table = pd.DataFrame(
        {
            "target": ["10%", "30%", "50%"],
            "base": "dense",
            "kind": "open loop",
            "ratio_error": [0.001, -0.05, 0.0],
            "zcu102_error": [0.002, 0.0, -0.02],
            "flipped": 0.1,
        }
    )
    summary = open_loop.summarise(table).iloc[0]
    assert summary["trusted"] == "10%"
    assert summary["worst_error"] == pytest.approx(0.05)


def test_relief_is_negative_where_replay_helps_a_window():
    frames = range(1, 8)
    rows = [
        {"window": window, "level": level, "clip": clip, "frame": frame}
        | {"replay_eligible": level, "nats": 1 + (window > 0) * frame * (0.1 - 0.1 * level)}
        for window in (0, 16)
        for level in (0.0, 0.5)
        for clip in range(3)
        for frame in frames
    ]
    table = drift.relief(pd.DataFrame(rows)).set_index(["window", "level"])
    assert table.loc[(16, 0.0), "slope"] == pytest.approx(0.1)
    assert table.loc[(16, 0.5), "slope"] == pytest.approx(0.05)
    assert table.loc[(16, 0.5), "over_window_alone"] == pytest.approx(-0.2)
    assert table.loc[(0, 0.5), "excess"] == pytest.approx(0)


def test_cosines_are_told_by_layer_and_clip():
    rng = np.random.default_rng(0)
    likeness = np.array([0.9, 0.2])[:, None, None] * np.ones((2, 4, 10))
    table = redundancy.by_layer_and_clip(observed(rng, 2, 4, 10, mlp_cosine=likeness), (0, 1))
    assert table.groupby("clip")["cosine"].mean().tolist() == pytest.approx([0.9, 0.2])
    assert len(table) == 8
    assert [redundancy.pace(speed) for speed in (0.0, 0.5, 1.0, 4.0)] == [
        "slow",
        "slow",
        "between",
        "fast",
    ]


def test_only_comparable_cells_of_the_measured_quality_are_drawn():
    cell = {"frames": 8, "scope": "row", "window": 0, "sampling": "greedy", "tau": 1.0}
    cells = [
        cell | {"replay_eligible": 0.7, "psnr_db": 18.0},
        cell | {"replay_eligible": 0.3, "psnr_db": 20.0},
        cell | {"replay_eligible": 0.0, "psnr_db": np.inf, "tau": np.inf},
        cell | {"replay_eligible": 0.3, "psnr_db": 1.0, "window": 16},
        cell | {"replay_eligible": 0.3, "psnr_db": 1.0, "scope": "pair"},
        cell | {"replay_eligible": 0.3, "psnr_db": 1.0, "frames": 16},
    ]
    losses = {"teacher_forced_nats": 2.5, "teacher_forced_dense_nats": 2.0}
    kept = tau.own_rows(pd.DataFrame([each | losses for each in cells]))
    assert kept["psnr_db"].tolist() == [np.inf, 20.0, 18.0]
    assert kept["excess"].tolist() == [0.5] * 3
