"""The NumPy decoder of videos in chunks against an independent implementation in PyTorch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from chunked_torch import ChunkedTorch, Policies

from carsim.decisions.attention import Ann, AnnCa, AttentionPolicy, Dense, Stack, TempCache, search
from carsim.decoder.chunked.decode import AcrossFrames, AcrossSteps, Part, decode, drawn_video
from carsim.decoder.chunked.model import ChunkShape, drawn_model
from carsim.decoder.chunked.thin import ThinningOf, thinning_of

SHAPE = ChunkShape(
    n_layers=3,
    hidden_size=24,
    n_heads=3,
    ffn_size=40,
    frame_tokens=5,
    chunk_frames=3,
    channels=4,
    text_tokens=7,
)
CHUNKS = 4
STEPS = 3
TOLERANCE = 1e-6
MARGIN = 1e-5
"""No decision may be nearer to its threshold, so that equal decisions do not hang on rounding."""
TAU = 0.25


def across_frames(*, across_chunks: bool = True, dense_steps: int = 0) -> AcrossFrames:
    """FastCar."""
    return AcrossFrames(shape=SHAPE, tau=TAU, across_chunks=across_chunks, dense_steps=dense_steps)


def made_by_both(
    seed: int, policies: Policies, reuse: Any, attention: AttentionPolicy
) -> tuple[ChunkedTorch, ThinningOf]:
    """Make a video by both implementations, and hold the results equal.

    Args:
        seed: Seed of weights, noise and prompt.
        policies: Policies of the implementation in PyTorch.
        reuse: Policy of reuse of the NumPy decoder.
        attention: Policy of attention of the NumPy decoder.
    """
    model = drawn_model(SHAPE, seed)
    video = drawn_video(SHAPE, CHUNKS, 0.8, seed=seed + 1)
    thinning = thinning_of(attention, SHAPE)
    made = decode(model, video, STEPS, reuse, thinning)
    other = ChunkedTorch(model, STEPS, policies)
    expected = other.video(video.noise, video.text).numpy()
    np.testing.assert_allclose(made, expected, rtol=TOLERANCE, atol=TOLERANCE)
    return other, thinning


def check_scores(reuse: AcrossFrames, other: ChunkedTorch) -> None:
    """Scores are equal where there are any, and so are decisions."""
    scores = np.array(reuse.scores)
    expected = np.full(scores.shape, np.nan)
    for at, score in other.seen.scores.items():
        expected[at] = score
    np.testing.assert_allclose(scores, expected, rtol=TOLERANCE, atol=TOLERANCE)
    assert np.nanmin(np.abs(expected - reuse.tau)) > MARGIN
    with np.errstate(invalid="ignore"):
        replayed = [tuple(at) for at in np.argwhere(scores > reuse.tau).tolist()]
    assert replayed == sorted(other.seen.replayed)
    assert 0.1 < len(replayed) / len(other.seen.scores) < 0.9


# ------------------------------------------------------------------ one policy


def test_dense_videos_are_equal() -> None:
    other, _ = made_by_both(1, Policies(), None, Dense())
    assert other.held == 1


@pytest.mark.parametrize("across_chunks", [False, True])
@pytest.mark.parametrize("dense_steps", [0, 1])
def test_replay_across_frames_is_equal(across_chunks: bool, dense_steps: int) -> None:
    reuse = across_frames(across_chunks=across_chunks, dense_steps=dense_steps)
    policies = Policies(tau=TAU, across_chunks=across_chunks, dense_steps=dense_steps)
    other, _ = made_by_both(3, policies, reuse, Dense())
    check_scores(reuse, other)


@pytest.mark.parametrize(
    ("part", "taken"),
    [("mlp", ("mlp",)), ("modules", ("attention", "cross", "mlp")), ("layers", ("stack",))],
)
def test_reuse_across_steps_is_equal(part: Part, taken: tuple[str, ...]) -> None:
    reuses = [False, True, False, False] * CHUNKS  # the last of four forwards is the clean one
    reuse = AcrossSteps(part, np.array(reuses))
    made_by_both(5, Policies(reuses=reuses, taken=taken), reuse, Dense())


@pytest.mark.parametrize("representative", ["latest", "mean", "medoid"])
def test_merged_keys_are_equal(representative: Any) -> None:
    attention = TempCache(theta=0.7, search="full", representative=representative)
    policies = Policies(theta=0.7, representative=representative)
    other, thinning = made_by_both(7, policies, None, attention)
    assert thinning.measured.held == pytest.approx(other.held)
    assert 0.2 < other.held < 0.9


def test_keys_that_share_a_signature_are_equal() -> None:
    planes = search.hyperplanes(2, 3, SHAPE.head_dim, 0)
    other, thinning = made_by_both(9, Policies(planes=planes), None, Ann(tables=2, bits=3))
    assert thinning.measured.scored == pytest.approx(np.mean(other.seen.scored))
    assert 0.1 < np.mean(other.seen.scored) < 0.9


@pytest.mark.parametrize("key_bits", [5, 32])
def test_the_best_keys_are_equal(key_bits: int) -> None:
    attention = Ann(search="quantised", keep=0.25, key_bits=key_bits)
    policies = Policies(keep=0.25, key_bits=None if key_bits == 32 else key_bits)
    other, thinning = made_by_both(11, policies, None, attention)
    assert thinning.measured.scored == pytest.approx(np.mean(other.seen.scored))


@pytest.mark.parametrize("sinks", [0, 2])
def test_tokens_of_the_prompt_are_equal(sinks: int) -> None:
    planes = search.hyperplanes(1, 5, SHAPE.head_dim, 0)
    attention = AnnCa(tables=1, bits=5, sinks=sinks)
    other, thinning = made_by_both(13, Policies(prompt_planes=planes, sinks=sinks), None, attention)
    assert thinning.measured.prompt == pytest.approx(np.mean(other.seen.prompt))
    assert 0.1 < np.mean(other.seen.prompt) < 0.9


# ------------------------------------------------------------------ policies together


@pytest.mark.parametrize("representative", ["latest", "mean", "medoid"])
@pytest.mark.parametrize("searching", ["lsh", "quantised"])
def test_merged_keys_that_are_searched_are_equal(representative: Any, searching: Any) -> None:
    merging = TempCache(theta=0.7, search="full", representative=representative)
    policies = Policies(theta=0.7, representative=representative)
    if searching == "lsh":
        found = Ann(tables=2, bits=3)
        policies = replace(policies, planes=search.hyperplanes(2, 3, SHAPE.head_dim, 0))
    else:
        found = Ann(search="quantised", keep=0.3, key_bits=6)
        policies = replace(policies, keep=0.3, key_bits=6)
    other, thinning = made_by_both(15, policies, None, Stack(policies=(merging, found)))
    assert other.held < 0.9
    assert thinning.measured.held == pytest.approx(other.held)
    assert thinning.measured.scored == pytest.approx(np.mean(other.seen.scored))


@pytest.mark.parametrize("representative", ["latest", "mean", "medoid"])
def test_replay_over_merged_keys_is_equal(representative: Any) -> None:
    reuse = across_frames()
    attention = TempCache(theta=0.7, search="full", representative=representative)
    policies = Policies(tau=TAU, theta=0.7, representative=representative)
    other, _ = made_by_both(17, policies, reuse, attention)
    check_scores(reuse, other)


def test_all_policies_together_are_equal() -> None:
    reuse = across_frames()
    three = Stack(
        policies=(
            TempCache(theta=0.7, search="full"),
            Ann(tables=2, bits=3),
            AnnCa(tables=1, bits=5, sinks=1),
        )
    )
    policies = Policies(
        tau=TAU,
        theta=0.7,
        planes=search.hyperplanes(2, 3, SHAPE.head_dim, 0),
        prompt_planes=search.hyperplanes(1, 5, SHAPE.head_dim, 0),
        sinks=1,
    )
    other, thinning = made_by_both(19, policies, reuse, three)
    check_scores(reuse, other)
    assert thinning.measured.held == pytest.approx(other.held)
    assert thinning.measured.scored == pytest.approx(np.mean(other.seen.scored))
    assert thinning.measured.prompt == pytest.approx(np.mean(other.seen.prompt))
