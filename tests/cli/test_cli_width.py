"""Commands fit the terminal, are complete in a pipe, and say that they live if they take long."""

import re
from collections import Counter
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from explore_study import write_study
from tiny import write_inputs
from trace_maker import make_trace

from carsim.cli import console
from carsim.cli.console import progress, signs_of_life
from carsim.cli.sweep import sweep_progress
from carsim.decisions.trace import load_trace, save_trace
from carsim.explore.sweep import Progress

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "c3_mha_r50_f32.npz"
PUBLISHED = Path(__file__).parents[2] / "configs" / "published" / "apex_k7_llama1b.yaml"
GOALS = [
    "energy_per_video_j",
    "seconds_per_video",
    "energy_above_idle_per_video_j",
    "memory_gb_per_video",
    "average_power_w",
    "memory_utilisation",
    "mac_utilisation",
]
COMMANDS = (
    "run toy.yaml --trace toy.npz",
    "run toy.yaml --trace toy.npz --out ran --overwrite",
    "compare toy.yaml toy.yaml --set-b machine.cores=1 --trace toy.npz",
    "config metrics",
    "report ran",
    "search study.yaml --out searched --points 4 --seed 0 --workers 0",
    "sweep study.yaml --out swept --workers 0",
    "report swept --front",
    "report swept --front " + " ".join(f"--objective {name}:min" for name in GOALS),
    "trace info toy.npz",
    "trace list toy.npz other_captured_under_a_long_name.npz",
    "trace compare toy.npz other_captured_under_a_long_name.npz",
    "trace synthesize --ratio 0.5 --out drawn.npz --overwrite",
    "config list",
    "config dram --list",
    "config dram --standard DDR4-2400",
    "config array --rows 16 --cols 16 --m 1 --k 4096 --n 4096",
    f"validate golden {GOLDEN}",
    f"validate boards --design {PUBLISHED} --context 45:112",
    *(
        f"{command} --help"
        for command in ("run", "sweep", "search", "report", "validate", "trace list", "capture")
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a design, a study and traces."""
    folder = tmp_path_factory.mktemp("wide")
    toy = write_inputs(folder)[1]
    goals = ["seconds_per_video", "energy_per_video_j", "dsp"]
    write_study(folder, objectives=goals)
    save_trace(folder / "other_captured_under_a_long_name.npz", load_trace(toy))
    return folder


@pytest.fixture
def lines(call, folder, monkeypatch):
    """Lines that a command prints, in a terminal of so many columns or into a pipe."""
    monkeypatch.chdir(folder)

    def run(command, columns=None):
        with monkeypatch.context() as changed:
            if columns:
                changed.setenv("FORCE_COLOR", "1")
                changed.setenv("COLUMNS", str(columns))
            status, out, err = call(*command.split())
        assert status == 0 or "trace compare" in command
        assert columns or not err  # a terminal has a bar on standard error
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out).splitlines()

    return run


def prepare(lines, command):
    """What a command needs of others."""
    for made, by in (("ran", COMMANDS[1]), ("swept", COMMANDS[6])):
        if made in command and command != by and not Path(made).exists():
            lines(by)


@pytest.mark.parametrize(
    ("command", "columns"), [*((each, 80) for each in COMMANDS), (COMMANDS[0], 120)]
)
def test_no_line_is_wider_than_the_terminal(lines, command, columns):
    prepare(lines, command)
    printed = lines(command, columns)
    assert printed
    assert max(map(len, printed)) <= columns
    assert "…" not in "".join(printed)


@pytest.mark.parametrize("command", [each for each in COMMANDS if "--help" not in each])
def test_a_pipe_gets_every_number_that_a_terminal_shows(lines, command):
    prepare(lines, command)
    piped, shown = (numbers(lines(command, columns)) for columns in (None, 80))
    assert shown <= piped


def numbers(lines):
    """Numbers of an output, without those that depend on the time it took."""
    lasting = [line for line in lines if " of them now, in " not in line]
    return set(re.findall(r"[0-9]+(?:[.,][0-9]+)*", "\n".join(lasting)))


def test_a_pipe_is_plain_and_unwrapped(lines):
    prepare(lines, "ran")
    printed = lines("run toy.yaml --trace toy.npz")
    assert "\x1b" not in "".join(printed)
    assert max(map(len, printed)) > 200, "an answer is one line"
    info = lines("trace info toy.npz")
    assert any(load_trace("toy.npz").sha256 in line for line in info)


def test_a_front_shows_all_columns_in_blocks_on_a_terminal_and_in_lines_in_a_pipe(lines):
    prepare(lines, "swept")
    command = "report swept --front " + " ".join(f"--objective {name}:min" for name in GOALS)
    piped, narrow = lines(command), lines(command, 80)
    heads = next(line for line in piped if "mac_utilisation" in line).split()
    assert heads == ["cores", "tau", "schedule", *GOALS]
    assert numbers(piped) == numbers(narrow), "no column is left out"
    marked = sum(line.split()[:1] == ["knee"] for line in narrow)
    assert marked > 1, "the premise: several blocks, each with its knee"


def test_clips_are_named_by_what_is_known_of_them(lines, folder):
    """A checkpoint's clips are named by their prompts, and nobody reads a dictionary."""
    clips = [{"prompt": "a cat", "kept_tokens": 0.5}, {"photo": "coins", "speed": 2.0, "seed": 3}]
    save_trace(folder / "clips.npz", make_trace(content={"clips": clips}), overwrite=True)
    text = "\n".join(lines("trace info clips.npz"))
    assert "a cat" in text
    assert "coins 2 " in text
    assert "{" not in text


def test_a_list_skips_what_is_no_trace(call, folder):
    """All archives of a folder may be named, though a codebook lies among them."""
    np.savez(folder / "codebook.npz", codes=np.zeros(3))
    toy, codebook = folder / "toy.npz", folder / "codebook.npz"
    for more in ([], ["--csv"]):
        status, out, err = call("trace", "list", codebook, toy, *more)
        assert (status, "toy.npz" in out, "codebook" in out) == (0, True, False)
        assert err == (
            f"carsim: skipped: {codebook}: not a trace: holds arrays ['codes'], a trace holds "
            "['meta', 'replay', 'tas']\n"
        )
    status, out, err = call("trace", "list", codebook)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "make a trace with 'carsim capture'" in err


def test_a_bare_array_is_that_of_a_shipped_design(lines):
    assert lines("config array") == lines(
        "config array --rows 16 --cols 16 --m 1 --k 4096 --n 4096"
    )


def test_a_long_command_into_a_pipe_says_that_it_lives(monkeypatch, capsys):
    monkeypatch.setattr(console, "FIRST_SIGN_S", 0.02)
    monkeypatch.setattr(console, "NEXT_SIGN_S", 0.02)

    def heard(doing):
        """Wait until it says what it is doing."""
        while not (said := capsys.readouterr()).err:
            sleep(0.01)
        assert said.out == ""
        assert re.fullmatch(rf"(carsim: {doing} \(\d+ s so far\)\n)+", said.err)

    with progress("simulating") as tell:
        heard("simulating")
        tell("writing figures")
        while "writing figures" not in capsys.readouterr().err:
            sleep(0.01)
        heard("writing figures")
    capsys.readouterr()
    sleep(0.05)
    assert capsys.readouterr().err == "", "it ends with the command"
    with sweep_progress("a study") as tell_points:
        tell_points(Progress(400, 123, 1.0, Counter(ok=123)))
        while "carsim: a study: 123 of 400 (" not in capsys.readouterr().err:
            sleep(0.01)


def test_a_short_command_is_silent(capsys):
    with signs_of_life("simulating"):
        pass
    assert capsys.readouterr() == ("", "")
