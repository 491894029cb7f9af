"""Ratios of two runs with their intervals: which is better, though neither is known well.

Model: what is uncertain is drawn once per draw and serves both runs
(:mod:`carsim.cost.interval`): every constant of energy, and one bandwidth per memory, which
is that of the device and the name of the memory that holds the weights. Factors on the bandwidth
have their median at 1. Between the three factors that were simulated, latency is linear in
1 / factor; what is drawn by being there costs in proportion to it.

What carsim itself gets wrong - compute, schedules, a memory without an interval - is not drawn.
"""

from typing import NamedTuple

import numpy as np

from carsim.cost.interval import Draws, Ratio, Term, drawn, ratio_of, slowdowns
from carsim.metrics import METRICS
from carsim.report.stored import StoredPolicy, StoredRun


class RatioChange(NamedTuple):
    """A metric of B over that of A, both of the own policies.

    Attributes:
        metric: Its name.
        value: Ratio of the values.
        low: 5 % of the draws lie below.
        high: 5 % of the draws lie above.
        b_wins: Share of the draws in which B is better; a tie counts half.
    """

    metric: str
    value: float
    low: float
    high: float
    b_wins: float


def speedup(run: StoredRun) -> Ratio:
    """Speed-up of the own policy over dense decoding; ``a_wins`` is how often it is below 1."""
    return ratio_of(run.own["speedup"], _speedups(run), np.ones(1))


def ratios(a: StoredRun, b: StoredRun) -> tuple[RatioChange, ...]:
    """Time per video, speed-up over dense and energy per video of B over A."""
    changes = []
    for metric, draws_a, draws_b in (
        ("seconds_per_video", _seconds(a), _seconds(b)),
        ("speedup", _speedups(a), _speedups(b)),
        ("energy_per_video_j", _joules(a), _joules(b)),
    ):
        ratio = ratio_of(b.own[metric] / a.own[metric], draws_b, draws_a)
        b_is_less = ratio.a_wins  # the first of the two draws, which is that of B
        b_wins = 1 - b_is_less if METRICS[metric].better == "higher" else b_is_less
        changes.append(RatioChange(metric, ratio.value, ratio.low, ratio.high, b_wins))
    return tuple(changes)


def _seconds(run: StoredRun) -> Draws:
    """Seconds per video of the own policy, by draw."""
    return run.own.seconds_per_video * _slowdown(run, run.own)


def _speedups(run: StoredRun) -> Draws:
    """Speed-up of the own policy over dense decoding, by draw."""
    ratio = run.dense.latency_s / run.own.latency_s
    return ratio * _slowdown(run, run.dense) / _slowdown(run, run.own)


def _slowdown(run: StoredRun, policy: StoredPolicy) -> Draws:
    """Latency over its value, by draw."""
    if run.bandwidth_interval is None:
        return np.ones(1)
    board = run.resolved_design["board"]
    device = board.get("device") or board["name"]
    memory = f"{device} {run.resolved_design['machine']['placement']['weights']}"
    return slowdowns(memory, run.bandwidth_interval, (_fastest(policy), _slowest(policy)))


def _fastest(policy: StoredPolicy) -> float:
    """Latency at the highest bandwidth, over its value."""
    return policy["latency_low_s"] / policy["latency_s"]


def _slowest(policy: StoredPolicy) -> float:
    """Latency at the lowest bandwidth, over its value."""
    return policy["latency_high_s"] / policy["latency_s"]


def _joules(run: StoredRun) -> Draws:
    """Joules per video of the own policy, by draw."""
    policy = run.own
    slowdown = _slowdown(run, policy)
    fastest = 1.0
    slowest = 1.0
    if run.bandwidth_interval is not None:
        fastest = _fastest(policy)
        slowest = _slowest(policy)
    joules = np.zeros(1)
    for energy in policy.energy_parts_per_video_j.values():
        low = energy.low
        high = energy.high
        if energy.idle:
            # The ends of idle energy are those of power times those of time: leave the power.
            power = Term(energy.constant, low / fastest, energy.value, high / slowest)
            joules = joules + slowdown * drawn(power)
        else:
            joules = joules + drawn(Term(energy.constant, low, energy.value, high))
    return joules
