"""Visual tokens decode to what was seen."""

from pathlib import Path

import numpy as np
import pytest

from carsim.base.errors import InputError
from carsim.decisions.trace.npz import npz_bytes
from carsim.decoder.content import load_codebook
from carsim.decoder.content.tokens import frames_to_patches
from studies.proxy.codebook import fit_codebook

SHIPPED = Path(__file__).parents[2] / "traces" / "codebook_512.npz"
FRAMES = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)


def test_patches_are_squares_of_a_frame() -> None:
    patches = frames_to_patches(FRAMES)
    assert patches.shape == (3, 256, 48)
    np.testing.assert_array_equal(patches[1, 17], FRAMES[1, 4:8, 4:8].ravel())
    with pytest.raises(InputError, match="frames: expected uint8"):
        frames_to_patches(FRAMES[:, :32])


def test_a_codebook_finds_its_own_codes_and_the_nearest_of_others() -> None:
    codebook = fit_codebook(FRAMES, n_codes=24)
    assert codebook.n_codes == 24
    np.testing.assert_array_equal(codebook.codes, fit_codebook(FRAMES, n_codes=24).codes)
    tokens = codebook.encode(FRAMES)
    assert tokens.shape == (3, 256)
    patches = frames_to_patches(FRAMES).astype(int)
    distances = ((patches[:, :, None] - codebook.codes.astype(int)) ** 2).sum(axis=-1)
    np.testing.assert_array_equal(tokens, distances.argmin(axis=-1))
    assert (np.diff(codebook.codes.sum(axis=1, dtype=int)) >= 0).all()


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
