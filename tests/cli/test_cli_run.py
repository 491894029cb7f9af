"""``carsim run`` as a user meets it: what it prints, refuses and leaves behind."""

import json
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tiny import MISFIT, tiny_report, write_inputs
from trace_maker import make_quality

from carsim.cli.console import LEAST_WIDTH, PIPED_WIDTH, in_order, output_console, show
from carsim.decisions.attention import Streaming
from carsim.decisions.trace import TraceMeta, load_trace, save_trace
from carsim.design import load_design
from carsim.metrics import METRICS
from carsim.report.run_words import advice, more_sections, short_sections
from carsim.report.stored import stored

CONFIGS = Path(__file__).parents[2] / "configs"


def test_full_output_has_everything_and_short_output_the_answer(call, toy):
    status, out, err = call("run", toy[0], "--trace", toy[1], "--full")
    assert (status, err) == (0, "")
    for text in (
        "a toy on a large board",
        "48 steps after a prompt of 5",
        "1 batch of 4 sequences, 2 videos each",
        "bound: whole sequences on these cores",
        "[3] captured in toy.npz at tau 0; made under dense attention, run under streaming",
        "waiting for a core",
        "memory and port bandwidth",
        "What the ZCU102 holds\n",
        "Where the energy goes\n",
        "s per batch without it",
        "The interval of energy adds",
    ):
        assert text in out
    for metric in METRICS.values():
        if metric.shown and not metric.of_design and not metric.name.startswith("quality"):
            assert metric.heading in out or metric.unit in ("DSP", ""), metric.name
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())
    short = call("run", toy[0], "--trace", toy[1])[1]
    assert out.startswith(short.rstrip())
    for text in (
        "FastCar + DRS takes ",
        "What limits the design\n",
        "Does it fit the ZCU102\n",
        "Energy by part: ",
        "Decisions: captured in toy.npz at tau 0.",
        "Choose ",
    ):
        assert text in short
    quiet = call("run", toy[0], "--trace", toy[1], "--quiet")[1]
    (row,) = (line.split() for line in short.splitlines() if "FastCar + DRS * " in line)
    assert row in map(str.split, quiet.splitlines())
    assert len(quiet.splitlines()) < 8


@pytest.mark.parametrize("design", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_design_prints_at_most_45_lines(call, monkeypatch, design):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    trace = () if design.parent.name == "published" else ("--trace", "vilau_8f")
    status, out, _ = call("run", design, *trace)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
    assert status == 0
    assert 20 < len(lines) <= 45
    assert max(map(len, lines)) <= 80


def test_advice_prefers_the_simpler_schedule_unless_another_is_faster():
    run = stored(tiny_report())
    (text,) = advice(run)
    assert text.startswith("Choose ")
    assert text.endswith(f"dense, static ({run.dense.text('seconds_per_video')} s) otherwise.")
    slow = run.model_copy(
        update={
            "policies": tuple(
                policy.model_copy(update={"seconds_per_video": 2.0 if policy.replays else 1.0})
                for policy in run.policies
            )
        }
    )
    assert next(advice(slow)) == "Choose dense, static (1 s) otherwise."


def test_measured_quality_of_a_proxy_model_is_not_printed_beside_a_machine(call, toy, tmp_path):
    trace = load_trace(toy[1])
    meta = trace.meta.model_dump() | {"quality": make_quality()}
    path = tmp_path / "measured.npz"
    save_trace(path, replace(trace, meta=TraceMeta(**meta)))
    assert "nats" not in call("run", toy[0], "--trace", str(path), "--full")[1]


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width):
    console = Console(width=width, force_terminal=True, no_color=True, legacy_windows=False)
    run = stored(tiny_report("policy.schedule=pack"))
    with console.capture() as capture:
        show(console, in_order([*short_sections(run), *more_sections(run)]))
    printed = re.sub(r"\x1b\[[0-9;]*m", "", capture.get())
    assert max(map(len, printed.splitlines())) <= width
    assert "…" not in printed
    for policy in run.policies:
        assert policy.text("seconds_per_video") in printed
        assert policy.text("average_power_w") in printed


