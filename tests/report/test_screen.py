"""The first screen of a run: what each line says, of which figures, and in which unit."""

import re
from dataclasses import replace
from typing import Any

import pytest
from tiny import MISFIT, tiny_report

from carsim.account.limits import PhaseLimit
from carsim.base.text import Fact, Table
from carsim.design import load_design, override
from carsim.design.load import for_work
from carsim.metrics import METRICS
from carsim.report.figures.utilisation import utilisation_frame, utilisation_plot
from carsim.report.run_tables import asked
from carsim.report.run_words import advice, fast_end_is_peak
from carsim.report.screen import (
    MOST_LINES,
    adding_up,
    effects,
    facts,
    first_screen,
    limits,
    next_limits,
    now_and_next,
    policies,
    trust,
)
from carsim.report.stored import StoredRun, stored
from carsim.runs.pipeline import run
from carsim.runs.timeline import usage_by_step
from carsim.workload.workload import workload_of


@pytest.fixture(scope="module")
def zcu102() -> StoredRun:
    return stored(run("zcu102", ["vilau_8f"]))


@pytest.fixture(scope="module")
def text() -> StoredRun:
    return stored(run("kv260", workload="text:32+8"))


def limit_of(kind: str, **shares: float) -> PhaseLimit:
    every = dict.fromkeys(("compute", "memory", "port", "dependency"), 0.0) | shares
    return PhaseLimit(
        phase="mlp",
        share_of_time=1.0,
        limited_by=kind,
        compute_share=every["compute"],
        memory_share=every["memory"],
        port_share=every["port"],
        dependency_share=every["dependency"],
        flip_gbps=40.0,
        flip_macs_per_cycle=1024.0,
    )


def test_times_of_two_clocks_are_told_apart(zcu102: StoredRun) -> None:
    """Speed-up and dense decoding have both times; energy belongs to the simulated one."""
    told = dict(facts(zcu102))
    dense = zcu102.dense
    expected = METRICS["expected_seconds_per_video"].text(dense["expected_seconds_per_video"])
    simulated = dense.text("seconds_per_video")
    assert f"(simulated {simulated}, expected {expected} s)" in told["speed-up"]
    assert " J per video, simulated (" in told["energy"]
    slowest = METRICS["seconds_per_video_high"].text(zcu102.own["seconds_per_video_high"])
    assert told["energy"].endswith(f"; high end at {slowest} s)")
    assert "time without runtime overhead" in told["simulated"]


def test_the_peak_is_no_measured_system(zcu102: StoredRun) -> None:
    """The low end is the peak of the memory, and below the interval of published systems."""
    own = zcu102.own
    peak_s = own.memory_gb_per_video_by_memory["ps_ddr"] / 17.06
    assert own["expected_seconds_per_video_low"] == pytest.approx(peak_s, rel=1e-3)
    assert fast_end_is_peak(zcu102)
    assert "its fast end is the data-sheet peak" in dict(facts(zcu102))["expected"]
    low = zcu102.expected.low * own.seconds_per_video
    changed = own.model_copy(update={"expected_seconds_per_video_low": low})
    within = zcu102.model_copy(
        update={"policies": (*[p for p in zcu102.policies if p is not own], changed)}
    )
    assert not fast_end_is_peak(within)
    assert "data-sheet" not in dict(facts(within))["expected"]


def test_the_fast_end_of_a_text_is_its_high_speed(text: StoredRun) -> None:
    own = text.own
    assert own["expected_tokens_per_s_high"] < own["tokens_per_s"] / text.expected.low
    assert "its fast end is the data-sheet peak" in dict(facts(text))["expected"]


def test_a_head_that_does_not_fit_is_said_to(zcu102: StoredRun) -> None:
    seconds = zcu102.latency_with_head_s - zcu102.latency_without_head_s
    left_out = dict(facts(zcu102))["left out"]
    assert f"+{seconds:.1f} s per video, but it does not fit" in left_out
    assert "0.198 GB missing" in zcu102.head_misfits[0]
    roomy = stored(run("u280_fastcar", workload="video:2,replay=0.5", what_if=False))
    assert roomy.head_misfits == ()
    assert "does not fit" not in dict(facts(roomy))["left out"]


