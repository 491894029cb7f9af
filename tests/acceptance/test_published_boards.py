"""Published decoding speeds and powers from published configurations, against stated bounds."""

import pytest

from carsim.validate.boards import MEDIAN_BOUND, BoardRow, BoardsReport, validate_boards

# Measured when this was written; each may not get worse unnoticed. What explains the large ones is
# in configs/published/README.md.
WORST = {
    "Li et al. DATE25": 0.05,
    "apex Unified Engine": 0.03,
    "Hummingbird": 0.12,
    "Torch2RISCV, 1 port": 0.16,
    "Torch2RISCV, 2 ports": 0.26,
}


@pytest.fixture(scope="module")
def report() -> BoardsReport:
    return validate_boards()


def by_system(report: BoardsReport, system: str) -> list[BoardRow]:
    return [row for row in report.rows if row.published.system.startswith(system)]


def test_the_median_error_in_scope_is_within_its_bound(report: BoardsReport) -> None:
    assert MEDIAN_BOUND == 0.10
    assert len(report.in_scope) >= 7
    assert report.median_error <= MEDIAN_BOUND


def test_the_median_error_in_scope_is_below_that_of_the_null_model(report: BoardsReport) -> None:
    assert report.median_error < report.null_median_error


def test_no_system_in_scope_gets_worse_unnoticed(report: BoardsReport) -> None:
    assert {row.published.system for row in report.in_scope} == set(WORST)
    for row in report.in_scope:
        assert abs(row.error) <= WORST[row.published.system], row.published.system


def test_memory_or_ports_limit_every_system_in_scope(report: BoardsReport) -> None:
    assert {row.limit[0] for row in report.in_scope} == {"memory", "port"}


def test_systems_out_of_scope_are_predicted_too_fast(report: BoardsReport) -> None:
    # What the model leaves out of them can only take time.
    out = [row for row in report.rows if not row.published.in_scope]
    assert len(out) == 8
    assert all(row.error > 0 for row in out)


def test_published_power_lies_in_every_interval(report: BoardsReport) -> None:
    known = [row for row in report.rows if row.published.power_w is not None]
    assert len(known) == 7
    assert all(row.power_inside for row in known)
    # Nominal values: DFX and FlightLLM, predicted too fast, draw too much in proportion.
    assert all(abs(row.power_error or 0.0) <= 0.31 for row in known)


def test_more_context_slows_flightllm_down_on_board_and_here(report: BoardsReport) -> None:
    short, long = by_system(report, "FlightLLM")
    assert long.published.tokens_per_s < short.published.tokens_per_s
    assert long.decode.tokens_per_s < short.decode.tokens_per_s


def test_two_ports_bring_less_than_twice_as_much_on_board_and_here(report: BoardsReport) -> None:
    for model in ("Qwen3-0.6B", "SmolLM2-135M"):
        one, two = (row for row in by_system(report, "Torch2RISCV") if row.published.model == model)
        assert one.published.tokens_per_s < two.published.tokens_per_s
        assert one.decode.tokens_per_s < two.decode.tokens_per_s < 2 * one.decode.tokens_per_s


def test_most_published_designs_fit_as_their_resources_are_estimated(report: BoardsReport) -> None:
    misfits = {row.published.config: row.misfits for row in report.rows if row.misfits}
    assert misfits == {}
