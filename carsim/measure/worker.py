"""Processes that measure: one or several, each on one thread and pinned to a CPU of its own.

Several workers meet after each block in a barrier that spins and yields. The time of a block is the
longest time of its workers, without the wait. It is CPU time, because wall time would count the
turns of other programs.
"""

import gc
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import fsum
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import environment, follow_parent
from carsim.base.errors import CarsimError, InputError
from carsim.base.pools import check_guarded
from carsim.decisions.trace.meta import Geometry
from carsim.measure.backend import Backend, BackendName, backend_of
from carsim.measure.decoder import Barrier, Decoder, Probe, Rows, probe_rows, rows_of
from carsim.measure.settings import Kind, Setting, computing_rows

THREADS = [
    f"{name}_THREADS"
    for name in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "VECLIB_MAXIMUM", "NUMEXPR_NUM")
]
"""Variables that give libraries one thread; they are read when a library is imported."""

WARM_STEPS = 2
"""Steps of each setting that run untimed first."""

PROBES = 25
"""Repetitions of the test of bandwidth and products."""

PROBE_ROWS = 128
"""Rows of activations in the test of products: many enough that weights stay in a cache."""


PROBES_OF: Mapping[Kind, Probe] = {"gathered": "gather", "added": "replay"}
"""Settings that time a part of the MLP alone."""


class Visit(NamedTuple):
    """One step of one setting."""

    setting: int
    step: int


class Peaks(NamedTuple):
    """Highest rates of one worker while all work: 90th percentile over repetitions."""

    read_gbps: float
    products_per_us: float


@dataclass(frozen=True)
class Job:
    """Work of all processes.

    Attributes:
        shape: Sizes of the decoder.
        backend: Library of arrays.
        prompt: Tokens in the cache before the first step.
        n_steps: Steps of a video.
        workers: Processes.
        seed: Draws weights and inputs.
        settings: What is timed.
        decisions: Decisions by the name of :class:`~carsim.measure.settings.Decided`.
    """

    shape: Geometry
    backend: BackendName
    prompt: int
    n_steps: int
    workers: int
    seed: int
    settings: tuple[Setting, ...]
    decisions: Mapping[str, NDArray[np.bool_]]

    @property
    def rows(self) -> int:
        """Rows of the largest batch."""
        return max(setting.batch for setting in self.settings)

    def plan_of(self, setting: Setting, backend: Backend, worker: int) -> list[list[Rows]]:
        """Rows of a worker's MLPs, by step and layer."""
        probe = PROBES_OF.get(setting.kind)
        if probe is not None:
            rows = probe_rows(backend, setting.batch, worker, self.workers, probe)
            return [[rows] * self.shape.n_layers] * self.n_steps
        decisions = np.zeros((self.n_steps, self.shape.n_layers, setting.batch), bool)
        if setting.decided is not None:
            decisions = self.decisions[setting.decided.name]
        holds = setting.kind in ("replay", "unskipped")
        computing = computing_rows(decisions, self.workers, setting.schedule)
        plan = []
        for of_step in computing:
            rows_of_layers = [
                rows_of(backend, of_layer, setting.batch, worker, holds=holds)
                for of_layer in of_step
            ]
            plan.append(rows_of_layers)
        return plan


class Crew:
    """Processes at work, as their parent sees them.

    Attributes:
        libraries: Libraries and devices, in words.
        peaks: Highest rates of all workers together.
        cpus: CPUs that workers are pinned to; empty where the system cannot pin.
    """

    def __init__(self, connections: Sequence[Connection], job: Job) -> None:
        self._connections = connections
        self._job = job
        peaks: list[Peaks] = []
        libraries_of_workers: list[dict[str, str]] = []
        self.cpus: list[int] = []
        for connection in connections:
            libraries, peak, cpu = _received(connection)
            libraries_of_workers.append(libraries)
            peaks.append(peak)
            if cpu is not None:
                self.cpus.append(cpu)
        self.libraries = libraries_of_workers[0]
        self.peaks = Peaks(
            read_gbps=fsum(peak.read_gbps for peak in peaks),
            products_per_us=fsum(peak.products_per_us for peak in peaks),
        )

    def time(self, visits: Sequence[Visit]) -> NDArray[np.float64]:
        """Time steps, one after the other.

        Returns:
            Microseconds of attention and of MLPs, summed over layers, [visits, 2].
        """
        for connection in self._connections:
            connection.send(list(visits))
        of_workers = np.array([_received(connection) for connection in self._connections])
        slowest = of_workers.max(axis=0)  # [visits, 2 L]: attention and MLP of each layer
        attention_us = slowest[:, ::2].sum(axis=1)
        mlp_us = slowest[:, 1::2].sum(axis=1)
        return np.stack([attention_us, mlp_us], axis=1)


