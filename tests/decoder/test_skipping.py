"""Rows that replay skip other blocks than the MLP, held against an independent decoder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_decoding import small_decoding, small_recipe

from carsim import load_trace, run, save_trace
from carsim.base.errors import InputError
from carsim.decisions.attention import AnnCa
from carsim.decisions.replay import InputChange, Periodic, Tas
from carsim.decoder.capture import capture
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.recipe import Recipe
from carsim.decoder.skipping import skipped_by
from carsim.decoder.structures import DecoderPolicy
from carsim.design import Design, load_design, override
from carsim.program.program import Layer, skip
from carsim.program.skips import SKIPS, Skip
from carsim.testing.decoder import (
    SETTINGS,
    DecodedLog,
    Setting,
    decode_rows,
    decode_setting,
    make_config,
)
from tests.decoder_oracle import naive_rows, oracle_decode

ROOT = Path(__file__).parents[2]
KINDS = {"mlp": "mlp", "attention_too": "attention and mlp", "attention": "attention"}


FIRST_STEPS = 256
"""Steps of the first frame of a small decoding, which never replays."""


def of(kind: str) -> Skip:
    return SKIPS[kind](kind=kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_every_skip_decodes_as_a_decoder_without_caches_does(kind: str, gain: float) -> None:
    policy = DecoderPolicy((0.0, 0.1), Tas(form="paper", gain=gain), skip=of(kind))
    decoded = decode_rows(make_config(), policy)
    expected = naive_rows(make_config(), policy, skips=KINDS[kind])
    assert 0.1 < decoded.kept.replay[3:].mean() < 0.9
    np.testing.assert_array_equal(decoded.kept.replay, expected.replay)
    np.testing.assert_allclose(decoded.kept.residual, expected.residual, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(decoded.hidden, expected.hidden, rtol=1e-9, atol=1e-11)


def recipe_of(**changes: Any) -> Recipe:
    """A small recipe in which rows that replay skip attention, too."""
    return small_recipe(**({"skip": {"kind": "attention_too"}} | changes))


def test_a_captured_trace_says_which_blocks_its_rows_skip(tmp_path: Path) -> None:
    path = tmp_path / "too.npz"
    save_trace(path, capture(recipe_of(), ROOT / "traces", workers=1))
    trace = load_trace(path)
    assert trace.meta.captured_skip == "attention_too"
    assert trace.meta.decisions is not None
    assert trace.meta.decisions["token"].holds == ("output", "mlp")
    assert 0.1 < trace.replay[FIRST_STEPS:, 1:].mean() < 0.9


def test_the_small_model_decodes_as_a_decoder_without_caches_does() -> None:
    recipe = recipe_of()
    config, weights, embeddings, prompt = small_decoding(recipe)

    def decode(taus: tuple[float, ...]) -> DecodedLog:
        log = DecodedLog(config, 1)
        policy = DecoderPolicy(taus, recipe.rule, skip=recipe.skip)
        state, _ = prefill(config, policy, weights, prompt[None], np.ones((1, len(prompt)), bool))
        for x in embeddings:
            decode_step(state, x, log)
        return log

    # Half of the scores of each layer are above its threshold, but for the first, which is exempt.
    n_layers = recipe.decoded.n_layers
    scores = decode((np.inf,) * n_layers).tas[config.tokens_per_frame :]
    medians = np.median(scores, axis=(0, 2))
    taus = (np.inf, *medians[1:].tolist())
    decoded = decode(taus)
    policy = DecoderPolicy(taus, recipe.rule, skip=recipe.skip)
    expected = oracle_decode(
        config, policy, weights, [prompt], embeddings, [[0]], skips="attention and mlp"
    )
    assert 0 < decoded.replay[config.tokens_per_frame :].mean() < 1
    np.testing.assert_array_equal(decoded.replay, expected.replay)
    np.testing.assert_allclose(decoded.residual, expected.residual, rtol=1e-7, atol=1e-8)


def test_decisions_that_were_captured_so_are_run_closed_loop(tmp_path: Path) -> None:
    trace = capture(recipe_of(clips=recipe_of().clips[:1]), ROOT / "traces", workers=1)
    skips_mlp_alone = load_design("zcu102")
    skip = {"policy.skip": {"kind": "attention_too"}, "machine.decision_at": "q"}
    skips_as_captured = override(skips_mlp_alone, skip)

    def label_of(design: Design) -> str:
        return run(design, [trace], allow_misfit=True).chosen.batches.label

    assert "open loop" not in label_of(skips_as_captured)
    assert "run under skip mlp (open loop)" in label_of(skips_mlp_alone)


def test_a_layer_that_is_skipped_as_a_whole_adds_what_it_added_before() -> None:
    # Frames of 4 tokens, 2 layers and 2 rows; the layers replay in turn.
    policy = DecoderPolicy((0.5, 0.5), Periodic(), skip=of("layer"))
    decoded = decode_setting(SETTINGS[0], policy)
    replay = decoded.replay.reshape(4, 4, 2, 2)  # [T, N, L, B]
    assert replay[1, :, 0].all()
    assert not replay[2, :, 0].any()
    residual = decoded.residual.reshape(4, 4, 2, 2, -1)
    added_by_layer_1 = residual[:, :, 1] - residual[:, :, 0]
    assert replay[2, :, 1].all()
    np.testing.assert_allclose(added_by_layer_1[2], added_by_layer_1[1], atol=1e-12)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: str(setting.words))
def test_a_layer_is_skipped_whatever_the_prompt_and_the_frames_are(setting: Setting) -> None:
    """A prompt may be shorter than a frame: the first frame has no place one frame before."""
    policy = DecoderPolicy((0.5, 0.5), Periodic(), skip=of("layer"))
    replay = decode_setting(setting, policy).replay
    assert not replay[: setting.tokens_per_frame].any()
    assert replay[setting.tokens_per_frame :].any()


def test_a_rule_cannot_see_what_is_decided_before() -> None:
    too = DecoderPolicy((0.0, 0.0), InputChange(), skip=of("attention_too"))
    with pytest.raises(InputError, match=r"seen\.mlp_input: is known at 'residual', and skip"):
        decode_rows(make_config(), too)
    with pytest.raises(InputError, match=r"seen\.q: is known at 'q', and skip 'layer' decides"):
        decode_rows(make_config(), DecoderPolicy((0.0, 0.0), Tas(), skip=of("layer")))


class Odd(Skip):
    """Skips attention alone."""

    label = "odd"
    kind: str = "odd"

    def mark(self, layer: Layer, number: int) -> Layer:
        return skip(layer, "attention", "mlp", holds=["attention"])


class OddLayers(Skip):
    """Skips the MLP of every second layer."""

    label = "odd layers"
    kind: str = "odd_layers"

    def mark(self, layer: Layer, number: int) -> Layer:
        return skip(layer, "mlp", holds=["mlp"]) if number % 2 else layer


def test_what_the_decoder_cannot_skip_is_refused() -> None:
    with pytest.raises(InputError, match="and not the output projection, which needs it"):
        skipped_by(Odd(), n_layers=2)
    with pytest.raises(InputError, match="skips other blocks in layer 1 than in layer 0"):
        skipped_by(OddLayers(), n_layers=2)
    policy = DecoderPolicy((0.0, 0.0), Tas(), attention=AnnCa(), skip=of("attention_too"))
    with pytest.raises(InputError, match="chooses keys by the data"):
        decode_rows(make_config(), policy)
    with pytest.raises(InputError, match="norm"):
        recipe_of(skip={"kind": "norm"})
