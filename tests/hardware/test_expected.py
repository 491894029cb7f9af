"""Expected times: their population, a design's own measurements, and metrics, bounds, targets."""

from math import exp, log

import pytest

from carsim.design import Design, load_design, override
from carsim.design.load import for_work
from carsim.hardware.expected import (
    FORWARDS,
    Expected,
    coverage_of,
    expected_factors,
    expected_of,
)
from carsim.hardware.overheads import CalibrationRecord, Overheads
from carsim.metrics import INTERVALS, METRICS, figures
from carsim.metrics.table import EXPECTED, Shares, expected_scale
from carsim.runs.pipeline import run
from carsim.workload.workload import workload_of

IMAGE = "image:dit_xl2"
DEPTH_MAP = "image:depth_anything_v2_small"

RECORD = {
    "board": "ZCU102",
    "fabric_clock_mhz": 250.0,
    "weight_bits": (4.25,),
    "contexts": (1, 100),
    "layers": (2, 2),
    "batches": (1, 1),
}


def expected(design: Design) -> Expected:
    return expected_of(design.machine.overheads, design.board.technology)


def calibrated(**fields: object) -> Expected:
    record = CalibrationRecord.model_validate(RECORD | fields)
    overheads = Overheads(layer_us=1.0, calibration=record)
    return expected_of(overheads, load_design("zcu102").board.technology)


@pytest.mark.parametrize(
    ("design", "control", "title"),
    [
        ("zcu102", None, "11 published FPGA systems"),
        ("zcu102", "bare_metal", "8 published FPGA systems with control bare_metal"),
        (
            "zcu102",
            "firmware",
            "11 published FPGA systems; fewer than 3 have control firmware",
        ),
        ("vck190", None, "11 published FPGA systems; none is a Versal"),
        (
            "asic_7nm_hbm3",
            None,
            "45 published systems of all kinds; none is an ASIC accelerator",
        ),
        ("asic_7nm_hbm3", "gpu_stream", "31 published GPU systems with control gpu_stream"),
        (
            "asic_7nm_hbm3",
            "gpu_graph",
            "31 published GPU systems; fewer than 3 have control gpu_graph",
        ),
        ("asic_7nm_hbm3", "npu_runtime", "3 published NPU systems with control npu_runtime"),
    ],
)
def test_a_design_is_expected_to_do_as_systems_of_its_kind(design, control, title) -> None:
    made = load_design(design)
    if control is not None:
        made = override(made, {"machine.overheads.control": control})
    assert expected(made).title == title


@pytest.mark.parametrize(
    ("design", "changes", "work", "remark"),
    [
        ("zcu102", {}, IMAGE, "none is an FPGA"),
        ("zcu102", {}, DEPTH_MAP, "none is an FPGA"),
        ("vck190", {}, IMAGE, "none is an FPGA"),
        ("asic_7nm_hbm3", {}, IMAGE, "none is an ASIC accelerator"),
        ("asic_7nm_hbm3", {"machine.overheads.control": "npu_runtime"}, IMAGE, "none is an NPU"),
        ("asic_7nm_hbm3", {"machine.overheads.control": "gpu_stream"}, IMAGE, ""),
        (
            "asic_7nm_hbm3",
            {"machine.overheads.control": "gpu_stream"},
            DEPTH_MAP,
            "none makes a depth map",
        ),
        (
            "asic_7nm_hbm3",
            {"machine.overheads.control": "gpu_stream", "machine.mapping": "tensor"},
            IMAGE,
            "none was simulated with a mapping that splits matrices or heads",
        ),
    ],
)
def test_networks_are_expected_to_do_as_diffusion_on_gpus(design, changes, work, remark) -> None:
    machine = override(load_design(design), changes)
    network = for_work(machine, workload_of(work))
    known = network.expected
    # The factor of decoding, which is limited by bytes, stays that of the design without a network.
    assert machine.expected.pool != known.pool == FORWARDS
    published = "20 published GPU systems with diffusion transformers"
    assert known.title == (f"{published}; {remark}" if remark else published)
    assert known.low < known.factor < known.high
    tested = coverage_of(known.pool)
    assert (tested.rows, tested.inside) == (50, 46)


