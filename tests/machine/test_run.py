"""What a run compares, where each row's decisions come from, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from tiny import tiny_design, tiny_report, tiny_trace
from toy_policies import BestKeys, registered

from carsim.account.row import RowResult
from carsim.base.errors import InputError
from carsim.decisions.attention import Streaming
from carsim.decisions.trace.precision import DecoderPrecision
from carsim.design import load_design, override
from carsim.metrics import figures
from carsim.report.notes import notes_of
from carsim.report.stored import stored
from carsim.runs.pipeline import run


def test_a_row_is_found_by_its_whole_name() -> None:
    report = tiny_report()
    assert report.chosen is report.row("FastCar + DRS")
    assert [row.variant.replays for row in report.rows] == [False, False, True, True, True, True]
    with pytest.raises(KeyError):
        report.row("dense")


@pytest.mark.parametrize(
    ("changes", "chosen"),
    [
        (("policy.schedule=static",), "FastCar, static"),
        (("policy.schedule=pack",), "FastCar + pack"),
        (("policy.attention={kind: streaming, window: 8}",), "FastCar + DRS + sparse attention"),
        (
            ("policy.attention={kind: streaming, window: 8}", "policy.schedule=pack"),
            "FastCar + pack + sparse attention",
        ),
    ],
)
def test_the_design_s_own_policy_is_always_among_the_rows(changes: tuple[str, ...], chosen: str):
    design = tiny_design(*changes)
    report = run(design, [tiny_trace()])
    assert report.chosen.variant.name == chosen
    assert report.chosen.variant.schedule == design.policy.schedule
    assert report.chosen.variant.attention == design.policy.attention


def test_two_windows_are_two_rows_and_the_own_one_is_chosen() -> None:
    windows = [f"{{attention: {{kind: streaming, window: {n}}}, schedule: drs}}" for n in (4, 8)]
    own = "policy.attention={kind: streaming, window: 12}"
    report = run(tiny_design(own, f"policy.compare=[{', '.join(windows)}]"), [tiny_trace()])
    rows = [row for row in report.rows if row.variant.replays and not row.is_bound]
    assert [row.variant.attention for row in rows] == [Streaming(window=n) for n in (4, 8, 12)]
    assert len({row.variant.key for row in rows}) == len({row.variant.name for row in rows}) == 3
    assert report.chosen.variant.attention == Streaming(window=12)
    assert rows[0].latency_s < rows[1].latency_s < report.chosen.latency_s


def test_reads_that_were_recorded_hold_with_replay_and_without() -> None:
    with registered():
        trace = tiny_trace(attention=BestKeys(k=4))
        tokens = np.minimum(trace.context(), 2)[:, None, None]
        tokens = np.broadcast_to(tokens, (trace.n_steps, trace.n_layers, 4, trace.n_rows))
        held = np.broadcast_to(trace.context()[15::16, None], (3, trace.n_layers, 4))
        trace = replace(trace, kv_tokens=tokens, kv_runs=tokens // 2, kv_held=held)
        report = run(tiny_design("policy.attention={kind: best_keys, k: 4}"), [trace])
    layer_steps = 48 * 4 * 4  # steps, layers, rows: two keys of 64 numbers are read, one is written
    for key, aligned in (("best_keys/static", 0), ("replay+best_keys/drs", 1)):
        moved = sum(report.row(key).simulation.totals["attention"].dram_bytes)
        keys = 2 * (2 + 1) * layer_steps + aligned * layer_steps * 2 // 3
        assert moved == keys * report.design.model.kv.bytes_of(64), key


def test_replay_ratios_are_those_of_the_decisions() -> None:
    trace = tiny_trace()
    drs = tiny_report().row("FastCar + DRS")
    assert drs.replay_all == pytest.approx(trace.replay.mean())
    # 16 of 48 steps are frame 0.
    assert drs.replay_eligible == pytest.approx(trace.replay[16:].mean())
    assert drs.replay_all == pytest.approx(drs.replay_eligible * 2 / 3)
    dense = tiny_report().row("dense, static")
    assert (dense.replay_all, dense.replay_eligible) == (0, 0)


LARGE = ("machine.array.rows=64", "machine.array.cols=64", "machine.vector.lanes=64")
"""Changes that make memory the limit of the toy."""

UNKNOWN = tuple(f"board.memories.ps_ddr.published_efficiency_{end}=null" for end in ("low", "high"))


def test_times_are_what_they_are_called() -> None:
    for row in tiny_report().rows:
        cycles, prefill = (
            each.bound_cycles if row.is_bound else each.cycles
            for each in (row.simulation, row.simulation.totals["prefill"])
        )
        assert row.n_batches == 1
        assert row.latency_s == pytest.approx(cycles / 250e6)
        assert row.seconds_per_video == pytest.approx(row.latency_s / 2)  # two guidance pairs
        assert row.ms_per_token == pytest.approx((cycles - prefill) / 250e3 / 48)
        assert row.average_power_w * row.latency_s == pytest.approx(row.energy.board.value_j)
        assert all(0 < share <= 1 for share in (row.busy, *row.ddr_utilisation.values()))


def test_intervals_of_time_are_those_of_idle_joules() -> None:
    report = tiny_report(*LARGE)
    for row in report.rows:
        assert row.latency_factors is not None
        fast, slow = row.latency_factors
        assert 1 / 0.75 > slow > 1 >= fast
        found, seconds = figures(row, report), row.seconds_per_video
        ends = [found[f"{name}_s"] for name in ("latency_low", "latency_high")]
        assert ends == [row.latency_s * fast, row.latency_s * slow]
        of_video = [found[f"seconds_per_video_{end}"] for end in ("low", "high")]
        assert of_video == [seconds * fast, seconds * slow]
        parts = row.energy.components
        active, idle = (sum(p.high_j for p in parts if p.idle == which) for which in (False, True))
        assert row.energy_per_video.high_j * row.videos == pytest.approx(active + idle * slow)
        assert row.energy_per_video.value_j * row.videos == pytest.approx(row.energy.board.value_j)


def test_a_text_has_its_speed_at_both_ends_of_the_bandwidth() -> None:
    slow_gbps, fast_gbps = 0.4, 0.8
    ends = f"efficiency_low={slow_gbps}", f"efficiency_high={fast_gbps}"
    changes = [f"board.memories.ps_ddr.{end}" for end in ends]
    design = load_design("zcu102_16gb", ["model.preset=tinyllama_1b", *changes])
    report = run(design, workload="text:16+8", what_if=False)
    row = report.chosen
    found = figures(row, report)
    assert row.decode_factors is not None
    fast, slow = row.decode_factors
    assert fast == pytest.approx(0.6 / fast_gbps, rel=0.03)
    assert slow == pytest.approx(0.6 / slow_gbps, rel=0.03)
    for name in ("tokens_per_s", "stream_tokens_per_s"):
        assert found[f"{name}_low"] == pytest.approx(found[name] / slow)
        assert found[f"{name}_high"] == pytest.approx(found[name] / fast)
    assert found["ms_per_token_high"] == pytest.approx(found["ms_per_token"] * slow)


def test_a_board_without_an_interval_has_no_intervals_of_time() -> None:
    report = tiny_report(*UNKNOWN)
    for row in report.rows:
        found = figures(row, report)
        assert found["latency_low_s"] is found["seconds_per_video_high"] is None
        assert row.energy_per_video.high_j * row.videos == pytest.approx(row.energy.board.high_j)


def test_cores_of_a_bound_are_busy_all_the_time_at_most() -> None:
    """Where it is limited by compute; adding what replays takes time in a row, none in a bound."""
    report = tiny_report("machine.cores=1", "model.weights.bits=4", "model.activations.bits=8")
    assert report.bound.busy == 1
    assert 0.99 < report.chosen.busy < 1
    assert report.bound.mac_utilisation > report.chosen.mac_utilisation


def test_latency_is_the_mean_over_batches() -> None:
    drs = tiny_report("policy.batch=2").chosen
    assert (drs.n_batches, drs.videos) == (2, 2)
    assert drs.latency_s == pytest.approx(drs.simulation.batch_cycles.mean() / 250e6)


def label(row: RowResult) -> str:
    return row.batches.label


def test_each_row_says_where_its_decisions_come_from() -> None:
    captured = tiny_report()
    assert label(captured.row("dense, static")).startswith("dense")
    assert label(captured.row("FastCar + DRS")).startswith("captured in ")
    sparse = label(captured.row("FastCar + DRS + sparse attention"))
    assert sparse.endswith("made under dense attention, run under streaming")
    other_tau = tiny_report("policy.tau=0.5")
    assert "open loop" in label(other_tau.row("FastCar + DRS"))
    assert other_tau.row("FastCar + DRS").replay_all < captured.row("FastCar + DRS").replay_all


def test_a_precision_that_differs_is_told_and_never_refused() -> None:
    """The toy's model: weights 8 bits, activations 16, KV 8, replay 16."""
    few = {"weights": 4, "activations": 4, "kv": 8, "replay": 8, "polish": ("down",)}
    trace = tiny_trace(precision=DecoderPrecision.model_validate(few))
    told = label(run(tiny_design(), [trace]).row("FastCar + DRS"))
    assert told.endswith("; made in W4A4 KV8 replay 8, polished down, run in W8A16 KV8 replay 16")
    own = ("weights.bits=4", "activations.bits=4", "replay.bits=8", "polished=[down]")
    report = run(tiny_design(*(f"model.{each}" for each in own)), [trace])
    assert "made in" not in label(report.row("FastCar + DRS"))


