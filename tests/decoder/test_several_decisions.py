"""Decoding in which attention and MLP follow decisions of their own: rules, capture, cost by hand.

Decisions are held against a decoder without caches (``tests/decoder_oracle.py``).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from commands import call
from small_decoding import small_decoding, small_recipe

from carsim import load_trace, override, run, save_trace
from carsim.base.errors import InputError
from carsim.decisions.attention import AnnCa
from carsim.decisions.attention.base import Array, Bools
from carsim.decisions.replay import InputChange, Replay, ReplayRule, Seen, Tas
from carsim.decisions.trace import Trace
from carsim.decoder.capture import capture
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.recipe import Recipe
from carsim.decoder.skipping import skipped_by
from carsim.decoder.structures import DecoderPolicy, LayerRecord
from carsim.design import load_design
from carsim.program.program import Layer, skip
from carsim.program.skips import SKIPS, Skip
from carsim.testing.decoder import decode_rows, make_config, make_weights
from tests.decoder_oracle import decode_with, naive_rows, oracle_decode

ROOT = Path(__file__).parents[2]
BY_DECISION = SKIPS["by_decision"](kind="by_decision")
PAPER = Tas(form="paper")
FIRST_STEPS = 256
"""Steps of the first frame of a small decoding, which never replays."""


class DecisionLog:
    """A recorder that keeps a decision: who replays, and scores, [S, L, B] each."""

    def __init__(self, name: str, shape: tuple[int, int, int]) -> None:
        self.name = name
        self.replay = np.zeros(shape, np.bool_)
        self.tas = np.full(shape, np.nan)

    def __call__(self, record: LayerRecord) -> None:
        """Keep the decision of one layer in one step."""
        decided = record.decisions[self.name]
        self.replay[record.step, record.layer] = decided.replay
        if decided.tas is not None:
            self.tas[record.step, record.layer] = decided.tas


def policy_of(mlp: Replay, attention: Replay) -> DecoderPolicy:
    """The policy in which two decisions are made."""
    further = (("attention", attention),)
    return DecoderPolicy(mlp.tau, mlp.rule, mlp.scope, skip=BY_DECISION, further=further)


TWO_THRESHOLDS = (Replay((0.0, 0.1), PAPER), Replay((0.15, -0.1), PAPER))
"""One rule with two thresholds."""

TWO_RULES = (
    Replay((0.0, 0.1), Tas(form="paper", gain=0.5, max_age=1)),
    Replay((0.05, -0.05), Tas(form="released", head=1, gain=0.25)),
)
"""Two rules that score, damp and cap ages differently."""

FIVE_FRAMES = make_config(n_frames=5)


@pytest.mark.parametrize("made", [TWO_THRESHOLDS, TWO_RULES], ids=["thresholds", "rules"])
def test_two_decisions_decode_as_a_decoder_without_caches_does(made: tuple[Replay, Replay]) -> None:
    policy = policy_of(*made)
    log = DecisionLog("attention", (FIVE_FRAMES.n_steps, 2, 4))
    decoded = decode_with(FIVE_FRAMES, policy, make_weights(FIVE_FRAMES), also=log)
    expected = naive_rows(FIVE_FRAMES, policy, skips="attention and mlp", of_attention=made[1])
    for replay in (decoded.kept.replay, log.replay):
        assert 0.1 < replay[3:].mean() < 0.9
    assert (decoded.kept.replay & ~log.replay).any()
    assert (log.replay & ~decoded.kept.replay).any()
    np.testing.assert_array_equal(decoded.kept.replay, expected.replay)
    np.testing.assert_array_equal(log.replay, expected.attention_replay)
    np.testing.assert_allclose(log.tas, expected.attention_tas, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(decoded.kept.residual, expected.residual, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(decoded.hidden, expected.hidden, rtol=1e-9, atol=1e-11)


def test_one_decision_for_both_is_two_equal_ones() -> None:
    both = DecoderPolicy((0.0, 0.1), PAPER, skip=SKIPS["attention_too"](kind="attention_too"))
    one = decode_rows(make_config(), both)
    equal = Replay((0.0, 0.1), PAPER)
    two = decode_rows(make_config(), policy_of(equal, equal))
    assert one.hidden.tobytes() == two.hidden.tobytes()


def test_an_infinite_threshold_leaves_one_decision() -> None:
    attention = SKIPS["attention"](kind="attention")
    alone = decode_rows(make_config(), DecoderPolicy((0.0, 0.1), PAPER, skip=attention))
    never = Replay((np.inf, np.inf), PAPER)
    beside = decode_rows(make_config(), policy_of(never, Replay((0.0, 0.1), PAPER)))
    assert alone.hidden.tobytes() == beside.hidden.tobytes()


class Aged(ReplayRule):
    """Replays as often as its own held output is young; holds the age that it was told last."""

    label: ClassVar[str] = "aged"

    kind: Literal["aged"] = "aged"
    most: int = 2

    def begin(self, shape: Any) -> Array:
        """Ages that ``computed`` was shown, [L, N, B]."""
        return np.zeros((shape.n_layers, shape.tokens_per_frame, shape.n_rows))

    def score(self, state: Array, layer: int, place: int, seen: Seen) -> Array:
        """1 where the held output is young enough, else 0."""
        state[layer, place] = seen.age
        return np.where(seen.age <= self.most, 1.0, 0.0)

    def computed(self, state: Array, layer: int, place: int, rows: Bools, seen: Seen) -> None:
        """The age is the one that was scored."""
        if seen.frame > 0:
            assert (state[layer, place] == seen.age).all()


def test_each_rule_sees_the_age_of_its_own_decision() -> None:
    """Both at the query and at the residual stream, and again when it is told who computed."""
    mlp = Replay((0.5, 0.5), Aged(most=2))
    attention = Replay((0.5, 0.5), Aged(most=1))
    config = make_config(n_frames=7)
    log = DecisionLog("attention", (config.n_steps, 2, 4))
    decoded = decode_with(config, policy_of(mlp, attention), make_weights(config), also=log)
    by_frame = decoded.kept.replay.reshape(7, 3, 2, 4).all(axis=(1, 2, 3))
    assert by_frame.tolist() == [False, True, True, False, True, True, False]
    assert log.replay.reshape(7, 3, 2, 4).all(axis=(1, 2, 3)).tolist() == [False, True] * 3 + [
        False
    ]


class ApartInHalves(Skip):
    """Skips attention by one decision, and its projection by another."""

    label = "apart in halves"
    kind: str = "apart_in_halves"

    def mark(self, layer: Layer, number: int) -> Layer:
        marked = skip(layer, "attention", holds=[], decision="attention")
        return skip(marked, "output", "mlp", holds=["output", "mlp"])


def test_what_the_decoder_cannot_skip_is_refused() -> None:
    words = "skips 'attention' by the decision 'attention', and not the output projection"
    with pytest.raises(InputError, match=words):
        skipped_by(ApartInHalves(), n_layers=2)
    replay = Replay((0.0, 0.0))
    with pytest.raises(InputError, match=r"follows the decision 'attention', and there is token"):
        decode_rows(make_config(), DecoderPolicy((0.0, 0.0), skip=BY_DECISION))
    further = (("attention", replay), ("other", replay))
    with pytest.raises(InputError, match=r"follows .*, and not the decision 'other'; let a block"):
        decode_rows(make_config(), DecoderPolicy((0.0, 0.0), skip=BY_DECISION, further=further))
    later = policy_of(replay, Replay((0.0, 0.0), InputChange()))
    with pytest.raises(InputError, match=r"seen\.mlp_input: .* decides 'attention' at 'q'"):
        decode_rows(make_config(), later)
    chooses = DecoderPolicy((0.0, 0.0), attention=AnnCa(), skip=BY_DECISION, further=further[:1])
    with pytest.raises(InputError, match="chooses keys by the data"):
        decode_rows(make_config(), chooses)


def recipe_of(**changes: Any) -> Recipe:
    """A small recipe with a decision about MLPs and one about attention, both by FastCar's rule."""
    several = {"skip": {"kind": "by_decision"}, "decisions": {"attention": {"tau": -80.0}}}
    return small_recipe(**(several | changes))


