"""Photographs in motion, for training: motion is what it says."""

import numpy as np
import pytest

from carsim.decoder.content import load_codebook
from carsim.decoder.content.tokens import frames_to_patches
from studies.content import CODEBOOK
from studies.proxy.photos import PHOTOS, Clip, make_clip


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


def test_the_shipped_codebook_keeps_photographs_recognisable() -> None:
    """20 dB of peak signal-to-noise ratio, whether or not it was fitted to them."""
    codebook = load_codebook(CODEBOOK)
    for photo in PHOTOS:
        frames = make_clip(Clip(photo, "pan", 8.0, 77), 3)
        patches = frames_to_patches(frames).astype(float)
        error = np.mean((patches - codebook.codes[codebook.encode(frames)]) ** 2)
        assert 10 * np.log10(255**2 / error) > 18, photo
