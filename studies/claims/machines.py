"""Tests of claims by simulation; ``claims.yaml`` names them with their arguments."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from carsim import Workload, load_design, load_trace, override, run
from carsim.account.row import RowResult
from carsim.cost.fit import check_fit
from carsim.machine.hardware import Hardware
from carsim.validate import paper
from studies.claims.tables import Finding, row_of, table
from studies.table import percent

CLOSE = 0.05
"""Largest relative error of a figure that counts as the published one."""


def changed(
    designs: Sequence[str],
    plain: Mapping[str, Any],
    other: Mapping[str, Any],
    figure: str = "seconds",
    least: float | None = None,
    most: float | None = None,
) -> Finding:
    """By how much some changes make designs better, on ``vilau_8f``.

    Args:
        designs: Names.
        plain: Overrides of all runs.
        other: Overrides of the second run.
        figure: ``seconds`` or ``joules`` a video.
        least: Least ratio of the first run to the second, on every design.
        most: Most of it.
    """
    trace, parts, gains = load_trace("vilau_8f"), [], []
    for name in designs:
        found = []
        for changes in (plain, {**plain, **other}):
            row = run(override(load_design(name), dict(changes)), [trace], allow_misfit=True).chosen
            found.append(
                row.energy_per_video.value_j if figure == "joules" else row.seconds_per_video
            )
        gains.append(found[0] / found[1])
        parts.append(f"{name} {gains[-1]:.2f} ({found[0]:.3g} to {found[1]:.3g})")
    unit = "J" if figure == "joules" else "s"
    agrees = min(gains) >= (least or 0) and max(gains) <= (most or max(gains))
    return Finding(f"ratio of {unit} a video: {', '.join(parts)}", agrees)


def longer_prompt(designs: Sequence[str], tokens: int, least: float) -> Finding:
    """Upper bound of what leaving prompt tokens out can gain: a prompt of none at all.

    Args:
        designs: Names.
        tokens: Of the prompt.
        least: Gain that the claim needs on one design.
    """
    gains = []
    for name in designs:
        seconds = [
            run(name, workload=Workload("video", prompt=n), allow_misfit=True).chosen.ms_per_token
            for n in (tokens, 1)
        ]
        gains.append((name, seconds[0] / seconds[1]))
    text = ", ".join(f"{name} {gain:.2f}" for name, gain in gains)
    enough = max(gain for _, gain in gains) >= least
    return Finding(f"at most: {text}", enough)


def mlp_over_attention() -> Finding:
    """Some machine has a ratio of about 5 (4 to 6) at 2k, 4k and 8k tokens alike."""
    found = {}
    for machine, part in table("video_length/mlp_attention").groupby("machine", sort=False):
        frames = part.set_index("video.frames")[["mlp_s", "attention_s"]]
        last = [frames.loc[n] - frames.loc[n - 1] for n in (8, 16, 32)]
        found[machine] = [row["mlp_s"] / row["attention_s"] for row in last]
    text = "; ".join(f"{name}: {', '.join(f'{r:.1f}' for r in rs)}" for name, rs in found.items())
    agrees = any(min(rs) > 4 and max(rs) < 6 for rs in found.values())
    return Finding(f"at 2k, 4k, 8k tokens: {text}", agrees)


@cache
def _simulated(schedule: str | None = None) -> dict[str, tuple[paper.PaperRow, RowResult]]:
    base = load_design(paper.DESIGN)
    return {
        row.name: (row, paper.simulate_row(base, row, schedule=schedule))
        for row in paper.paper_rows()
    }


def published_latency(row: str) -> Finding:
    """The fitted machine takes the published time within :data:`CLOSE`."""
    stated, found = _simulated()[row]
    rival = paper.skipping_s(stated, load_design(paper.DESIGN).model.body)
    errors = [100 * (each / stated.latency_s - 1) for each in (found.latency_s, rival)]
    text = f"{found.latency_s:.1f} s, {errors[0]:+.1f} % (linear skipping {errors[1]:+.1f} %)"
    return Finding(text, abs(errors[0]) < 100 * CLOSE)


def headline(least: float) -> Finding:
    """The fitted machine gains so much in the paper's fastest row."""
    dense, best = (_simulated()[name][1].latency_s for name in ("dense", "replay87_sa16"))
    return Finding(f"{dense / best:.2f} times", dense / best >= least)


def published_efficiency(row: str) -> Finding:
    """The fitted machine has the published ratio of energies within :data:`CLOSE`."""
    (dense, first), (stated, found) = _simulated()["dense"], _simulated()[row]
    gain = first.energy_per_video.value_j / found.energy_per_video.value_j
    wanted = stated.efficiency / dense.efficiency
    rival = first.latency_s / found.latency_s
    text = f"{gain:.2f} times dense, published {wanted:.2f} (constant power {rival:.2f})"
    return Finding(text, abs(gain / wanted - 1) < CLOSE)


