"""``carsim run`` as a user meets it: what it prints, refuses and leaves behind."""

import json
import os
import re
import signal
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pytest
from tiny import MISFIT, tiny_report

from carsim.metrics import METRICS
from carsim.report.run_words import advice
from carsim.report.stored import stored

CONFIGS = Path(__file__).parents[2] / "configs"


def test_full_output_has_everything_and_short_output_the_answer(
    call, prints, toy, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    toy = [Path(file).name for file in toy]
    out = prints("run", toy[0], "--trace", toy[1], "--full")
    wanted = ["a toy on a large board", "48 steps after a prompt of 5", "What the ZCU102 holds\n"]
    wanted += ["1 batch of 4 sequences, 2 videos each", "bound: whole sequences on these cores"]
    wanted += ["[3] captured in toy.npz at tau 0; made under dense attention, run under"]
    wanted += ["waiting for a core", "memory and port bandwidth", "Where the energy goes\n"]
    wanted += ["bound for *'s mapping", "Choose "]
    assert [text for text in wanted if text not in out] == []
    figures = json.loads(prints("run", toy[0], "--trace", toy[1], "--json"))["policies"][-1]
    for metric in METRICS.values():
        has_figure = figures.get(metric.name) is not None  # some are of networks or texts alone
        if metric.shown != "no" and has_figure and not metric.name.startswith("quality"):
            assert metric.heading in out or metric.unit in ("DSP", ""), metric.name
    assert re.search(r"\n all +[\d.]+ +100.0 %\n", out)
    # Memory, peak, DRAM, ports, the lesser of both, latency from request to first byte.
    assert "What the memories carry\n" in out
    assert re.search(r"\n ps_ddr +17.06 +16.42 +15.63 +port +\d+ cycles \([\d.]+ ns\)\n", out)
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())
    short = call("run", toy[0], "--trace", toy[1])[1]
    assert out.startswith(short.rstrip())
    assert len(short.splitlines()) <= 40
    assert "captured in toy.npz at tau 0" in " ".join(short.split())
    quiet = call("run", toy[0], "--trace", toy[1], "--quiet")[1]
    (row,) = (line for line in quiet.splitlines() if "FastCar + DRS * " in line)
    seconds = row.split()[4]
    simulated = " ".join(short.partition("simulated")[2].split())
    assert f"{seconds} s per video, time without runtime overhead" in simulated
    assert len(quiet.splitlines()) < 10
    (first,) = re.findall(r"expected +([\d.]+ s per video, [\d,.]+ frames/s, on a board)", short)
    assert f"expected: {first}" in " ".join(quiet.split())


