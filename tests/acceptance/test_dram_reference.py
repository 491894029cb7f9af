"""The DRAM model against two cycle-accurate simulators, row by row, and against measured boards.

What the rows are and how they are judged is told in :mod:`carsim.validate.dram`. Bounds here are
what the model meets, rounded up; those stated to users are wider.
"""

import json

import pytest
from click.testing import CliRunner

import carsim.validate.dram
from carsim.cli.validate import validate
from carsim.memory.sustained import Access, idle_latency_ns, standard, sustained
from carsim.validate.dram import DramKind, DramReport, references, validate_dram

KINDS = {
    "efficiency: sequential": (1, 0.005),
    "efficiency: chunks of 4 KiB and more": (15, 0.025),
    "efficiency: smaller chunks": (15, 0.02),
    "efficiency: reads and writes": (4, 0.02),
    "efficiency: limited window": (11, 0.025),
    "latency: idle": (4, 0.01),
    "latency: all requests in flight": (46, 0.025),
    "latency: under an offered load": (4, 0.04),
}
"""Kind -> its rows, and the largest error that the model has."""


@pytest.fixture(scope="module")
def report() -> DramReport:
    return validate_dram()


def lines(kind: DramKind) -> str:
    return "\n".join(
        f"{check.situation!s:42} model {check.value:9.4f}  {check.error:+7.2%}  {check.references}"
        for check in kind.checks
    )


@pytest.mark.parametrize("name", KINDS)
def test_the_model_is_between_the_simulators_or_near_the_nearer(
    report: DramReport, name: str
) -> None:
    (kind,) = (kind for kind in report.kinds if kind.name == name)
    count, met = KINDS[name]
    assert len(kind.checks) == count
    assert kind.worst <= met <= kind.bound, lines(kind)
    assert kind.passes


def test_every_row_of_the_file_is_judged_once(report: DramReport) -> None:
    judged: dict[str, list[object]] = {"efficiency": [], "latency": []}
    for kind in report.kinds:
        judged[kind.name.partition(":")[0]] += [check.situation for check in kind.checks]
    found = {asked for asked in references("efficiency") if not asked.is_loaded}
    assert len(judged["efficiency"]) == len(found)
    assert set(judged["efficiency"]) == found
    assert len(judged["latency"]) == len(references("mean_latency_ns"))
    assert set(judged["latency"]) == set(references("mean_latency_ns"))


def test_the_naive_rival_is_beaten_wherever_it_answers(report: DramReport) -> None:
    for kind in report.kinds:
        if kind.null_worst is not None and kind.null_mean is not None:
            assert kind.worst < kind.null_worst
            assert kind.mean < kind.null_mean


def test_the_command_shows_every_kind_and_on_request_every_row() -> None:
    brief = CliRunner().invoke(validate, ["dram"], standalone_mode=False)
    assert brief.return_value is None
    for name in KINDS:
        assert name in brief.output
    assert "streams_rr, 64 B, 16 streams" not in brief.output
    every = CliRunner().invoke(validate, ["dram", "--every"], standalone_mode=False)
    assert "streams_rr, 64 B, 16 streams" in every.output


def test_leaving_a_bound_is_an_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = DramReport((DramKind("efficiency", 0.0, validate_dram().kinds[1].checks),))
    monkeypatch.setattr(carsim.validate.dram, "validate_dram", lambda: broken)
    result = CliRunner().invoke(validate, ["dram", "--json"], standalone_mode=False)
    assert result.return_value == 1
    document = json.loads(result.output)
    assert document["passes"] is False
    assert document["kinds"][0]["worst_error"] == broken.kinds[0].worst > 0


@pytest.mark.parametrize(
    ("name", "channels", "measured_gbps"),
    [
        # Shuhai (Wang et al., FCCM 2020, arXiv 2005.04324), Alveo U280, sequential reads.
        ("HBM2-1800", 1, 13.27),
        ("DDR4-2400", 2, 36.0),
    ],
)
def test_measured_boards_are_met_within_2_percent(
    name: str, channels: int, measured_gbps: float
) -> None:
    """13.32 GB/s for one HBM pseudo-channel, 36.5 for two DDR4 channels."""
    found = sustained(standard(name), Access(), channels).sustained_gbps
    assert found == pytest.approx(measured_gbps, rel=0.02)


@pytest.mark.parametrize(
    ("name", "hit_ns", "conflict_ns", "beat_ns"),
    [
        # Shuhai, as above: idle latencies on the fabric's side, in beats of 450 and 300 MHz.
        ("HBM2-1800", 107.0, 138.0, 1000 / 450),
        ("DDR4-2400", 73.0, 107.0, 1000 / 300),
    ],
)
def test_a_measured_row_conflict_is_met_within_two_beats_of_the_fabric(
    name: str, hit_ns: float, conflict_ns: float, beat_ns: float
) -> None:
    """What a conflict adds to a hit; the interconnect, the same for both, drops out."""
    hit, conflict = (
        idle_latency_ns(standard(name), row, refresh=False) for row in ("hit", "conflict")
    )
    assert conflict - hit == pytest.approx(conflict_ns - hit_ns, abs=2 * beat_ns)
