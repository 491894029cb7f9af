"""Published times of dense diffusion on GPUs, and four ways to predict them.

Each row of ``data/diffusion_times.csv`` names a preset, changes of its sample, a GPU and the kernel
of its attention. Times in ``data/diffusion_times_held_back.csv`` became countable after rates and
factors had been fitted, and are checks of them. ``data/diffusion_times_left_out.csv`` counts all
other figures that were found, with the reason why they are not used. A *system* is a runtime on a
GPU. Column ``work`` says how the operations are known: all of the set-up is ``stated``; the steps
are the ``default`` of the released script; or they follow from the operations that the same table
states (``by its FLOPs``).

Ways to predict a time (:data:`WAYS`):

* ``two rates``: operations of linear layers at one share of the data-sheet peak, those of attention
  at another share for each kernel. Both are fitted to other systems on the same GPU if at least two
  of them have the kernel of the row, else to all other systems.
* ``one rate``: all operations at the mean rate of other systems on the same GPU; where there are
  none, at the share of the next way.
* ``share of peak``: all operations at one share of the data-sheet peak.
* ``simulated``: carsim's machine of the GPU (:data:`MACHINES`), where there is one.

Simplifications: text encoder, pixel decoder, offloading and launches are part of the rates. Image
conditions (I2V) are left out of the operations, which is below 1 %.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import exp, log
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from carsim.account.simulation import simulate_policy
from carsim.base.groups import grouped
from carsim.decisions.attention import Dense
from carsim.design import Design, load_design, override
from carsim.design.load import build_design, configs_folder
from carsim.hardware.schedule import BASELINE
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.program.sample import macs_of_all_forwards, text_macs
from carsim.validate.peers import data_rows
from carsim.validate.preset_counts import preset_model
from carsim.workload.geometry import Video
from carsim.workload.model import Model

KERNELS = {
    "flash_2": "FlashAttention 2",
    "flash_3": "FlashAttention 3",
    "open": "kernel not stated (Hopper, Blackwell)",
}
"""Kernel of attention -> its name. FlashAttention 3 runs on Hopper alone, so that the kernel of
other GPUs is taken as FlashAttention 2 where a source does not state it."""

PEAK_TFLOPS: Mapping[str, float] = {
    "H100": 989.4,
    "H20": 148.0,
    "A100": 312.0,
    "B200": 2250.0,
    "RTX 4090": 165.2,
    "L40": 181.0,
    "A40": 149.7,
    "RTX A5000": 111.1,
}
"""Dense bf16 products with 32-bit sums, from NVIDIA's data sheets. H800 and A800 have the arrays of
H100 and A100. An H100 whose form is not stated counts as SXM."""

MUFU_PER_CYCLE = 16
"""Exponentials a cycle of a streaming multiprocessor of compute capability 8.0 to 9.0: CUDA C++
Programming Guide, table of the throughput of arithmetic instructions."""


class GpuMachine(NamedTuple):
    """A shipped design of a GPU, and what differs where it runs forwards.

    Attributes:
        folder: Folder of the design in ``configs``.
        name: Name of the design.
        changes: Fields that differ.
    """

    folder: str
    name: str
    changes: Mapping[str, Any]


MACHINES: Mapping[str, GpuMachine] = {
    # 2,048 products a cycle of a multiprocessor at 1,830 MHz are the 989.4 TFLOP/s of the data
    # sheet. The shipped design has half of them, which decoding does not notice.
    "H100": GpuMachine(
        "boards", "h100sxm", {"machine.array.cols": 128, "board.fabric_clock_mhz": 1830.0}
    ),
    "A100": GpuMachine("published", "llamacpp_a100sxm", {}),
    # With 32-bit sums a GeForce has half of its products: 165.2 TFLOP/s (NVIDIA's Ada white paper).
    "RTX 4090": GpuMachine("published", "llamacpp_rtx4090", {"machine.array.cols": 16}),
    "A40": GpuMachine("published", "llamacpp_a40", {}),
}
"""GPU -> its machine. A100 and A40 have the products of their data sheets as shipped."""

FORWARD_CHANGES: Mapping[str, Any] = {
    # Thread blocks of tokens and of queries are dealt to multiprocessors.
    "machine.mapping": "batch",
    "machine.vector.exponentials_per_cycle": MUFU_PER_CYCLE,
    "model.weights.bits": 16,
    "model.kv.bits": 16,
    "model.activations.bits": 16,
}
"""What differs in every machine that runs forwards."""


LEAST_ON_GPU = 2
"""Fewest other systems on a GPU with the kernel of a row, for rates of the GPU itself."""


class Flop(NamedTuple):
    """Operations of a sample in FLOP: of linear layers, and of self-attention."""

    linear: float
    attention: float

    @property
    def total(self) -> float:
        """All operations."""
        return self.linear + self.attention


@dataclass(frozen=True)
class ForwardTime:
    """One published time; fields are the columns of the file.

    Attributes:
        system: Runtime or publication.
        gpu: A key of :data:`PEAK_TFLOPS`.
        kernel: A key of :data:`KERNELS`.
        model: Name of the preset.
        sample: Changes of its sample.
        seconds: Seconds of a whole sample.
        work: How the operations are known.
        scope: What the time holds.
        source: Where it stands.
        note: What one has to know of it.
    """

    system: str
    gpu: str
    kernel: str
    model: str
    sample: str
    seconds: float
    work: str
    scope: str
    source: str
    note: str

    @property
    def unit(self) -> str:
        """Runtime and GPU; rows of one unit are of the same system."""
        return f"{self.system}, {self.gpu}"

    @cached_property
    def spec(self) -> Model:
        """The model with the sample of this row."""
        return preset_model(self.model, self.sample)

    @property
    def what(self) -> str:
        """The row in words."""
        sample = self.spec.sample
        assert sample is not None
        return f"{self.unit}: {self.spec.name}, {sample.in_words}"

    @cached_property
    def flop(self) -> Flop:
        """Operations of the sample."""
        return sample_flop(self.spec)

    @property
    def peak_seconds(self) -> float:
        """Seconds of all operations at the data-sheet peak."""
        return self.flop.total / peak_of(self.gpu)


def forward_times() -> tuple[ForwardTime, ...]:
    """The published times, in the order of the file."""
    return _times_of("diffusion_times.csv")


def held_back_times() -> tuple[ForwardTime, ...]:
    """Published times that no rate and no factor was fitted to."""
    return _times_of("diffusion_times_held_back.csv")


def _times_of(file: str) -> tuple[ForwardTime, ...]:
    """The times of a file, in its order."""
    return tuple(
        ForwardTime(**{**row, "seconds": float(row["seconds"])})  # type: ignore[arg-type]
        for row in data_rows(file)
    )


def peak_of(gpu: str) -> float:
    """Data-sheet peak of a GPU in FLOP/s."""
    return 1e12 * PEAK_TFLOPS[gpu]


def sample_flop(model: Model) -> Flop:
    """Operations of a sample, all chunks and all passes of guidance included."""
    sample = model.sample
    assert sample is not None
    macs = macs_of_all_forwards(model)
    attention = macs.get("attention", 0)
    linear = sum(macs.values()) - attention + text_macs(model)
    return Flop(linear=2.0 * sample.passes * linear, attention=2.0 * sample.passes * attention)


# ---------------------------------------------------------------- ways to predict


class Shares(NamedTuple):
    """Shares of the data-sheet peak.

    Attributes:
        linear: Of linear layers.
        attention: Of attention, by kernel.
    """

    linear: float
    attention: Mapping[str, float]

    def seconds(self, flop: Flop, gpu: str, kernel: str) -> float:
        """Seconds of some operations.

        Args:
            flop: The operations.
            gpu: The GPU.
            kernel: The kernel of attention.
        """
        linear_s = flop.linear / (self.linear * peak_of(gpu))
        attention_s = flop.attention / (self.attention[kernel] * peak_of(gpu))
        return linear_s + attention_s


def fit_shares(rows: Sequence[ForwardTime]) -> Shares:
    """Shares with the least squares of relative errors, each system counting once.

    No share is above 1: a rate that would be is taken at the peak, and the others are fitted anew.

    Args:
        rows: Published times.
    """
    kernels = list(dict.fromkeys(row.kernel for row in rows))
    counts = {unit: len(of_unit) for unit, of_unit in _by_unit(rows).items()}
    scale = np.array([counts[row.unit] ** -0.5 for row in rows])
    # Seconds at the peak of each kind of operations over published seconds: float[rows, kinds].
    columns = np.array([_at_peak(row, kernels) for row in rows])
    inverse = np.ones(columns.shape[1])
    free = np.ones(columns.shape[1], np.bool_)
    while free.any():
        rest = 1 - columns[:, ~free].sum(axis=1)
        fitted, *_ = np.linalg.lstsq(columns[:, free] * scale[:, None], rest * scale, rcond=None)
        inverse[free] = fitted
        if (fitted >= 1).all():
            break
        free &= inverse >= 1
        inverse[~free] = 1
    shares = [float(1 / each) for each in inverse]
    return Shares(shares[0], dict(zip(kernels, shares[1:], strict=True)))


def _at_peak(row: ForwardTime, kernels: Sequence[str]) -> list[float]:
    """Seconds at the peak over published seconds: of linear layers, of attention by kernel."""
    one = peak_of(row.gpu) * row.seconds
    of_kernels = [row.flop.attention / one * (row.kernel == kernel) for kernel in kernels]
    return [row.flop.linear / one, *of_kernels]


def two_rates_s(row: ForwardTime, others: Sequence[ForwardTime]) -> float:
    """Seconds by one rate for linear layers and one for attention.

    The rates are those of other systems on the same GPU if enough of them have the kernel, else
    the same shares of the peak as those of other GPUs.
    """
    of_gpu = [other for other in others if other.gpu == row.gpu]
    same_kernel = {other.unit for other in of_gpu if other.kernel == row.kernel}
    chosen = of_gpu if len(same_kernel) >= LEAST_ON_GPU else others
    return fit_shares(chosen).seconds(row.flop, row.gpu, row.kernel)


def share_of_peak_s(row: ForwardTime, others: Sequence[ForwardTime]) -> float:
    """Seconds of all operations at one share of the peak, the geometric mean over systems."""
    logs = grouped((other.unit, log(other.seconds / other.peak_seconds)) for other in others)
    return row.peak_seconds * exp(fmean(map(fmean, logs.values())))


def one_rate_s(row: ForwardTime, others: Sequence[ForwardTime]) -> float:
    """Seconds of all operations at the mean rate of other systems on the GPU."""
    of_gpu = [other for other in others if other.gpu == row.gpu]
    return share_of_peak_s(row, of_gpu or others)


def simulated_s(row: ForwardTime, others: Sequence[ForwardTime]) -> float:
    """Seconds that carsim's machine of the GPU takes; no other row is looked at."""
    return machine_seconds(row.gpu, row.model, row.sample)


