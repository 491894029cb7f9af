"""Published ratios of two FPGA accelerators of diffusion to GPUs, and what carsim predicts of them.

The accelerators are the designs ``flightvgm_v80`` and ``diff_dit_v80``. Their files say which
fields are published; neither has a published time. A speed-up is the simulated time of the GPU over
that of the design. A ratio of power is the published ratio of energy over the published speed-up,
against the limit of the GPU's power over the simulated power of the design. It needs no time of a
GPU: video diffusion takes 0.89 to 0.98 of a GPU's limit (ML.ENERGY leaderboard, version 3).

The rival divides operations by peaks, and limits of power by each other.

What the publications leave open is decided here:

* The abstract of FlightVGM does not name its models. Open-Sora 1.2 stands for them, with the
  published share of the operations left out (:data:`REUSE`), and densely on the GPU. Sparsity is
  drawn at random: a token that is left out reads its outputs from memory, as tokens do that reuse
  those of the last step. One row has the products of the design, which fit the board as carsim
  counts slices; one has the four products of a slice that the extension starts.
* Diff-DiT does not say how many steps are differential. All are here, which flatters it. The design
  then has the array of such steps, which carsim does not know how to place: it counts four products
  of 4 bits in a slice, where Diff-DiT packs six of 3 and 4 bits.
* Diff-DiT does not say the precision of its V100. Both possible ones are shown.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from carsim.account.row import RowResult
from carsim.design import Design, load_design, override
from carsim.design.load import for_work
from carsim.metrics.comparison import Comparison
from carsim.program.sample import forward_macs
from carsim.runs.pipeline import run
from carsim.validate.forward_times import GpuMachine, sample_flop, seconds_on
from carsim.validate.part import Group
from carsim.validate.peers import published
from carsim.validate.preset_counts import cross_attention_macs, preset_model
from carsim.workload.model import Model
from carsim.workload.workload import workload_of

FLIGHTVGM = "FlightVGM"
DIFF_DIT = "Diff-DiT"

REUSE = 0.733
"""Share of the tokens that reuse outputs, with which operations fall by the published 3.17."""

SPARSE_WORK = f"diffusion:open_sora1.2_1.1b,replay={REUSE},source=step"
"""Open-Sora 1.2 on FlightVGM."""

EXTENDED: Mapping[str, Any] = {
    "machine.array.rows": 64,
    "machine.attention_unit.rows": 32,
}
"""FlightVGM with four INT8 or two FP16 products in each of the slices of its arrays."""

DIFFERENTIAL: Mapping[str, Any] = {
    # 8 x 4 tiles of 16 x 16 slices, with two tokens and three weights a slice.
    "machine.array.rows": 256,
    "machine.array.cols": 192,
    "machine.array.arithmetic": "int4",
    "machine.vector.lanes": 256,
    "machine.vector.exponentials_per_cycle": 256,
}
"""Diff-DiT in differential steps (the analysis of its code that the design file names)."""

INT8_PRODUCTS = 4
"""INT8 products of a slice that FlightVGM extends (a reader's note on the paper)."""

FP16_PRODUCTS = 2
"""FP16 products of a slice that FlightVGM extends (the same note); one without the extension."""

CARD_W = 190.0
"""Limit of the power of an Alveo V80 (its product brief, not checked)."""


class Gpu(NamedTuple):
    """A GPU as an accelerator is compared with it.

    Attributes:
        name: Its name.
        machine: carsim's machine of it.
        peak_tflops: Peak of its products (NVIDIA's data sheets).
        limit_w: Limit of its power (NVIDIA's data sheets).
    """

    name: str
    machine: GpuMachine
    peak_tflops: float
    limit_w: float


# With 32-bit sums a GeForce has half of its products (NVIDIA's GA102 white paper).
RTX_3090 = Gpu(
    "an RTX 3090",
    GpuMachine("published", "llamacpp_rtx3090", {"machine.array.cols": 16}),
    peak_tflops=71.0,
    limit_w=350.0,
)

V100_CHANGES: Mapping[str, Any] = {
    "machine.cores": 80,
    "board.fabric_clock_mhz": 1530.0,
    "board.memories.hbm.channels": 35,  # as many channels of an A100 as have 900 GB/s
}
"""A V100 SXM2 as an A100 with other numbers (NVIDIA's data sheet)."""

V100 = Gpu(
    "a V100 with tensor cores",
    GpuMachine("published", "llamacpp_a100sxm", {**V100_CHANGES, "machine.array.cols": 32}),
    peak_tflops=125.0,
    limit_w=300.0,
)

V100_FP32 = Gpu(
    "a V100 in FP32",
    GpuMachine("published", "llamacpp_a100sxm", {**V100_CHANGES, "machine.array.cols": 4}),
    peak_tflops=15.7,
    limit_w=300.0,
)


class Accelerated(NamedTuple):
    """A sample on an accelerator.

    Attributes:
        seconds: Simulated seconds.
        power_w: Simulated power of the card.
        peak_seconds: Seconds of its operations at the peak of the arrays.
    """

    seconds: float
    power_w: float
    peak_seconds: float


def accelerator_group() -> Group:
    """Ratios of the accelerators to GPUs, next to the rival's."""
    return Group(
        "FPGA accelerators over GPUs",
        (*_flightvgm_rows(), *_diff_dit_rows()),
        rival="operations over peak, and limits of power",
    )


def accelerator_notes() -> Iterator[str]:
    """Assumptions and results of the ratios."""
    dense = sample_flop(preset_model("open_sora1.2_1.1b")).total
    seconds = [flightvgm(extended=extended).seconds for extended in (False, True)]
    needed_tflops = [
        dense / (published(FLIGHTVGM, "speed-up") * of_design) / 1e12 for of_design in seconds
    ]
    rates = " or ".join(f"{rate:.0f}" for rate in needed_tflops)
    yield (
        "FlightVGM: its models, samples, clock and arrays were not found. Open-Sora 1.2 takes "
        f"{seconds[0]:.0f} s on flightvgm_v80, or {seconds[1]:.0f} s with 4 products a slice. The "
        f"published speed-up needs an RTX 3090 at {rates} TFLOP/s of {RTX_3090.peak_tflops:.0f}."
    )
    step = diff_dit(differential=True)
    model = preset_model("dit_xl2")
    assert model.sample is not None
    flop = sample_flop(model).total
    needed = flop / (published(DIFF_DIT, "speed-up") * step.seconds) / 1e12
    yield (
        "Diff-DiT: clock, share of differential steps and precision of the V100 were not found. "
        f"A differential step takes {1e3 * step.seconds / model.sample.steps:.1f} ms on "
        f"diff_dit_v80. The published speed-up needs a V100 at {needed:.0f} TFLOP/s: at most "
        f"{V100_FP32.peak_tflops:g} in FP32, {V100.peak_tflops:g} with tensor cores."
    )


@cache
def flightvgm(*, extended: bool) -> Accelerated:
    """Open-Sora 1.2 on FlightVGM, with the published share of operations left out.

    Args:
        extended: Slices have the products of the extension, which carsim cannot place.
    """
    design = for_work(load_design("flightvgm_v80"), workload_of(SPARSE_WORK))
    if extended:
        design = override(design, EXTENDED)
    row = run(design, workload=SPARSE_WORK, what_if=False, allow_misfit=extended).chosen
    return _accelerated(row, design, less=published(FLIGHTVGM, "less computation"))


@cache
def diff_dit(*, differential: bool) -> Accelerated:
    """DiT-XL/2 on Diff-DiT.

    Args:
        differential: All steps are differential, instead of full.
    """
    design = load_design("diff_dit_v80")
    if differential:
        design = override(design, DIFFERENTIAL)
    row = run(design, what_if=False, allow_misfit=differential).chosen
    return _accelerated(row, design, less=1.0)


def _accelerated(row: RowResult, design: Design, *, less: float) -> Accelerated:
    """Seconds and power of a simulated sample, and its seconds at the peak.

    Args:
        row: The simulated sample.
        design: The accelerator.
        less: Operations in all over those that are left.
    """
    seconds = row.latency_s
    machine = design.machine
    flop = sample_flop(design.model)
    part_in_attention = machine.attention_array.macs_per_cycle / machine.array.macs_per_cycle
    flop_of_whole_array = flop.linear + flop.attention / part_in_attention
    cycles = flop_of_whole_array / (2 * machine.macs_per_cycle)
    return Accelerated(
        seconds=seconds,
        power_w=row.energy_per_video.value_j / row.seconds_per_video,
        peak_seconds=cycles / (1e6 * design.board.fabric_clock_mhz * less),
    )


def _flightvgm_rows() -> Iterator[Comparison]:
    """Ratios of FlightVGM."""
    model = preset_model("open_sora1.2_1.1b")
    for extended, products in ((False, 3), (True, 4)):
        own = flightvgm(extended=extended)
        what = f"FlightVGM, {products} products a slice, over {RTX_3090.name}"
        yield _speed_up(FLIGHTVGM, what, own, RTX_3090, model)
    yield _power(FLIGHTVGM, flightvgm(extended=False), RTX_3090)
    gain = 1 / (floating_share(model) / FP16_PRODUCTS + (1 - floating_share(model)) / INT8_PRODUCTS)
    yield Comparison(
        "FlightVGM: gain of the peak by the extension (rival: all products in INT8)",
        reference=published(FLIGHTVGM, "peak"),
        ours=gain,
        rival=float(INT8_PRODUCTS),
        bound=None,
        source="abstract of the paper; products of a slice: a reader's note on the paper",
        unit="x",
    )


def _diff_dit_rows() -> Iterator[Comparison]:
    """Ratios of Diff-DiT, with all steps differential."""
    model = preset_model("dit_xl2")
    step = diff_dit(differential=True)
    for gpu in (V100, V100_FP32):
        what = f"Diff-DiT, differential steps, over {gpu.name}"
        yield _speed_up(DIFF_DIT, what, step, gpu, model)
    yield _power(DIFF_DIT, step, V100)


def _speed_up(paper: str, what: str, own: Accelerated, gpu: Gpu, model: Model) -> Comparison:
    """Time of a GPU over that of an accelerator.

    Args:
        paper: Name of the accelerator.
        what: The row in words.
        own: The sample on the accelerator.
        gpu: The GPU.
        model: The model on the GPU, with its sample.
    """
    peak_seconds = sample_flop(model).total / (1e12 * gpu.peak_tflops)
    return Comparison(
        f"{what}: speed-up",
        reference=published(paper, "speed-up"),
        ours=seconds_on(gpu.machine, model) / own.seconds,
        rival=peak_seconds / own.peak_seconds,
        bound=None,
        source="abstract of the paper",
        unit="x",
    )


def _power(paper: str, own: Accelerated, gpu: Gpu) -> Comparison:
    """Power of a GPU over that of an accelerator.

    Args:
        paper: Name of the accelerator.
        own: A sample on the accelerator.
        gpu: The GPU.
    """
    reference = published(paper, "energy efficiency") / published(paper, "speed-up")
    name = gpu.name.removesuffix(" with tensor cores")
    return Comparison(
        f"{paper}: power of {name} over its own",
        reference=reference,
        ours=gpu.limit_w / own.power_w,
        rival=gpu.limit_w / CARD_W,
        bound=None,
        source="abstract of the paper: ratio of energy over speed-up",
        unit="x",
    )


def floating_share(model: Model) -> float:
    """Share of the operations of a forward that are products of queries, keys and values.

    Args:
        model: A diffusion transformer with cross-attention, and its sample.
    """
    macs = forward_macs(model)
    return (macs["attention"] + cross_attention_macs(model)) / sum(macs.values())
