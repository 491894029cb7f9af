"""``carsim search --target`` and ``--solve``: one screen, a design that loads, exit statuses."""

import json

import pytest

from carsim.design import load_design

FEW = (
    *(
        "--axis",
        "policy.batch=2",
        "--axis",
        "machine.cores=1,4",
        "--axis",
        "machine.mapping=tensor",
    ),
    *("--axis", "machine.array.rows=16,64", "--axis", "machine.array.cols=32"),
    *("--axis", "machine.vector.lanes=32", "--axis", "machine.weight_buffer_kib=128"),
    *("--axis", "machine.kv_buffer_kib=128", "--axis", "machine.activation_buffer_kib=64,512"),
    *("--axis", "machine.tile_kib=64", "--axis", "board.fabric_clock_mhz=1000"),
)
"""A space that is searched in a second."""

TEXT = ("--workload", "text:64+4", "--model", "tinyllama_1b")
CHIP = ("search", *TEXT, *FEW, "--boards", "asic_7nm_lpddr5x", "--target")


def test_the_design_of_the_answer_is_written(prints, refuses, tmp_path):
    out = tmp_path / "answer.yaml"
    text = prints(*CHIP, "tokens_per_s >= 100", "--out", out)
    assert "USD: die" in text
    assert "Proof: " in text
    assert load_design(str(out)).board.name == "ASIC 7 nm with LPDDR5X"
    assert "is there already" in refuses(*CHIP, "tokens_per_s >= 100", "--out", out)


def test_a_target_that_none_reaches_has_a_status_of_its_own(call):
    status, text, _ = call(*CHIP, "tokens_per_s >= 1e6", "--json")
    assert status == 3
    document = json.loads(text)
    assert not any(machine["reaches"] for machine in document["machines"])
    assert document["proof"]["closed"]
    assert document["proof"]["simulated"] < document["proof"]["space"]


def test_all_targets_hold(call):
    def best(*more):
        status, text, _ = call(*CHIP, "tokens_per_s >= 100", *more, "--json")
        assert status == 0
        return json.loads(text)["machines"][0]["metrics"]

    one, both = best(), best("--target", "first_token_s <= 0.045")
    assert one["first_token_s"] > 0.045 >= both["first_token_s"]
    assert both["tokens_per_s"] >= 100
    assert both["cost_usd"] > one["cost_usd"]


def test_a_board_of_ones_own_is_searched(prints, refuses, tmp_path):
    board = tmp_path / "mine.yaml"
    board.write_text("preset: asic_7nm_lpddr5x\nname: Mine\nstatic_w: 3.0\n")
    asked = ("search", *TEXT, *FEW, "--target", "tokens_per_s >= 100", "--boards")
    assert f"tinyllama_1b: {board}, " in prints(*asked, board)
    design = tmp_path / "design.yaml"
    design.write_text("board:\n  preset: asic_7nm\n")
    assert str(design) in prints(*asked, design)
    design.write_text("board:\n  preset: kv260\n  name: Mine\n")  # its price goes by its name
    assert "add a price to the board's file" in refuses(*asked, design)
    board.write_text("preset: asic_7nm_lpddr5x\nstatic: 3.0\n")
    assert "static" in refuses(*asked, board)
    assert "no-such.yaml" in refuses(*asked, "no-such.yaml")


def test_decisions_of_a_trace_are_taken_at_its_scope_and_rows(prints):
    asked = ("search", "--workload", "trace:vilau_8f_pair", "--boards", "asic_7nm_hbm3", *FEW)
    text = prints(*asked, "--target", "seconds_per_video <= 200")
    assert "Decisions: captured" in text
    assert "2 rows at once" in text


