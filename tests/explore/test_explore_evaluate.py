"""A point of a sweep is what ``carsim run`` says of the same design."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from explore_study import make_study, write_study
from tiny import DESIGN_YAML, tiny_design, tiny_trace

from carsim.decisions.replay import InputChange
from carsim.decisions.trace import save_trace
from carsim.design import override
from carsim.explore.designs import Designs
from carsim.explore.evaluate import Evaluator
from carsim.explore.points import make_points
from carsim.explore.study import load_study
from carsim.metrics import figures
from carsim.runs.opening import open_design
from carsim.runs.pipeline import run
from carsim.workload.workload import workload_of

MIXED = {
    "machine.cores": [1, 2],
    "policy.batch": [2, 4],
    "policy.tau": ["captured", -0.4],
    "policy.schedule": ["static", "drs", "pack"],
    "policy.decision_scope": ["row", "pair"],
}
DENSE, SPARSE = {"kind": "dense"}, {"kind": "streaming", "sinks": 2, "window": 8}


def evaluated(folder, **changes):
    study = make_study(folder, **changes)
    evaluator = Evaluator(study)
    return [(point, *evaluator.evaluate([point])) for point in make_points(study)]


def by_values(folder, **changes):
    """Rows by the values of their axes."""
    return {tuple(point.values.values()): row for point, row in evaluated(folder, **changes)}


def assert_is_run(row, report):
    """All figures are those of a run, whose interval of the bandwidth sweeps leave out."""
    expected = figures(replace(report.chosen, latency_factors=None, decode_factors=None), report)
    del expected["decisions"]  # which name the file
    assert row["status"] == "ok"
    assert {name: row[name] for name in expected} == expected


def test_every_metric_equals_that_of_a_run(tmp_path):
    results = evaluated(tmp_path, axes=MIXED)
    assert len(results) == 48
    for point, row in results:
        design = override(tiny_design(), dict(point.changes))
        assert_is_run(row, run(design, [tiny_trace()], what_if=False))
    assert len({row["latency_s"] for _, row in results}) > 10


def test_without_replay_it_is_dense_decoding(tmp_path):
    axes = {"replay": [True, False], "policy.attention": [DENSE, SPARSE]}
    results = evaluated(tmp_path, axes=axes)
    dense, sparse = (row for point, row in results if not point.values["replay"])
    report = run(override(tiny_design(), {"policy.sparse_attention": SPARSE}), [tiny_trace()])
    assert sparse["latency_s"] == report.row("sparse attention, static").latency_s
    assert dense["latency_s"] == report.row("dense, static").latency_s
    assert (dense["speedup"], dense["replay_all"]) == (1.0, 0.0)


def test_videos_of_other_sizes_than_the_trace(tmp_path):
    """Of what is resampled, only the first frame and the size are certain; a part is exact."""
    trace = tiny_trace()
    axes = {"video.frames": [2, 3, 9], "video.tokens_per_frame": [16, 64]}
    rows = by_values(tmp_path, axes=axes, resample=3)
    own, part = rows[trace.n_frames, trace.tokens_per_frame], rows[2, 16]
    assert_is_run(own, run(tiny_design(), [trace]))
    assert part["replay_eligible"] == trace.replay[16:32].mean()
    assert "the first 2 of" in part["decisions"]
    for (frames, tokens), row in rows.items():
        assert row["status"] == "ok"
        assert row["replay_all"] == pytest.approx(row["replay_eligible"] * (1 - 1 / frames))
        assert ("resampled" in row["decisions"]) == (frames == 9 or tokens == 64)
    assert rows[9, 16]["latency_s"] > 3 * own["latency_s"]
    assert rows[9, 16]["memory_used_gb"] > own["memory_used_gb"]


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("video.frames", 0, "video.frames: got 0; give a whole number above 0"),
        ("video.frames", 2.5, "video.frames: got 2.5; give a whole number above 0"),
        ("video.frames", 100_000, "video.frames: make 1,600,000 steps; take at most 131,072"),
        ("video.frames", 9, "video.frames: 9 are more than the 3 of toy.npz; give a seed"),
        ("video.tokens_per_frame", 17, "tokens per frame: frames of 16 tokens cannot be enlarged"),
        ("replay", "no", "replay: got 'no'; give true or false"),
    ],
)
def test_videos_that_cannot_be_are_refused(tmp_path, path, value, reason):
    ((_, row),) = evaluated(tmp_path, axes={path: [value]})
    assert (row["status"], row["reason"][: len(reason)]) == ("invalid", reason)


def test_sets_must_divide_the_frame_that_is_asked_for(tmp_path):
    """8 tokens divide the trace's frames of 16, and a video of 4 x 36, but no frame of 36."""
    axes = {"video.tokens_per_frame": [16, 36], "policy.tokens_per_step": [8, 12]}
    axes["video.frames"] = [4]
    rows = by_values(tmp_path, axes=axes, resample=3, allow_misfit=True)
    refused = "policy.tokens_per_step: {} tokens do not divide a frame of {}; take a divisor of it"
    assert rows[36, 8, 4]["reason"] == refused.format(8, 36)
    assert rows[16, 12, 4]["reason"] == refused.format(12, 16)
    assert rows[16, 8, 4]["latency_s"] < rows[36, 12, 4]["latency_s"]


