"""Quality end to end: measured while capturing, kept in the trace, shown by the command line."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from recipe_maker import make_recipe, read

from carsim.base.statistics import Interval
from carsim.cli import carsim
from carsim.decisions.trace import Trace, save_trace
from carsim.decoder.capture import capture, prepare
from carsim.decoder.group import decode_group
from carsim.decoder.structures import DecoderPolicy

TOP_K = {"method": "top_k", "k": 20, "temperature": 1.0, "guidance_scale": 1.5}


def measured_recipe(folder: Path, **changes: Any) -> Path:
    sampled = {"n_frames": 3, "given_frames": 1, "sampling": TOP_K, "quality": {"clips": 2}}
    return make_recipe(folder, **{**sampled, **changes})


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Three frames of two clips, one given, two sampled."""
    folder = tmp_path_factory.mktemp("measured")
    trace = capture(read(measured_recipe(folder)), folder, workers=0)
    return save_trace(folder / "tiny.npz", trace)


def test_quality_is_the_loss_on_true_tokens_with_and_without_skips(tmp_path: Path, measured: Trace):
    """Decoded by hand here, with the clips' own tokens fed throughout."""
    (group,) = prepare(read(measured_recipe(tmp_path)), tmp_path)
    fed = replace(group, sampling=None, given_steps=group.config.n_steps)
    dense = replace(fed, policy=DecoderPolicy((None, None)))
    own, beside = (decode_group(each, lambda units: None) for each in (fed, dense))
    np.testing.assert_array_equal(own.tokens, group.tokens)
    assert not beside.replay.any()
    quality = measured.meta.quality
    assert (quality.n_clips, quality.first_frame) == (2, 1)
    for found, losses in (("own", own.nats), ("dense", beside.nats)):
        by_hand = losses[256:].mean(axis=0)
        assert getattr(quality.teacher_forced_nats, found) == pytest.approx(by_hand, abs=1e-5)
    assert len(set(quality.teacher_forced_nats.own)) == 2, "each clip has its own"
    assert quality.loss.mean == pytest.approx((own.nats - beside.nats)[256:].mean(), abs=1e-5)


def test_given_clips_have_a_quality_too_and_nothing_is_lost_where_nothing_is_skipped(tmp_path):
    forced = {"n_frames": 2, "given_frames": "absent", "sampling": "absent"}
    recipe = read(measured_recipe(tmp_path, **forced))
    quality = capture(recipe, tmp_path, workers=0).meta.quality
    assert quality.first_frame == 1
    assert quality.loss.mean != 0
    never = recipe.model_copy(update={"tau": float("inf")})
    quality = capture(never, tmp_path, workers=0).meta.quality
    assert quality.loss == Interval(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({"attention": {"kind": "streaming", "window": 16}}, 1e-4),
        ({"precision": {"weights": 2}}, 1e-3),
        ({"precision": {"weights": 16}}, 0.0),
    ],
)
def test_any_approximation_alone_is_measured_against_dense(tmp_path, changes, least):
    path = measured_recipe(tmp_path, tau=None, n_frames=2, quality={"clips": 1}, **changes)
    quality = capture(read(path), tmp_path, workers=0).meta.quality
    assert quality.n_clips == 1
    assert (quality.loss.mean == 0) == (least == 0)
    assert abs(quality.loss.mean) >= least


def test_info_shows_the_quality(measured: Trace) -> None:
    terminal = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}
    command = ["trace", "info", str(measured.path)]
    shown = re.sub(r"\x1b\[[0-9;]*m", "", CliRunner().invoke(carsim, command, env=terminal).output)
    assert max(map(len, shown.splitlines())) <= 80
    output, quality = CliRunner().invoke(carsim, command).output, measured.meta.quality
    for words in (
        "frames 1-2 of 2 clips; dense: no replay, dense attention",
        f"{quality.teacher_forced_nats.own_mean:.3f}",
        f"{quality.teacher_forced_nats.dense_mean:.3f}",
        quality.loss.text(),
    ):
        assert words in output


def test_a_list_of_traces(measured: Trace) -> None:
    """Its other form, ``--csv``, is the shipped manifest."""
    command = ["trace", "list", str(measured.path)]
    output = CliRunner().invoke(carsim, command, env={"COLUMNS": "80"}).output
    eligible = measured.replay[256:].mean()
    # rows, frames, tau, no exempt layer, scope, no window, replayed
    assert " ".join(output.split()).endswith(f"tiny.npz 4 3 1 0 row dense {eligible:.1%}")
