"""The command line as a function, and a toy to call it on."""

import sys

import pytest
from tiny import write_inputs

from carsim.cli import main


@pytest.fixture
def call(monkeypatch, capsys):
    """Run ``carsim`` with arguments; returns status, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["carsim", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def prints(call):
    """Standard output of a command that succeeds without another word."""

    def run(*arguments):
        status, out, err = call(*arguments)
        assert (status, err) == (0, "")
        return out

    return run


@pytest.fixture
def refuses(call):
    """The one line with which a command is refused before it has printed anything."""

    def run(*arguments):
        status, out, err = call(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("carsim: ")
        return err

    return run


@pytest.fixture
def toy(tmp_path):
    """Paths of a design and of a trace."""
    return write_inputs(tmp_path)
