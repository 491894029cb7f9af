"""A point of a sweep is what ``carsim run`` says of the same design."""

import pytest
from explore_study import write_study
from tiny import DESIGN_YAML, tiny_design, tiny_trace

from carsim.decisions.replay import InputChange
from carsim.decisions.trace import save_trace
from carsim.design import override
from carsim.explore.evaluate import Asked, Evaluator, Fitted, Machines, hardware_key
from carsim.explore.points import make_points
from carsim.explore.study import load_study
from carsim.metrics import PHASES
from carsim.runs.pipeline import fit_of, run, sources_of
from carsim.workload.workload import workload_of

MIXED = {
    "machine.cores": [1, 2],
    "policy.batch": [2, 4],
    "policy.tau": ["captured", -0.4],
    "policy.schedule": ["static", "drs", "pack"],
    "policy.decision_scope": ["row", "pair"],
}


SPARSE = {"kind": "streaming", "sinks": 2, "window": 8}


def evaluated(folder, **changes):
    study = load_study(write_study(folder, **changes))
    evaluator = Evaluator(study)
    return [(point, *evaluator.evaluate([point])) for point in make_points(study)]


def test_every_metric_equals_that_of_a_run(tmp_path):
    results = evaluated(tmp_path, axes=MIXED)
    assert len(results) == 48
    for point, row in results:
        report = run(override(tiny_design(), dict(point.changes)), [tiny_trace()])
        own, dense = report.chosen, report.rows[0]
        assert row["status"] == "ok"
        assert row["latency_s"] == own.latency_s
        assert row["speedup"] == dense.latency_s / own.latency_s
        assert row["energy_per_video_j"] == own.energy_per_video.value_j
        assert row["energy_per_video_low_j"] == own.energy_per_video.low_j
        assert row["memory_gb_per_video"] == own.dram_gb_per_video
        assert (row["busy"], row["mac_utilisation"]) == (own.busy, own.mac_utilisation)
        assert row["replay_all"] == own.replay_all
        assert row["replay_eligible"] == own.replay_eligible
        limits = {limit.phase: limit.limited_by for limit in report.limits}
        assert row["limit_mlp"] == limits["mlp"]
        used = report.fit.resources.totals
        assert (row["dsp"], row["lut"]) == (used["dsp"], used["lut"])
        assert point.changes["policy.schedule"] != "drs" or (
            row["bound_latency_s"] == report.row("bound: whole sequences on these cores").latency_s
        )
    assert len({row["latency_s"] for _, row in results}) > 10


@pytest.mark.parametrize(
    ("path", "value", "is_hardware"),
    [
        ("policy.tau", 0.3, False),
        ("policy.schedule", "pack", False),
        ("policy.decision_scope", "pair", False),
        ("policy.attention", {"kind": "streaming", "window": 8}, False),
        ("board.host_w", 1.125, False),
        ("board.static_w", 1.0, False),
        ("board.memories.ps_ddr.capacity_gib", 8.0, False),
        ("policy.batch", 2, True),
        ("machine.cores", 1, True),
        ("board.memories.ps_ddr.ports.count", 1, True),
        ("board.fabric_clock_mhz", 100.0, True),
        ("model.weights.bits", 3, True),
    ],
)
def test_what_counts_as_hardware(path, value, is_hardware):
    design = tiny_design()
    changed = override(design, {path: value})
    assert changed != design
    assert (hardware_key(changed) != hardware_key(design)) == is_hardware


def test_phases_add_up_to_the_latency(tmp_path):
    for _, row in evaluated(tmp_path, axes=MIXED):
        phases = sum(row[f"{phase}_s"] for phase in PHASES)
        assert phases == pytest.approx(row["latency_s"], rel=1e-12)
        assert row["latency_s"] - row["head_s"] == pytest.approx(row["body_latency_s"], rel=1e-12)
        assert row["mlp_s"] > 0


def test_without_replay_it_is_dense_decoding(tmp_path):
    axes = {"replay": [True, False], "policy.attention": [{"kind": "dense"}, SPARSE]}
    rows = {
        (point.values["replay"], point.values["policy.attention"]["kind"]): row
        for point, row in evaluated(tmp_path, axes=axes)
    }
    report = run(override(tiny_design(), {"policy.sparse_attention": SPARSE}), [tiny_trace()])
    sparse = report.row("sparse attention, static")
    assert rows[False, "streaming"]["latency_s"] == sparse.latency_s
    assert rows[False, "dense"]["latency_s"] == report.row("dense, static").latency_s
    assert rows[False, "dense"]["speedup"] == 1.0
    assert rows[False, "dense"]["replay_all"] == 0.0
    assert rows[True, "dense"]["replay_eligible"] > 0