def test_a_few_systems_give_a_wide_interval_and_every_interval_holds_its_factor() -> None:
    table = expected_factors()
    for each in table.values():
        assert each.low < each.factor < each.high
    assert table["npu"].high / table["npu"].low > table["gpu"].high / table["gpu"].low


def test_an_fpga_is_not_expected_beyond_the_lowest_bandwidth() -> None:
    # 359.9 s at the modelled bandwidth, 439.4 s at the lowest measured one: a factor of 1.22.
    assert expected(load_design("zcu102")).factor < 1.1
    # The machine was fitted to 390.7 s; it must not be expected to take 522 s.
    assert expected(load_design("u280_fastcar")).factor < 1.05


def test_three_points_of_its_own_give_a_design_its_own_interval() -> None:
    own = calibrated(points=4, error=0.08, log_sd=0.1)
    half = 2.353 * 0.1 * (1 + 1 / 4) ** 0.5
    assert own == Expected("own", 0, 4, 1.0, pytest.approx(exp(-half)), pytest.approx(exp(half)))
    assert own.title == "4 measured points of its own"
    # Files of earlier versions have the mean size of the errors alone.
    older = calibrated(points=4, error=0.08)
    assert log(older.high) == pytest.approx(half * 0.08 * 1.2533 / 0.1, rel=1e-3)
    # Points that agree by chance do not make a board certain.
    exact = calibrated(points=3, error=0.0, log_sd=0.0)
    assert exact.high == pytest.approx(exp(2.920 * 0.045 * (4 / 3) ** 0.5))


def test_one_or_two_points_are_centred_on_the_fit_with_the_width_of_published_systems() -> None:
    for points, text in ((1, "1 measured point"), (2, "2 measured points")):
        known = calibrated(points=points, error=None)
        of_kind = expected_factors()["calibrated fpga"]
        assert known.factor == 1
        assert known.high / known.low == pytest.approx(of_kind.high / of_kind.low)
        assert known.low * known.high == pytest.approx(1)
        assert known.title == f"4 calibrated FPGA systems; centred on {text} of its own"


def test_records_of_earlier_versions_keep_their_document() -> None:
    record = CalibrationRecord.model_validate(RECORD | {"points": 4, "error": 0.08})
    assert "log_sd" not in record.model_dump()
    assert "log_sd" in record.model_copy(update={"log_sd": 0.1}).model_dump()


def test_a_rate_is_divided_by_what_a_time_is_multiplied_with() -> None:
    design = load_design("zcu102")
    known = expected(design)
    assert expected_scale(design.expected, "lower", "high") == known.high
    assert expected_scale(design.expected, "higher", "low") == 1 / known.high
    assert expected_scale(design.expected, "higher", "value") == 1 / known.factor
    # Memories that are at 95 % of their peak cannot make a board faster than 1 / 0.95 times.
    assert expected_scale(design.expected, "lower", "low", Shares(at_peak=0.95)) == 0.95
    assert expected_scale(design.expected, "higher", "high", Shares(at_peak=0.95)) == 1 / 0.95
    assert len(EXPECTED) == 6


@pytest.mark.parametrize("workload", ["video:2", "text:4+6"])
def test_expected_metrics_are_simulated_ones_times_the_factor_and_above_the_peak(workload) -> None:
    report = run(
        override(load_design("zcu102"), {"policy.batch": 2}), workload=workload_of(workload)
    )
    known, row = expected(report.design), report.chosen
    of_row = figures(row, report)
    for name, simulated in EXPECTED.items():
        if of_row[simulated] is None:
            assert of_row[name] is None
            continue
        low, high = (of_row[end] for end in INTERVALS[name])
        ratio = of_row[name] / of_row[simulated]
        is_time = METRICS[simulated].better == "lower"
        assert ratio == pytest.approx(known.factor if is_time else 1 / known.factor)
        assert low < of_row[name] < high
    # The memory is the limit: the low end is its peak.
    peak = max(row.ddr_utilisation.values())
    low_s = of_row["expected_latency_low_s"]
    assert known.low < peak
    assert low_s == pytest.approx(peak * of_row["latency_s"])