Way = Callable[[ForwardTime, Sequence[ForwardTime]], float]

TWO_RATES = "two rates"
ONE_RATE = "one rate"
SHARE = "share of peak"
SIMULATED = "simulated"

WAYS: Mapping[str, Way] = {
    TWO_RATES: two_rates_s,
    ONE_RATE: one_rate_s,
    SHARE: share_of_peak_s,
    SIMULATED: simulated_s,
}
"""Way -> its seconds of a row, given the rows of all other systems."""


# ------------------------------------------------------------------ simulation


def machine_of(gpu: str, model: Model) -> Design:
    """The machine of a GPU that makes the sample of a model.

    Args:
        gpu: A key of :data:`MACHINES`.
        model: The model, with its sample.
    """
    return gpu_design(MACHINES[gpu], model)


def gpu_design(machine: GpuMachine, model: Model) -> Design:
    """A machine that makes the sample of a model, with the bits of its checkpoint.

    Args:
        machine: The machine.
        model: The model, with its sample.
    """
    path = configs_folder() / machine.folder / f"{machine.name}.yaml"
    sample = model.sample
    assert sample is not None
    raw = {**load_design(str(path)).model_dump(), "model": model.model_dump()}
    changes = {**machine.changes, **FORWARD_CHANGES, "policy.batch": sample.passes}
    return override(build_design(raw, machine.name), changes)


