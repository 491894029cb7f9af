"""Clips and tokens: motion is what it says, and tokens decode to what was seen."""

import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from carsim.base.environment import install_command
from carsim.base.errors import InputError
from carsim.decisions.trace.npz import npz_bytes
from carsim.decoder.content import (
    HELD_OUT_PHOTOS,
    PHOTO_MOTIONS,
    PHOTOS,
    TRAINING_PHOTOS,
    Clip,
    load_codebook,
    make_clip,
    psnr_db,
)
from carsim.decoder.content.tokens import frames_to_patches, patches_to_frames
from studies.proxy.codebook import fit_codebook

SHIPPED = Path(__file__).parents[2] / "traces" / "codebook_512.npz"


@pytest.mark.parametrize("photo", PHOTOS)
def test_every_photograph_is_inside_the_package(photo: str) -> None:
    frame = make_clip(Clip(photo, "pan", 0.0), 1)
    assert frame.shape == (1, 64, 64, 3)
    assert frame.dtype == np.uint8
    assert frame.std() > 3


@pytest.mark.parametrize("motion", PHOTO_MOTIONS)
def test_clips_are_repeatable_and_grow_by_appending(motion: str) -> None:
    clip = Clip("coffee", motion, 2.0, seed=3)  # type: ignore[arg-type]
    frames = make_clip(clip, 6)
    np.testing.assert_array_equal(frames, make_clip(clip, 6))
    np.testing.assert_array_equal(frames[:4], make_clip(clip, 4))
    other = Clip(clip.photo, clip.motion, clip.speed, seed=4)
    assert (frames != make_clip(other, 6)).any()


@pytest.mark.parametrize("motion", PHOTO_MOTIONS)
def test_still_clips_repeat_one_frame_and_faster_ones_change_more(motion: str) -> None:
    def change(speed: float) -> float:
        clips = [make_clip(Clip("astronaut", motion, speed, seed), 9) for seed in range(6)]  # type: ignore[arg-type]
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


def test_photographs_are_for_training_or_held_out() -> None:
    assert set(TRAINING_PHOTOS) | set(HELD_OUT_PHOTOS) == set(PHOTOS)
    assert not set(TRAINING_PHOTOS) & set(HELD_OUT_PHOTOS)


def test_captions_name_what_is_seen() -> None:
    assert Clip("coffee", "pan", 0.5).caption == "coffee, pan 0.5 pixels a frame"
    assert Clip("coffee", "pan", 0.0).caption == "coffee, still"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("teapot", "pan", 1.0), "clip photo 'teapot': unknown; one of astronaut"),
        (("coffee", "spin", 1.0), "clip motion 'spin': unknown; one of pan"),
        (("coffee", "pan", -1.0), "clip speed: expected 0 or more, got -1.0"),
        (("coffee", "pan", float("nan")), "clip speed: expected 0 or more, got nan"),
    ],
)
def test_clips_that_cannot_be_drawn(arguments: tuple[str, str, float], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Clip(*arguments)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skimage", None)
    from carsim.decoder.content import clips

    clips._scene.cache_clear()
    with pytest.raises(InputError, match=re.escape(install_command("content"))):
        make_clip(Clip("coffee", "pan", 1.0), 1)


def test_patches_come_back() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    patches = frames_to_patches(frames)
    assert patches.shape == (3, 256, 48)
    np.testing.assert_array_equal(patches[1, 17], frames[1, 4:8, 4:8].ravel())
    np.testing.assert_array_equal(patches_to_frames(patches), frames)
    with pytest.raises(InputError, match="frames: expected uint8"):
        frames_to_patches(frames[:, :32])


def test_a_codebook_finds_its_own_codes_and_the_nearest_of_others() -> None:
    frames = make_clip(Clip("retina", "pan", 8.0), 3)
    codebook = fit_codebook(frames, n_codes=24)
    assert codebook.n_codes == 24
    np.testing.assert_array_equal(codebook.codes, fit_codebook(frames, n_codes=24).codes)
    tokens = codebook.encode(frames)
    assert tokens.shape == (3, 256)
    np.testing.assert_array_equal(codebook.encode(codebook.decode(tokens)), tokens)
    patches = frames_to_patches(frames).astype(int)
    distances = ((patches[:, :, None] - codebook.codes.astype(int)) ** 2).sum(axis=-1)
    np.testing.assert_array_equal(tokens, distances.argmin(axis=-1))
    brightness = codebook.codes.sum(axis=1, dtype=int)
    assert (np.diff(brightness) >= 0).all()


def test_more_codes_than_patches_are_refused() -> None:
    with pytest.raises(InputError, match="codebook: 9 codes from 1 distinct patches"):
        fit_codebook(np.zeros((1, 64, 64, 3), np.uint8), 9)


def test_codebooks_are_saved_and_checked(tmp_path: Path) -> None:
    codebook = load_codebook(SHIPPED)
    codebook.save(tmp_path / "a.npz")
    np.testing.assert_array_equal(load_codebook(tmp_path / "a.npz").codes, codebook.codes)
    assert (tmp_path / "a.npz").read_bytes() == SHIPPED.read_bytes()
    (tmp_path / "b.npz").write_bytes(npz_bytes({"codes": codebook.codes.astype(np.float32)}))
    with pytest.raises(InputError, match=r"b\.npz: not a codebook: expected array 'codes'"):
        load_codebook(tmp_path / "b.npz")


def test_the_shipped_codebook_keeps_unseen_photographs_recognisable() -> None:
    """Held-out photographs decode at more than 20 dB, training ones at more than 24."""
    codebook = load_codebook(SHIPPED)
    for photos, least in ((HELD_OUT_PHOTOS, 20.0), (TRAINING_PHOTOS, 24.0)):
        frames = np.concatenate([make_clip(Clip(photo, "pan", 8.0, 77), 3) for photo in photos])
        assert psnr_db(frames, codebook.decode(codebook.encode(frames))) > least


def test_slower_clips_keep_more_tokens() -> None:
    codebook = load_codebook(SHIPPED)

    def kept(speed: float) -> float:
        tokens = [codebook.encode(make_clip(Clip(p, "pan", speed, 5), 4)) for p in PHOTOS]
        return float(np.mean([(t[1:] == t[:-1]).mean() for t in tokens]))

    assert kept(0.0) == 1.0
    assert kept(0.0) > kept(1.0) > kept(4.0) > 0.05
