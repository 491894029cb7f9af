"""Recipes of checkpoints for tests; needs no PyTorch."""

import json
import sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from carsim.cli import main

IDS: dict[str, Any] = {"prompts": [[3, 9, 4, 11], [8, 2]], "guidance": {"blank": [1, 5]}}


def write_recipe(folder: Path, name: str = "mine", **changes: Any) -> Path:
    """A recipe beside the checkpoint ``tiny``; ``changes`` replace fields, ... takes one out."""
    fields = {
        **{"name": name, "output": f"{name}.npz", "weights": {"hf": "tiny"}, **IDS},
        **{"n_frames": 3, "tokens_per_frame": 4, "attention": {"kind": "dense"}},
        **{"seed": 2},
        **changes,
    }
    path = folder / f"{name}.yaml"
    kept = {key: value for key, value in fields.items() if value is not ...}
    path.write_text(yaml.safe_dump(kept), encoding="utf-8")
    return path


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
