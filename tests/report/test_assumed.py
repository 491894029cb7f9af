"""The line of assumptions: precisions with their sources, bandwidth, overheads, decisions."""

import json
from pathlib import Path

from explore_study import make_study

from carsim.design import Design, load_design, override
from carsim.explore.sweep import sweep
from carsim.report.screen import facts
from carsim.report.stored import stored, summary
from carsim.report.stored_study import read_study
from carsim.report.study_page import _answer
from carsim.runs.assumed import assumed
from carsim.runs.opening import open_design
from carsim.runs.pipeline import run
from carsim.workload.workload import workload_of

TEXT = workload_of("text:4+2")


def line(design: Design, workload: str = "text:4+2") -> str:
    return assumed(run(design, workload=workload))


def test_a_design_of_a_preset_with_an_override() -> None:
    design = load_design("asic_7nm_hbm3", ["model.kv.bits=4"])
    assert line(design, "video:1") == (
        "Assumed: weights 4.156, head 4.156 bits (preset vila_u_7b), activations 8 bits (the "
        "design), KV cache 4 bits (--set); hbm at 86% of peak (DRAM model); not "
        "calibrated; nothing replays."
    )
    # A value that is replaced later is named, too.
    later = override(design, {"model.weights.bits": 3, "model.weights_by_role.head.bits": 16})
    assert "weights 3.156, head 16 bits (--set), activations 8 bits" in line(later, "video:1")


def test_a_file_a_choice_and_a_design_that_says_so_itself(tmp_path: Path) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "vocab_size": 256, "model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(sizes | heads))
    design = tmp_path / "mine.yaml"
    design.write_text(f"board: {{preset: kv260}}\nmodel: {{from: {tmp_path}}}\n")
    bits = "weights 16, head 16, activations 16, KV cache 16 bits (its config.json); "
    assert bits in line(open_design(str(design), workload=TEXT))
    design.write_text(
        f"board: {{preset: kv260}}\nmodel: {{from: {tmp_path}, weights: {{bits: 8}}}}\n"
    )
    assert "weights 8, head 8 bits (the design), act" in line(
        open_design(str(design), workload=TEXT)
    )
    design.write_text("board: {preset: kv260}\nmodel: {preset: tinyllama_1b}\n")
    assert "KV cache 8 bits (chosen by carsim); " in line(open_design(str(design), workload=TEXT))


def test_bandwidth_that_was_measured_overheads_and_decisions() -> None:
    measured = {f"board.memories.ps_ddr.efficiency_{end}": 0.5 for end in ("low", "high")}
    design = override(load_design("zcu102"), {**measured, "machine.overheads.layer_us": 20.0})
    told = assumed(run(design, workload=workload_of("video:2,replay=0.5")))
    assert "ps_ddr at 50% of peak (measured on this board); " in told
    assert told.endswith(
        "; overheads of the design, not calibrated; decisions assumed, not captured."
    )
    assert "head 4" not in told  # zcu102 leaves the head out


def test_sources_are_no_part_of_a_design() -> None:
    plain = load_design("zcu102")
    named = plain.with_sources({"weights": "a test"})
    assert named == plain
    assert hash(named) == hash(plain)
    assert named.sha256 == plain.sha256
    assert named.source_of("weights") == "a test"
    assert plain.source_of("weights") != "a test"


def test_it_stands_on_the_first_screen_and_near_the_top_of_json() -> None:
    report = run("zcu102", workload="video:1")
    told = assumed(report)
    run_as_stored = stored(report)
    assert run_as_stored.assumed == told
    assert list(summary(report))[1] == "assumed"
    # Decisions have a line of their own.
    clauses = told.removeprefix("Assumed: ").rpartition("; ")[0]
    assert dict(facts(run_as_stored))["assumed"] == clauses
    assert "not calibrated" in clauses
    earlier = run_as_stored.model_copy(update={"assumed": ""})
    assert "assumed" not in dict(facts(earlier))


def test_a_study_names_the_axes_that_vary_what_is_assumed(tmp_path: Path) -> None:
    study = make_study(tmp_path, axes={"model.kv.bits": [8, 4], "policy.tau": [0.0, 0.5]})
    told = study.assumed
    assert told.startswith("Assumed: KV cache by the axis model.kv.bits, weights ")
    assert "activations 16 bits (preset tiny)" in told
    assert "ps_ddr at " in told
    sweep(study, tmp_path / "out", workers=0)
    stored_study = read_study(tmp_path / "out")
    assert stored_study.assumed.startswith(told.removesuffix("."))
    assert "decisions" in stored_study.assumed.removeprefix(told.removesuffix("."))
    assert stored_study.assumed in [*_answer(stored_study)]
    boards = {"any": {"choice": {"a": {"board.preset": "zcu102"}, "b": {"design": "kv260"}}}}
    told = make_study(tmp_path, axes=boards).assumed
    assert "weights by the axis any" in told
    assert "share of peak bandwidth by the axis any; overheads by the axis any." in told