def test_each_row_takes_the_trace_of_its_own_attention() -> None:
    dense = tiny_trace()
    sparse = tiny_trace(attention=Streaming(sinks=4, window=256), tau=0.3)
    report = run(tiny_design(), [dense, sparse])
    drs = report.row("FastCar + DRS")
    both = report.row("FastCar + DRS + sparse attention")
    assert drs.replay_all == pytest.approx(dense.replay.mean())
    assert both.replay_all == pytest.approx(sparse.replay.mean())
    assert "made under" not in label(both)
    alone = run(tiny_design(), [sparse]).row("FastCar + DRS")
    assert label(alone).endswith("made under streaming attention, run under dense")


def test_rows_that_fill_no_batch_are_named() -> None:
    trace = tiny_trace(guidance_pairs=((0, 1), (2, 3), (4, 5)), prompt_lengths=(5, 2, 4, 2, 3, 3))
    report = run(tiny_design(), [trace])
    (line,) = (each for each in stored(report).warnings if "of the trace" in each)
    assert line.startswith("2 of the 6 rows of the trace fill no batch of 4 and are not decoded")


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("machine.cores=4", ": each sequence has a core of its own."),
        ("machine.cores=1", ": there is one core only."),
        ("machine.mapping=tensor", ": matrices are split over all cores, so"),
        ("machine.drs.index_register_bits=3", ": the Index Register holds 3 of 4 sequences at"),
        ("machine.array={rows: 64, cols: 64}", "DRS loses 9.4 % here: port is the limit of the"),
    ],
)
def test_where_drs_cannot_help_the_run_says_why(override: str, why: str) -> None:
    notes = " ".join(notes_of(tiny_report(override)))
    assert why in notes
    assert "u280_compute_bound" in notes


