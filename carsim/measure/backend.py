"""NumPy, or PyTorch, behind the few functions that the decoder calls.

The decoder is written once, in functions that NumPy and PyTorch have in common. A backend makes
arrays and takes the time.

Time: NumPy and PyTorch on a CPU count CPU time of the thread, so that other programs' turns do not
count. PyTorch on a GPU records events, so that blocks still overlap with the launches of the next.
"""

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import library

BackendName = Literal["numpy", "torch"]


class Backend(Protocol):
    """A library of arrays, and its clock."""

    xp: Any
    """Module with ``exp``, ``sqrt``, ``amax``, ``sum``, ``concatenate``."""
    libraries: dict[str, str]
    """Libraries and what they run on, in words."""

    def array(self, values: NDArray[Any]) -> Any:
        """An array of the library, with these values."""

    def mark(self) -> Any:
        """A point in time."""

    def elapsed_us(self, marks: Sequence[Any]) -> list[float]:
        """Microseconds from each mark to the next."""


class NumpyBackend:
    """NumPy, on one thread."""

    def __init__(self) -> None:
        self.xp: Any = np
        self.libraries = {"numpy": np.__version__, "blas": _blas(), "device": "CPU"}

    def array(self, values: NDArray[Any]) -> Any:
        """An array in memory of this process."""
        return np.ascontiguousarray(values)

    def mark(self) -> Any:
        """CPU time of this thread in nanoseconds."""
        return time.thread_time_ns()

    def elapsed_us(self, marks: Sequence[Any]) -> list[float]:
        """Microseconds of CPU time between marks."""
        return [(after - before) / 1e3 for before, after in pairwise(marks)]


class TorchBackend:
    """PyTorch on a GPU if there is one, else on one thread of the CPU."""

    def __init__(self) -> None:
        self.xp: Any = library("torch", "carsim measure --backend torch")
        torch = self.xp
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        self._is_gpu = bool(torch.cuda.is_available())
        self._device = "cuda" if self._is_gpu else "cpu"
        name = torch.cuda.get_device_name() if self._is_gpu else "CPU"
        self.libraries = {"torch": torch.__version__, "blas": "of PyTorch", "device": name}

    def array(self, values: NDArray[Any]) -> Any:
        """A tensor on the device."""
        return self.xp.from_numpy(np.ascontiguousarray(values)).to(self._device)

    def mark(self) -> Any:
        """An event on the GPU's stream, or CPU time of this thread in nanoseconds."""
        if not self._is_gpu:
            return time.thread_time_ns()
        event = self.xp.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed_us(self, marks: Sequence[Any]) -> list[float]:
        """Microseconds between marks; waits for the GPU."""
        pairs = list(pairwise(marks))
        if not self._is_gpu:
            return [(after - before) / 1e3 for before, after in pairs]
        self.xp.cuda.synchronize()
        return [1e3 * before.elapsed_time(after) for before, after in pairs]


def backend_of(name: BackendName) -> Backend:
    """The backend of a name.

    Raises:
        InputError: PyTorch is asked for and not installed.
    """
    return TorchBackend() if name == "torch" else NumpyBackend()


def _blas() -> str:
    """The library that multiplies NumPy's matrices, with its version."""
    config: Any = np.show_config(mode="dicts")
    blas = (config or {}).get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