def test_videos_of_other_sizes_than_the_trace(tmp_path):
    """Of what is resampled, only the first frame and the size are certain; a part is exact."""
    trace = tiny_trace()
    axes = {"video.frames": [2, 3, 9], "video.tokens_per_frame": [16, 64]}
    rows = {
        tuple(point.values.values()): row
        for point, row in evaluated(tmp_path, axes=axes, resample=3)
    }
    own = rows[trace.n_frames, trace.tokens_per_frame]
    assert own["latency_s"] == run(tiny_design(), [trace]).chosen.latency_s
    assert own["decisions"] == "captured in toy.npz at tau 0"
    part = rows[2, 16]
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
    axes = {
        "video.frames": [4],
        "video.tokens_per_frame": [16, 36],
        "policy.tokens_per_step": [8, 12],
    }
    rows = {
        (point.values["video.tokens_per_frame"], point.values["policy.tokens_per_step"]): row
        for point, row in evaluated(tmp_path, axes=axes, resample=3, allow_misfit=True)
    }
    refused = "policy.tokens_per_step: {} tokens do not divide a frame of {}; take a divisor of it"
    assert rows[36, 8]["reason"] == refused.format(8, 36)
    assert rows[16, 12]["reason"] == refused.format(12, 16)
    assert rows[16, 8]["latency_s"] < rows[36, 12]["latency_s"]


def test_misfits_and_refusals_are_rows(tmp_path):
    axes = {"board.dsp": [1, 2520], "policy.batch": [3, 4], "policy.tau": [0.0]}
    rows = {
        (point.values["board.dsp"], point.values["policy.batch"]): row
        for point, row in evaluated(tmp_path, axes=axes)
    }
    assert rows[2520, 4]["status"] == "ok"
    assert rows[1, 4]["status"] == "misfit"
    assert "DSP slices" in rows[1, 4]["reason"]
    assert rows[1, 4].get("latency_s") is None
    assert rows[1, 4]["dsp"] == rows[2520, 4]["dsp"]
    assert rows[2520, 3]["status"] == "invalid"
    assert rows[2520, 3]["reason"].startswith("policy.batch: 3 sequences would split a guidance")


def test_misfits_are_simulated_where_that_is_wanted(tmp_path):
    axes = {"board.dsp": [1, 2520]}
    (_, misfit), (_, fits) = evaluated(tmp_path, axes=axes, allow_misfit=True)
    assert (misfit["status"], fits["status"]) == ("misfit", "ok")
    assert misfit["latency_s"] == fits["latency_s"]


def test_a_rule_that_counts_elements_is_priced_at_the_width_of_each_point(tmp_path):
    """Points of one trace share its decisions, and not what their rule costs."""
    trace = tiny_trace(rule=InputChange(elements=16))
    save_trace(tmp_path / "toy.npz", trace)
    (tmp_path / "toy.yaml").write_text(DESIGN_YAML, encoding="utf-8")
    results = evaluated(tmp_path, axes={"model.body.hidden_size": [64, 128]})
    for point, row in results:
        report = run(override(tiny_design(), dict(point.changes)), [trace])
        assert row["memory_gb_per_video"] == report.chosen.dram_gb_per_video
        assert row["latency_s"] == report.chosen.latency_s


def test_a_text_is_swept_without_a_trace(tmp_path):
    """Two points of one workload and one of another, on a machine that is chosen for the first."""
    (tmp_path / "small.yaml").write_text("board: {preset: kv260}\nmodel: {preset: tiny}\n")
    study = {
        "design": "small.yaml",
        "traces": None,
        "workload": "text:16+4",
        "axes": {"workload": ["text:16+4", "text:200+4"], "policy.batch": [1, 2]},
    }
    loaded = load_study(write_study(tmp_path, **study))
    evaluator = Evaluator(loaded)
    rows = evaluator.evaluate(make_points(loaded))
    assert {row["status"] for row in rows} == {"ok"}
    short, _, long, _ = (row["first_token_s"] for row in rows)
    assert short < long
    again = load_study(write_study(tmp_path, **study), workload_of("text:8+2"))
    assert again.workload == workload_of("text:8+2")
    assert again.inputs_sha256 != loaded.inputs_sha256


def test_rows_of_different_structures_and_policies_come_back_in_order():
    changes = [
        {"machine.cores": cores, "policy.tau": tau, "machine.array.rows": rows}
        for rows in (4, 8)
        for tau in (-0.3, 0.3)
        for cores in (1, 2)
    ]
    asked = []
    for change in [*changes, changes[0]]:
        design = override(tiny_design(), change)
        sources = sources_of(design, [tiny_trace()])
        fit = fit_of(design, sources, sources.video)
        asked.append(Fitted(Asked(design, sources, sources.video, True), fit))
    together, dense = Machines("fluid"), Machines("fluid")
    rows, latencies = together.rows(asked), dense.dense_latencies_s(asked)
    for each, row, latency_s in zip(asked, rows, latencies, strict=True):
        (alone,) = Machines("fluid").rows([each])
        assert row.design.machine == each.asked.design.machine
        assert (row.latency_s, row.energy, row.replay_all) == (
            alone.latency_s,
            alone.energy,
            alone.replay_all,
        )
        assert [latency_s] == Machines("fluid").dense_latencies_s([each])
    assert len({row.latency_s for row in rows}) == len(changes)