def test_misfits_and_refusals_are_rows_and_misfits_may_be_simulated(tmp_path):
    axes = {"board.dsp": [1, 2520], "policy.batch": [3, 4]}
    rows = by_values(tmp_path, axes=axes)
    assert rows[2520, 4]["status"] == "ok"
    assert (rows[1, 4]["status"], rows[1, 4]["fits"]) == ("misfit", False)
    assert "DSP slices" in rows[1, 4]["reason"]
    assert rows[1, 4].get("latency_s") is None
    assert rows[1, 4]["dsp"] == rows[2520, 4]["dsp"]
    assert rows[2520, 3]["status"] == "invalid"
    assert rows[2520, 3]["reason"].startswith("policy.batch: 3 sequences would split a guidance")
    simulated = by_values(tmp_path, axes=axes, allow_misfit=True)
    assert simulated[1, 4]["status"] == "misfit"
    assert simulated[1, 4]["latency_s"] == rows[2520, 4]["latency_s"]


@pytest.mark.parametrize("work", ["video:4", "text:16+8"])
def test_what_is_decoded_densely_is_as_in_a_run(tmp_path, work):
    """No score is computed, and no memory is set aside for replays, unless a share replays."""
    (tmp_path / "toy.yaml").write_text(DESIGN_YAML, encoding="utf-8")
    axes = {"machine.decision_at": ["attention", "residual"], "replay": [True, False]}
    for point, row in evaluated(tmp_path, traces=None, workload=work, axes=axes):
        changes = {"machine.decision_at": point.changes["machine.decision_at"]}
        assert_is_run(row, run(override(tiny_design(), changes), workload=work))


def test_a_rule_that_counts_elements_is_priced_at_the_width_of_each_point(tmp_path):
    """Points of one trace share its decisions, and not what their rule costs."""
    trace = tiny_trace(rule=InputChange(elements=16))
    save_trace(tmp_path / "toy.npz", trace)
    (tmp_path / "toy.yaml").write_text(DESIGN_YAML, encoding="utf-8")
    for point, row in evaluated(tmp_path, axes={"model.body.hidden_size": [64, 128]}):
        assert_is_run(row, run(override(tiny_design(), dict(point.changes)), [trace]))


def test_a_text_is_swept_without_a_trace(tmp_path):
    """Two points of one workload and one of another, on a machine that is chosen for the first."""
    (tmp_path / "small.yaml").write_text("board: {preset: kv260}\nmodel: {preset: tiny}\n")
    study = {"design": "small.yaml", "traces": None, "workload": "text:16+4"}
    study["axes"] = {"workload": ["text:16+4", "text:200+4"], "policy.batch": [1, 2]}
    rows = by_values(tmp_path, **study)
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert rows["text:16+4", 1]["first_token_s"] < rows["text:200+4", 1]["first_token_s"]
    study["axes"] = {"policy.batch": [1, 2]}
    loaded, other = make_study(tmp_path, **study), workload_of("text:8+2")
    again = load_study(write_study(tmp_path, **study), other)
    assert again.workload == other
    assert again.inputs_sha256 != loaded.inputs_sha256


@pytest.mark.parametrize(
    ("file", "shared", "is_read_once"),
    [
        ("design: kv260", {"model.preset": "tiny", "model.kv.bits": 8}, True),
        (
            "design: kv260",
            {"model.preset": "tiny", "machine.kv_buffer_kib": 512, "machine.tile_kib": 256},
            False,
        ),
        ("board: {preset: kv260}\nmodel: {preset: tiny}\n", {"board.preset": "zcu102"}, False),
    ],
)
def test_a_preset_of_all_points_gives_what_the_command_line_does(
    tmp_path, file, shared, is_read_once
):
    """It is read once, unless it needs an axis beside it or chooses a machine."""
    design = file.removeprefix("design: ")
    if design == file:
        design = str(tmp_path / "own.yaml")
        Path(design).write_text(file)
    axes = {"machine.weight_buffer_kib": [512, 1024], "machine.cores": [1, 2]}
    study = {"design": design, "traces": None, "workload": "text:16+4", "set": shared}
    loaded = make_study(tmp_path, axes=axes, **study)
    designs = Designs(loaded)
    assert (designs.fixed(design) is not None) == is_read_once
    for point in make_points(loaded):
        texts = [f"{path}={json.dumps(value)}" for path, value in point.changes.items()]
        assert designs.of(point.changes) == open_design(design, texts, loaded.workload)