def test_a_terminal_is_never_narrower_than_the_tables(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    for columns, width in ((60, LEAST_WIDTH), (140, 140)):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert output_console().width == width
    monkeypatch.delenv("FORCE_COLOR")
    assert output_console().width == PIPED_WIDTH


def test_no_color_is_respected(monkeypatch, call, toy):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    coloured = call("run", toy[0], "--trace", toy[1], "--set", MISFIT, "--allow-misfit")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    plain = call("run", toy[0], "--trace", toy[1], "--set", MISFIT, "--allow-misfit")[1]
    red = "31m"
    assert red in coloured
    assert red not in plain


def test_json_is_one_document_repeatable_to_the_byte(call, toy):
    (status, out, err), again = (call("run", toy[0], "--trace", toy[1], "--json") for _ in "ab")
    assert (status, err) == (0, "")
    assert again == (status, out, err)
    assert len(json.loads(out)["policies"]) == 6


def test_overrides_reach_the_design(call, toy):
    options = ("--set", "machine.cores=4", "--batch", "2", "--tau", "-0.5")
    document = json.loads(call("run", toy[0], "--trace", toy[1], "--json", *options)[1])
    assert document["resolved_design"]["machine"]["cores"] == 4
    assert (document["sequences_per_batch"], document["batches"]) == (2, 2)
    replaying = document["policies"][2]
    assert replaying["decisions_source"] == "re-thresholded (open loop)"
    assert "re-thresholded at tau -0.5 (open loop)" in replaying["decisions"]
    assert replaying["replay_eligible"] > 0.6


def test_a_tau_per_layer(call, toy):
    document = json.loads(
        call("run", toy[0], "--trace", toy[1], "--json", "--tau", "0.1,0.2,0.3,1e3")[1]
    )
    assert document["resolved_design"]["policy"]["tau"] == [0.1, 0.2, 0.3, 1000.0]


def test_an_infinite_tau_never_replays(call, toy):
    document = json.loads(call("run", toy[0], "--trace", toy[1], "--json", "--tau", "inf")[1])
    assert document["resolved_design"]["policy"]["tau"] == "inf"
    dense, *_, chosen = (document["policies"][place] for place in (0, 3))
    assert (chosen["is_chosen"], chosen["replay_all"]) == (True, 0)
    assert chosen["latency_s"] >= dense["latency_s"]
    shown = call("run", toy[0], "--trace", toy[1], "--tau", "0.1,inf,inf,inf")[1]
    assert "(open loop)" in shown


def test_resampling_fills_a_larger_batch_and_says_so(call, toy):
    options = ("--batch", "8", "--resample", "3", "--set", "machine.activation_buffer_kib=64")
    status, out, _ = call("run", toy[0], "--trace", toy[1], *options)
    assert status == 0
    assert "resampled from 4 rows of 3 frames to 8 rows of 3 frames" in out


def test_each_row_takes_the_trace_of_its_attention(call, toy, tmp_path):
    other = tmp_path / "sparse"
    other.mkdir()
    sparse = write_inputs(other, attention=Streaming(window=8))[1]
    out = json.loads(
        call(
            *("run", toy[0], "--trace", toy[1], "--trace", sparse, "--json"),
            *("--set", "policy.sparse_attention.window=8"),
        )[1]
    )
    decisions = {row["policy"]: row["decisions"] for row in out["policies"]}
    assert "made under" not in decisions["FastCar + DRS + sparse attention"]
    assert len(out["traces"]) == 2


def test_a_misfit_is_refused_with_what_is_missing(call, toy):
    status, out, err = call("run", toy[0], "--trace", toy[1], "--set", MISFIT)
    assert (status, out) == (3, "")
    assert err.count("\n") == 1
    assert err.startswith("carsim: toy: does not fit: DSP slices: ")
    assert "missing" in err
    assert "--allow-misfit" in err


def test_an_allowed_misfit_is_marked_everywhere(call, toy):
    status, out, _ = call("run", toy[0], "--trace", toy[1], "--set", MISFIT, "--allow-misfit")
    assert status == 0
    assert out.startswith("MISFIT: toy does not fit ZCU102\n")
    assert "Policies on toy - MISFIT" in out
    assert "Does it fit the ZCU102 - MISFIT" in out
    assert "DSP slices: " in out


def test_out_writes_the_folder_and_names_its_files(call, toy, tmp_path):
    folder = tmp_path / "out"
    status, out, err = call("run", toy[0], "--trace", toy[1], "--out", folder, "--timeline", "0:2")
    assert (status, err) == (0, "")
    assert f"Written to {folder}: summary.json, design.yaml" in out
    assert (folder / "timeline.json").exists()
    status, _, err = call("run", toy[0], "--trace", toy[1], "--out", folder)
    assert status == 2
    assert "exists already; name another folder, or set --overwrite" in err
    assert call("run", toy[0], "--trace", toy[1], "--out", folder, "--overwrite")[0] == 0
    assert not (folder / "timeline.json").exists()


def test_out_and_json_print_the_document_that_they_write(call, toy, tmp_path):
    out = call("run", toy[0], "--trace", toy[1], "--json", "--out", tmp_path / "out")[1]
    assert out == (tmp_path / "out" / "summary.json").read_text()


def test_a_shell_completes_commands(monkeypatch, call):
    monkeypatch.setenv("_CARSIM_COMPLETE", "bash_source")
    status, out, _ = call()
    assert (status, "complete -o nosort -F _carsim_completion carsim" in out) == (0, True)
    monkeypatch.setenv("_CARSIM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "carsim stu")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert call()[1].split() == ["plain,studio"]


BAD = {
    "no such trace": (
        ("--trace", "nope.npz"),
        "nope.npz: cannot be read: No such file or directory; check the path",
    ),
    "a text for tau": (("--tau", "abc"), "--tau abc: is no threshold; give a number"),
    "no tau": (("--tau", ""), "argument 6: is empty; leave it out, or fill it in"),
    "a tau below all": (("--tau", "-inf"), "--tau -inf: is no threshold"),
    "no number for tau": (("--tau", "0.1,nan"), "--tau 0.1,nan: is no threshold"),
    "too few taus": (("--tau", "-1,2"), "carsim: --tau: lists 2 values for 4 layers"),
    "no batch": (("--batch", "0"), "Invalid value for '--batch': 0 is not in the range x>=1"),
    "half a pair": (("--batch", "3"), "3 sequences would split a guidance pair"),
    "more than there is": (("--batch", "6"), "6 sequences are more than the 4 rows of the trace"),
    "no assignment": (("--set", "machine.cores"), "is not of the form path=value"),
    "an unknown key": (("--set", "machine.coers=2"), "unknown key 'coers'; did you mean 'cores'?"),
    "a text for a number": (("--set", "machine.cores=two"), "should be a valid integer, got 'two'"),
    "a seed below zero": (("--resample", "-1"), "Invalid value for '--resample'"),
    "an unknown option": (("--bogus",), "No such option"),
    "a window nowhere": (("--timeline", "0:2"), "--timeline: has nowhere to write; add --out DIR"),
    "overwriting nothing": (("--overwrite",), "--overwrite: has nowhere to write; add --out DIR"),
    "no window": (("--out", "o", "--timeline", "5"), "--timeline 5: is not of the form A:B"),
    "a window backwards": (("--out", "o", "--timeline", "5:4"), "is no range of the 48 steps"),
    "a window beyond": (("--out", "o", "--timeline", "40:49"), "is no range of the 48 steps"),
    "a signed window": (("--out", "o", "--timeline", "-1:3"), "is not of the form A:B"),
    "nowhere": (("--out", "no/where"), "no/where: there is no folder"),
    "a file": (("--out", "toy.yaml"), "toy.yaml: exists and is no folder; name another"),
}


WITHOUT_A_TRACE = {
    "a tau": (("--tau", "0.3"), "--tau: needs the scores of a trace; add --trace FILE"),
    "rows to draw": (
        ("--resample", "1"),
        "--resample: needs the rows of a trace; add --trace FILE",
    ),
    "no token": (("--workload", "text:0"), "--workload: tokens: expected a whole number of 1 or"),
    "a huge number": (("--workload", f"text:{'9' * 5000}"), "--workload: got 'text:999"),
    "a field without a value": (("--workload", "text:4+4,prompt"), "got 'prompt' in 'text:4+4,"),
    "a field twice": (
        ("--workload", "text:4+4,prompt=7"),
        "'prompt=7' in 'text:4+4,prompt=7': not",
    ),
    "an empty file": (("--workload", "{empty}"), "empty.yaml: expected 'key: value' lines"),
    "a wrong file": (("--workload", "{wrong}"), "wrong.yaml: prompt: expected a whole number"),
    "no kind": (("--workload", "many"), "--workload: got 'many'; say text:2048+512, video:8"),
    "half a pair": (("--workload", "video:replay=0.5", "--batch", "3"), "a batch of 3 is no whole"),
    "a trace as well": (("--workload", "text", "--trace", "toy.npz"), "and so does --trace; give"),
}


@pytest.mark.parametrize(("options", "message"), WITHOUT_A_TRACE.values(), ids=WITHOUT_A_TRACE)
def test_what_cannot_be_stated_is_one_line(call, toy, tmp_path, options, message):
    files = {name: str(tmp_path / f"{name}.yaml") for name in ("empty", "wrong")}
    Path(files["empty"]).write_text("")
    Path(files["wrong"]).write_text("kind: text\nprompt: -1\n")
    options = [option.format_map(files) for option in options]
    status, out, err = call("run", toy[0], *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_text_is_decoded_without_a_trace_on_one_page(call, toy):
    status, out, err = call("run", toy[0], "--workload", "text:4+6", "--full")
    assert (status, err) == (0, "")
    for text in (
        "text           6 tokens after a prompt of 4",
        "stated, not captured: dense decoding of 6 tokens after a prompt of 4",
        "tokens/s (4 streams of ",
        "The first token comes after",
        "A token uses",
        "What limits each phase",
        "What 10 % more of a resource would bring",
        "Does it fit the ZCU102\n",
    ):
        assert text in out
    assert "video" not in out
    assert "Choose" not in out, "nobody asked about policies"


def test_a_text_is_expected_to_take_longer_than_its_batch(call, toy):
    out = " ".join(call("run", toy[0], "--workload", "text:4+1")[1].split())
    seconds, expected = (
        float(re.search(pattern, out)[1]) for pattern in (r"batch takes (\S+) s", r"expect (\S+) s")
    )
    assert expected > 1.2 * seconds
    assert "at a context of 5." in out


def test_another_board_brings_its_energy_constants_and_names_the_design(call):
    given = ("zcu102", "--board", "asic_7nm", "--workload", "text:2+2", "--json")
    found = json.loads(call("run", *given)[1])
    assert found["design"] == "zcu102_asic_7nm"
    assert found["resolved_design"]["energy"] == load_design("asic_7nm_hbm3").energy.model_dump(
        mode="json"
    )


def test_replays_are_stated_and_drawn(call, toy):
    options = ("--workload", "video:2,replay=0.5,pairs=0.8", "--json")
    small = ("--set", "model.video={frames: 2, tokens_per_frame: 8, prompt_tokens: 2}")
    document = json.loads(call("run", toy[0], *options, *small)[1])
    assert document["traces"][0]["name"].startswith("stated, not captured: 50 % of eligible")
    assert document["policies"][3]["replay_eligible"] == pytest.approx(0.5, abs=0.15)
    assert all(policy["tokens_per_s"] > 0 for policy in document["policies"])


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_leaves_nothing(
    call, toy, tmp_path, monkeypatch, options, message
):
    monkeypatch.chdir(tmp_path)
    if "--trace" not in options and options:
        options = ("--trace", toy[1], *options)
    before = sorted(tmp_path.iterdir())
    status, out, err = call("run", toy[0], *options)
    assert (status, out) == (2, "")
    assert err.startswith("carsim: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(tmp_path.iterdir()) == before


def test_an_unknown_design_names_the_shipped_ones(call, toy):
    status, _, err = call("run", "zcu103", "--trace", toy[1])
    assert status == 2
    assert (
        "zcu103: is neither a YAML file nor a shipped design; did you mean 'zcu102'? shipped are"
        in err
    )


@pytest.mark.parametrize(
    ("failure", "status", "message"),
    [
        (OSError(28, "No space left on device"), 2, "cannot be written (No space left on device)"),
        (KeyboardInterrupt(), 130, "carsim: interrupted; nothing was half-written\n"),
    ],
)
def test_a_run_that_breaks_off_leaves_nothing(
    call, toy, tmp_path, monkeypatch, failure, status, message
):
    def fail(*_args):
        raise failure

    monkeypatch.setattr("carsim.report.files._write_utilisation", fail)
    found = call("run", toy[0], "--trace", toy[1], "--out", tmp_path / "out")
    assert found[:2] == (status, "")
    assert message in found[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy.npz", "toy.yaml"]


def test_ctrl_c_that_a_library_turns_into_an_error_of_its_own_is_still_one(
    call, toy, tmp_path, monkeypatch
):
    def pressed(*_args):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        except KeyboardInterrupt:
            raise ValueError("a callback has failed") from None

    monkeypatch.setattr("carsim.report.files._write_utilisation", pressed)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        found = call("run", toy[0], "--trace", toy[1], "--out", tmp_path / "out")
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == (130, "", "carsim: interrupted; nothing was half-written\n")
    assert not (tmp_path / "out").exists()


def test_help_without_a_command_is_help(call):
    status, out, err = call()
    assert "Usage: carsim" in out + err
    assert "run" in out + err
    assert status in (0, 2)  # 0 before click 8.2


def test_the_version_is_that_of_the_package(call):
    from importlib.metadata import version

    assert call("--version")[:2] == (0, f"carsim, version {version('carsim')}\n")


@pytest.mark.parametrize(
    "command",
    [
        "run DESIGN --trace TRACE",
        "compare DESIGN DESIGN --set-b machine.cores=1 --trace TRACE",
        "config dram --standard DDR4-2400",
        "config array --m 8 --k 64 --n 64",
        "validate claims",
    ],
)
def test_results_as_json_name_the_version_that_they_are_of(call, toy, command):
    from importlib.metadata import version

    places = dict(zip(("DESIGN", "TRACE"), toy, strict=True))
    status, out, err = call(*(places.get(word, word) for word in command.split()), "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["carsim_version"] == version("carsim")


def test_tile_fidelity_is_named_and_close_to_fluid(call, toy):
    design, trace = toy
    fluid, tile = (
        json.loads(call("run", design, "--trace", trace, "--fidelity", fidelity, "--json")[1])
        for fidelity in ("fluid", "tile")
    )
    assert (fluid["fidelity"], tile["fidelity"]) == ("fluid", "tile")
    for coarse, fine in zip(fluid["policies"], tile["policies"], strict=True):
        assert coarse["latency_s"] == pytest.approx(fine["latency_s"], rel=0.05)


def test_a_board_and_a_model_are_enough(call, tmp_path):
    """A preset or a model's own file; the machine is chosen, and `config show` says why."""
    config = tmp_path / "small" / "config.json"
    config.parent.mkdir()
    keys = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 512}
    keys |= {"model_type": "llama", "num_hidden_layers": 2, "vocab_size": 1000}
    config.write_text(json.dumps(keys), encoding="utf-8")
    for model in ("tiny", str(config), str(config.parent)):
        given = ("--board", "kv260", "--model", model, "--workload", "text:16+4")
        status, out, err = call("run", *given, "--json")
        assert (status, err) == (0, "")
        assert json.loads(out)["policies"][0]["stream_tokens_per_s"] > 0
        assert json.loads(out)["design"] == f"{'tiny' if model == 'tiny' else 'small'}_kv260"
    assert "on a KV260: the fastest that fits" in call("config", "show", *given)[1]
    status, out, err = call("run", "zcu102", "--model", "nope")
    assert (status, out, err.partition("nope")[0]) == (2, "", "carsim: --model: no preset '")
    assert call("run", config)[2].endswith(f"no design; say --board BOARD --model {config}\n")
    assert "DESIGN: is missing; name one, or say --board" in call("run", "--board", "kv260")[2]
    status, _, err = call("run", "--board", "kv260", "--model", "llama2_7b", "--batch", "64")
    assert (status, err.count("\n")) == (3, 1)
    assert "none of" in err