@cache
def machine_seconds(gpu: str, preset: str, changes: str) -> float:
    """Simulated seconds of a sample, without runtime overhead.

    Args:
        gpu: A key of :data:`MACHINES`.
        preset: Name of the model's preset.
        changes: Changes of its sample.
    """
    return seconds_on(MACHINES[gpu], preset_model(preset, changes))


def seconds_on(machine: GpuMachine, model: Model) -> float:
    """Simulated seconds of a sample on a machine, without runtime overhead.

    Forwards of a sample without chunks are alike, so that one of them is simulated.

    Args:
        machine: The machine.
        model: The model, with its sample.
    """
    sample = model.sample
    assert sample is not None
    alike = sample.steps if sample.chunk_frames is None else 1
    once = sample.model_copy(update={"steps": sample.steps // alike})
    design = gpu_design(machine, model.model_copy(update={"sample": once}))
    phases = Phases(Hardware(design), "fluid")
    video = Video(once.forwards, 1, 0)
    plan = Plan(phases, video, Dense(), BASELINE.kind, None, range(once.forwards))
    shape = (1, once.forwards, model.body.n_layers, sample.passes)
    dense = Batches(np.zeros(shape, np.bool_), 1, 0, "dense", "dense")
    totals = simulate_policy(plan, dense).totals
    # What is made of the prompt is made once a sample.
    text_cycles = totals["prefill"].cycles if "prefill" in totals else 0
    forward_cycles = sum(total.cycles for total in totals.values()) - text_cycles
    cycles = text_cycles + alike * forward_cycles
    return cycles / (1e6 * design.board.fabric_clock_mhz)


def _by_unit(rows: Sequence[ForwardTime]) -> dict[str, list[ForwardTime]]:
    return grouped((row.unit, row) for row in rows)