def operations_saved() -> Finding:
    """At 80 % of eligible steps the published share of operations is saved, within a point."""
    body = load_design(paper.DESIGN).model.body
    eligible, every = (paper.replayed_share(0.8, body, of) for of in ("eligible", "all"))
    text = f"{percent(eligible, 1)} of eligible steps; {percent(every, 1)} if all steps count"
    return Finding(text, abs(eligible - paper.OPERATIONS_SAVED) < 0.01)


def fits_board() -> Finding:
    """The design with the fitted numbers fits its board."""
    misfits = check_fit(load_design(paper.DESIGN), paper.PAPER_VIDEO).misfits
    return Finding(f"misfits: {'; '.join(misfits) or 'none'}", not misfits)


def drs_on_fitted() -> Finding:
    """On the fitted machine DRS is faster than a static schedule at 20, 50 and 80 %."""
    static, drs = _simulated("static"), _simulated()
    names = ("replay20", "replay50", "replay80")
    gains = [static[name][1].latency_s / drs[name][1].latency_s - 1 for name in names]
    text = ", ".join(percent(gain, 1) for gain in gains)
    return Finding(f"faster by {text} at 20, 50, 80 %", min(gains) > 1e-3)


@cache
def _schedules() -> Any:
    """Gain of DRS over static and both shares of busy cycles, of each machine of ``regimes``."""
    points = table("regimes/points").query("study == 'study' and `machine.mapping` == 'batch'")
    found = []
    for _, part in points.groupby(["policy.batch", "array", "bandwidth", "machine.weight_sharing"]):
        static, drs = (row_of(part, {"policy.schedule": name}) for name in ("static", "drs"))
        found.append((static["latency_s"] / drs["latency_s"] - 1, static["busy"], drs["busy"]))
    return np.array(found).T


def drs_anywhere() -> Finding:
    """DRS is faster than static by 0.1 % somewhere, and nowhere slower by as much."""
    gains = _schedules()[0]
    faster, slower = int((gains > 1e-3).sum()), int((gains < -1e-3).sum())
    text = f"faster on {faster}, slower on {slower} of {len(gains)} machines"
    ends = f"gain {100 * gains.min():+.1f} to {100 * gains.max():+.1f} %"
    return Finding(f"{text}; {ends}", bool(faster and not slower))


def drs_busy() -> Finding:
    """DRS keeps cores busier than static, in the mean over machines."""
    _, static, drs = _schedules().mean(axis=1)
    return Finding(f"busy: {percent(static, 2)} static, {percent(drs, 2)} DRS", bool(drs > static))


def drs_dispatch() -> Finding:
    """A dispatcher that takes no time at all gains less than 1 %."""
    points = table("scheduler_gates/points").query("study == 'study_timing'")
    seconds = points.set_index(["machine.decision_at", "dispatch"])["latency_s"]
    gains = [
        seconds[at, "assumed"] / seconds[at, "nothing"] - 1 for at in ("attention", "residual")
    ]
    text = f"{percent(gains[0], 2)}, or {percent(gains[1], 2)} if decided at the residual"
    return Finding(f"a free dispatcher gains {text}", max(gains) < 0.01)


def drs_registers() -> Finding:
    """The modelled scheduler holds as many sequences as the paper's registers."""
    bits = load_design(paper.DESIGN).machine.drs.index_register_bits
    return Finding(f"{bits} sequences; larger batches run in groups", bits == 32)


def mixed_batches(batch: int) -> Finding:
    """In a quarter of the layer-steps some sequences replay and others compute."""
    trace = load_trace("vilau_8f")
    replay = trace.replay[trace.meta.tokens_per_frame :, 1:]
    share = replay.reshape(*replay.shape[:2], -1, batch).mean(axis=-1)
    mixed = float(((share > 0) & (share < 1)).mean())
    return Finding(f"{percent(mixed)} of layer-steps of {batch} sequences are mixed", mixed > 0.25)


def gathers(designs: Mapping[str, str], block: int, single: int) -> Finding:
    """Chunks of ``block`` bytes at random places are read faster than those of ``single``."""
    parts, gains = [], []
    for name, memory in designs.items():
        hardware = Hardware(load_design(name))
        index = [path.name for path in hardware.paths].index(memory)
        long = hardware.paths[index].rate
        rates = [float(hardware.gather_rate(index, size) / long) for size in (block, single)]
        parts.append(f"{name} {rates[0]:.2f} against {rates[1]:.2f}")
        gains.append(rates[0] / rates[1])
    return Finding(", ".join(parts), min(gains) > 1)
