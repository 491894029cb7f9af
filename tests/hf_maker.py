"""What the tests of ``carsim capture --hf`` share; needs no PyTorch."""

import json
import sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest

from carsim.cli import main

SMALL = ("--frames", 3, "--tokens-per-frame", 4)
IDS = ("--prompt-ids", "3 9 4 11", "--prompt-ids", "8 2", "--blank-ids", "1 5")


def refused(*arguments: object) -> str:
    """The one line in which a command is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["carsim", "capture", *map(str, arguments)])
        with redirect_stderr(StringIO()) as said, pytest.raises(SystemExit) as caught:
            main()
    error = said.getvalue()
    assert caught.value.code == 2
    assert error.count("\n") == 1, error
    return error


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
