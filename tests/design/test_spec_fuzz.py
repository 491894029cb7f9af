"""Any design file, however mangled, loads or is refused in one line that names a place."""

import json
import random
from pathlib import Path

import pytest
import yaml
from fuzz import ODD, spoilt, spoilt_text, written
from strategies import raw_design

from carsim.base.errors import InputError
from carsim.cost.fit import check_fit
from carsim.design import configs_folder, load_design
from carsim.machine.hardware import Hardware
from carsim.workload.geometry import Video

SHIPPED = (configs_folder() / "zcu102.yaml").read_text(encoding="utf-8")
ATTENTION = {"kind": "streaming", "sinks": 1, "window": 8}
FULL = json.loads(json.dumps(raw_design()))
FULL["policy"] |= {"tau": [1.0, 2.0], "attention": ATTENTION}
FULL["model"]["weights"] = {"bits": 4, "group": 128, "scale_bits": 16}
PATHS = ("machine.cores", "policy.tau", "policy.attention.window", "board", "model.weights")
PATHS += ("\n", "")


def check(path: Path, *overrides: str) -> None:
    refused = None
    try:
        design = load_design(str(path), overrides)
        # What is accepted must also be of use, as far as that does not depend on a trace.
        assert all(way.rate > 0 for way in Hardware(design).paths)
        check_fit(design, Video(2, 16, 5))
    except InputError as error:
        refused = error
    if refused is not None:
        places = (f"{path}:", f"{path} with `overrides`", "`overrides`", "$.board.memories")
        assert str(refused).isprintable()
        assert str(refused).startswith(places)
        assert refused.problem
        assert refused.cure


def test_what_is_mangled_loads_as_it_is(tmp_path: Path) -> None:
    written(tmp_path / "d.yaml", FULL)
    assert load_design(str(tmp_path / "d.yaml")).policy.tau == (1.0, 2.0)


@pytest.mark.parametrize("how", ["document", "text", "override"])
def test_a_mangled_design(how: str, tmp_path: Path) -> None:
    path, rng = tmp_path / "d.yaml", random.Random(how)
    for _ in range(300):
        if how == "text":
            path.write_text(spoilt_text(SHIPPED, rng), encoding="utf-8", errors="replace")
            check(path)
        elif how == "document":
            written(path, spoilt(FULL, rng))
            check(path)
        else:
            path.write_text(yaml.safe_dump(FULL), encoding="utf-8")
            value = f"{rng.choice(ODD)}"[:1000].encode("utf-8", "replace").decode()
            check(path, f"{rng.choice(PATHS)}{rng.choice(('=', '=', ' = ', ''))}{value}")
