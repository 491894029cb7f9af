"""Photographs in motion, for training: motion is what it says."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from carsim.decoder.content import load_codebook
from carsim.decoder.content.tokens import frames_to_patches
from studies.content import CODEBOOK
from studies.proxy.photos import PHOTO_MOTIONS, PHOTOS, Clip, make_clip


@pytest.mark.parametrize("photo", PHOTOS)
def test_every_photograph_is_inside_the_package(photo: str) -> None:
    frame = make_clip(Clip(photo, "pan", 0.0), 1)
    assert (frame.shape, frame.dtype) == ((1, 64, 64, 3), np.uint8)
    assert frame.std() > 3


@pytest.mark.parametrize("motion", PHOTO_MOTIONS)
def test_clips_grow_by_appending_and_change_more_with_speed(motion: Any) -> None:
    frames = make_clip(Clip("coffee", motion, 2.0, seed=3), 6)
    np.testing.assert_array_equal(frames[:4], make_clip(Clip("coffee", motion, 2.0, seed=3), 4))
    assert (frames != make_clip(Clip("coffee", motion, 2.0, seed=4), 6)).any()

    def change(speed: float) -> float:
        clips = [make_clip(Clip("astronaut", motion, speed, seed), 9) for seed in range(6)]
        return float(np.mean([np.abs(np.diff(c.astype(float), axis=0)).mean() for c in clips]))

    assert change(0.0) == 0.0
    assert 0 < change(1.0) < change(8.0)


def test_a_pan_moves_by_its_speed() -> None:
    """The shift at which two frames agree best is as long as the speed."""
    lengths = []
    for seed in range(15):
        a, b = make_clip(Clip("astronaut", "pan", 4.0, seed), 2).astype(float)
        errors = {
            (dy, dx): np.abs(a[8 + dy : 56 + dy, 8 + dx : 56 + dx] - b[8:56, 8:56]).mean()
            for dy in range(-6, 7)
            for dx in range(-6, 7)
        }
        lengths.append(np.hypot(*min(errors, key=lambda shift: errors[shift])))
    assert np.median(lengths) == pytest.approx(4.0, abs=0.3)


def test_cuts_fall_where_a_pan_would_have_gone_eight_pixels() -> None:
    frames = make_clip(Clip("coffee", "cut", 4.0, 1), 8)
    cut = [bool((a != b).any()) for a, b in pairwise(frames)]
    assert cut == [False, True, False, True, False, True, False]


def test_the_shipped_codebook_keeps_photographs_recognisable() -> None:
    """20 dB of peak signal-to-noise ratio, whether or not it was fitted to them."""
    codebook = load_codebook(CODEBOOK)
    for photo in PHOTOS:
        frames = make_clip(Clip(photo, "pan", 8.0, 77), 3)
        patches = frames_to_patches(frames).astype(float)
        error = np.mean((patches - codebook.codes[codebook.encode(frames)]) ** 2)
        assert 10 * np.log10(255**2 / error) > 18, photo
