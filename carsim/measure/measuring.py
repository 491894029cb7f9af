"""The measurement: plan, memory check, rounds in random order, files that are valid at any time."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.base.files import make_folder, write_whole
from carsim.base.text import count
from carsim.base.yaml_file import read_mapping, yaml_text
from carsim.decisions.trace import Trace, save_trace
from carsim.decisions.trace.stated import stated_trace
from carsim.design import Design
from carsim.design.load import load_design
from carsim.measure import host
from carsim.measure.backend import BackendName
from carsim.measure.folder import BLOCKS, HOST, NOISE, REPLAY, SAMPLES, SETUP, TRACES, dense_file
from carsim.measure.samples import append_round, read_rounds
from carsim.measure.settings import Setting, decided_of, settings_of
from carsim.measure.shape import bytes_of, shape_of
from carsim.measure.tables import (
    LEAST_ROUNDS,
    Measured,
    Row,
    as_csv,
    block_rows,
    dense_rows,
    noise_rows,
    replay_rows,
)
from carsim.measure.worker import Crew, Job, Peaks, Visit, crew_of
from carsim.workload.workload import Workload

CHUNKS = 12
"""Parts of a round, after each of which progress is shown."""

MOST_ROUNDS = 201

Progress = Callable[[float, float, str], None]
"""Is told seconds spent, seconds in all, and what is measured."""


@dataclass(frozen=True)
class Wish:
    """A measurement as it is asked for.

    Attributes:
        model: Name of a decoder.
        batches: Batches that are measured densely and replaying.
        workers: Numbers of worker processes.
        percents: Replay ratios in percent.
        backend: Library of arrays.
        prompt: Tokens in the cache before the first step.
        n_steps: Steps; the first never replays.
        seed: Draws weights, decisions and the order of steps.
    """

    model: str
    batches: tuple[int, ...] = (1, 2, 4, 8)
    workers: tuple[int, ...] = (1,)
    percents: tuple[int, ...] = (20, 40, 60, 80)
    backend: BackendName = "numpy"
    prompt: int = 32
    n_steps: int = 13
    seed: int = 0

    @property
    def identity(self) -> dict[str, Any]:
        """Fields that two runs must share for their rounds to be pooled."""
        lists = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }
        return {**lists, "carsim": version("carsim")}


@dataclass(frozen=True)
class Outcome:
    """Results of a measurement.

    Attributes:
        folder: Where the files lie.
        rounds: Complete rounds by number of workers.
        replay: Rows of ``replay.csv``.
        noise: Rows of ``noise.csv``.
        cut: Numbers of workers with too few rounds for a median.
    """

    folder: Path
    rounds: dict[int, int]
    replay: tuple[Row, ...]
    noise: tuple[Row, ...]
    cut: tuple[int, ...]


def measure(wish: Wish, folder: Path, minutes: float, progress: Progress) -> Outcome:
    """Measure until the time is up, or continue a measurement.

    Args:
        wish: What to measure.
        folder: Where files go: a new folder, or one of an equal wish on an equal machine.
        minutes: Time for all numbers of workers together.
        progress: Told how far the measurement is.

    Raises:
        InputError: A wish that makes no sense, too little memory, or a folder of something else.
    """
    shape = shape_of(wish.model)
    plans = {workers: _plan(wish, workers) for workers in wish.workers}
    if wish.backend == "torch" and max(plans) > 1:
        raise InputError("`workers`", "PyTorch is measured with one worker", "say --workers 1")
    if wish.backend == "torch":
        library("torch", "`backend` torch")  # before anything is written
    host.check_memory(shape, max(plans), max(wish.batches), wish.prompt + wish.n_steps)
    decisions = {
        decided.name: decided.draw(wish.n_steps, shape.n_layers, wish.seed)
        for decided in decided_of(wish.batches, wish.percents)
    }
    setup = _setup(wish, folder)
    make_folder(folder)
    peaks: dict[int, Peaks] = {}
    for workers_text, rates in setup.get("peaks", {}).items():
        peaks[int(workers_text)] = Peaks(
            read_gbps=rates["read_gbps"], products_per_us=rates["products_per_us"]
        )
    seconds = 60 * minutes
    share_s = seconds / len(plans)
    try:
        for index, (workers, settings) in enumerate(plans.items()):
            job = Job(
                shape=shape,
                backend=wish.backend,
                prompt=wish.prompt,
                n_steps=wish.n_steps,
                workers=workers,
                seed=wish.seed,
                settings=settings,
                decisions=decisions,
            )
            with crew_of(job) as crew:
                peaks[workers] = _best(peaks.get(workers), crew.peaks)
                setup |= _of_crew(setup, crew, workers, peaks)
                write_whole(folder / SETUP, yaml_text(setup))
                tell = partial(
                    _tell_share,
                    progress,
                    seconds=seconds,
                    share_s=share_s,
                    before_s=index * share_s,
                    label=count(workers, "worker"),
                )
                _rounds(crew, job, folder / SAMPLES, budget_s=share_s, tell=tell)
    finally:
        outcome = _write(wish, folder, plans, peaks, decisions)
    return outcome


def _tell_share(
    progress: Callable[[float, float, str], None],
    now_s: float,
    *,
    seconds: float,
    share_s: float,
    before_s: float,
    label: str,
) -> None:
    """Tell how far the whole measurement is, from how far one number of workers is.

    Args:
        progress: Told seconds that are over, seconds in all, and what is measured.
        now_s: Seconds since these workers began.
        seconds: Seconds in all.
        share_s: Seconds of these workers.
        before_s: Seconds of the numbers of workers before.
        label: What is measured, such as ``2 workers``.
    """
    progress(before_s + min(now_s, share_s), seconds, label)


def _plan(wish: Wish, workers: int) -> tuple[Setting, ...]:
    """Settings of a number of workers.

    Raises:
        InputError: No batch divides among them.
    """
    settings = settings_of(wish.batches, wish.percents, workers)
    if not settings:
        problem = f"no batch of {', '.join(map(str, wish.batches))} divides among {workers} workers"
        raise InputError("`workers`", problem, "give other --rows")
    return settings


def _setup(wish: Wish, folder: Path) -> dict[str, Any]:
    """The record of the measurement in a folder, or a new one.

    Raises:
        InputError: Another measurement is there, or files that are none.
    """
    facts = {"measures": wish.identity, "machine": host.facts()}
    file = folder / SETUP
    if file.exists():
        stored = read_mapping(file)
        for key, values in facts.items():
            stored_values = stored.get(key) or {}
            for field, value in values.items():
                if field == "clock_mhz":  # varies from moment to moment
                    continue
                stored_value = stored_values.get(field)
                if stored_value != value:
                    problem = f"has another measurement: {field} is {stored_value!r}"
                    raise InputError(str(folder), problem, "name another --out")
        return stored
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(str(folder), "holds other files", "name a new folder with --out")
    weights_mb = round(bytes_of(shape_of(wish.model)) / 1e6, 2)
    return {
        **facts,
        "weights_mb": weights_mb,
        "threads_per_worker": 1,
        "date": date.today().isoformat(),
        "load": host.load(),
    }


def _of_crew(
    setup: dict[str, Any], crew: Crew, workers: int, peaks: dict[int, Peaks]
) -> dict[str, Any]:
    """Facts that the processes tell of themselves: libraries, CPUs and highest rates.

    Raises:
        InputError: Libraries differ from those of earlier rounds.
    """
    if setup.get("libraries", crew.libraries) != crew.libraries:
        problem = f"earlier rounds were measured with {setup['libraries']}"
        raise InputError("`out`", problem, "name another --out")
    pinned = {**setup.get("pinned_cpus", {}), str(workers): crew.cpus}
    rates = {}
    for number, peak in peaks.items():
        rates[str(number)] = {
            "read_gbps": float(peak.read_gbps),
            "products_per_us": float(peak.products_per_us),
        }
    return {"libraries": crew.libraries, "pinned_cpus": pinned, "peaks": rates}


def _best(before: Peaks | None, now: Peaks) -> Peaks:
    """The higher rates of two tests: a busy machine shows lower ones."""
    if before is None:
        return now
    return Peaks(
        read_gbps=max(before.read_gbps, now.read_gbps),
        products_per_us=max(before.products_per_us, now.products_per_us),
    )


def _rounds(
    crew: Crew, job: Job, samples: Path, budget_s: float, tell: Callable[[float], None]
) -> None:
    """Measure rounds until the time is up, at least one, and those that a median needs."""
    began = monotonic()
    number = len(read_rounds(samples, job.workers, job.settings, job.n_steps))
    visits = [
        Visit(setting, step) for setting in range(len(job.settings)) for step in range(job.n_steps)
    ]
    last_s = 0.0
    while number < MOST_ROUNDS:
        start = monotonic()
        if number >= LEAST_ROUNDS and start + last_s > began + budget_s:
            return
        order = np.random.default_rng([job.seed, number]).permutation(len(visits))
        times = np.empty((len(job.settings), job.n_steps, 2))
        for chunk in np.array_split(order, CHUNKS):
            visits_of_chunk = [visits[index] for index in chunk]
            microseconds = crew.time(visits_of_chunk)
            for visit, of_visit in zip(visits_of_chunk, microseconds, strict=True):
                times[visit] = of_visit
            tell(monotonic() - began)
        append_round(samples, job.workers, number, job.settings, times)
        last_s = monotonic() - start
        number += 1


def _write(
    wish: Wish,
    folder: Path,
    plans: dict[int, tuple[Setting, ...]],
    peaks: dict[int, Peaks],
    decisions: dict[str, NDArray[np.bool_]],
) -> Outcome:
    """Write all results of complete rounds."""
    shape = shape_of(wish.model)
    done: dict[int, int] = {}
    enough: list[Measured] = []
    for workers, settings in plans.items():
        times = read_rounds(folder / SAMPLES, workers, settings, wish.n_steps)
        done[workers] = len(times)
        if len(times) >= LEAST_ROUNDS:
            enough.append(Measured(workers, settings, times, shape.n_layers))
    cut = tuple(workers for workers, number in done.items() if number < LEAST_ROUNDS)
    if not enough:
        return Outcome(folder, done, (), (), cut)
    design = _write_host(wish, folder, peaks)
    _write_traces(folder / TRACES, design, decisions)
    workload = f"text:{wish.prompt}+{wish.n_steps}"
    blocks: list[Row] = []
    replay: list[Row] = []
    noise: list[Row] = []
    for measured in enough:
        workers = measured.workers
        changes = changes_of(workers, peaks)
        dense = list(dense_rows(measured, workload, changes))
        write_whole(folder / dense_file(workers), as_csv(dense))
        blocks += block_rows(measured)
        replay += replay_rows(measured, decisions)
        noise += noise_rows(measured)
    for name, rows in {BLOCKS: blocks, REPLAY: replay, NOISE: noise}.items():
        write_whole(folder / name, as_csv(rows))
    return Outcome(folder, done, tuple(replay), tuple(noise), cut)


def changes_of(workers: int, peaks: Mapping[int, Peaks]) -> str:
    """Changes of the design for a number of workers: cores, what all read, and what one reads.

    Args:
        workers: Worker processes.
        peaks: Highest rates of all workers together, by their number.
    """
    if workers == 1:
        return ""
    clock_mhz = host.port_clock_mhz(peaks[workers])
    changes = f"machine.cores={workers} board.memories.ram.ports.clock_mhz={clock_mhz}"
    if 1 in peaks:
        changes += f" machine.core_gbps={round(peaks[1].read_gbps, 2)}"
    return changes


def _write_host(wish: Wish, folder: Path, peaks: dict[int, Peaks]) -> Design:
    """Write the design of this machine, with one worker, and return it as loaded."""
    machine = read_mapping(folder / SETUP)["machine"]
    fewest = min(peaks)
    alone = Peaks(*(rate / fewest for rate in peaks[fewest]))
    contents = host.design_of(
        shape_of(wish.model),
        name=machine["cpu"],
        peaks=alone,
        clock_mhz=machine["clock_mhz"],
        batch=max(wish.batches),
        prompt=wish.prompt,
        n_steps=wish.n_steps,
    )
    write_whole(folder / HOST, yaml_text(contents))
    return load_design(str(folder / HOST))


def _write_traces(folder: Path, design: Design, decisions: dict[str, NDArray[np.bool_]]) -> None:
    """Write the decisions as traces that ``carsim run`` takes."""
    make_folder(folder)
    for name, drawn in decisions.items():
        batch = drawn.shape[2]
        # Rows of an odd batch are videos of their own.
        work = Workload("video", guidance=None if batch % 2 == 0 else False)
        like = stated_trace(work, design.model, batch)
        trace = Trace.from_decisions(drawn, like, f"forced by carsim measure: {name}")
        save_trace(folder / f"{name}.npz", trace, overwrite=True)