def test_the_small_model_decodes_as_a_decoder_without_caches_does() -> None:
    recipe = recipe_of()
    config, weights, embeddings, prompt = small_decoding(recipe)
    n_layers = recipe.decoded.n_layers
    shape = (config.n_steps, n_layers, 1)

    def decode(mlp: Replay, attention: Replay) -> tuple[DecisionLog, DecisionLog]:
        logs = DecisionLog("token", shape), DecisionLog("attention", shape)
        policy = policy_of(mlp, attention)
        state, _ = prefill(config, policy, weights, prompt[None], np.ones((1, len(prompt)), bool))

        def record(layer_record: LayerRecord) -> None:
            for log in logs:
                log(layer_record)

        for x in embeddings:
            decode_step(state, x, record)
        return logs

    # Of the scores of each layer, a half is above one threshold and three quarters above the other.
    never = Replay((np.inf,) * n_layers, recipe.rule)
    scores = decode(never, never)[0].tas[config.tokens_per_frame :]
    taus = [np.quantile(scores, share, axis=(0, 2)).tolist() for share in (0.5, 0.25)]
    mlp, attention = (Replay((np.inf, *of_layers[1:]), recipe.rule) for of_layers in taus)
    logs = decode(mlp, attention)
    expected = oracle_decode(
        config,
        policy_of(mlp, attention),
        weights,
        [prompt],
        embeddings,
        [[0]],
        skips="attention and mlp",
        of_attention=attention,
    )
    shares = [log.replay[config.tokens_per_frame :].mean() for log in logs]
    assert 0 < shares[0] < shares[1] < 1
    np.testing.assert_array_equal(logs[0].replay, expected.replay)
    np.testing.assert_array_equal(logs[1].replay, expected.attention_replay)
    np.testing.assert_allclose(logs[1].tas, expected.attention_tas, rtol=1e-6)


