"""The decoder reproduces what the FastCar authors' code gave: same decisions, same values."""

from pathlib import Path

import numpy as np
import pytest
from golden_reader import decode_golden, errors_of, failures_of

GOLDEN = sorted((Path(__file__).parent.parent / "data" / "golden").glob("*.npz"))
C3, C4 = (path for path in GOLDEN if path.name.startswith(("c3", "c4")))
ALWAYS = {"skip", "tas", "hidden", "hidden_dense", "mlp_held", "k_cache"}


def test_all_golden_files_are_here() -> None:
    assert [path.name[:2] for path in GOLDEN] == ["c1", "c3", "c4", "c5", "c7", "v1"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_file_is_reproduced(path: Path) -> None:
    assert set(errors_of(path)) >= ALWAYS
    assert failures_of(path) == []


def test_padding_and_tau_per_layer_are_followed() -> None:
    """A row padded to P gives what the same row gives unpadded; a layer without tau never scores.

    The last three prompt tokens are decoded as prompts of three, and behind two slots of padding.
    """
    golden = dict(np.load(C4))
    golden["tau"] = np.array([-0.4, np.nan, 0.1, -np.inf])
    golden["tau_is_none"] = np.array([False, True, False, False])
    mask = golden["prompt_mask"].copy()
    mask[:, :2] = False
    short = {"prompt_embeds": golden["prompt_embeds"][:, 2:], "prompt_mask": mask[:, 2:]}
    alone, padded = decode_golden(golden | short), decode_golden(golden | {"prompt_mask": mask})
    assert np.isnan(alone["tas"][:, 1]).all()
    assert 0 < alone["skip"][:, [0, 2]].mean() < 0.75
    np.testing.assert_array_equal(padded["skip"], alone["skip"])
    np.testing.assert_allclose(padded["tas"], alone["tas"], atol=1e-10)
    np.testing.assert_allclose(padded["hidden"], alone["hidden"], atol=1e-10)


def test_a_changed_value_or_decision_fails_the_check(tmp_path: Path) -> None:
    golden = dict(np.load(C3))
    golden["hidden"][40, 1, 7] += 2e-5
    golden["skip"][40, 2, 1] ^= True
    golden["tas"][3, 0, 0] = 0.0
    np.savez(tmp_path / "wrong.npz", **golden)
    assert failures_of(tmp_path / "wrong.npz") == ["skip", "tas", "hidden"]
    assert errors_of(tmp_path / "wrong.npz")["skip"] == 1
