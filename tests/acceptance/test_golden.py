"""The decoder reproduces what the FastCar authors' code gave: same decisions, same values."""

from pathlib import Path

import numpy as np
import pytest
from golden_reader import errors_of, failures_of

GOLDEN = sorted((Path(__file__).parent.parent / "data" / "golden").glob("*.npz"))
C3 = next(path for path in GOLDEN if path.name.startswith("c3"))
ALWAYS = {"skip", "tas", "hidden", "hidden_dense", "mlp_held", "k_cache"}


def test_all_golden_files_are_here() -> None:
    assert [path.name[:2] for path in GOLDEN] == ["c1", "c3", "c4", "c5", "c7", "v1"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_file_is_reproduced(path: Path) -> None:
    assert set(errors_of(path)) >= ALWAYS
    assert failures_of(path) == []


def test_a_changed_value_or_decision_fails_the_check(tmp_path: Path) -> None:
    golden = dict(np.load(C3))
    golden["hidden"][40, 1, 7] += 2e-5
    golden["skip"][40, 2, 1] ^= True
    golden["tas"][3, 0, 0] = 0.0
    np.savez(tmp_path / "wrong.npz", **golden)
    assert failures_of(tmp_path / "wrong.npz") == ["skip", "tas", "hidden"]
    assert errors_of(tmp_path / "wrong.npz")["skip"] == 1