@pytest.mark.parametrize("design", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_design_prints_at_most_40_lines(call, monkeypatch, design):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(CONFIGS)  # the suggested command has the path, which does not break
    without_trace = design.parent.name in ("published", "predicted", "boards", "later", "networks")
    trace = () if without_trace else ("--trace", "vilau_8f")
    status, out, err = call("run", design.relative_to(CONFIGS), *trace)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
    if status == 3:  # some published vector units are counted too large
        assert "does not fit" in err
        return
    assert status == 0
    assert 20 < len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert ("", "") not in pairwise(lines)
    labels = ["design", "work", "policy", "assumed", "expected", "simulated", "energy", "fits"]
    labels += ["left out", "10 % more", "trust", "next"]
    found = [label for line in lines for label in labels if line.startswith(f"{label:<11}")]
    assert found == labels
    shares = [float(line.split()[-2]) for line in _rows(lines, "time of a")]
    assert sum(shares) == pytest.approx(100)


def _rows(lines, heading):
    """Lines of a table below its heading."""
    first = next(i for i, line in enumerate(lines) if line.startswith(heading)) + 1
    rows = []
    for line in lines[first:]:
        if not line.endswith(" %") or line.startswith("10 % more"):
            break
        rows.append(line)
    return rows


def test_advice_prefers_the_simpler_schedule_unless_another_is_faster():
    run = stored(tiny_report())
    (text,) = advice(run)
    assert text.startswith("Choose ")
    assert text.endswith(f"dense, static ({run.dense.text('seconds_per_video')} s) otherwise.")
    slow = [
        policy.model_copy(update={"seconds_per_video": 2.0 if policy.replays else 1.0})
        for policy in run.policies
    ]
    found = next(advice(run.model_copy(update={"policies": tuple(slow)})))
    assert found == "Choose dense, static (1 s) otherwise."


def test_json_is_one_document_repeatable_to_the_byte(call, toy, tmp_path):
    command = ("run", toy[0], "--trace", toy[1], "--json")
    (status, out, err), again = call(*command), call(*command, "--out", tmp_path / "out")
    assert (status, err) == (0, "")
    assert again == (status, out, err)
    assert out == (tmp_path / "out" / "summary.json").read_text()
    assert len(json.loads(out)["policies"]) == 6
    assert json.loads(out)["carsim_version"] == version("carsim")


def test_overrides_reach_the_design(call, toy):
    options = ("--set", "machine.cores=4", "--batch", "2", "--tau", "-0.5,-0.5,-0.5,-5e-1")
    document = json.loads(call("run", toy[0], "--trace", toy[1], "--json", *options)[1])
    assert document["resolved_design"]["policy"]["tau"] == [-0.5] * 4
    assert document["resolved_design"]["machine"]["cores"] == 4
    assert (document["sequences_per_batch"], document["batches"]) == (2, 2)
    replaying = document["policies"][2]
    assert replaying["decisions_source"] == "re-thresholded (open loop)"
    assert "(open loop)" in replaying["decisions"]
    assert replaying["replay_eligible"] > 0.6


def test_resampling_fills_a_larger_batch_and_says_so(call, toy):
    options = ("--batch", "8", "--resample", "3", "--set", "machine.activation_buffer_kib=64")
    status, out, _ = call("run", toy[0], "--trace", toy[1], *options)
    assert status == 0
    assert "resampled from 4 rows of 3 frames to 8 rows of 3 frames" in " ".join(out.split())


def test_a_misfit_is_refused_with_what_is_missing(call, toy):
    status, out, err = call("run", toy[0], "--trace", toy[1], "--set", MISFIT)
    assert (status, out) == (3, "")
    assert err.count("\n") == 1
    assert err.startswith("carsim: toy: does not fit: DSP slices: ")
    assert "missing" in err
    assert "--allow-misfit" in err
    # One that is allowed is marked everywhere.
    status, out, _ = call("run", toy[0], "--trace", toy[1], "--set", MISFIT, "--allow-misfit")
    assert status == 0
    assert out.startswith("MISFIT: toy does not fit ZCU102\n")
    assert "fits       no: DSP slices: " in out


def test_out_writes_the_folder_and_names_its_files(prints, refuses, toy, tmp_path):
    folder = tmp_path / "out"
    command = ("run", toy[0], "--trace", toy[1], "--out", folder)
    out = prints(*command, "--timeline", "0:2")
    assert f"Written to {folder}: summary.json, design.yaml" in out
    assert (folder / "timeline.json").exists()
    assert "exists already; name another folder, or set --overwrite" in refuses(*command)
    prints(*command, "--overwrite")
    assert not (folder / "timeline.json").exists()


def test_a_text_is_decoded_without_a_trace_on_one_page(prints, toy):
    out = prints("run", toy[0], "--workload", "text:4+6", "--full")
    wanted = [" 6 tokens after a prompt of 4", "tokens/s (4 streams of "]
    wanted += [" J per new token, simulated ("]
    wanted += ["assumed, not captured: dense decoding of 6 tokens after a prompt of 4"]
    wanted += ["first token after", "What limits each phase", "J/token", "policy     dense, static"]
    wanted += ["What 10 % more of a resource would bring", "fits       yes; ", "\nMLP "]
    assert [text for text in wanted if text not in out] == []
    assert not re.search("video|MLP and replay", out.partition("All metrics")[0])
    assert "Choose" not in out, "nobody asked about policies"


def test_ctrl_c_that_a_library_turns_into_another_error_is_one(call, toy, tmp_path, monkeypatch):
    def pressed(*_args):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        except KeyboardInterrupt:
            raise ValueError("a callback has failed") from None

    monkeypatch.setattr("carsim.report.files.usage_by_step", pressed)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        found = call("run", toy[0], "--trace", toy[1], "--out", tmp_path / "out")
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == (130, "", "carsim: interrupted; nothing was half-written\n")
    assert not (tmp_path / "out").exists()


def test_a_board_and_a_model_are_enough(call, prints, tmp_path):
    """A preset or a model's own file; the machine is chosen, and `config show` says why."""
    config = tmp_path / "small" / "config.json"
    config.parent.mkdir()
    keys = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 512}
    keys |= {"model_type": "llama", "num_hidden_layers": 2, "vocab_size": 1000}
    config.write_text(json.dumps(keys), encoding="utf-8")
    for model in ("tiny", str(config), str(config.parent)):
        given = ("--board", "kv260", "--model", model, "--workload", "text:16+4")
        document = json.loads(prints("run", *given, "--json"))
        assert document["policies"][0]["stream_tokens_per_s"] > 0
        assert document["design"] == f"{'tiny' if model == 'tiny' else 'small'}_kv260"
    description = " ".join(prints("config", "show", *given).split())
    assert "on KV260: the fastest that fits" in description
    assert "as in the model file" in description
    status, _, err = call("run", "--board", "kv260", "--model", "llama2_7b", "--batch", "64")
    assert (status, err.count("\n")) == (3, 1)
    assert "none of" in err
