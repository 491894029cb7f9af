"""Quality end to end: measured while capturing, kept in the trace, shown by the command line."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from test_capture import TRACES, make_recipe, read

from carsim.cli import carsim
from carsim.decoder import capture as capturing
from carsim.decoder.capture import References, capture, prepare
from carsim.decoder.content import load_codebook
from carsim.decoder.group import decode_group
from carsim.decoder.quality import compare, variant
from carsim.trace import Trace, save_trace

TOP_K = {"method": "top_k", "k": 20, "temperature": 1.0, "guidance_scale": 1.5}


def measured_recipe(folder: Path, **changes: Any) -> Path:
    fields: dict[str, Any] = {
        "n_frames": 3,
        "given_frames": 1,
        "sampling": TOP_K,
        "quality": {"clips": 2, "samplings": ["greedy", "top_k"]},
    }
    return make_recipe(folder, **{**fields, **changes})


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Three frames of two clips, one given, two sampled."""
    folder = tmp_path_factory.mktemp("measured")
    trace = capture(read(measured_recipe(folder)), folder, workers=0)
    return save_trace(folder / "tiny.npz", trace)


@pytest.fixture(scope="module")
def codebook() -> Any:
    return load_codebook(TRACES / "codebook_512.npz")


def test_quality_of_a_capture(measured: Trace) -> None:
    quality = measured.meta.quality
    assert quality is not None
    assert (quality.n_clips, quality.first_frame) == (2, 1)
    assert [each.sampling for each in quality.by_sampling] == ["greedy", "top_k"]
    assert quality.teacher_forced_nats != quality.teacher_forced_dense_nats
    for each in quality.by_sampling:
        assert len(each.ssim_by_frame) == 2
        assert 5 < each.psnr_db < 40
        assert each.token_agreement < 1
        # Frames are equally large: mean squared errors and shares average over frames.
        errors = [10 ** (-psnr / 10) for psnr in each.psnr_db_by_frame]
        assert -10 * np.log10(np.mean(errors)) == pytest.approx(each.psnr_db, abs=1e-3)
        assert np.mean(each.token_agreement_by_frame) == pytest.approx(
            each.token_agreement, abs=1e-4
        )


def test_quality_compares_what_was_captured_with_decoding_densely(
    tmp_path: Path, measured: Trace, codebook: Any
) -> None:
    recipe = read(measured_recipe(tmp_path))
    _, groups = prepare(recipe, tmp_path)
    made, wanted, forced = (
        decode_group(variant(groups[0], way), lambda units: None)
        for way in (("top_k", "approximate"), ("top_k", "reference"), ("given", "reference"))
    )
    np.testing.assert_array_equal(made.replay, measured.replay)
    assert not wanted.replay.any()
    assert np.isnan(wanted.tas).all()
    quality = measured.meta.quality
    assert quality is not None
    expected = compare(codebook, "top_k", made.tokens[256:], wanted.tokens[256:])
    assert quality.by_sampling[1] == expected
    np.testing.assert_array_equal(forced.tokens, groups[0].tokens)
    assert quality.teacher_forced_dense_nats == round(float(forced.nats[256:].mean()), 4)


def test_nothing_is_lost_where_nothing_is_skipped(tmp_path: Path) -> None:
    """tau infinite: scores are taken, nothing replays, and every clip is identical."""
    recipe = read(measured_recipe(tmp_path, n_frames=2)).model_copy(update={"tau": float("inf")})
    quality = capture(recipe, tmp_path, workers=0).meta.quality
    assert quality is not None
    assert quality.teacher_forced_nats == quality.teacher_forced_dense_nats
    for each in quality.by_sampling:
        assert (each.psnr_db, each.ssim, each.token_agreement) == (float("inf"), 1.0, 1.0)
        assert each.identical_clips == 2


def test_sparse_attention_alone_is_measured_against_dense(tmp_path: Path) -> None:
    sparse = {"kind": "streaming", "window": 16}
    path = measured_recipe(
        tmp_path,
        tau=None,
        attention=sparse,
        n_frames=2,
        quality={"clips": 1, "samplings": ["greedy"]},
    )
    quality = capture(read(path), tmp_path, workers=0).meta.quality
    assert quality is not None
    assert quality.n_clips == 1
    assert quality.by_sampling[0].token_agreement < 1