@contextmanager
def crew_of(job: Job) -> Iterator[Crew]:
    """Start the processes of a job, and end them.

    Raises:
        InputError: A process died or cannot work.
    """
    check_guarded()
    context = multiprocessing.get_context("spawn")
    width = job.shape.hidden_size
    # RawArray is memory without a lock; the barrier orders who writes when.
    residual = context.RawArray("f", job.rows * width)
    held_outputs = context.RawArray("f", job.shape.n_layers * job.rows * width)
    arrivals = context.RawArray("q", job.workers)
    shared = (residual, held_outputs, arrivals)
    processes = []
    connections = []
    try:
        with environment(dict.fromkeys(THREADS, "1")):
            for worker in range(job.workers):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_work, args=(job, worker, shared, theirs), daemon=True
                )
                process.start()
                theirs.close()
                processes.append(process)
                connections.append(ours)
        yield Crew(connections, job)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        for connection in connections:
            connection.close()


def _received(connection: Connection) -> Any:
    """The next message of a worker.

    Raises:
        InputError: The worker ended, or says that it cannot work.
    """
    try:
        message = connection.recv()
    except (EOFError, OSError):
        cure = "free some memory, or take a smaller --model"
        raise InputError("`out`", "a measuring process died", cure) from None
    if isinstance(message, CarsimError):
        raise message
    return message


def _work(job: Job, worker: int, shared: tuple[Any, Any, Any], connection: Connection) -> None:
    """A worker's life: build the decoder, warm up, then time what the parent asks for."""
    follow_parent()
    try:
        backend = backend_of(job.backend)
    except CarsimError as error:
        connection.send(error)
        return
    cpu = _pin(worker)
    residual, held_outputs, arrivals = shared
    rows = job.rows
    width = job.shape.hidden_size
    stream = np.frombuffer(residual, np.float32).reshape(rows, width)
    outputs = np.frombuffer(held_outputs, np.float32).reshape(job.shape.n_layers, rows, width)
    decoder = Decoder(
        backend,
        job.shape,
        prompt=job.prompt,
        n_steps=job.n_steps,
        rows=rows,
        worker=worker,
        workers=job.workers,
        # A worker alone may keep them on its device; several share memory.
        residual=backend.array(stream),
        held=backend.array(outputs),
        seed=job.seed,
    )
    barrier = _barrier(arrivals, worker, job.workers)
    plans = [job.plan_of(setting, backend, worker) for setting in job.settings]

    def timed(visit: Visit) -> list[float]:
        """Microseconds of the blocks of one step."""
        batch = job.settings[visit.setting].batch
        plan = plans[visit.setting][visit.step]
        return decoder.step(visit.step, batch, plan=plan, barrier=barrier)

    for number in range(len(job.settings)):
        for step in range(min(WARM_STEPS, job.n_steps)):
            timed(Visit(number, step))
    barrier()
    connection.send((backend.libraries, _peaks(decoder), cpu))
    gc.disable()
    while True:
        try:
            visits: list[Visit] = connection.recv()
        except EOFError:
            return
        connection.send([timed(visit) for visit in visits])


def _pin(worker: int) -> int | None:
    """Pin this process to one CPU. Returns its number, or None where the system cannot pin."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    # From the last one: the first CPU often serves interrupts.
    cpu = allowed[-1 - worker % len(allowed)]
    with suppress(OSError):
        os.sched_setaffinity(0, {cpu})
        return cpu
    return None


def _barrier(arrivals: Any, worker: int, workers: int) -> Barrier:
    """A barrier of all workers; nothing for a worker alone."""
    if workers == 1:
        return lambda: None
    other_workers = [number for number in range(workers) if number != worker]
    pause = getattr(os, "sched_yield", lambda: None)
    count = 0

    def wait() -> None:
        nonlocal count
        count += 1
        arrivals[worker] = count
        for number in other_workers:
            while arrivals[number] < count:
                pause()

    return wait


def _peaks(decoder: Decoder) -> Peaks:
    """Test what this worker reads and multiplies at most, over the weights of all layers."""
    weights_of_layer = decoder.shape.hidden_size * 2 * decoder.shape.ffn_size
    weights = weights_of_layer * len(decoder.layers)
    read_us = float(np.quantile(_probe_us(decoder, 1), 0.1))
    products_us = float(np.quantile(_probe_us(decoder, PROBE_ROWS), 0.1))
    return Peaks(
        read_gbps=4 * weights / read_us / 1e3,
        products_per_us=PROBE_ROWS * weights / products_us,
    )


def _probe_us(decoder: Decoder, rows: int) -> list[float]:
    """Microseconds of each of several products of some rows with the weights of all layers."""
    backend = decoder.backend
    x = backend.array(np.ones((rows, decoder.shape.hidden_size), np.float32))
    times: list[float] = []
    for _ in range(PROBES):
        before = backend.mark()
        for layer in decoder.layers:
            x @ layer.w_gate_up
        times += backend.elapsed_us([before, backend.mark()])
    return times
