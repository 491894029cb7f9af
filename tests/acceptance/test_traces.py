"""The shipped traces: what the manifest says, what their recipes say, and what they hold."""

import csv
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from recipe_maker import TRACES, read

from carsim.cli import carsim
from carsim.decisions.trace import captured, load_trace, trace_stats
from carsim.decisions.trace.meta import SYNTHETIC
from carsim.decoder.capture import metadata
from carsim.decoder.content import load_codebook
from carsim.decoder.model import load_model

MANIFEST = TRACES / "manifest.csv"
RECIPES = sorted(TRACES.glob("*.yaml"))
PUBLISHED = (20, 50, 80, 87)
SMALL = ("small_8f", "small_8f_change", "small_8f_periodic")


def test_the_manifest_is_what_the_files_say() -> None:
    """Made by the command in traces/README.md; here from the bytes, without carsim, as well."""
    patterns = ("published_*.npz", "small_*.npz", "vilau_*.npz")
    files = [path for pattern in patterns for path in sorted(TRACES.glob(pattern))]
    listed = CliRunner().invoke(carsim, ["trace", "list", "--csv", *map(str, files)])
    assert listed.output == MANIFEST.read_text(encoding="utf-8")
    for path, row in zip(files, csv.DictReader(io.StringIO(listed.output)), strict=True):
        data = path.read_bytes()
        with np.load(io.BytesIO(data)) as arrays:
            replay, meta = arrays["replay"], json.loads(str(arrays["meta"]))
        found = {
            "file": path.name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": str(len(data)),
            "rows": str(replay.shape[2]),
            "frames": str(len(replay) // 256),
            "eligible_ratio": f"{replay[256:].mean():.4f}",
            "seed": str(meta["seed"]),
            "command": meta["command"],
        }
        assert found.items() <= row.items(), path.name


def test_every_trace_has_its_recipe_and_the_folder_is_small() -> None:
    with MANIFEST.open(encoding="utf-8") as manifest:
        rows = list(csv.DictReader(manifest))
    drawn = [row for row in rows if row["file"].startswith("published")]
    made = [row for row in rows if row not in drawn]
    assert {Path(row["file"]).stem for row in made} == {path.stem for path in RECIPES}
    for row in made:
        assert row["command"] == f"carsim capture {Path(row['file']).stem}.yaml"
    assert len(drawn) == 2 * len(PUBLISHED)
    assert sum(int(row["bytes"]) for row in drawn) < 2e6
    assert sum(path.stat().st_size for path in TRACES.iterdir()) < 21e6


@pytest.mark.parametrize("percent", PUBLISHED)
@pytest.mark.parametrize("kind", ["correlated", "independent"])
def test_a_published_trace_says_that_it_was_drawn_and_at_which_ratio(percent: int, kind: str):
    trace = load_trace(TRACES / f"published_{percent}_{kind}.npz")
    label = f"{SYNTHETIC}, {percent} % of eligible steps"
    assert trace.title.startswith(f"{trace.name}: {label}")
    assert captured(trace).source == SYNTHETIC
    stats = trace_stats(trace)
    assert stats.ratio.over_eligible == pytest.approx(percent / 100, abs=0.01)
    by_layer = [layer.over_eligible for layer in stats.by_layer]
    if kind == "correlated":
        assert min(by_layer) in by_layer[8:24], "the middle layers replay least"
    else:
        assert by_layer == pytest.approx([percent / 100] * 32, abs=0.02)
    assert not stats.tas_quantiles.size


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_trace_is_what_its_recipe_says(path: Path) -> None:
    recipe, trace = read(path), load_trace(TRACES / f"{path.stem}.npz")
    weights = load_model(TRACES / recipe.weights).source
    clips = trace.meta.content["clips"]
    assert isinstance(clips, list)
    kept = [clip["kept_tokens"] for clip in clips]
    n_codes = load_codebook(TRACES / recipe.codebook).n_codes
    quality = trace.meta.quality
    made = metadata(recipe, n_codes, kept, weights=weights, quality=quality)
    by = trace.meta.producer_version  # the carsim of then, which decided alike
    assert trace.meta == made.model_copy(update={"producer_version": by})
    assert (quality is None) == (recipe.quality is None)
    if quality and recipe.quality:
        assert quality.n_clips == recipe.quality.clips


def test_traces_of_the_small_model_replay_half_and_lose_less_on_a_schedule() -> None:
    traces = {name: load_trace(TRACES / f"{name}.npz") for name in SMALL}
    losses = []
    for trace in traces.values():
        assert (trace.n_layers, trace.n_rows) == (4, 32)
        assert trace_stats(trace).ratio.over_eligible == pytest.approx(0.5, abs=0.001)
        forced = trace.meta.quality.teacher_forced_nats
        losses.append(np.mean(np.subtract(forced.own, forced.dense)))
    assert losses == sorted(losses, reverse=True)
