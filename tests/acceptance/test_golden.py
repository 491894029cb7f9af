"""The decoder reproduces what the FastCar authors' code gave: same decisions, same values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tiny import TINY

from carsim.base.errors import InputError
from carsim.cli import carsim
from carsim.decisions.trace.npz import npz_bytes
from carsim.decoder.decode import decode_steps, prefill
from carsim.decoder.golden import check_golden
from carsim.decoder.structures import Config, DecoderPolicy, LayerRecord, stack_weights

GOLDEN = sorted((Path(__file__).parent.parent / "data" / "golden").glob("*.npz"))
C3, C4 = (path for path in GOLDEN if path.name.startswith(("c3", "c4")))


def changed(source: Path, target: Path, **changes: Any) -> Path:
    """A copy of a golden file with arrays replaced, added, or (None) left out."""
    with np.load(source) as arrays:
        kept = {**{name: arrays[name] for name in arrays.files}, **changes}
    target.write_bytes(
        npz_bytes({name: np.asarray(array) for name, array in kept.items() if array is not None})
    )
    return target


def test_all_golden_files_are_here() -> None:
    assert [path.name[:2] for path in GOLDEN] == ["c1", "c3", "c4", "c5", "c7", "v1"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_file_is_reproduced(path: Path) -> None:
    report = check_golden(path)
    assert [check for check in report.checks if not check.ok] == []
    assert {"skip", "tas", "hidden", "mlp_held", "k_cache"} <= {c.name for c in report.checks}


def test_padding_and_tau_per_layer_are_followed(tmp_path: Path) -> None:
    """A row padded to P gives what the same row gives unpadded; a layer without tau never scores.

    The last three prompt tokens are decoded as prompts of three, and the result is written as a
    golden file whose prompts of five slots have two of padding.
    """
    with np.load(C4) as golden:
        inputs = {name: golden[name] for name in golden.files}
    config = Config(
        TINY,
        tokens_per_frame=16,
        n_frames=4,
        dtype="float64",
    )
    policy = DecoderPolicy((-0.4, None, 0.1, -np.inf))
    weights = stack_weights(config, inputs)
    skip, tas = np.zeros((64, 4, 3), bool), np.full((64, 4, 3), np.nan)

    def record(seen: LayerRecord) -> None:
        skip[seen.step, seen.layer] = seen.replay
        if seen.tas is not None:
            tas[seen.step, seen.layer] = seen.tas

    state, _ = prefill(
        config, policy, weights, inputs["prompt_embeds"][:, 2:], np.ones((3, 3), bool)
    )
    embeddings = inputs["visual_embeds"].astype(np.float64).swapaxes(0, 1)
    hidden = decode_steps(config, policy, weights, state, embeddings, record)
    assert np.isnan(tas[:, 1]).all()
    assert 0 < skip[:, [0, 2]].mean() < 0.75

    mask = inputs["prompt_mask"].copy()
    mask[:, :2] = False
    outputs = set(inputs) & {"k_cache", "prefill_hidden", "hidden_dense", "mlp_held"}
    derived = {"tas_postrope_q", "replay_ratio_all", "replay_ratio_eligible", "tau_margin"}
    path = changed(
        C4,
        tmp_path / "padded.npz",
        **dict.fromkeys(outputs | derived),
        prompt_mask=mask,
        tau=np.array([-0.4, np.nan, 0.1, -np.inf]),
        tau_is_none=np.array([False, True, False, False]),
        skip=skip,
        tas=tas,
        hidden=hidden,
    )
    report = check_golden(path)
    assert [check.name for check in report.checks] == ["skip", "tas", "hidden"]
    assert report.ok


def test_the_command_reports_every_array_and_succeeds() -> None:
    result = CliRunner().invoke(carsim, ["validate", "golden", str(C3)])
    assert result.exit_code == 0
    assert "1 of 1 file reproduced" in result.output
    assert "FAIL" not in result.output
    for name in ("skip", "tas", "mlp_held", "v_cache", "tau_margin"):
        assert f" {name} " in result.output


def test_a_changed_value_or_decision_fails_the_check(tmp_path: Path) -> None:
    with np.load(C3) as golden:
        hidden, skip, tas = golden["hidden"], golden["skip"], golden["tas"]
    hidden[40, 1, 7] += 2e-5
    skip[40, 2, 1] ^= True
    tas[3, 0, 0] = 0.0
    path = changed(C3, tmp_path / "wrong.npz", hidden=hidden, skip=skip, tas=tas)
    failed = [check.name for check in check_golden(path).checks if not check.ok]
    assert failed == ["skip", "tas", "hidden"]
    result = CliRunner().invoke(
        carsim, ["validate", "golden", str(C3), str(path)], standalone_mode=False
    )
    assert result.return_value == 1
    assert "1 of 2 files reproduced" in result.output
    assert "1 differ" in result.output


def test_a_file_without_optional_arrays_is_not_called_reproduced(tmp_path: Path) -> None:
    optional = ("mlp_held", "layer_out", "hidden_dense", "prefill_hidden", "k_cache", "v_cache")
    path = changed(C3, tmp_path / "part.npz", **dict.fromkeys(optional))
    report = check_golden(path)
    assert report.ok
    assert not report.reproduced
    assert set(report.missing) == set(optional)
    assert not check_golden(C3).missing
    result = CliRunner().invoke(carsim, ["validate", "golden", str(path)])
    assert result.exit_code == 0
    assert "0 of 1 file reproduced, 1 more only as far as their arrays go" in result.output
    shown = " ".join(result.output.split())
    assert (
        f"{len(report.checks)} arrays checked; not in the file, so not checked: mlp_held, layer_out"
        in shown
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wq": None}, "array 'wq': missing"),
        ({"skip": None}, "array 'skip': missing"),
        ({"n_layers": None}, "array 'n_layers': missing"),
        ({"n_layers": 3}, "array 'wq': expected floats of shape (3, 64, 64)"),
        ({"n_layers": 0}, "array 'n_layers': expected a positive number, got 0"),
        ({"n_layers": 4.0}, "array 'n_layers': expected one value, got float64"),
        ({"n_kv_heads": 3}, "geometry: $: n_heads 4 is no multiple of 3"),
        ({"n_steps": 63}, "63 steps are not frames times tokens"),
        ({"dtype": "float16"}, "array 'dtype': expected float32 or float64, got 'float16'"),
        ({"hidden": np.zeros((64, 3, 63))}, "'hidden': expected floats of shape (64, 3, 64)"),
        ({"skip": np.zeros((64, 4, 3))}, "array 'skip': expected bool of shape (64, 4, 3)"),
        ({"wv": np.full((4, 64, 64), np.nan)}, "array 'wv': holds NaN or infinity"),
        ({"tau": np.full(4, np.nan)}, "array 'tau': NaN in a layer where tau_is_none is False"),
        ({"prompt_mask": np.zeros((3, 5), bool)}, "every row must be False (padding) first"),
        ({"prompt_mask": np.array([[1, 0, 1, 1, 1]] * 3, bool)}, "every row must be False"),
    ],
)
def test_bad_golden_files(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = changed(C3, tmp_path / "bad.npz", **changes)
    with pytest.raises(InputError) as caught:
        check_golden(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.cure == "make the file again in the golden format"


def test_truncated_and_missing_golden_files(tmp_path: Path) -> None:
    path = tmp_path / "cut.npz"
    path.write_bytes(C3.read_bytes()[:5000])
    with pytest.raises(InputError, match=r"cut\.npz: not a readable \.npz archive"):
        check_golden(path)
    with pytest.raises(InputError, match="No such file"):
        check_golden(tmp_path / "none.npz")
