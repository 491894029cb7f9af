"""Policies that choose keys by the data: what they ask of the machine, and when."""

import numpy as np
import pytest
from ideal import block_of, built
from policy_maker import draft_trace
from tiny import resources, tiny_design

from carsim.cost.capacity import contents
from carsim.decisions.attention import Draft, Streaming
from carsim.design import load_design
from carsim.hardware.technology.fpga import CHOICE
from carsim.machine.cases import Cases, with_usual_runs
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.program.reads import Reads
from carsim.runs.pipeline import run
from carsim.workload.geometry import Video

HALF = Draft(block_tokens=4, keep=0.5)


def test_bytes_read_are_kept_keys_and_values_and_the_policys_own() -> None:
    own = "policy.attention={kind: draft, block_tokens: 4, keep: 0.5}"
    trace = draft_trace(HALF)
    totals = run(tiny_design(own), [trace]).row("draft/static").simulation.totals["attention"]
    # Every row is charged with the mean of all, rounded up. A key or value of a token has 64
    # elements of a byte, and one of each is written. Of every block of the context, that of the
    # longest prompt, 4 heads of 16 elements of 8 bits with a scale of 16 are read; a quarter of
    # one is written.
    means = np.ceil(trace.kv_tokens.mean(axis=(2, 3)))  # [S, L]
    blocks = sum((5 + step + 1) // 4 for step in range(48))
    of_row = 2 * 64 * (means.sum() + 48 * 4) + 4 * (blocks * 4 * 18 + 48 * 18)
    assert sum(totals.dram_bytes) == 4 * of_row


def test_reads_of_fewer_heads_than_the_machines_are_called_head_mapped() -> None:
    """Those alone that run as they were recorded; what follows from the context has all heads."""
    own = "policy.attention={kind: draft, block_tokens: 4, keep: 0.5}"
    trace = draft_trace(HALF)
    more = tiny_design(own, "model.body.n_heads=8", "model.body.n_kv_heads=8")
    labels = {row.variant.key: row.batches.label for row in run(more, [trace]).rows}
    assert any("draft" in key for key in labels)
    for key, label in labels.items():
        mapped = label.endswith("; head-mapped: 4 key heads stand for 8")
        assert mapped == ("draft" in key or key == "bound"), key
    alike = run(tiny_design(own), [trace])
    assert not any("head-mapped" in row.batches.label for row in alike.rows)


def test_the_capacity_counts_pooled_keys() -> None:
    design, video = tiny_design("policy.attention.kind=draft"), Video(3, 16, 5)
    held = {content.content: content.nbytes for content in contents(design, video)}
    assert held["data of the policy"] == 4 * 4 * 4 * 4 * (16 + 2)  # batch, layers, blocks, heads
    assert held["KV cache"] == 4 * 4 * 2 * 64 * 53


@pytest.mark.parametrize("layout", ["separate", "interleaved"])
def test_a_head_fetches_runs_of_its_own_keys(layout: str) -> None:
    """Where heads choose alike, the keys of a token lie side by side; K and V do if interleaved."""
    hw = Hardware(load_design("zcu102", [f"machine.kv_layout={layout}"]))
    path = hw.path_of[2]  # type: ignore[index]
    twice = 1 + (layout == "interleaved")
    cases = Reads(np.array([512]), np.array([32]), np.array([1024]))
    for policy, chunk in ((HALF, 1024 * twice), (Streaming(), 32768 * twice)):
        *_, step = built(hw, "attention", reads=cases._replace(policy=policy)).steps
        assert step.rate == hw.gather_rate(path, chunk)
    one_run = cases._replace(runs=np.array([1]), policy=HALF)
    *_, step = built(hw, "attention", reads=one_run).steps
    assert step.rate == hw.paths[path].rate > hw.gather_rate(path, 64)


def test_runs_of_one_length_class_are_one_phase() -> None:
    phases = Phases(Hardware(load_design("zcu102")))
    tokens, runs = (each.ravel() for each in np.meshgrid([160, 512, 528], np.arange(1, 60)))
    cases = Reads(tokens, runs, tokens * 2, HALF)
    alike = with_usual_runs(phases.machine, cases)
    assert len(np.unique(alike.runs[alike.attended == 512])) == 7  # of 59
    whole, fewer = (
        phases.of(block_of(phases, "attention"), Cases(reads)) for reads in (cases, alike)
    )
    np.testing.assert_array_equal(whole.cycles, fewer.cycles)


def test_the_unit_of_a_policy_has_its_price() -> None:
    design = load_design("zcu102", ["policy.attention.kind=draft"])
    used, plain = resources(design), resources(load_design("zcu102"))
    # Two cores; 12 levels of a sorter of 4,096 entries of 32 bits, four LUTs a bit;
    # 32 KiB read in words of 32 bits are eight block RAMs of 1,024 x 36, or two UltraRAMs.
    assert used.by_component[CHOICE] == {"dsp": 0, "lut": 2 * 12 * 32 * 4, "bram36": 16, "uram": 0}
    more = used.totals["lut"] - plain.totals["lut"]
    assert more == pytest.approx(1.2 * (2 * 12 * 32 * 4 + 16 * 26), abs=3)  # addressing, control