def test_what_misses_a_price_lacks_no_speed(call):
    asked = ("--boards", "kv260,u280", "--minimise", "ms_per_token", "--target", "cost_usd <= 300")
    axes = [word.replace("=1000", "=300") for word in FEW]
    out = call("search", *TEXT, *axes, *asked)[1]
    assert "The fastest tried with less ms_per_token: u280" in out
    assert "It lacks" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ms_per_token >= 10",), "did you mean ms_per_token <= 10?"),
        (("tokens_per_s >= 1", "--bits", "five"), "give whole numbers such as 4,8"),
        (("tokens_per_s >= 1", "--bits", "5"), "choose from 4, 8, 16"),
        (("tokens_per_s >= 1", "--axis", "machine.core=4"), "did you mean 'machine.cores'?"),
        (("tokens_per_s >= 1", "--target", "fps >= 2"), "no metric 'fps'"),
    ],
)
def test_wrong_questions_get_one_line(refuses, arguments, message):
    assert message in refuses(*CHIP, *arguments)


SOLVE = ("search", "asic_7nm_hbm3", "--set", "model.preset=tinyllama_1b", "--workload", "text:32+4")
CHANNELS = (
    "--solve",
    "board.memories.hbm.channels",
    "--axis",
    "board.memories.hbm.channels=1,2,4,8",
)


def test_the_value_that_is_needed_is_named_with_its_neighbours(prints, tmp_path):
    out = tmp_path / "answer.yaml"
    asked = (*SOLVE, *CHANNELS, "--target", "tokens_per_s >= 1500")
    text = prints(*asked, "--out", out)
    value = int(text.partition("channels = ")[2].split()[0])
    assert f"Next below: {value - 1} misses the target" in text
    assert load_design(str(out)).board.memories["hbm"].channels == value
    document = json.loads(prints(*asked, "--json"))
    assert document["answer"] == value
    assert document["assumed"].endswith(
        "share of peak bandwidth by the axis board.memories.hbm.channels; not calibrated."
    )
    assert document["assumed"] in " ".join(text.split())
    assert document["reached"] == [[value, 8]]


def test_a_value_that_no_design_reaches_has_a_status_of_its_own(call):
    status, text, _ = call(*SOLVE, *CHANNELS, "--target", "tokens_per_s >= 1e9")
    assert status == 3
    assert "No value of board.memories.hbm.channels tried reaches" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--solve", "machine.core", "--target", "tokens_per_s >= 1"), "machine.core"),
        (("--solve", "machine.cores"), "--solve needs a design in place of STUDY, and --target"),
        (("--target", "tokens_per_s >= 1"), "--set goes with --solve"),
        (
            (*CHANNELS, "--axis", "machine.cores=1", "--target", "tokens_per_s >= 1"),
            "is not the field",
        ),
    ],
)
def test_questions_for_a_value_that_make_no_sense_are_refused(call, arguments, message):
    status, out, err = call(*SOLVE, *arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_a_model_file_keeps_its_precision_unless_bits_are_asked_for(prints, refuses, tmp_path):
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "vocab_size": 256, "model_type": "llama"}
    section = {"quant_method": "gptq", "bits": 8, "group_size": 128}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**sizes, **heads, "quantization_config": section}))
    asked = ("search", "--workload", "text:64+4", "--model", config, *FEW)
    asked = (*asked, "--boards", "asic_7nm_lpddr5x", "--target", "tokens_per_s >= 100")
    text = prints(*asked)
    assert "Assumed: weights 8.188, head 16, activations 16, KV cache 16 bits (its" in text
    assert "Precision is W8.188 head 16 A16 KV16 (the model file's own)." in text
    assert "what it costs in quality" not in text
    document = json.loads(prints(*asked, "--bits", "4,file", "--json"))
    assert list(document)[1] == "assumed"
    assert document["assumed"].startswith("Assumed: weights 4.125, head 4.125, activations 8,")
    preset = ("search", *TEXT, *FEW, "--boards", "asic_7nm_lpddr5x", "--bits", "file")
    assert "is a preset, without a precision of its own" in refuses(
        *preset, "--target", "tokens_per_s >= 1"
    )