def test_one_unit_per_screen(zcu102: StoredRun, text: StoredRun) -> None:
    for stored_run, foreign in ((zcu102, r"per batch|per token|tokens/s"), (text, r"per video")):
        printed = " ".join(map(str, first_screen(stored_run)))
        assert not re.search(foreign, printed)


def test_saturation_does_not_look_like_headroom(zcu102: StoredRun) -> None:
    """The ports are all but full, at 91.5 % of the peak of the memory."""
    table = policies(zcu102)
    assert table.headings[-1] == "memory busy"
    (own,) = [row for row in table.rows if row[0].endswith(" *")]
    assert float(own[-1].removesuffix(" %")) > 99.5
    assert zcu102.own["memory_utilisation"] == pytest.approx(0.915, abs=1e-3)


def test_energy_and_its_parts_are_of_one_total(text: StoredRun) -> None:
    parts = text.own.energy_parts_per_token_j
    assert sum(part.value for part in parts.values()) == pytest.approx(
        text.own["energy_per_token_j"]
    )
    assert " J per new token, simulated (" in dict(facts(text))["energy"]


def test_a_ratio_names_its_population(zcu102: StoredRun) -> None:
    assert "51.2 % of the decisions after frame 0 replay" in dict(facts(zcu102))["policy"]


def test_a_limit_has_its_present_value_and_the_next(zcu102: StoredRun) -> None:
    mlp = next(limit for limit in zcu102.limits if limit.phase == "mlp")
    (memory,) = [memory for memory in zcu102.memories if memory.name == "ps_ddr"]
    (first, at_dram), (second, at_flip) = next_limits(zcu102, mlp)
    assert (first, second) == ("memory", "compute")
    assert at_dram == pytest.approx(memory.dram_gbps)
    assert at_flip == pytest.approx(mlp.flip_gbps)
    assert now_and_next(zcu102, mlp) == "15.6 GB/s; memory at 16.4, compute at 33.2"


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        # 40 GB/s would take as long as compute, which takes half as long as the bytes.
        (limit_of("memory", memory=1.0, compute=0.5), "20 GB/s; compute at 40"),
        (
            limit_of("memory", memory=1.0, compute=0.5, port=0.8),
            "20 GB/s; port at 25, compute at 40",
        ),
        (limit_of("memory", memory=0.8, compute=0.2, dependency=0.4), "10 GB/s; dependency at 20"),
        (limit_of("compute", compute=1.0, memory=0.5, port=0.25), "32 MACs; memory at 64"),
        (limit_of("dependency", dependency=1.0), "latency, dispatch and waits"),
    ],
)
def test_the_next_limit_by_hand(limit: PhaseLimit, wanted: str) -> None:
    toy = stored(tiny_report())
    assert toy.own["macs_per_cycle"] == 32
    assert now_and_next(toy, limit) == wanted


def test_time_adds_up_to_100_percent(zcu102: StoredRun) -> None:
    for lines in range(2, 7):
        table = limits(zcu102, lines)
        assert len(table.rows) == min(lines, len(zcu102.limits))
        shares = [float(row[-1].removesuffix(" %")) for row in table.rows]
        assert sum(shares) == pytest.approx(100.0)
    assert limits(zcu102, 2).rows[1][0] == f"{len(zcu102.limits) - 1} others"
    assert adding_up([0.3333, 0.3333, 0.3334]) == ["33.3 %", "33.3 %", "33.4 %"]


def test_what_replays_nothing_names_no_replay(text: StoredRun) -> None:
    names = [row[0] for row in limits(text).rows]
    assert "MLP" in names
    assert "MLP and replay" not in names
    assert dict(facts(text))["policy"] == "dense, static; nothing replays"