def test_captures_share_what_they_are_measured_against(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second tau decodes itself, with sampled and with true tokens, and no reference again."""
    decoded: list[int] = []

    def counting(pieces: Sequence[Any], **options: Any) -> list[Any]:
        decoded.append(len(pieces))
        return [piece(lambda units: None) for piece in pieces]

    monkeypatch.setattr(capturing, "run_in_workers", counting)
    references: References = {}
    wanted = {"clips": 2, "samplings": ["top_k"]}
    first = read(measured_recipe(tmp_path, n_frames=2, quality=wanted))
    capture(first, tmp_path, references=references)
    second = first.model_copy(update={"tau": 0.5})
    shared = capture(second, tmp_path, references=references)
    assert decoded == [4, 2]
    assert shared.meta == capture(second, tmp_path).meta
    capture(first.model_copy(update={"seed": 9}), tmp_path, references=references)
    assert decoded[-1] == 4, "other weights, other references"


def test_comparing_frames_made_by_hand(codebook: Any) -> None:
    """One clip is the same; of the other, one token of its second frame differs."""
    wanted = np.zeros((512, 2), np.int64)
    made = wanted.copy()
    made[300, 1] = 511
    found = compare(codebook, "greedy", made, wanted)
    error = ((codebook.codes[511].astype(float) - codebook.codes[0]) ** 2).sum()
    n_values = 64 * 64 * 3
    psnr = 10 * np.log10(255**2 / (error / (4 * n_values)))
    assert found.psnr_db == pytest.approx(psnr, abs=1e-3)
    assert found.psnr_db_by_frame == (
        float("inf"),
        pytest.approx(psnr - 10 * np.log10(2), abs=1e-3),
    )
    assert found.token_agreement_by_frame == (1.0, round(511 / 512, 4))
    assert found.ssim_by_frame[0] == 1.0 > found.ssim_by_frame[1] > 0.9
    assert found.identical_clips == 1


def test_info_shows_quality_by_frame(measured: Trace, tmp_path: Path) -> None:
    output = (
        CliRunner()
        .invoke(carsim, ["trace", "info", str(measured.path)], env={"COLUMNS": "150"})
        .output
    )
    quality = measured.meta.quality
    assert quality is not None
    greedy = quality.by_sampling[0]
    for words in (
        "2 clips against no replay, dense attention",
        f"{quality.teacher_forced_dense_nats:.3f}",
        "PSNR of peak 255",
        "top k: same tokens",
        f"{greedy.psnr_db_by_frame[1]:.1f}",
        f"{greedy.ssim:.3f}",
    ):
        assert words in output
    same = quality.by_sampling[1].model_copy(update={"psnr_db": float("inf")})
    meta = measured.meta.model_copy(
        update={"quality": quality.model_copy(update={"by_sampling": (same,)})}
    )
    save_trace(tmp_path / "same.npz", replace(measured, meta=meta))
    shown = CliRunner().invoke(carsim, ["trace", "info", str(tmp_path / "same.npz")]).output
    assert "identical" in shown
    listed = CliRunner().invoke(carsim, ["trace", "list", str(tmp_path / "same.npz")]).output
    assert listed.splitlines()[1].endswith("same")


def test_a_list_of_traces(measured: Trace, tmp_path: Path) -> None:
    other = save_trace(tmp_path / "other.npz", measured)
    files = [str(measured.path), str(other.path)]
    result = CliRunner().invoke(carsim, ["trace", "list", "--csv", *files])
    rows = list(csv.DictReader(io.StringIO(result.output)))
    assert [row["file"] for row in rows] == ["tiny.npz", "other.npz"]
    assert rows[0]["sha256"] == measured.sha256
    assert rows[0]["rows"] == "4"
    assert rows[0]["eligible_ratio"] == f"{measured.replay[256:].mean():.4f}"
    assert rows[0]["tau"] == "tau 1"
    assert rows[0]["weights_sha256"] == ""
    table = CliRunner().invoke(carsim, ["trace", "list", *files], env={"COLUMNS": "80"})
    assert measured.meta.quality is not None
    psnr_db = measured.meta.quality.by_sampling[1].psnr_db  # top_k, as the trace was sampled
    line = table.output.splitlines()[2].split()
    assert line[:4] == ["other.npz", "4", "3", "1"]  # rows, frames, tau; no layer is exempt
    assert line[-1] == f"{psnr_db:.1f}"


def test_a_list_fits_a_terminal() -> None:
    files = sorted(map(str, TRACES.glob("vilau_*.npz")))
    table = CliRunner().invoke(carsim, ["trace", "list", *files], env={"COLUMNS": "80"})
    assert [line.split()[0] for line in table.output.splitlines()[1:]] == [
        Path(file).name for file in files
    ]


def test_several_recipes_are_captured_by_one_command(tmp_path: Path) -> None:
    make_recipe(tmp_path, name="b", output="b.npz").rename(tmp_path / "b.yaml")
    recipes = [str(make_recipe(tmp_path)), str(tmp_path / "b.yaml")]
    result = CliRunner().invoke(carsim, ["capture", *recipes, "--workers", "1"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "tiny.npz").exists()
    assert (tmp_path / "b.npz").exists()
    refused = CliRunner().invoke(carsim, ["capture", *recipes, "--out", str(tmp_path / "c.npz")])
    assert refused.exit_code == 2
    assert "--out names one file" in refused.output
