"""Quality end to end: measured while capturing, kept in the trace, shown by the command line."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from test_capture import TRACES, make_recipe, read

from carsim.base.statistics import Interval
from carsim.cli import carsim
from carsim.decisions.trace import Trace, save_trace
from carsim.decisions.trace.quality import MOST_PSNR_DB
from carsim.decoder import capture as capturing
from carsim.decoder.capture import References, capture, prepare
from carsim.decoder.content import load_codebook
from carsim.decoder.group import Decoded, RowGroup, decode_group
from carsim.decoder.quality import Generated, Kind, Way, assess, reading, sampled_quality, variant

TOP_K = {"method": "top_k", "k": 20, "temperature": 1.0, "guidance_scale": 1.5}


def measured_recipe(folder: Path, **changes: Any) -> Path:
    fields: dict[str, Any] = {
        "n_frames": 3,
        "given_frames": 1,
        "sampling": TOP_K,
        "quality": {"clips": 2, "samplings": ["greedy", "top_k"]},
    }
    return make_recipe(folder, **{**fields, **changes})


def decode(group: RowGroup) -> Decoded:
    return decode_group(group, lambda units: None)


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
    forced = quality.teacher_forced_nats
    assert forced.own != forced.dense
    assert len(set(forced.own)) == 2, "each clip has its own"
    for each in quality.by_sampling:
        assert all(5 < psnr < 40 for psnr in (*each.psnr_db.own, *each.psnr_db.dense))
        assert all(agreement < 1 for agreement in each.token_agreement)
        assert each.clip_nats.own != each.clip_nats.dense
    assert measured.meta.own_quality == quality.by_sampling[1], "tokens were drawn"


def test_quality_holds_what_was_captured_and_dense_decoding_against_the_clip(
    tmp_path: Path, measured: Trace, codebook: Any
) -> None:
    """Decoded by hand here: with and without skips, tokens fed, and dense on what was generated."""
    recipe = read(measured_recipe(tmp_path))
    (group,) = prepare(recipe, tmp_path)[1]
    ways: tuple[Way, ...] = (
        ("top_k", "approximate"),
        ("top_k", "dense"),
        ("given", "approximate"),
        ("given", "dense"),
    )
    made, beside, forced, forced_dense = (decode(variant(group, way)) for way in ways)
    np.testing.assert_array_equal(made.replay, measured.replay)
    assert not beside.replay.any()
    assert np.isnan(beside.tas).all()
    np.testing.assert_array_equal(forced.tokens, group.tokens)
    read_again = decode(reading(group, made.tokens))
    assert not read_again.replay.any()
    np.testing.assert_array_equal(read_again.tokens, made.tokens)
    expected = assess(
        codebook,
        1,
        group.tokens,
        {"approximate": forced.nats, "dense": forced_dense.nats},
        {
            "top_k": {
                "approximate": Generated(made.tokens, read_again.nats),
                "dense": Generated(beside.tokens, beside.nats),
            }
        },
    )
    quality = measured.meta.quality
    assert quality is not None
    assert quality.by_sampling[1:] == expected.by_sampling
    assert quality.teacher_forced_nats == expected.teacher_forced_nats
    by_hand = forced_dense.nats[256:, 1].mean()
    assert quality.teacher_forced_nats.dense[1] == pytest.approx(by_hand, abs=1e-5)


def test_dense_decoding_has_the_losses_that_reading_its_clips_gives(tmp_path: Path) -> None:
    """So that what dense decoding generated is not decoded a second time."""
    (group,) = prepare(read(measured_recipe(tmp_path, n_frames=2)), tmp_path)[1]
    dense = decode(variant(group, ("top_k", "dense")))
    np.testing.assert_array_equal(decode(reading(group, dense.tokens)).nats, dense.nats)


def test_nothing_is_lost_where_nothing_is_skipped(tmp_path: Path) -> None:
    """tau infinite: scores are taken, nothing replays, and every clip is identical."""
    recipe = read(measured_recipe(tmp_path, n_frames=2)).model_copy(update={"tau": float("inf")})
    quality = capture(recipe, tmp_path, workers=0).meta.quality
    assert quality is not None
    assert quality.loss == Interval(0.0, 0.0, 0.0)
    for each in quality.by_sampling:
        for figures in (each.psnr_db, each.ssim, each.clip_nats):
            assert figures.own == figures.dense
        assert each.token_agreement == (1.0, 1.0)


def test_runs_share_their_noise_until_they_part(tmp_path: Path) -> None:
    """Where little is skipped, draws differ little: common random numbers, not other draws."""
    recipe = read(measured_recipe(tmp_path, n_frames=2))
    (group,) = prepare(recipe, tmp_path)[1]
    made, dense, other = (
        decode(each)
        for each in (
            group,
            variant(group, ("top_k", "dense")),
            replace(variant(group, ("top_k", "dense")), seeds=((9, 1), (9, 2))),
        )
    )
    agree, by_chance = ((dense.tokens == each.tokens)[256:].mean() for each in (made, other))
    assert agree > 2 * by_chance


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
    assert quality.by_sampling[0].token_agreement[0] < 1


def test_captures_share_what_they_are_measured_against(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another tau decodes itself, sampled, with true tokens, and read again: no reference.

    Decodings of a capture, and then of dense readings of what it generated.
    """
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
    assert decoded == [4, 1, 2, 1]
    assert shared.meta == capture(second, tmp_path).meta
    capture(first.model_copy(update={"seed": 9}), tmp_path, references=references)
    assert decoded[-2:] == [4, 1], "other weights, other references"