def test_a_page_of_forwards_says_nothing_of_frames_that_are_decoded() -> None:
    """In forwards, any frame may reuse outputs, and all its tokens pass together."""
    changes = ["policy.skip.kind=all_layers", "model.preset=longlive_1.3b", "policy.batch=1"]
    design = load_design("asic_7nm_hbm3", changes)
    report = run(design, workload="sample:every=2", allow_misfit=True, what_if=False)
    forwards = stored(report)
    (advised,) = advice(forwards)
    assert "of the decisions that may reuse outputs" in advised
    told = dict(asked(forwards))
    assert told["sample"].endswith("5 forwards each of 1 row")
    assert told["policy"].startswith("batch of 1, static schedule, ")
    assert "video" not in told
    usage = utilisation_frame(report, usage_by_step(report.chosen))
    _, replayed = utilisation_plot(forwards, usage).panels
    assert replayed.x_label == "seconds since the first forward begins; vertical lines: forwards"


def test_the_bound_says_that_it_is_one_of_the_mapping(zcu102: StoredRun) -> None:
    assert policies(zcu102).rows[-1][0] == "bound for *'s mapping"


def test_each_policy_has_a_bar_of_its_time(zcu102: StoredRun) -> None:
    longest = max(policy.seconds_per_video for policy in zcu102.policies)
    for policy, row in zip(zcu102.policies, policies(zcu102).rows, strict=True):
        assert abs(len(row[1]) - 8 * policy.seconds_per_video / longest) <= 1


def test_effects_have_buffers_and_the_prompt(zcu102: StoredRun, text: StoredRun) -> None:
    whole, prompt = effects(zcu102)
    bandwidth_alone = "bandwidth -8.9 %; fabric clock, array, cores, buffers 0.0 %"
    assert whole == Fact("10 % more", bandwidth_alone)
    assert prompt.label == "  prompt"
    assert "activation buffer" in dict(effects(text))["  prompt"]
    assert list(effects(stored(tiny_report()).model_copy(update={"elasticities": ()}))) == []


def test_why_drs_gains_nothing_is_said_by_default(zcu102: StoredRun, text: StoredRun) -> None:
    note = dict(part for part in first_screen(zcu102) if isinstance(part, Fact))["note"]
    assert note.startswith("DRS gains nothing here: each sequence has a core of its own.")
    assert "u280_compute_bound" in note
    assert text.schedule_note == ""
    gains = stored(run("u280_compute_bound", ["vilau_8f"], what_if=False))
    assert gains.schedule_note == (
        "DRS gains 1.5 % here: it evens out the loads of the cores, and the MLPs are limited by "
        "compute."
    )


def test_the_note_on_schedules_takes_dense_attention_where_no_other_pair_is_compared() -> None:
    sparse = "policy.attention={kind: streaming, sinks: 4, window: 256}"
    design = load_design("zcu102", [sparse])
    note = stored(run(design, workload="video:2,replay=0.5", what_if=False)).schedule_note
    assert note.startswith("DRS gains nothing here with dense attention: each sequence has")


def test_trust_is_the_coverage_of_other_systems(zcu102: StoredRun) -> None:
    known = zcu102.expected
    assert 0 < known.inside <= known.tested
    assert trust(zcu102).text.startswith(f"{known.inside} of {known.tested} held-out speeds")
    without = known.model_copy(update={"tested": 0})
    assert trust(zcu102.model_copy(update={"expected": without})).text == "no claim on quality"


@pytest.mark.parametrize(
    ("changes", "differences"),
    [
        ({}, "weights of 8 bits, activations of 8 bits, keys and values of 8 bits"),
        (
            {"model.weights.bits": 4, "policy.attention": {"kind": "draft", "keep": 0.5}},
            "weights of 4 bits and draft attention",
        ),
        ({"model.weights.bits": 16}, ""),
    ],
)
def test_bits_and_attention_without_a_published_forward_are_named(
    changes: dict[str, Any], differences: str
) -> None:
    work = "diffusion:wan2.1_1.3b,64x64,frames=5,steps=2"
    design = for_work(load_design("h100sxm"), workload_of(work))
    if changes:
        sixteen = {f"model.{noun}.bits": 16 for noun in ("kv", "activations")}
        design = override(design, {**sixteen, **changes})
    report = stored(run(design, workload=work, what_if=False, allow_misfit=True))
    of_trust = trust(report).text
    of_notes = " ".join(report.notes)
    assert ("16 bits and dense attention, not " in of_trust) == bool(differences)
    assert differences in of_trust
    assert ("16-bit values and dense attention" in of_notes) == bool(differences)
    assert differences in of_notes


