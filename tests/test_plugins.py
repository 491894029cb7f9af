"""Kinds from a file: on the command line, in worker processes, in a store's identity."""

import json
import sys

import pytest
from commands import call
from explore_study import write_study

from carsim.base import plugins
from carsim.base.errors import InputError
from carsim.base.plugins import load_plugins, loaded_plugins
from carsim.base.registry import Registry
from carsim.explore.code import code_sha256
from carsim.hardware.schedule import SCHEDULES
from carsim.testing.__main__ import check_plugins

OWN = """
from carsim.hardware.schedule import SCHEDULES
from carsim.hardware.schedule.drs import Drs


class Mine(Drs):
    kind = "mine"
    label = "my own"


SCHEDULES.register(Mine())
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "_loaded", {})
    path = tmp_path / "mine.py"
    path.write_text(OWN, encoding="utf-8")
    yield path
    for registry in Registry.roles.values():
        for name in registry.outside:
            del registry[name]


def test_a_plugin_adds_a_kind_once_and_is_part_of_the_code(plugin):
    before = code_sha256()
    load_plugins([plugin, plugin])
    assert list(loaded_plugins()) == [str(plugin)]
    assert SCHEDULES["mine"].label == "my own"
    assert code_sha256() != before
    plugin.write_text(OWN + "# changed\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.py: has changed since it was loaded"):
        load_plugins([plugin])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (OWN.replace('"mine"', '"drs"'), "schedule 'drs': is a kind of carsim's own"),
        ("1 / 0", r"mine\.py: fails as it is loaded \(ZeroDivisionError: division by zero\)"),
        ("def", r"mine\.py: fails as it is loaded \(SyntaxError"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_one_line(plugin, source, message):
    plugin.write_text(source, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_plugins([plugin])
    assert not loaded_plugins()


def test_an_installed_kind_is_imported_when_it_is_named(tmp_path, monkeypatch):
    shapes: Registry[str] = Registry("shape", str.lower, ["Round"])
    module = type(sys)("test_plugins_registry")
    module.SHAPES = shapes  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "test_plugins_registry", module)
    (tmp_path / "some_kinds.py").write_text(
        "from test_plugins_registry import SHAPES\nSHAPES.register('Oval')\n", "utf-8"
    )
    info = tmp_path / "some_kinds-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-kinds\nVersion: 1\n", "utf-8")
    (info / "entry_points.txt").write_text("[carsim.kinds]\noval = some_kinds\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(shapes) == ["round"]
    assert shapes.find("oval", "shape") == "Oval"
    with pytest.raises(InputError, match="no shape 'oblong'; known are round, oval; a plugin may"):
        shapes.find("oblong", "shape")
    monkeypatch.setattr(plugins, "entry_points", None)  # nobody asks for that name again
    assert "oblong" not in shapes
    del Registry.roles["shape"]


EVERY = (
    OWN
    + """
from dataclasses import replace
from typing import ClassVar, Literal

from carsim.decisions.attention import ATTENTION, AttentionPolicy
from carsim.decisions.replay import RULES
from carsim.decisions.replay.periodic import Periodic
from carsim.hardware.mapping import MAPPINGS, Mapping
from carsim.hardware.memory import STANDARDS
from carsim.hardware.technology import TECHNOLOGIES, Fpga
from carsim.metrics import METRICS


class Columns(Mapping):
    kind, splits_attention, splits_mlp = "columns", False, True


class All(AttentionPolicy):
    label: ClassVar[str] = "all keys"
    kind: Literal["all"] = "all"


class Odd(Periodic):
    kind: Literal["odd"] = "odd"


class Fabric(Fpga):
    kind: Literal["fabric"] = "fabric"
    area_mm2: float


EXAMPLES = [Fabric(area_mm2=9.0), Odd(period=3)]
MAPPINGS.register(Columns())
ATTENTION.register(All)
RULES.register(Odd)
like = STANDARDS["HBM3-6400"]
STANDARDS.register(replace(like, name="HBM4-6400", family="HBM4", source="made up"))
TECHNOLOGIES.register(Fabric)
METRICS.register(replace(METRICS["busy"], name="busier"))
"""
)


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (("", ""), ""),
        (
            ('label = "my own"', 'label = "mine"\n    def dispatch_cycles(self, *_): return 7'),
            "FAIL schedule mine: dispatches: AssertionError: dispatch takes dispatch_cycles, 7",
        ),
        (
            ('"all keys"', '"all"\n    def reads_aligned(self, _): return 1 / 0'),
            "FAIL attention policy all: reads_what_it_says: ZeroDivisionError",
        ),
        (("EXAMPLES = [Fabric(area_mm2=9.0), ", "EXAMPLES = ["), "FAIL technology fabric: has no"),
    ],
)
def test_kinds_from_outside_are_held_to_the_contracts(plugin, capsys, change, broken):
    plugin.write_text(EVERY.replace(*change), encoding="utf-8")
    assert check_plugins([str(plugin)]) == bool(broken)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert [line for line in lines if not line.startswith("ok ")] == [
        line for line in lines if broken and line.startswith(broken)
    ]
    assert not broken or any(line.startswith(broken) for line in lines)


def test_commands_and_their_workers_load_it(plugin, tmp_path):
    study, out = write_study(tmp_path, axes={"policy.schedule": ["drs", "mine"]}), tmp_path / "out"
    toy = (tmp_path / "toy.yaml", "--trace", tmp_path / "toy.npz")
    refused = call("run", *toy, "--set", "policy.schedule=mine")
    assert refused.status == 2
    assert "no schedule 'mine'" in refused.err
    assert "--plugin" in refused.err
    sweep = ("sweep", study, "--out", out, "--plugin", plugin)
    done = call(*sweep, "--workers", "2")
    assert done.status == 0, done.err
    assert json.loads(call(*sweep, "--json").out)["evaluated"] == 0
    plugin.write_text(OWN + "# other\n", encoding="utf-8")
    other = call(*sweep)
    assert other.status == 2
    assert "was made by other code" in other.err
    assert "mine" in (out / "points.csv").read_text(encoding="utf-8")
