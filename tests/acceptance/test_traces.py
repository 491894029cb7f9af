"""The shipped traces: what the manifest says, what their recipes say, and what they hold."""

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from test_capture import TRACES, read

from carsim.cli import carsim
from carsim.decoder.capture import metadata
from carsim.decoder.content import load_codebook
from carsim.decoder.model import load_model
from carsim.trace import load_trace, trace_stats

MANIFEST = TRACES / "manifest.csv"
RECIPES = sorted(TRACES.glob("*.yaml"))


def test_the_manifest_is_what_the_files_say() -> None:
    """Made by: carsim trace list traces/vilau_*.npz --csv > traces/manifest.csv."""
    files = sorted(str(path) for path in TRACES.glob("vilau_*.npz"))
    listed = CliRunner().invoke(carsim, ["trace", "list", "--csv", *files])
    assert listed.output == MANIFEST.read_text(encoding="utf-8")


def test_every_trace_has_its_recipe_and_the_folder_is_small() -> None:
    with MANIFEST.open(encoding="utf-8") as manifest:
        rows = list(csv.DictReader(manifest))
    assert {Path(row["file"]).stem for row in rows} == {path.stem for path in RECIPES}
    for row in rows:
        assert row["command"] == f"carsim capture {Path(row['file']).stem}.yaml"
    assert sum(path.stat().st_size for path in TRACES.iterdir()) < 14e6


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_trace_is_what_its_recipe_says(path: Path) -> None:
    recipe, trace = read(path), load_trace(TRACES / f"{path.stem}.npz")
    weights = "random"
    if recipe.weights != "random":
        weights = load_model(TRACES / recipe.weights).source
    clips = trace.meta.content["clips"]
    assert isinstance(clips, list)
    kept = [clip["kept_tokens"] for clip in clips]
    n_codes = load_codebook(TRACES / recipe.codebook).n_codes
    quality, schema = trace.meta.quality, trace.meta.schema_version
    made = metadata(recipe, weights, n_codes, kept, quality)
    assert trace.meta == made.model_copy(update={"schema_version": schema})
    if schema == 1:  # captured before quality was measured clip by clip
        assert quality is None
        return
    assert (quality is None) == (recipe.quality is None)
    if quality and recipe.quality:
        assert quality.n_clips == recipe.quality.clips
        assert tuple(each.sampling for each in quality.by_sampling) == recipe.quality.samplings


def test_half_of_the_eligible_steps_replay_in_the_first_trace() -> None:
    trace, recipe = load_trace(TRACES / "vilau_8f.npz"), read(TRACES / "vilau_8f.yaml")
    assert (trace.n_steps, trace.n_layers, trace.n_rows) == (2048, 32, 32)
    stats = trace_stats(trace)
    assert stats.ratio.over_eligible == pytest.approx(0.5, abs=0.03)
    assert stats.ratio.over_all == pytest.approx(stats.ratio.over_eligible * 7 / 8, abs=1e-6)
    by_speed = [
        (clip.speed, stats.by_row[2 * index].over_eligible)
        for index, clip in enumerate(recipe.clips)
    ]
    slow = np.mean([ratio for speed, ratio in by_speed if speed <= 1])
    fast = np.mean([ratio for speed, ratio in by_speed if speed >= 4])
    assert slow > fast, "decisions depend on what is seen"
    assert np.nanmean(stats.pair_phi) > stats.clip_phi > 0


def test_slow_pans_replay_more_than_fast_action() -> None:
    slow, fast = (
        trace_stats(load_trace(TRACES / f"vilau_8f_{pace}.npz")).ratio.over_eligible
        for pace in ("slow", "fast")
    )
    assert slow > fast + 0.05


def test_coarser_decisions_replay_less() -> None:
    """At one tau: row, pair and batch, on the same four clips."""
    rows = trace_stats(load_trace(TRACES / "vilau_8f.npz")).by_row[:8]
    alone = np.mean([row.over_eligible for row in rows])
    pair, batch = (
        trace_stats(load_trace(TRACES / f"vilau_8f_{scope}.npz")).ratio.over_eligible
        for scope in ("pair", "batch")
    )
    assert alone > pair > batch > 0