def test_comparing_frames_made_by_hand(codebook: Any) -> None:
    """Three frames, one given. Clip 0 is the true one; of clip 1 two tokens differ, one given."""
    truth = np.zeros((768, 2), np.int64)
    made, dense = truth.copy(), truth.copy()
    made[[100, 300], 1] = 511
    dense[300:302, 1] = 511
    nats = np.tile([1.0, 2.0], (768, 1))
    nats[:256] = 9
    generated: dict[Kind, Generated] = {
        "approximate": Generated(made, nats),
        "dense": Generated(dense, nats / 2),
    }
    found = sampled_quality(codebook, 1, "greedy", truth, generated)
    error = ((codebook.codes[511].astype(float) - codebook.codes[0]) ** 2).sum()
    n_values = 2 * 64 * 64 * 3
    psnr = 10 * np.log10(255**2 / (error / n_values))
    assert found.psnr_db.own == (MOST_PSNR_DB, pytest.approx(psnr, abs=1e-4))
    assert found.psnr_db.dense[1] == pytest.approx(psnr - 10 * np.log10(2), abs=1e-4)
    assert found.token_agreement == (1.0, round(511 / 512, 5))
    assert found.ssim.own[0] == 1.0 > found.ssim.own[1] > found.ssim.dense[1] > 0.9
    assert (found.clip_nats.own, found.clip_nats.dense) == ((1.0, 2.0), (0.5, 1.0))


@given(data=st.data())
def test_figures_lie_within_their_bounds(codebook: Any, data: st.DataObject) -> None:
    """Random clips, far from any that a model makes; a clip held against itself is at the top."""
    seed = data.draw(st.integers(0, 2**32))
    truth, other = np.random.default_rng(seed).integers(codebook.n_codes, size=(2, 512, 2))
    nats = np.zeros((512, 2))
    generated: dict[Kind, Generated] = {
        "approximate": Generated(other, nats),
        "dense": Generated(truth, nats),
    }
    found = sampled_quality(codebook, 1, "top_k", truth, generated)
    assert all(0 <= psnr < MOST_PSNR_DB for psnr in found.psnr_db.own)
    assert all(-1 <= ssim < 1 for ssim in found.ssim.own)
    assert set(found.psnr_db.dense) == {MOST_PSNR_DB}
    assert set(found.ssim.dense) == {1.0}
    assert all(0 <= agreement < 0.05 for agreement in found.token_agreement)


def test_info_shows_the_quality_of_the_traces_own_sampling(measured: Trace, tmp_path: Path) -> None:
    terminal = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}
    info = ["trace", "info", str(measured.path)]
    shown = re.sub(r"\x1b\[[0-9;]*m", "", CliRunner().invoke(carsim, info, env=terminal).output)
    assert max(map(len, shown.splitlines())) <= 80
    output = CliRunner().invoke(carsim, info).output
    quality, own = measured.meta.quality, measured.meta.own_quality
    assert quality is not None
    assert own is not None
    for words in (
        "frames 1-2 of 2 clips; dense: no replay, dense attention",
        "quality: mean over clips [95 % interval]; generated by top_k",
        f"{quality.teacher_forced_nats.dense_mean:.3f}",
        quality.loss.text(),
        "PSNR to the true clip (dB)",
        f"{own.psnr_db.own_mean:.1f}",
        f"{own.psnr_db.dense_mean:.1f}",
        own.ssim.difference.text(),
        f"{own.token_agreement_mean:.1%}",
    ):
        assert words in output
    assert "greedy" not in output
    meta = measured.meta.model_copy(
        update={"quality": quality.model_copy(update={"by_sampling": quality.by_sampling[:1]})}
    )
    save_trace(tmp_path / "other.npz", replace(measured, meta=meta))
    output = CliRunner().invoke(carsim, ["trace", "info", str(tmp_path / "other.npz")]).output
    assert quality.loss.text() in output, "true tokens are fed, whatever the sampling"
    assert "PSNR" not in output
    assert "greedy" not in output


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
    line = table.output.rstrip().splitlines()[-1].split()
    assert line[:4] == ["other.npz", "4", "3", "1"]  # rows, frames, tau; no layer is exempt
    assert line[-1] == f"{measured.replay[256:].mean():.1%}"


def test_a_list_fits_a_terminal() -> None:
    files = sorted(map(str, TRACES.glob("vilau_*.npz")))
    terminal = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}
    table = CliRunner().invoke(carsim, ["trace", "list", *files], env=terminal).output
    lines = re.sub(r"\x1b\[[0-9;]*m", "", table).splitlines()
    assert max(map(len, lines)) <= 80
    first = [line.split()[0] for line in lines if line.split()]
    assert [name for name in first if name.endswith(".npz")] == [Path(file).name for file in files]


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
