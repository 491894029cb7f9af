"""Tests of claims on caching across denoising steps: TeaCache and its kin.

Which forwards and tokens reuse outputs is stated or drawn. Published figures are in
``carsim/validate/data/diffusion_published.csv`` with their sources.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from carsim import override, run
from carsim.account.row import RowResult
from carsim.cost.capacity import capacity
from carsim.runs.report import Report
from carsim.workload.geometry import Video
from studies.claims.forwards import design_of, published
from studies.claims.tables import Finding
from studies.table import percent

BF16 = 16
"""Bits of what is kept on GPUs."""

DIFFERENCES = 2
"""Order of TaylorSeer's forecast: it keeps an output and so many differences of it."""


@cache
def reused(work: str, name: str, skip: str) -> Report:
    """A run in which forwards or tokens reuse outputs; tokens that compute are dealt.

    Args:
        work: The workload.
        name: The design.
        skip: Kind of what is left out.
    """
    changes = {"policy.skip": {"kind": skip}, "policy.schedule": "drs"}
    design = override(design_of(work, name), changes)
    return run(design, workload=work, allow_misfit=True, what_if=False)


def gain(report: Report) -> float:
    """Speed-up over dense forwards."""
    return report.rows[0].latency_s / report.chosen.latency_s


def macs_of(row: RowResult) -> int:
    """Multiply-accumulates of all phases."""
    return sum(total.macs for total in row.simulation.totals.values())


def steps_in_proportion(designs: Sequence[str], intervals: Sequence[int], most: float) -> Finding:
    """Time falls by the share of the forwards that reuse as a whole.

    Args:
        designs: The machines.
        intervals: Steps of which one computes.
        most: Largest relative difference between both shares.
    """
    texts = []
    errors = []
    for every in intervals:
        for name in designs:
            report = reused(f"diffusion:wan2.1_1.3b,every={every}", name, "all_layers")
            computed = 1 - report.chosen.replay_all
            of_time = 1 / gain(report)
            errors.append(abs(of_time / computed - 1))
            shares = f"{percent(computed)} of the forwards, {percent(of_time, 1)} of the time"
            texts.append(f"every {every} on {name}: {shares}")
    return Finding("; ".join(texts), max(errors) <= most)


def kept_by_granularity(residual_gb: float, modules_gb: float) -> Finding:
    """One residual takes less than a size, all modules with differences more than another.

    Args:
        residual_gb: Most that one residual takes.
        modules_gb: Least that all modules take.
    """
    residual = _kept_gb("all_layers")
    modules = (1 + DIFFERENCES) * _kept_gb("every_module")
    text = f"Wan2.1 1.3B at 480 x 832, two passes, 16 bits: {residual:.2f} GB of one residual, "
    text += f"{modules:.0f} GB of all modules with {DIFFERENCES} differences"
    return Finding(text, residual <= residual_gb and modules >= modules_gb)


def _kept_gb(skip: str) -> float:
    """Memory that outputs of earlier forwards take."""
    work = "diffusion:wan2.1_1.3b,every=2"
    changes = {"policy.skip": {"kind": skip}, "model.replay": {"bits": BF16}}
    design = override(design_of(work, "zcu102"), changes)
    sample = design.model.sample
    assert sample is not None
    uses = capacity(design, Video(sample.forwards, 1, 0))
    contents = [content for use in uses for content in use.contents]
    return sum(each.nbytes for each in contents if each.content == "replay cache") / 1e9


def broadcast(designs: Sequence[str]) -> Finding:
    """Attention that is reused by PAB's intervals gains at least what PAB states."""
    stated = published("PAB", "Open-Sora 1.2 speed-up")
    texts = []
    gains = []
    for name in designs:
        report = reused("diffusion:open_sora1.2_1.1b,every=2,cross_every=5", name, "by_module")
        gains.append(gain(report))
        texts.append(f"{name} {gains[-1]:.2f} x")
    return Finding(f"Open-Sora 1.2: {', '.join(texts)}; {stated:g} x stated", min(gains) >= stated)


def tokens_in_proportion(designs: Sequence[str], replay: float) -> Finding:
    """Caching by token loses no more of its gain in operations than ToCa's own figures do.

    Args:
        designs: The machines.
        replay: Share of the tokens that reuse outputs.
    """
    of_work = published("ToCa", "FLUX.1-dev dense") / published("ToCa", "FLUX.1-dev ToCa")
    times = [published("ToCa", f"FLUX.1-dev {method} time") for method in ("dense", "ToCa")]
    stated = times[0] / times[1] / of_work
    texts = []
    ratios = []
    work = f"image:flux1_dev,steps=50,replay={replay},source=step"
    for name in designs:
        report = reused(work, name, "every_module")
        operations = macs_of(report.rows[0]) / macs_of(report.chosen)
        ratios.append(gain(report) / operations)
        texts.append(f"{name} {gain(report):.2f} x in time, {operations:.2f} x in operations")
    text = f"{'; '.join(texts)}; ratio {min(ratios):.2f}, {stated:.2f} by the published figures"
    return Finding(text, min(ratios) >= stated)


def mlp_reuse(designs: Sequence[str], works: Mapping[str, str], least: float) -> Finding:
    """The time of MLPs falls by the share of their operations that EXION removes at most.

    Args:
        designs: The machines.
        works: Name of a model -> its workload.
        least: Share of the removed operations that is saved time.
    """
    share = published("EXION", "FFN operations removed, most")
    texts = []
    ratios = []
    for model, work in works.items():
        for name in designs:
            report = reused(f"{work},replay={share},source=step", name, "mlp")
            dense = report.rows[0].simulation.totals["mlp"]
            own = report.chosen.simulation.totals["mlp"]
            removed = 1 - own.macs / dense.macs
            saved = 1 - own.cycles / dense.cycles
            ratios.append(saved / removed)
            whole = f"whole {gain(report):.2f} x"
            texts.append(
                f"{model} on {name}: {percent(removed)} of the operations, "
                f"{percent(saved)} of the time of MLPs, {whole}"
            )
    return Finding("; ".join(texts), min(ratios) >= least)


def work_explains_time(models: Sequence[str]) -> Finding:
    """FlowCache's speed-ups in table 3 of FAST-AR are no more than its operations allow."""
    texts = []
    ratios = []
    for model in models:
        of_time = published("FAST-AR", f"{model} dense")
        of_time /= published("FAST-AR", f"{model} FlowCache fast")
        of_work = published("FAST-AR", f"{model} dense work")
        of_work /= published("FAST-AR", f"{model} FlowCache fast work")
        ratios.append(of_time / of_work)
        texts.append(f"{model} {of_time:.2f} x in time, {of_work:.2f} x in operations")
    return Finding("; ".join(texts), max(ratios) <= 1.1)
