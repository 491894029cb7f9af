"""Commands fit the terminal, are complete in a pipe, and say that they live if they take long."""

import re
from pathlib import Path

import numpy as np
import pytest
from explore_study import write_study
from tiny import write_inputs

from carsim.decisions.trace import load_trace, save_trace

GOALS = ["energy_per_video_j", "seconds_per_video", "energy_above_idle_per_video_j"]
GOALS += ["memory_gb_per_video", "average_power_w", "memory_utilisation", "mac_utilisation"]
COMMANDS = (
    "run toy.yaml --trace toy.npz --full",
    "run toy.yaml --trace toy.npz --out ran --overwrite",
    "compare toy.yaml toy.yaml --set-b machine.cores=1 --trace toy.npz",
    "report ran",
    "search study.yaml --out searched --points 4 --seed 0 --workers 0",
    "sweep study.yaml --out swept --workers 0",
    "report swept --front",
    "report swept --front " + " ".join(f"--objective {name}:min" for name in GOALS),
    "trace info toy.npz",
    "trace list toy.npz other_captured_under_a_long_name.npz",
    "config list --presets",
    "reproduce fastcar",
    *(f"{command} --help" for command in ("run", "report", "validate", "measure", "reproduce")),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a design, a study and traces."""
    folder = tmp_path_factory.mktemp("wide")
    toy = write_inputs(folder)[1]
    write_study(folder, objectives=["seconds_per_video", "energy_per_video_j", "dsp"])
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
        assert status == 0
        assert columns or not err  # a terminal has a bar on standard error
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out).splitlines()

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_is_not_too_narrow_and_a_pipe_has_its_numbers(lines, command):
    for made, by in (("ran", COMMANDS[1]), ("swept", COMMANDS[5])):
        if made in command and command != by and not Path(made).exists():
            lines(by)
    printed = lines(command, 80)
    assert printed
    assert max(map(len, printed)) <= 80
    assert "…" not in "".join(printed)
    if "--help" not in command:
        assert numbers(printed) <= numbers(lines(command))


def numbers(lines):
    """Numbers of an output, without those that depend on the time it took."""
    lasting = [line for line in lines if " of them now, at " not in line]
    return set(re.findall(r"[0-9]+(?:[.,][0-9]+)*", "\n".join(lasting)))


def test_a_pipe_is_plain_and_keeps_tables_whole(lines):
    """The first screen and texts are wrapped for people, tables stay whole for programs."""
    printed = lines("run toy.yaml --trace toy.npz")
    assert "\x1b" not in "".join(printed)
    assert max(map(len, printed)) <= 80
    full = lines("run toy.yaml --trace toy.npz --full")
    assert max(len(line) for line in full if line.startswith(" latency of a batch [s]")) > 80
    assert max(len(line) for line in full if line.startswith("- ")) <= 80
    assert max(map(len, lines("run toy.yaml --trace toy.npz", 120))) <= 120
    assert any(load_trace("toy.npz").sha256 in line for line in lines("trace info toy.npz"))


def test_a_list_skips_what_is_no_trace(call, refuses, folder):
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
    assert "make a trace with 'carsim capture'" in refuses("trace", "list", codebook)