@pytest.fixture(scope="module")
def captured() -> Trace:
    """One clip under two decisions, closed loop."""
    recipe = recipe_of(clips=recipe_of().clips[:1], tas_step=0.25)
    return capture(recipe, ROOT / "traces", workers=1)


def test_a_captured_trace_has_both_decisions(captured: Trace, tmp_path: Path) -> None:
    path = tmp_path / "two.npz"
    saved = save_trace(path, captured)
    trace = load_trace(path)
    assert trace.sha256 == saved.sha256
    assert trace.meta.schema_version == 3
    assert trace.meta.decisions is not None
    about_mlps, about_attention = (trace.meta.decisions[name] for name in ("token", "attention"))
    assert (about_mlps.blocks, about_mlps.known) == (("mlp",), "output")
    assert (about_attention.blocks, about_attention.known) == (("attention", "output"), "qkv")
    assert (about_attention.tau, about_attention.scope) == ((np.inf, -80.0, -80.0, -80.0), "row")
    attention = trace.further["attention"].replay
    assert 0.05 < trace.replay[FIRST_STEPS:].mean() < attention[FIRST_STEPS:].mean() < 0.95
    # Scores are those of one rule in one layer-step, as multiples of 0.25, or kept beside a tau:
    # the lower threshold replays whatever the higher one does.
    np.testing.assert_allclose(trace.tas, trace.further["attention"].tas, atol=0.125)
    assert attention[trace.replay].all()


def test_a_closed_loop_differs_from_two_traces_that_are_joined(captured: Trace) -> None:
    clips = recipe_of().clips[:1]
    of_mlps, of_attention = (
        capture(
            recipe_of(clips=clips, skip={"kind": kind}, tau=tau, decisions=None, tas_step=0.25),
            ROOT / "traces",
            workers=1,
        )
        for kind, tau in (("mlp", -60.0), ("attention", -80.0))
    )
    joined = of_mlps.with_decision("attention", of_attention)
    assert not np.array_equal(joined.tas, captured.tas, equal_nan=True)


def test_decisions_of_other_scopes_are_named(captured: Trace) -> None:
    changes = {"policy.skip": {"kind": "by_decision"}, "machine.decision_at": "q"}
    design = override(load_design("zcu102"), changes)
    assert captured.meta.decisions is not None
    attention = captured.meta.decisions["attention"].model_copy(update={"scope": "pair"})
    decisions = {**captured.meta.decisions, "attention": attention}
    scored = captured.further["attention"]
    both_rows = scored.replay.all(axis=2, keepdims=True).repeat(2, axis=2)
    in_pairs = replace(
        captured,
        meta=captured.meta.model_copy(update={"decisions": decisions}),
        further={"attention": scored._replace(replay=both_rows)},
    )
    label = run(design, [in_pairs], allow_misfit=True).chosen.batches.label
    assert "decision attention of scope pair, run under row" in label
    # A coarser scope is taken on by all decisions.
    for trace in (captured, in_pairs):
        coarser = override(design, {"policy.decision_scope": "pair"})
        batches = run(coarser, [trace], allow_misfit=True).chosen.batches
        assert "of scope" not in batches.label
        assert "re-scoped to pair" in batches.label
        replay = batches.further["attention"]
        assert (replay[..., 0] == replay[..., 1]).all()


