"""The machine that measures: what it is, and a design of it for the simulator.

Simplifications of the design: a CPU core stands for a core with an array of products; the memory is
as fast as weights of this size were read, caches included, and stands behind a wide memory so that
its port is the limit; float32 arithmetic is counted as fp16. Energy and area mean nothing.
"""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.text import count
from carsim.base.units import GIB
from carsim.decisions.trace.meta import Geometry
from carsim.hardware.schedule import BASELINE
from carsim.measure.shape import FLOAT_BYTES, bytes_of
from carsim.measure.worker import Peaks

USUAL_CLOCK_MHZ = 2000.0
"""Clock of the design where the system does not tell the CPU's."""

LANES = 8
"""Float32 values of a 256-bit vector."""

SPARE = 0.6
"""Share of the free memory that a measurement may take."""

PORT_BITS = 512


def check_memory(shape: Geometry, workers: int, rows: int, slots: int) -> None:
    """Refuse a measurement that might not fit in free memory.

    Args:
        shape: Sizes of the decoder.
        workers: Most worker processes; each holds all weights.
        rows: Rows of the largest batch.
        slots: Tokens of the cache.

    Raises:
        InputError: It needs more than is free.
    """
    free = free_bytes()
    cache = 2 * FLOAT_BYTES * shape.n_layers * rows * slots * shape.n_kv_heads * shape.head_dim
    # A matrix is drawn and scaled, so that one more copy of the largest exists for a moment.
    largest = 4 * FLOAT_BYTES * shape.hidden_size * shape.ffn_size
    needed = workers * (bytes_of(shape) + largest) + cache
    if free is not None and needed > SPARE * free:
        problem = (
            f"{shape.name} needs {needed / GIB:.2f} GiB for {count(workers, 'worker')}, and "
            f"{free / GIB:.2f} GiB are free"
        )
        raise InputError("`model`", problem, "take a smaller model or fewer workers")


def free_bytes() -> int | None:
    """Bytes that programs can still take, or None where the system does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def facts() -> dict[str, Any]:
    """The machine in words: processor, caches, cores, system, Python."""
    return {
        "cpu": _processor(),
        "cpus": os.cpu_count() or 1,
        "clock_mhz": _clock_mhz(),
        "caches_kib": _caches_kib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def load() -> float | None:
    """Mean number of running processes over the last minute, or None."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _processor() -> str:
    """Name of the processor."""
    names = _cpuinfo("model name")
    return names[0] if names else platform.processor() or platform.machine()


def _clock_mhz() -> float:
    """Clock of the processor as the system tells it, rounded to MHz."""
    clocks = _cpuinfo("cpu MHz")
    return float(round(float(clocks[0]))) if clocks else USUAL_CLOCK_MHZ


def _cpuinfo(key: str) -> list[str]:
    """Values of a key in Linux's list of processors."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    pairs = [line.split(":", 1) for line in lines if ":" in line]
    return [value.strip() for name, value in pairs if name.strip() == key]


def _caches_kib() -> dict[str, int]:
    """Sizes of the data caches of the first CPU by level."""
    sizes = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = _line(folder / "type")
        size = _line(folder / "size")
        if kind != "Instruction" and size.endswith("K"):
            sizes["L" + _line(folder / "level")] = int(size[:-1])
    return sizes


def _line(file: Path) -> str:
    """Text of a file of the system, or nothing if there is no such file."""
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def port_clock_mhz(peaks: Peaks) -> float:
    """Clock at which the design's one port carries what was read."""
    return round(1000 * peaks.read_gbps / (PORT_BITS / 8), 1)


def design_of(
    shape: Geometry,
    *,
    name: str,
    peaks: Peaks,
    clock_mhz: float,
    batch: int,
    prompt: int,
    n_steps: int,
) -> Mapping[str, Any]:
    """A design of this machine with one worker, as the contents of a design file.

    Args:
        shape: Sizes of the decoder.
        name: Name of the processor.
        peaks: Highest rates of one worker.
        clock_mhz: Clock of the processor.
        batch: Rows.
        prompt: Tokens in the cache before the first step.
        n_steps: Steps, of one token each.
    """
    columns = max(1, -(-round(peaks.products_per_us / clock_mhz) // LANES))
    return {
        "description": f"{shape.name} on one core of {name}, as carsim measure saw it",
        "board": {
            "name": name,
            "device": "a CPU: its area, power and energy mean nothing here",
            "fabric_clock_mhz": clock_mhz,
            "technology": {"kind": "asic", "node": "7nm", "area_mm2": 800.0},
            "static_w": 0.0,
            "host_w": 0.0,
            "memories": {"ram": _memory_of(peaks)},
        },
        "machine": {
            "cores": 1,
            "array": {"rows": LANES, "cols": columns, "arithmetic": "fp16"},
            "vector": {"lanes": LANES},
            "weight_buffer_kib": 512,
            "kv_buffer_kib": 512,
            "activation_buffer_kib": 4096,
            "weight_sharing": "private",
            "include_head": False,
            "kernel_fusion": False,
        },
        "model": _model_of(shape, prompt, n_steps),
        "policy": {"batch": batch, "schedule": BASELINE.kind},
        "energy": {"preset": "asic_7nm"},
    }


def _memory_of(peaks: Peaks) -> dict[str, Any]:
    """A memory whose one port carries what was read; the memory itself is no limit."""
    return {
        "standard": "HBM3-6400",
        "channels": 32,
        "channel_bits": 32,
        "capacity_gib": 16.0,
        "interconnect_ns": 90.0,
        "ports": {
            "count": 1,
            "bits": PORT_BITS,
            "clock_mhz": port_clock_mhz(peaks),
            "burst_overhead_beats": 0,
            "outstanding": 64,
        },
    }


def _model_of(shape: Geometry, prompt: int, n_steps: int) -> dict[str, Any]:
    """The decoder as a section ``model``; all numbers are single precision."""
    body = {
        "n_layers": shape.n_layers,
        "hidden_size": shape.hidden_size,
        "n_heads": shape.n_heads,
        "n_kv_heads": shape.n_kv_heads,
        "ffn_size": shape.ffn_size,
    }
    if shape.head_dim * shape.n_heads != shape.hidden_size:
        body["head_size"] = shape.head_dim
    single_precision = {"bits": 8 * FLOAT_BYTES}
    return {
        "name": shape.name,
        "body": body,
        "head": {"kind": "linear", "vocabulary": 256},
        "weights": single_precision,
        "kv": single_precision,
        "activations": single_precision,
        "replay": single_precision,
        "video": {"frames": n_steps, "tokens_per_frame": 1, "prompt_tokens": prompt},
    }
