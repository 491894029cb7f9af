"""Surroundings in which a command cannot do its work: one clear line, whatever is wrong."""

import ctypes
import os
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

import pytest
from commands import Ended, call
from explore_study import write_study
from rich.console import Console

from carsim.base.text import CONTROL, Figure, Table
from carsim.cli.console import show

COMMANDS = {
    "help": ("--help",),
    "metrics": ("config", "metrics", "--json"),
    "run": ("run", "toy.yaml", "--trace", "toy.npz"),
    "run as JSON": ("run", "toy.yaml", "--trace", "toy.npz", "--json"),
    "sweep": ("sweep", "study.yaml", "--out", "out", "--workers", "0", "--json"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a toy, its trace and its study, in which commands run."""
    write_study(tmp_path, axes={"machine.cores": [1, 2]})
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(ended: Ended) -> str:
    """The one line of a command that is refused."""
    assert (ended.finding, ended.status) == ("", 2), ended
    return ended.err


@pytest.mark.parametrize("name", COMMANDS)
def test_output_that_cannot_be_written_is_one_line(folder, name):
    with Path("/dev/full").open("wb", buffering=0) as full:
        line = refusal(call(*COMMANDS[name], stdout=full.fileno()))
    cure = "(No space left on device); send it elsewhere, or make room\n"
    assert line == f"carsim: standard output: cannot be used {cure}"


@pytest.mark.parametrize("name", ["metrics", "run", "help"])
def test_output_that_nobody_reads_to_its_end_is_no_failure(folder, name):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0):
        ended = call(*COMMANDS[name], stdout=writer)
    assert (ended.err, ended.finding) == ("", "")


def test_a_terminal_that_lacks_letters_gets_others(folder):
    Path("toy.yaml").write_text(Path("toy.yaml").read_text().replace("a toy", "a toy 日本"))

    def narrow():
        sys.stdout.reconfigure(encoding="ascii")

    ended = call("config", "show", "toy.yaml", before=narrow)
    assert (ended.status, ended.finding) == (0, "")
    ended = call("run", "toy.yaml", "--trace", "toy.npz", "--full", before=narrow)
    assert (ended.status, ended.finding) == (0, "")
    assert "a toy ??" in ended.out


LONG = "a" * 300


def test_names_that_are_none_or_too_long_are_refused(folder):
    for arguments, place in (
        (("sweep", "study.yaml", "--out", ""), "argument 4: is empty; leave it out, or fill it in"),
        (("report", ""), "argument 2: is empty"),
        (("run", "toy.yaml", "--out", "a\udcff"), r"'a\udcff': is not UTF-8 text; rename"),
        (("run", "a\x1b[31mb\n\u2028"), r"a\x1b[31mb\n\u2028"),
        (("run", LONG), LONG),
        (("run", "toy.yaml", "--trace", LONG), LONG),
        (("sweep", "study.yaml", "--out", LONG), LONG),
        (("run", "toy.yaml", "--set", f"{LONG * 300}=1"), LONG),
    ):
        line = refusal(call(*arguments))
        assert place in line
        assert len(line) < 1100
    assert sorted(path.name for path in folder.iterdir()) == ["study.yaml", "toy.npz", "toy.yaml"]


READERS = (
    ("report", "out", "--front", "--objective", "latency_s", "--json"),
    ("compare", "ran", "toy.yaml", "--trace", "toy.npz"),
    ("trace", "info", "toy.npz"),
)
"""Commands that need nothing written."""


def without_rights():
    """Drop all capabilities: permissions of files then hold for the superuser, too."""
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, none) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
def test_readers_work_where_nothing_can_be_written(folder):
    """Folders and files are read-only; a store has a left-over journal, or has none."""
    sweep, run = COMMANDS["sweep"], (*COMMANDS["run"], "--out", "ran")
    assert [call(*arguments).status for arguments in (sweep, run)] == [0, 0]
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = listed(folder)
    with tempfile.TemporaryDirectory() as elsewhere:
        page = f"{elsewhere}/page.html"
        for arguments in (*READERS, ("report", "out", "--out", page)):
            ended = call(*arguments, before=without_rights)
            assert (ended.status, ended.finding) == (0, ""), ended
        assert Path(page).exists()
    for arguments in ((*READERS[0], "--out", "out"), ("report", "out"), sweep):
        assert "out" in refusal(call(*arguments, before=without_rights))
    assert listed(folder) == before
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)


def listed(folder):
    """All files of a folder, with their contents and the times at which they were written."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_a_working_directory_that_is_gone_is_named(folder):
    def go():
        Path("gone").mkdir()
        os.chdir("gone")
        Path("../gone").rmdir()

    study, toy, trace = (folder / name for name in ("study.yaml", "toy.yaml", "toy.npz"))
    line = refusal(call("run", toy, "--trace", trace, "--out", "x", before=go))
    assert line == (
        "carsim: the working directory: cannot be used (No such file or directory); "
        "change to one that exists\n"
    )
    refusal(call("sweep", study, "--out", folder / "out", "--workers", "2", before=go))
    refusal(call("run", "toy.yaml", before=go))
    assert call("run", toy, "--trace", trace, before=go).status == 0


def test_endless_files_are_refused_unread(folder):
    os.mkfifo("fifo")
    for name in ("fifo", "/dev/zero"):
        for arguments in (
            ("run", name),
            ("trace", "info", name),
            ("sweep", name, "--out", "out"),
            ("capture", name, "--out", "c.npz"),
        ):
            assert name in refusal(call(*arguments))


@pytest.mark.parametrize("when", ["click", "numpy"])
def test_a_command_interrupted_as_it_starts_says_no_more_than_that(folder, when):
    """Ctrl-C while a module is imported."""
    script = f"""
import runpy, signal, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == {when!r}:
            signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
sys.meta_path.insert(0, Finder)
sys.argv[1:] = {COMMANDS["run"]!r}
runpy.run_module("carsim", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr.strip() in ("", "carsim: interrupted; nothing was half-written")
    assert done.stdout == ""


def test_names_out_of_files_do_not_command_a_terminal():
    shown = StringIO()
    console = Console(force_terminal=True, file=shown, width=80, color_system=None)
    rows = (("clear \x1b[2J", Figure("1", 1.0)), ("b\x9b\u202e", "2"))
    show(console, ["name \x1b]0;title\x07", Table(("of\x1b[31m", "n"), rows)])
    assert not CONTROL.search(shown.getvalue())
    assert r"clear \x1b[2J" in shown.getvalue()
