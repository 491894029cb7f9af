"""The shipped traces: what the manifest says, what their recipes say, and what they hold."""

import csv
import hashlib
import io
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from test_capture import TRACES, read

from carsim.cli import carsim
from carsim.decisions.trace import SyntheticModel, load_trace, synthesize, trace_stats
from carsim.decisions.trace.assumed import TWIN, Assumptions
from carsim.decoder.capture import metadata
from carsim.decoder.content import load_codebook
from carsim.decoder.model import load_model

MANIFEST = TRACES / "manifest.csv"
RECIPES = sorted(TRACES.glob("*.yaml"))
PUBLISHED = (20, 50, 80, 87)


def test_the_manifest_is_what_the_files_say() -> None:
    """Made by the command in traces/README.md; here from the bytes, without carsim, as well."""
    patterns = ("published_*.npz", "vilau_*.npz")
    files = [path for pattern in patterns for path in sorted(TRACES.glob(pattern))]
    listed = CliRunner().invoke(carsim, ["trace", "list", "--csv", *map(str, files)])
    assert listed.output == MANIFEST.read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(listed.output)))
    for path, row in zip(files, rows, strict=True):
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
    captured = [row for row in rows if row not in drawn]
    assert {Path(row["file"]).stem for row in captured} == {path.stem for path in RECIPES}
    for row in captured:
        assert row["command"] == f"carsim capture {Path(row['file']).stem}.yaml"
    assert len(drawn) == 2 * len(PUBLISHED)
    assert sum(int(row["bytes"]) for row in drawn) < 2e6
    assert sum(path.stat().st_size for path in TRACES.iterdir()) < 20.7e6


INDEPENDENT = Assumptions(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
MODELS = {
    **{f"{percent}_correlated": SyntheticModel(percent / 100) for percent in PUBLISHED},
    **{f"{p}_independent": SyntheticModel(p / 100, INDEPENDENT, pairs=2) for p in PUBLISHED},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_published_trace_is_what_its_model_draws_bit_for_bit(name: str) -> None:
    """The version of carsim aside; and the compressed bytes, which differ with zlib."""
    shipped, model = load_trace(TRACES / f"published_{name}.npz"), MODELS[name]
    made = synthesize(model)
    for key, array in made.arrays().items():
        assert array.tobytes() == shipped.arrays()[key].tobytes(), key
    expected = made.meta.model_copy(
        update={
            "producer_version": shipped.meta.producer_version,
            "command": f"{model.command} --out {shipped.name}",
        }
    )
    assert shipped.meta.model_dump_json() == expected.model_dump_json()
    ratio = trace_stats(shipped).ratio.over_eligible
    assert ratio == pytest.approx(model.ratio, abs=5 * model.standard_error)


def test_the_table_of_assumptions_is_that_of_the_code() -> None:
    readme = (TRACES / "README.md").read_text(encoding="utf-8")
    for name, value in asdict(TWIN).items():
        assert f"| `--{name.replace('_', '-')}` | {value} |" in readme


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
    by = trace.meta.producer_version  # the carsim of then, which decided alike
    same = {"schema_version": schema, "producer_version": by}
    assert trace.meta == made.model_copy(update=same)
    if schema == 1:  # captured before quality was measured clip by clip
        assert quality is None
        return
    assert (quality is None) == (recipe.quality is None)
    if quality and recipe.quality:
        assert quality.n_clips == recipe.quality.clips
        assert tuple(each.sampling for each in quality.by_sampling) == recipe.quality.samplings


def test_half_of_the_eligible_steps_replay_in_the_first_trace() -> None:
    trace = load_trace(TRACES / "vilau_8f.npz")
    assert (trace.n_steps, trace.n_layers, trace.n_rows) == (2048, 32, 32)
    stats = trace_stats(trace)
    assert stats.ratio.over_eligible == pytest.approx(0.5, abs=0.03)
    assert stats.ratio.over_all == pytest.approx(stats.ratio.over_eligible * 7 / 8, abs=1e-6)
    assert np.nanmean(stats.pair_phi) > stats.clip_phi > 0


def test_coarser_decisions_replay_less() -> None:
    """At one tau: row, pair and batch, on the same four clips."""
    rows = trace_stats(load_trace(TRACES / "vilau_8f.npz")).by_row[:8]
    alone = np.mean([row.over_eligible for row in rows])
    pair, batch = (
        trace_stats(load_trace(TRACES / f"vilau_8f_{scope}.npz")).ratio.over_eligible
        for scope in ("pair", "batch")
    )
    assert alone > pair > batch > 0
