"""carsim's array against what other simulators count for LLaMA-2-7B's decode matrices."""

import json
import sys
from collections import defaultdict
from dataclasses import replace

import pytest

import carsim.validate.array
from carsim.cli import main
from carsim.validate.array import ArrayReport, Check, validate_array
from carsim.validate.onnxim import onnxim_layer_cycles


@pytest.fixture(scope="module")
def report() -> ArrayReport:
    return validate_array()


def by_peer(checks: tuple[Check, ...]) -> dict[str, list[Check]]:
    found = defaultdict(list)
    for check in checks:
        found[check.peer].append(check)
    return found


def test_every_peer_is_reproduced_by_the_rule_that_is_named_for_it(report: ArrayReport) -> None:
    found = by_peer(report.peers)
    assert {peer: len(checks) for peer, checks in found.items()} == {
        "ZigZag": 4,
        "AccelForge": 2,
        "LLMCompass": 1,
        "SCALE-Sim": 4,
        "ONNXim": 2,
    }
    for peer, checks in found.items():
        for check in checks:
            assert check.bound == (0.05 if peer == "ONNXim" else 0.02)
            assert check.holds, check


def test_what_is_left_to_scale_sim_is_what_is_explained(report: ArrayReport) -> None:
    # It counts from 0 (1 cycle), fills 50 sets of floor(262144 / 100) words instead of half a
    # buffer at 10 words per cycle (3 cycles), and empties results from the array's last cycle on
    # (1 cycle), with a line more where a half that filled up had left before.
    left = [
        check.carsim_cycles - check.reference_cycles for check in by_peer(report.peers)["SCALE-Sim"]
    ]
    counted_from_0 = 1
    filling = -(-(262_144 // 2) // 10) - -(-50 * (262_144 // 100) // 10)
    assert left == [counted_from_0 + filling + emptying for emptying in (0, 0, 1, 0)]


def test_small_products_of_scale_sim_are_exact(report: ArrayReport) -> None:
    checks = report.products
    assert len(checks) == 210
    assert all(check.error == 0 for check in checks)


def test_the_rival_is_beaten_where_the_array_or_a_port_is_the_limit(
    report: ArrayReport,
) -> None:
    # Where a peer's rule is bytes over bandwidth (M = 1 on ZigZag, AccelForge and LLMCompass) the
    # rival says the same but for the last tile.
    for check in report.peers:
        if abs(check.null_error) > 0.001:
            assert abs(check.error) < abs(check.null_error) / 2.5, check
        else:
            assert abs(check.carsim_cycles - check.null_cycles) < 100
    checks = report.products
    assert sum(abs(check.null_error) for check in checks) / len(checks) > 0.5


@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.parametrize(
    "choice",
    [
        ("machine.weight_buffer_kib=256", "machine.kv_buffer_kib=256"),
        ("machine.tile_kib=16",),
        ("machine.vector.lanes=16",),
        ("board.memories.ddr.interconnect_ns=100",),
    ],
)
def test_what_is_not_known_of_onnxim_does_not_matter(cores: int, choice: tuple[str, ...]) -> None:
    assert onnxim_layer_cycles(cores, choice) == pytest.approx(
        onnxim_layer_cycles(cores), rel=0.001
    )


@pytest.fixture
def call(monkeypatch, capsys):
    """Run ``carsim validate array``; returns status and standard output."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["carsim", "validate", "array", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capsys.readouterr().out

    return run


def test_the_command_shows_every_row_beside_its_rival(call, report: ArrayReport) -> None:
    status, out = call("--every")
    assert status == 0
    lines = out.splitlines()
    for check in report.checks:
        (line,) = [line for line in lines if check.peer in line and f"{check.work} " in line]
        assert f"{check.carsim_cycles:,}" in line
        assert f"{check.reference_cycles:,}" in line
        assert f"{check.null_cycles:,}" in line
    assert "223 of 223 figures within their bounds" in out


def test_a_figure_out_of_bounds_is_named_and_fails(
    call, report: ArrayReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = replace(report.peers[0], carsim_cycles=2 * report.peers[0].reference_cycles)
    broken = replace(report, peers=(first, *report.peers[1:]))
    monkeypatch.setattr(carsim.validate.array, "validate_array", lambda: broken)
    status, out = call()
    assert status == 1
    assert f"Out of bounds: {first.peer} {first.work}: +100.000%" in out
    status, out = call("--json")
    assert status == 1
    assert json.loads(out)["passes"] is False
    assert [row["holds"] for row in json.loads(out)["peers"]].count(False) == 1
