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

from carsim.cost.interval import Draws, Ratio, Term, drawn, ratio_of
from carsim.metrics import METRICS
from carsim.report.stored import StoredPolicy, StoredRun

LATENCIES = ("latency_s", "latency_low_s", "latency_high_s")


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
    found = []
    for metric, of_a, of_b in (
        ("seconds_per_video", _seconds(a), _seconds(b)),
        ("speedup", _speedups(a), _speedups(b)),
        ("energy_per_video_j", _joules(a), _joules(b)),
    ):
        value, low, high, less = ratio_of(b.own[metric] / a.own[metric], of_b, of_a)
        wins = 1 - less if METRICS[metric].better == "higher" else less
        found.append(RatioChange(metric, value, low, high, wins))
    return tuple(found)


def _seconds(run: StoredRun) -> Draws:
    return run.own.seconds_per_video * _slowdown(run, run.own)


def _speedups(run: StoredRun) -> Draws:
    ratio = run.dense.latency_s / run.own.latency_s
    return ratio * _slowdown(run, run.dense) / _slowdown(run, run.own)


def _slowdown(run: StoredRun, policy: StoredPolicy) -> Draws:
    """Latency over its value, by draw."""
    if run.bandwidth_interval is None:
        return np.ones(1)
    value, best, worst = (policy[name] for name in LATENCIES)
    low, high = run.bandwidth_interval
    design = run.resolved_design
    part = design["board"].get("device") or design["board"]["name"]
    memory = f"{part} {design['machine']['placement']['weights']}"
    factor = drawn(Term(f"bandwidth of {memory}", low, 1.0, high))
    return np.interp(1 / factor, (1 / high, 1.0, 1 / low), (best / value, 1.0, worst / value))


def _joules(run: StoredRun) -> Draws:
    """Joules per video of the own policy, by draw."""
    own, slowdown = run.own, _slowdown(run, run.own)
    fast, slow = 1.0, 1.0
    if run.bandwidth_interval is not None:
        fast, slow = (own[name] / own.latency_s for name in LATENCIES[1:])
    total = np.zeros(1)
    for part in own.energy_parts_per_video_j.values():
        if part.idle:  # its ends have those of the time in them
            term = Term(part.constant, part.low / fast, part.value, part.high / slow)
            total = total + slowdown * drawn(term)
        else:
            total = total + drawn(Term(part.constant, part.low, part.value, part.high))
    return total
