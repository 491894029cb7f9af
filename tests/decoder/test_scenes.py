"""Scenes kept as tokens: found by name, refused in one line, named by their pace."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim.base.errors import InputError
from carsim.decisions.trace.npz import npz_bytes
from carsim.decoder.content import TOKENS_PER_FRAME, load_scene, scene_caption
from carsim.decoder.content.scenes import kept_share
from studies.proxy import archive

SCENE = np.arange(3 * TOKENS_PER_FRAME, dtype=np.uint16).reshape(3, -1) % 8


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scenes.npz"
    arrays = {"walk": SCENE, "odd": SCENE[:, :9], "real": SCENE.astype(np.float32)}
    path.write_bytes(npz_bytes(arrays))
    return path


def test_a_scene_is_found_by_name_and_cut_to_length(file: Path) -> None:
    codes = load_scene(file, "walk", 2, 8)
    assert codes.dtype == np.int64
    assert np.array_equal(codes, SCENE[:2])


@pytest.mark.parametrize(
    ("name", "frames", "n_codes", "words"),
    [
        ("run", 2, 8, r"scene 'run': is not in .*scenes.npz; one of odd, real, walk"),
        ("walk", 4, 8, r"scene 'walk': has 3 frames, 4 are asked for; ask for fewer frames"),
        ("walk", 3, 7, r"scene 'walk': holds code 7, the codebook has 7"),
        ("odd", 2, 8, r"scene 'odd': expected integers of shape \(frames, 256\), got uint16"),
        ("real", 2, 8, r"scene 'real': expected integers"),
    ],
)
def test_a_wrong_scene_is_one_line(file: Path, name: str, frames: int, n_codes: int, words: str):
    with pytest.raises(InputError, match=words) as caught:
        load_scene(file, name, frames, n_codes)
    assert "\n" not in str(caught.value)


@given(st.floats(0, 1))
def test_the_pace_follows_what_is_kept(share: float) -> None:
    codes = np.zeros((2, TOKENS_PER_FRAME), int)
    codes[1, round(share * TOKENS_PER_FRAME) :] = 1
    kept = kept_share(codes)
    assert kept == pytest.approx(share, abs=1 / TOKENS_PER_FRAME)
    words = {0.9: "still", 0.65: "slow", 0.4: "lively", 0.0: "fast"}
    wanted = next(word for least, word in words.items() if kept >= least)
    assert scene_caption(codes) == f"a walk, {wanted}"


def walks() -> list[np.ndarray]:
    """Walks of every pace: a share of places changes with every frame."""
    rng = np.random.default_rng(0)
    found = []
    for changing in (0.0, 0.2, 0.5, 0.9):
        for _ in range(12):
            walk = np.tile(rng.integers(64, size=TOKENS_PER_FRAME), (80, 1))
            places = rng.random(TOKENS_PER_FRAME) < changing
            walk[:, places] = rng.integers(64, size=(80, places.sum()))
            found.append(walk.astype(np.int16))
    return found


def test_scenes_are_chosen_by_pace_and_by_the_seed_alone() -> None:
    chosen = archive.choose(walks())
    assert len(chosen) == 48
    for name, codes in chosen.items():
        assert codes.shape == (32, TOKENS_PER_FRAME)
        if name.split("_")[0] in archive.PACES:
            assert scene_caption(codes[:8]) == f"a walk, {name.split('_')[0]}"
    cut = chosen["cut_1"]  # three frames of each of two walks, in turn
    assert np.array_equal(cut[:3], chosen["slow_1"][:3])
    assert np.array_equal(cut[3:6], chosen["slow_2"][3:6])
    again = archive.choose(walks())
    assert all(np.array_equal(codes, again[name]) for name, codes in chosen.items())
    tuning = {chosen[f"tune_{number}"].tobytes() for number in range(8)}
    assert not tuning & {codes.tobytes() for name, codes in chosen.items() if name[0] != "t"}