def test_commands_can_be_pasted(zcu102: StoredRun) -> None:
    def commands(of: StoredRun, folder: str | None = None) -> list[str]:
        told = dict(part for part in first_screen(of, folder) if isinstance(part, Fact))
        return told.get("next", "").replace("\u00a0\\\n", " ").splitlines()

    assert commands(zcu102) == []  # of Python
    manifest = zcu102.manifest.model_copy(
        update={
            "command": "carsim run zcu102 --trace vilau_8f --set 'board.name=a b' " + "-v " * 30
        }
    )
    own = zcu102.model_copy(update={"manifest": manifest})
    first, *others = commands(own)
    assert first == f"{manifest.command.strip()} --out first"
    assert others == ["carsim explain first", "carsim report first"]
    assert commands(own, "a b") == [
        "carsim explain 'a b'",
        "carsim report 'a b'",
        "carsim run 'a b'",
    ]


def test_a_misfit_comes_first_and_warnings_stay_on_the_screen() -> None:
    lines = list(first_screen(stored(tiny_report(MISFIT))))
    assert lines[0] == "MISFIT: toy does not fit ZCU102"
    told = dict(part for part in lines if isinstance(part, Fact))
    assert told["fits"].startswith("no: DSP slices: ")


def test_a_long_run_still_fits_the_screen() -> None:
    """Blank lines and phases make room for warnings."""
    toy = stored(tiny_report())
    warned = toy.model_copy(update={"warnings": ("a warning " * 20,) * 2})
    parts = list(first_screen(warned))
    texts = [part for part in parts if isinstance(part, str | Fact)]
    tables = [part for part in parts if isinstance(part, Table)]
    n_lines = sum(len(table.rows) + 1 for table in tables)
    for part in texts:
        fact = part if isinstance(part, Fact) else Fact("", part)
        n_lines += len(fact.lines(80, 11 if isinstance(part, Fact) else 0))
    assert n_lines <= MOST_LINES


def test_a_calibrated_design_says_what_its_times_are() -> None:
    design = load_design("zcu102", ["machine.overheads.layer_us=20"])
    told = dict(facts(stored(run(design, workload="video:1", what_if=False))))
    assert "time with the overheads of the design" in told["simulated"]


def test_a_bound_is_expected_on_no_board(zcu102: StoredRun) -> None:
    *_, bound = policies(zcu102).rows
    assert str(bound[2]) == "-" or bound[2].text == "-"


def test_a_resource_that_grows_by_more_is_named_with_its_step() -> None:
    """One core more of three is no tenth: a share of its effect would be that of no machine."""
    few_cores = stored(run("u280_fastcar", ["published_80_independent"]))
    whole, _ = effects(few_cores)
    assert whole.text.startswith("3 to 4 cores -22.9 %, 8 to 9 columns ")


def test_a_buffer_that_grows_by_more_is_named(zcu102: StoredRun) -> None:
    """Three buffers count in KiB, so that a step alone does not say which one grows."""
    (buffer,) = (each for each in zcu102.elasticities if each.resource == "weight buffer")
    faster = replace(
        buffer, enlargement=0.25, simulated="64 to 80 KiB", latency_change_per_10_percent=-0.02
    )
    whole, *_ = effects(zcu102.model_copy(update={"elasticities": (faster,)}))
    assert whole.text == "weight buffer 64 to 80 KiB -5.0 %"


def test_times_of_several_videos_at_once_are_told_apart() -> None:
    two = stored(run("u280_fastcar", ["published_80_independent"], what_if=False))
    assert dict(facts(two))["simulated"].startswith("392.8 s for 2 videos at once, 196.4 s per")


def test_joules_of_a_token_err_with_the_time_of_decoding(text: StoredRun) -> None:
    """Idle power at the high end is drawn for a step at the lowest bandwidth; no prompt."""
    slower = text.own["tokens_per_s"] / text.own["tokens_per_s_low"]
    parts = text.own.energy_parts_per_token_j
    host = parts["host"]
    constant = text.spec().board.host_w
    assert host.value == pytest.approx(constant / text.own["tokens_per_s"], rel=1e-3)
    assert host.high / host.value == pytest.approx(1.5 * slower, rel=1e-3)