def test_its_cost_is_that_of_a_calculation_by_hand(captured: Trace) -> None:
    """At both fidelity levels; of the model that is simulated, layer by layer."""
    changes = {"policy.skip": {"kind": "by_decision"}, "machine.decision_at": "q"}
    design = override(load_design("zcu102"), changes)
    body = design.model.body
    d, ff, q = body.hidden_size, body.ffn_size, body.q_size
    layers = body.n_layers // captured.n_layers  # which stand for one
    replay = captured.replay
    attention = captured.further["attention"].replay
    context = captured.prompt_tokens + 1 + np.arange(captured.n_steps)
    # The prompt computes as a whole, and is counted in a phase of its own.
    mlp_macs = layers * int((~replay).sum()) * 3 * d * ff
    output_macs = layers * int((~attention).sum()) * q * d
    tokens_read = int(((~attention).sum(axis=(1, 2)) * context).sum())
    seconds = []
    for fidelity in ("fluid", "tile"):
        row = run(design, [captured], allow_misfit=True, fidelity=fidelity).chosen
        assert "open loop" not in row.batches.label
        totals = row.simulation.totals
        assert totals["mlp"].macs == mlp_macs
        assert totals["output"].macs == output_macs
        assert totals["attention"].macs == layers * tokens_read * 2 * q
        seconds.append(row.seconds_per_video)
    assert seconds[1] == pytest.approx(seconds[0], rel=0.01)


RECIPE = """\
name: two
output: two.npz
decoded:
  {name: small-128, n_layers: 4, hidden_size: 128, n_heads: 1, n_kv_heads: 1, head_dim: 8,
   ffn_size: 1024}
weights: small.safetensors
codebook: codebook_512.npz
scenes: scenes.npz
clips: [{scene: slow_0, caption: "a walk, slow"}]
n_frames: 2
prompt_tokens: 62
tau: -60.0
rule: {kind: tas, form: paper}
attention: {kind: dense}
seed: 1
skip: {kind: by_decision}
decisions:
  attention: {tau: -80.0}
"""


def test_the_command_says_how_much_each_decision_replays(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    done = call("capture", path)
    assert done.status == 0, done.err
    trace = load_trace(tmp_path / "two.npz")
    attention = trace.further["attention"].replay[FIRST_STEPS:].mean()
    mlps = trace.replay[FIRST_STEPS:].mean()
    assert f"{mlps:.1%} of eligible steps (first frame left out)" in done.out
    assert f"decision attention: {attention:.1%} of eligible steps" in done.out
    found = call("capture", path, "--calibrate", "0.5", "--decision", "attention")
    assert found.status == 0, found.err
    assert "two replays 50" in found.out
    assert "by the decision attention" in found.out
    info = call("trace", "info", tmp_path / "two.npz")
    assert "skips attention, output: tau -80, decision scope row" in info.out
    assert f"{attention:.2%} of eligible steps" in info.out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  attention: {tau: -80.0}", "  other: {tau: -80.0}", "follows the decision 'attention'"),
        ("  attention: {tau", "  token: {tau", "'token' is made by tau, rule and decision_scope"),
        ("{tau: -80.0}", "{tau: [1.0]}", "1 taus for 4 layers"),
        ("skip: {kind: by_decision}", "skip: {kind: mlp}", "and not the decision 'attention'"),
        ("tau: -60.0", "tau: -60.0\nexempt_layers: [0]", "go with one tau for the decision"),
    ],
)
def test_a_recipe_that_contradicts_itself_is_refused(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "two.yaml"
    text = RECIPE.replace("{tau: -80.0}", "{tau: [0, 0, 0, 0]}") if "exempt" in new else RECIPE
    path.write_text(text.replace(old, new), encoding="utf-8")
    done = call("capture", path)
    assert done.status == 2
    assert words in done.err
