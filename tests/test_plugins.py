"""Kinds from a file: on the command line, in worker processes, in a store's identity."""

import json
import sys
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
import pytest
from commands import call
from explore_study import make_study, write_study

from carsim.base import plugins
from carsim.base.errors import InputError, PluginError
from carsim.base.plugins import load_plugins, loaded_plugins, plugin_gap
from carsim.base.registry import Registry
from carsim.decisions.attention import ATTENTION, Dense, KvReads, SelectionUnit, SideWork
from carsim.decisions.attention.base import ForwardShape
from carsim.decisions.replay import RULES, MachineShape, RuleWork, Seen
from carsim.decisions.replay.periodic import Periodic
from carsim.design import load_design
from carsim.explore.code import code_sha256
from carsim.explore.points import make_points
from carsim.hardware.schedule import SCHEDULES
from carsim.hardware.technology import TECHNOLOGIES, Fpga, Resources
from carsim.metrics import METRICS
from carsim.testing.__main__ import check_plugins
from carsim.testing.machines import small_report

OWN = """
from carsim.hardware.schedule import SCHEDULES
from carsim.hardware.schedule.drs import Drs


class Mine(Drs):
    kind = "mine"
    label = "my own"


SCHEDULES.register(Mine())
"""

PATHS = """
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from carsim.decisions.attention import ATTENTION, AttentionPolicy
from carsim.program.program import skip
from carsim.program.skips import SKIPS, Skip


class Some(AttentionPolicy):
    label: ClassVar[str] = "some keys"
    kind: Literal["some"] = "some"
    every: Annotated[int, Field(ge=2)] = 4


class Both(Skip):
    label: ClassVar[str] = "attention and MLP, from outside"
    kind: Literal["both"] = "both"

    def mark(self, layer, number):
        return skip(layer, "attention", "output", "mlp", holds=["output", "mlp"])


ATTENTION.register(Some)
SKIPS.register(Both)
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
        (
            PATHS.replace('Literal["both"]', 'Literal["all"]'),
            "Both 'both': its field `kind` takes 'all' alone; write kind: Literal",
        ),
        ("1 / 0", r"mine\.py: fails as it is loaded \(ZeroDivisionError: division by zero\)"),
        ("def", r"mine\.py: fails as it is loaded \(SyntaxError"),
        ("import sys\nsys.exit(0)", r"mine\.py: fails as it is loaded \(SystemExit: 0\); run"),
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
hbm4 = replace(like.family, name="HBM4")
STANDARDS.register(replace(like, name="HBM4-6400", family=hbm4, source="made up"))
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
            "FAIL attention policy all: reads_what_it_says: reads_aligned() fails (Zero",
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
    assert "was made with another version of the plugin mine.py" in other.err
    without = call("sweep", write_study(tmp_path), "--out", out)
    assert (
        "was made with the plugin mine.py, which is not loaded; add --plugin mine.py" in without.err
    )
    assert "mine" in (out / "points.csv").read_text(encoding="utf-8")


def test_a_study_sets_kinds_and_their_fields_by_path(plugin, tmp_path):
    plugin.write_text(PATHS, encoding="utf-8")
    load_plugins([plugin])
    study = make_study(
        tmp_path,
        set={"policy.skip.kind": "both", "machine.decision_at": "q"},
        axes={"policy.attention.kind": ["some"], "policy.attention.every": [2, 3]},
    )
    assert [point.values["policy.attention.every"] for point in make_points(study)] == [2, 3]
    axes = {"policy.skip.kind": ["mlp", "both"]}
    out = tmp_path / "out"
    sweep = ("sweep", write_study(tmp_path, axes=axes, set={"machine.decision_at": "q"}))
    done = call(*sweep, "--out", out, "--plugin", plugin, "--workers", "0")
    assert done.status == 0, done.err
    rows = pd.read_csv(out / "points.csv")
    assert rows["policy.skip.kind"].tolist() == ["mlp", "both"]
    assert rows.status.tolist() == ["ok", "ok"]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"policy.skip.kind": ["mlp", "bth"]}, "no skip 'bth'; did you mean 'both'? known are mlp"),
        ({"policy.skip.kind": [3]}, "no skip 3; known are mlp"),
        ({"policy.attention.every": [1]}, "should be greater than or equal to 2, got 1"),
        ({"board.technology.kind": ["fgpa"]}, "no technology 'fgpa'; did you mean 'fpga'? known"),
    ],
)
def test_a_study_is_told_of_kinds_that_nobody_added(plugin, tmp_path, axes, message):
    plugin.write_text(PATHS, encoding="utf-8")
    load_plugins([plugin])
    (path,) = axes
    with pytest.raises(InputError) as refused:
        make_study(tmp_path, axes=axes)
    assert f"$.axes.{path}: {message}" in str(refused.value)


def test_a_study_names_an_installed_kind_by_path(tmp_path, monkeypatch, plugin):
    (tmp_path / "installed_paths.py").write_text(PATHS, "utf-8")
    info = tmp_path / "installed_paths-1.dist-info"
    info.mkdir()
    metadata = "Metadata-Version: 2.1\nName: installed-paths\nVersion: 1\n"
    (info / "METADATA").write_text(metadata, "utf-8")
    (info / "entry_points.txt").write_text("[carsim.kinds]\nsome = installed_paths\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.load_named.cache_clear()
    axes = {"policy.attention.every": [2, 3], "policy.attention.kind": ["some"]}
    assert len(make_points(make_study(tmp_path, axes=axes))) == 2


@pytest.fixture
def paths_plugin(plugin, tmp_path, monkeypatch):
    """A plugin with kinds of two roles, named from its folder, beside a study of the toy."""
    plugin.write_text(PATHS, encoding="utf-8")
    write_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    return plugin.name


def test_commands_that_a_run_prints_name_its_plugin(paths_plugin):
    toy = ("run", "toy.yaml", "--trace", "toy.npz", "--set", "machine.decision_at=q")
    skips = (*toy, "--set", "policy.skip.kind=both", "--plugin", paths_plugin)
    first = " ".join(call(*skips).out.split())
    assert "--plugin mine.py --out first carsim explain first --plugin mine.py" in first
    stored = call(*skips, "--out", "ran")
    lines = [line.strip() for line in stored.out.splitlines()]
    named = [f"carsim {command} ran --plugin mine.py" for command in ("explain", "report", "run")]
    assert [line.removeprefix("next").strip() for line in lines if "ran --plugin" in line] == named
    assert call(*named[0].split()[1:]).status == 0
    for command in named:
        without = call(*command.split()[1:3])
        assert without.status == 2
        problem = "summary.json: was made with the plugin mine.py, which is not loaded; "
        assert without.err.endswith(f"{problem}add --plugin mine.py\n")


def test_commands_that_a_front_prints_name_its_plugin(paths_plugin, tmp_path):
    study = write_study(
        tmp_path,
        set={"machine.decision_at": "q"},
        axes={"policy.skip.kind": ["both"], "machine.cores": [1, 2]},
        objectives={"seconds_per_video": "min"},
    )
    sweep = ("sweep", study, "--out", "out", "--front-only", "--workers", "0")
    lines = call(*sweep, "--plugin", paths_plugin).out.splitlines()
    front, verify = (line.rsplit(": ", 1)[1].split()[1:] for line in lines[-2:])
    assert call(*verify).status == 0
    shown = call(*front).out
    assert "which is not loaded" not in shown
    command = shown.partition("in the folder of the study:\n")[2].replace("\\\n", "").splitlines()
    assert call(*command[0].split()[1:]).status == 0
    shown = call("report", "out", "--front").out
    assert "with the plugin mine.py, which is not loaded; add --plugin mine.py" in shown
    assert "--plugin mine.py" in shown.partition("in the folder of the study:\n")[2]
    without = call("report", "out", "--verify")
    assert without.status == 2
    assert "was made with the plugin mine.py, which is not loaded; add --plugin" in without.err


def test_plugins_of_a_result_are_compared_with_those_that_are_loaded(plugin):
    assert plugin_gap({}) is None
    load_plugins([plugin])
    digest = loaded_plugins()[str(plugin)]
    assert plugin_gap({"mine.py": digest}, exactly=True) is None
    assert plugin_gap({"mine.py": "0"}) is None
    for recorded, problem in (
        ({"mine.py": "0"}, "was made with another version of the plugin mine.py"),
        ({}, "was made without the plugin mine.py, which is loaded"),
        ({"a.py": "0", "b.py": "1"}, "was made with the plugins a.py, b.py, which are not loaded"),
    ):
        assert plugin_gap(recorded, exactly=True).problem == problem


def schedule_with(body: str) -> str:
    """The plugin with a body of ``assign`` before the usual one, in four spaces more."""
    method = "def assign(self, computing, cores):"
    usual = "return super().assign(computing, cores)"
    label = '    label = "my own"\n'
    return OWN.replace(label, f"{label}\n    {method}\n        {body}\n        {usual}\n")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "assert cores != 2, 'no luck'",
            "assign() fails (AssertionError: no luck) in line 11; mend it",
        ),
        (
            "if cores == 2: raise SystemExit(0)",
            "assign() fails (SystemExit: 0) in line 11; mend it",
        ),
        ("if cores == 2: return computing + 5", "gives a core to one that replays; mend it"),
    ],
)
def test_a_point_whose_plugin_fails_is_a_row(plugin, tmp_path, body, reason):
    plugin.write_text(schedule_with(body), encoding="utf-8")
    axes = {"policy.schedule": ["drs", "mine"], "machine.cores": [1, 2]}
    sweep = ("sweep", write_study(tmp_path, axes=axes), "--out", tmp_path / "out")
    done = call(*sweep, "--plugin", plugin, "--workers", "0")
    assert (done.status, done.err) == (1, "")
    assert "Failed most often (1 point): schedule 'mine' of mine.py: assign() " in done.out
    rows = pd.read_csv(tmp_path / "out" / "points.csv")
    assert rows.status.tolist() == ["ok", "ok", "ok", "failed"]
    assert reason in rows.reason.iloc[3]


def test_a_run_whose_plugin_fails_is_one_line(plugin, tmp_path):
    write_study(tmp_path)
    plugin.write_text(schedule_with("1 / 0"), encoding="utf-8")
    run = ("run", tmp_path / "toy.yaml", "--trace", tmp_path / "toy.npz", "--plugin", plugin)
    done = call(*run, "--set", "policy.schedule=mine")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "schedule 'mine' of mine.py: assign() fails (ZeroDivisionError: division" in done.err


def test_a_plugin_that_fails_in_workers_alone_is_told_once(plugin, tmp_path):
    only_in_workers = "import multiprocessing\nassert multiprocessing.parent_process() is None\n"
    plugin.write_text(only_in_workers + OWN, encoding="utf-8")
    study, out = write_study(tmp_path), tmp_path / "out"
    done = call("sweep", study, "--out", out, "--plugin", plugin, "--workers", "2")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "a worker process: cannot start: " in done.err
    assert "mine.py: fails as it is loaded (AssertionError)" in done.err


CONTEXT = np.array([5, 9])
FORWARDS = ForwardShape(queries=9, n_heads=2, n_kv_heads=2, head_dim=4)


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("reads", KvReads(-CONTEXT, CONTEXT), "reads() gives -5 keys at a context of 5"),
        ("reads", KvReads(10 * CONTEXT, CONTEXT), "reads() gives 50 keys at a context of 5"),
        ("reads", KvReads(CONTEXT / 2, CONTEXT), "reads() gives keys that are no whole numbers"),
        ("reads", KvReads(CONTEXT[:1], CONTEXT), "gives keys of shape (1,) for contexts of shape"),
        ("reads", KvReads(CONTEXT - 1, CONTEXT), "reads() gives more runs than keys"),
        ("reads", None, "reads() gives NoneType, which is not what its contract says"),
        ("held", CONTEXT + 1, "held() gives 6 tokens at a context of 5"),
        ("keys_kept", CONTEXT + 1, "keys_kept() gives 6 keys at a context of 5"),
        ("reads_aligned", 1, "reads_aligned() gives 1, no truth value"),
        ("side_work", SideWork(macs=-1), "side_work() gives macs of -1, less than 0"),
        ("frame_work", SideWork(macs=0.5), "frame_work() gives macs that are no whole numbers"),
        ("side_bytes", CONTEXT[:1], "side_bytes() gives bytes_read of shape (1,) for contexts"),
        ("unit", SelectionUnit(buffer_bytes=-2), "unit() gives buffer_bytes of -2: a whole number"),
        (
            "forward_keys",
            np.ones((2, 9, 9), bool),
            "forward_keys() gives bool of shape (2, 9, 9), expected one count of keys for each "
            "forward, shape (2,); of a mask, give the mean number of True in its rows",
        ),
        ("forward_keys", CONTEXT / 2, "gives keys that are no whole numbers (float64)"),
        ("forward_keys", CONTEXT + 1, "gives 6 of 5 keys: 1 to all of them can be"),
        ("forward_held", CONTEXT[:1], "gives int64 of shape (1,), expected one count of keys"),
        ("forward_work", SideWork(macs=CONTEXT[:1]), "gives macs of shape (1,) for contexts of"),
        ("forward_side_bytes", -CONTEXT, "gives bytes_read of -9, less than 0"),
        ("cross_keys", np.ones(9, bool), "of 9 prompt tokens: 1 to all of them can be"),
        ("cross_work", SideWork(element_ops=0.5), "gives element_ops that are no whole numbers"),
    ],
)
def test_answers_of_an_attention_policy_are_checked(plugin, method, answer, words):
    class Wrong(Dense):
        label: ClassVar[str] = "wrong"
        kind: Literal["wrong"] = "wrong"  # type: ignore[assignment]

    setattr(Wrong, method, lambda self, *arguments: answer)
    ATTENTION.register(Wrong)
    arguments = {
        "reads_aligned": [3],
        "unit": [],
        "keys_kept": [CONTEXT, 3],
        "side_bytes": [CONTEXT, 1, 1],
        "forward_keys": [9, CONTEXT, np.zeros(2)],
        "forward_held": [9, CONTEXT],
        "forward_work": [FORWARDS, CONTEXT],
        "forward_side_bytes": [FORWARDS, CONTEXT],
        "cross_keys": [9],
        "cross_work": [FORWARDS, 9],
    }
    with pytest.raises(PluginError) as caught:
        getattr(Wrong(), method)(*arguments.get(method, [CONTEXT]))
    assert words.removeprefix(f"{method}() ") in caught.value.problem
    assert caught.value.place.startswith("attention policy 'wrong' of test_plugins.py")
    assert Dense().reads(CONTEXT).tokens is CONTEXT  # the package's own class stays as it was


ROW = np.zeros((1, 4, 2))
SEEN = Seen(ROW, ROW, lambda ago: ROW, np.zeros((1, 8)), 3)
SHAPE = MachineShape(4, 2, 2, 8, Fraction(16))


@pytest.mark.parametrize(
    ("method", "answer", "arguments", "words"),
    [
        ("score", np.array([np.nan]), [None, 0, 0, SEEN], "gives a score that is no finite number"),
        ("score", np.zeros(2), [None, 0, 0, SEEN], "gives scores of shape (2,) for 1 rows"),
        ("work", RuleWork(vector_ops=-1), [SHAPE], "gives vector_ops of -1: a whole number"),
        ("key_distance", -4, [3], "gives -4: a whole number of tokens, 0 or more, can be"),
        ("at_width", 5, [8, 8], "gives int, no rule"),
    ],
)
def test_answers_of_a_rule_are_checked(plugin, method, answer, arguments, words):
    class Wrong(Periodic):
        kind: Literal["wrong"] = "wrong"  # type: ignore[assignment]

    setattr(Wrong, method, lambda self, *arguments: answer)
    RULES.register(Wrong)
    with pytest.raises(PluginError) as caught:
        getattr(Wrong(period=3), method)(*arguments)
    assert words in caught.value.problem


def test_figures_of_a_metric_are_checked(plugin):
    METRICS.register(replace(METRICS["busy"], name="listed", value=lambda row, run: [1.0]))
    report = small_report()
    with pytest.raises(PluginError, match=r"metric 'listed' of test_plugins\.py: .* gives list: a"):
        METRICS["listed"].of(report.rows[0], report)


def test_answers_of_a_technology_are_checked(plugin):
    class Wrong(Fpga):
        kind: Literal["wrong"] = "wrong"  # type: ignore[assignment]

        def resources(self, design):
            return Resources({"core": {"dsp": float("nan")}})

    TECHNOLOGIES.register(Wrong)
    with pytest.raises(PluginError, match=r"resources\(\) gives dsp of core of nan: a finite num"):
        Wrong().resources(load_design("u280"))