def test_a_trace_that_cannot_serve_the_model_is_refused() -> None:
    trace, design = tiny_trace(), tiny_design()
    deeper = override(design, {"model.body.n_layers": 2, "policy.tau": (0.0, 1.0)})
    with pytest.raises(InputError, match=r"policy\.tau: lists 2 values, .* has 4 layers; give one"):
        run(deeper, [trace])
    for other in (
        tiny_trace(n_frames=2),
        tiny_trace(tokens_per_frame=8),
        tiny_trace(prompt_tokens=6, prompt_lengths=(6, 2, 4, 2)),
    ):
        with pytest.raises(InputError, match="pass traces of the same video"):
            run(design, [trace, other])


def test_a_trace_of_another_depth_is_mapped_and_says_so() -> None:
    report = run(tiny_design("model.body.n_layers=6"), [tiny_trace()])
    words = "decisions of 4 layers mapped to 6 by relative depth"
    for row in report.rows:
        assert (words in row.batches.label) == row.variant.replays
        assert (row.batches.source == "mapped by depth") == row.variant.replays
        assert row.batches.replay.shape[2] == 6


def test_rows_decide_with_those_of_their_own_batch() -> None:
    """In batches of two, half of four rows, a step replays where both of a batch would."""
    report = run(tiny_design("policy.decision_scope=batch", "policy.batch=2"), [tiny_trace()])
    replay = report.chosen.batches.replay  # [G, S, L, B]
    by_row = run(tiny_design("policy.batch=2"), [tiny_trace()]).chosen.batches.replay
    assert replay.shape == by_row.shape == (2, 48, 4, 2)
    assert (replay[0] != replay[1]).any()
    assert (replay == by_row.all(axis=-1, keepdims=True)).all()
