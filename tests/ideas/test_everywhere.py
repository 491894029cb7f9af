"""Every idea of ``docs/ideas`` goes through all commands, on a toy design and a decoding of it.

An idea is taken as its user would: by ``--plugin``, in processes of its own.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import Ended, call
from explore_study import write_study
from trace_maker import make_meta

from carsim.base.plugins import load_plugin
from carsim.base.registry import Registry, outside_kinds
from carsim.decisions.attention import AttentionPolicy, Dense
from carsim.decisions.replay import FASTCAR, ReplayRule
from carsim.decisions.trace import Trace, save_trace
from carsim.decoder.structures import DecoderPolicy
from carsim.testing.decoder import Setting, decode_setting, make_config
from carsim.testing.replay import middle_tau

FOLDER = Path(__file__).parents[2] / "docs/ideas"
FILES = sorted(path.stem for path in FOLDER.glob("*.py"))
SETTING = Setting("two guidance pairs", (5, 2, 4, 2))
SMALL: dict[str, dict[str, int]] = {
    "far_cache": {"near": 6},
    "h2o": {"keep": 4, "sinks": 1},
    "tova": {"keep": 4, "sinks": 1},
}
"""Fields of policies, so that something is evicted or moved of so short a video."""

PAGES = ("toca", "h2o", "quantised_old", "interleaved", "joules_per_frame")
"""Kinds of which a page is made: one of each sort, as a page takes seconds."""


class Idea:
    """An idea, and its input files in a folder.

    Args:
        stem: Name of the file without its suffix.
        folder: Where a design, a trace and a study are written.
    """

    def __init__(self, stem: str, folder: Path) -> None:
        self.file = FOLDER / f"{stem}.py"
        load_plugin(self.file.absolute())
        ((self.role, self.name),) = outside_kinds()
        kind = Registry.roles[self.role][self.name]
        self.folder = folder
        self.changes: dict[str, Any] = {}
        self.far_memory = False
        rule: ReplayRule = FASTCAR
        attention: AttentionPolicy = Dense()
        if self.role == "replay rule":
            rule = kind()
        if self.role == "attention policy":
            attention = kind(**SMALL.get(stem, {}))
            self.changes["policy.attention"] = attention.model_dump()
            self.far_memory = attention.uses_far_memory
        if self.role == "schedule":
            self.changes["policy.schedule"] = self.name
        write_study(folder)
        if self.far_memory:
            toy = folder / "toy.yaml"
            placed = toy.read_text(encoding="utf-8").replace("kv: ps", "kv_far: ps_ddr, kv: ps")
            toy.write_text(placed, encoding="utf-8")
        trace = decoded_trace(rule, attention)
        save_trace(folder / "idea.npz", trace)

    def call(self, command: str, *arguments: object) -> Ended:
        """Run a command with the idea as a plugin; it must go well."""
        ended = call(command, *arguments, "--plugin", self.file)
        assert ended.finding == "", ended.finding
        assert ended.status == 0, ended.err
        return ended

    @property
    def settings(self) -> list[str]:
        """Options that put the idea into the design."""
        options = []
        for path, value in self.changes.items():
            options += ["--set", f"{path}={json.dumps(value)}"]
        return options


def decoded_trace(rule: ReplayRule, attention: AttentionPolicy) -> Trace:
    """A decoding of random weights, in which some rows replay in both layers."""
    tau = middle_tau(rule, SETTING)
    log = decode_setting(SETTING, DecoderPolicy((tau, tau), rule, attention=attention))
    config = make_config(tokens_per_frame=4, n_frames=SETTING.n_frames)
    meta = make_meta(
        decoded=config.geometry,
        n_frames=SETTING.n_frames,
        prompt_lengths=SETTING.prompts,
        tau=tau,
        rule=rule,
        attention=attention,
    )
    reads = {}
    if attention.records:
        reads["kv_tokens"] = log.tokens.astype(np.int32)
        reads["kv_runs"] = log.runs.astype(np.int32)
        reads["kv_held"] = log.held.astype(np.int32)
    return Trace(log.replay, log.tas, meta, **reads)


@pytest.fixture
def idea(request: pytest.FixtureRequest, tmp_path: Path) -> Idea:
    """The idea that a test names."""
    return Idea(request.param, tmp_path)


all_ideas = pytest.mark.parametrize("idea", FILES, indirect=True)


def chosen_row(out: Path) -> dict[str, Any]:
    """The row of a stored run that the design asks for."""
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    (row,) = [row for row in summary["policies"] if row["is_chosen"]]
    return dict(row)


def names_the_idea(idea: Idea, row: dict[str, Any]) -> bool:
    """A row was simulated under the idea."""
    if idea.role == "replay rule":
        return Registry.roles[idea.role][idea.name].label in row["policy"]
    if idea.role == "attention policy":
        return bool(row["attention"]["kind"] == idea.name)
    if idea.role == "schedule":
        return bool(row["schedule"] == idea.name)
    return idea.name in row


@all_ideas
def test_it_runs_at_both_fidelity_levels_and_in_worker_processes(idea: Idea) -> None:
    rows = []
    for fidelity in ("fluid", "tile"):
        out = idea.folder / fidelity
        options = ["--trace", idea.folder / "idea.npz", "--fidelity", fidelity, "--out", out]
        idea.call("run", idea.folder / "toy.yaml", *options, *idea.settings)
        rows.append(chosen_row(out))
        assert names_the_idea(idea, rows[-1])
        assert rows[-1]["replays"]
    solved, played = rows
    assert played["latency_s"] == pytest.approx(solved["latency_s"], rel=0.05)
    if idea.name in PAGES:
        page = idea.folder / "page.html"
        idea.call("report", idea.folder / "fluid", "--out", page)
        title = solved["policy"].split(" + ")[-1]
        title = {"metric": "joules per frame"}.get(idea.role, title)
        assert title in page.read_text(encoding="utf-8")

    axes: dict[str, Any] = {"machine.cores": [1, 2]}
    for path, value in idea.changes.items():
        usual = {"kind": "dense"} if path == "policy.attention" else "drs"
        axes[path] = [usual, value]
    study = write_study(idea.folder, axes=axes, traces=["idea.npz"])
    idea.call("sweep", study, "--out", idea.folder / "swept", "--workers", "2")
    points = pd.read_csv(idea.folder / "swept/points.csv")
    n_points = 2 * 2 ** len(idea.changes)
    assert points["status"].tolist() == n_points * ["ok"]
    # The last point is the design of the run.
    assert points["latency_s"].iloc[-1] == solved["latency_s"]
    if idea.role == "metric":
        assert points[idea.name].iloc[-1] == solved[idea.name]


@all_ideas
def test_it_runs_without_a_trace(idea: Idea) -> None:
    """Decisions are drawn; what a policy reads by the data is not, and is refused in one line."""
    workload = "video:3,prompt=4,replay=0.5"
    if idea.role == "replay rule":
        workload += f",rule={idea.name}"
    out = idea.folder / "stated"
    arguments = (idea.folder / "toy.yaml", "--workload", workload, "--out", out, *idea.settings)
    kind = Registry.roles[idea.role][idea.name]
    if getattr(kind, "records", False):
        ended = call("run", *arguments, "--plugin", idea.file)
        assert ended.status == 2
        assert "depends on the data; pass a trace that was captured under it" in ended.err
        return
    idea.call("run", *arguments)
    assert names_the_idea(idea, chosen_row(out))
