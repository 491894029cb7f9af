"""Ratios of two runs: what both share cancels, and who wins is counted in the same draws."""

import pytest
from tiny import tiny_report

from carsim.report.ratios import RatioChange, ratios, speedup
from carsim.report.stored import StoredRun, stored

LARGE = ("machine.array.rows=64", "machine.array.cols=64", "machine.vector.lanes=64")
"""Changes that make memory the limit of the toy."""


def run_of(*changes: str) -> StoredRun:
    return stored(tiny_report(*LARGE, *changes))


def with_times(run: StoredRun, slow: float, *, dense: float = 1, fast: float = 1) -> StoredRun:
    """Half of the bandwidth may be missing: latencies are ``slow`` times as long; or it is more."""
    policies = []
    for policy in run.policies:
        low, high = 1 / fast, slow if policy.is_chosen else dense
        times = {"latency_low_s": policy.latency_s * low, "latency_high_s": policy.latency_s * high}
        policies.append(policy.model_copy(update=times))
    return run.model_copy(update={"policies": tuple(policies), "bandwidth_interval": (0.5, fast)})


def by_metric(a: StoredRun, b: StoredRun) -> dict[str, RatioChange]:
    return {each.metric: each for each in ratios(a, b)}


def test_a_run_against_itself_is_even() -> None:
    for each in ratios(run_of(), run_of()):
        assert each[1:] == (1.0, 1.0, 1.0, 0.5)


def test_ratios_of_times_by_hand() -> None:
    """A follows bandwidth, B does not: B / A is the bandwidth, and 1 in one half of the draws."""
    a, b = with_times(run_of(), 2.0), with_times(run_of(), 1.0)
    found = by_metric(a, b)["seconds_per_video"]
    # Uniform between 1/2 and 1 in the other half: 5 % lie below 0.5 + 0.1 * 0.5.
    assert found.value == found.high == 1.0
    assert found.low == pytest.approx(0.55, abs=0.005)
    assert found.b_wins == pytest.approx(0.5 + 0.5 / 2, abs=0.01)
    either = by_metric(with_times(run_of(), 2.0, fast=2.0), b)["seconds_per_video"]
    assert (either.low, either.high) == pytest.approx((0.55, 1.9), abs=0.02)
    # The same time of dense decoding: the speed-up of B over that of A is A's time over B's.
    assert by_metric(a, b)["speedup"].high == pytest.approx(1 / found.low)
    assert by_metric(a, b)["speedup"].b_wins == pytest.approx(found.b_wins)
    assert by_metric(b, a)["seconds_per_video"].b_wins == pytest.approx(1 - found.b_wins)


def test_a_speedup_is_known_better_than_its_times() -> None:
    both, one = with_times(run_of(), 2.0, dense=2.0), with_times(run_of(), 1.0, dense=2.0)
    value = run_of().own["speedup"]
    assert speedup(both)[:3] == pytest.approx((value, value, value))
    assert speedup(one).high / value == pytest.approx(1 / 0.55, abs=0.02)


def test_the_same_memory_errs_alike_and_another_does_not() -> None:
    a, b = run_of(), run_of("policy.schedule=static")
    elsewhere = run_of("policy.schedule=static", "board.device=another")
    same, other = by_metric(a, b), by_metric(a, elsewhere)
    for metric, narrow in same.items():
        wide = other[metric]
        assert narrow.value == wide.value
        assert narrow.high - narrow.low < (wide.high - wide.low) / 2
    assert same["seconds_per_video"].b_wins == 1.0
    assert a.own["seconds_per_video_high"] > b.own["seconds_per_video"]


def test_joules_of_idling_follow_the_time() -> None:
    """All constants known, idling of B costs as much more as it takes longer."""
    a, b = with_times(run_of(), 1.0), with_times(run_of(), 2.0)
    found = {}
    for run, slow in ((a, 1.0), (b, 2.0)):
        parts = {
            name: part.model_copy(
                update={"low": part.value, "high": part.value * (slow if part.idle else 1.0)}
            )
            for name, part in run.own.energy_parts_per_video_j.items()
        }
        own = run.own.model_copy(update={"energy_parts_per_video_j": parts})
        found[slow] = run.model_copy(update={"policies": (run.dense, own)})
    change = by_metric(found[1.0], found[2.0])["energy_per_video_j"]
    joules = run_of().own.energy_parts_per_video_j.values()
    idle = sum(part.value for part in joules if part.idle) / sum(part.value for part in joules)
    assert (change.value, change.low) == pytest.approx((1.0, 1.0))
    assert change.high == pytest.approx(1 + idle * (1 / 0.55 - 1), abs=0.01)
    assert change.b_wins == pytest.approx(0.25, abs=0.01)
