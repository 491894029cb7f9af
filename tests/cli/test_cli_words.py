"""Small words that everybody reads: counts, intervals, names that were misspelt."""

import pytest
from tiny import tiny_report, write_inputs

from carsim.base.errors import InputError
from carsim.cli import MOVED
from carsim.design import load_design, override
from carsim.report.screen import facts
from carsim.report.stored import stored

THINGS = ("guidance pairs", "tokens", "rows", "frames", "steps", "sequences", "layers", "cores")


def test_of_one_there_is_one(call, tmp_path):
    """A text of one token, one row, one pair: no output has the plural."""
    design = write_inputs(
        tmp_path, guidance_pairs=((0, 1),), prompt_lengths=(1, 1), prompt_tokens=1
    )
    one = ["--set", "policy.batch=1", "--set", "machine.cores=1", "--workload", "text:1+1"]
    one.append("--full")
    _, text, err = call("run", design[0], *one)
    assert err == ""
    _, video, _ = call("run", design[0], "--trace", design[1], "--set", "policy.batch=2")
    _, info, _ = call("trace", "info", design[1])
    printed = " ".join(f"{text} {video} {info}".split())
    for things in THINGS:
        assert f" 1 {things}" not in printed
    assert "text 1 token after a prompt of 1" in printed
    assert "2 rows, 1 guidance pair" in printed


def test_an_interval_without_width_has_no_brackets():
    level = [f"board.memories.ps_ddr.published_efficiency_{end}=null" for end in ("low", "high")]
    wide, narrow = stored(tiny_report()), stored(tiny_report(*level))
    assert "at the lowest bandwidth measured" in str([*facts(wide)])
    assert "at the lowest bandwidth measured" not in str([*facts(narrow)])


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("rum", "toy.yaml"), "run"),
        (("run", "zcu120"), "zcu102"),
        (("run", "toy.yaml", "--trace", "vilau_8"), "vilau_8f"),
        (("run", "toy.yaml", "--set", "policy.schedule=drss"), "drs"),
        (("config", "new", "--board", "zcu12", "--model", "tiny"), "zcu102"),
        (("run", "toy.yaml", "--trce", "x"), "--trace"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(
    refuses, toy, tmp_path, monkeypatch, arguments, meant
):
    monkeypatch.chdir(tmp_path)
    said = refuses(*arguments).lower()
    # Early versions of Click name possible options.
    assert meant in (said.partition("did you mean")[2] or said.partition("possible options")[2])


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_command_that_moved_says_how_it_is_written(prints, refuses, old, new):
    told = f"No such command '{old}'; it is now 'carsim {new}'; see 'carsim --help'"
    assert refuses(old, "anything") == f"carsim: {told}\n"
    prints(*(word for word in new.split() if word != "DIR"), "--help")


def test_a_chip_is_described_by_its_fields():
    chip = load_design("asic_28nm", ["board.technology.area_mm2=60", "board.technology.node=16nm"])
    assert chip.board.part == "16 nm, 60 mm2"
    assert override(chip, {"board.technology.area_mm2": 61.0}).board.part == "16 nm, 61 mm2"
    assert load_design("asic_28nm").board.part == "28 nm, 24.4 mm2"
    assert "24.4" not in chip.board.name + chip.description
    assert "28" not in chip.board.name
    assert override(chip, {"board.device": "mine"}).board.part == "mine"
    with pytest.raises(InputError, match="device: is missing; add it"):
        override(load_design("zcu102"), {"board.device": None})
