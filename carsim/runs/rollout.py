"""Seconds and memory of each chunk of a video that is made chunk by chunk."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from carsim.base.units import GB
from carsim.cost.capacity import cache_bytes
from carsim.runs.report import Report
from carsim.runs.timeline import usage_by_step
from carsim.workload.forwards import forwards_of
from carsim.workload.network import DiffusionTransformer


class ChunkFigures(NamedTuple):
    """One chunk of a rollout, on the machine of a run and with its policy.

    Attributes:
        chunk: Its number, from 0.
        frames: Pixel frames of the video up to its end.
        seconds: Time of its forwards, from the end of the chunk before to its own.
        frames_per_s: Its pixel frames, of all videos of a batch together, over these seconds.
        kv_cache_gb: Keys and values that external memories hold at its end, those of the prompt
            included.
        fits: They fit beside all other contents.
    """

    chunk: int
    frames: int
    seconds: float
    frames_per_s: float
    kv_cache_gb: float
    fits: bool


def chunk_figures(report: Report) -> Iterator[ChunkFigures]:
    """Figures of each chunk of a run's own policy; none where the sample is not in chunks.

    Text encoder, prompt and pixel decoder are left out of the seconds.

    Args:
        report: A run.
    """
    model = report.design.model
    network = model.network
    sample = model.sample
    if not isinstance(network, DiffusionTransformer) or sample is None:
        return
    if sample.chunk_frames is None:
        return
    forwards = forwards_of(sample)
    usage = usage_by_step(report.chosen)
    chunk_of_forward = [forward.chunk for forward in forwards]
    cycles = np.bincount(chunk_of_forward, usage.cycles, sample.chunks)
    seconds = cycles / (usage.clock_mhz * 1e6)
    videos = report.chosen.batches.videos_per_batch
    at_end = cache_bytes(report.design)
    free_at_end = min(
        use.free_bytes
        for use in report.fit.memories
        if use.memory == report.design.machine.placement.kv
    )
    held_at: dict[int, int] = {}
    held = 0
    for forward in forwards:
        if forward.cached > held or forward.chunk not in held_at:
            held = max(held, forward.cached)
            held_at[forward.chunk] = held
    bytes_of = {held: cache_bytes(report.design, held) for held in set(held_at.values())}
    frames_before = 0
    for chunk in range(sample.chunks):
        nbytes = bytes_of[held_at[chunk]]
        frames = network.pixel_frames_of((chunk + 1) * sample.chunk_frames)
        yield ChunkFigures(
            chunk=chunk,
            frames=frames,
            seconds=float(seconds[chunk]),
            frames_per_s=float((frames - frames_before) * videos / seconds[chunk]),
            kv_cache_gb=nbytes / GB,
            fits=free_at_end + at_end - nbytes >= 0,
        )
        frames_before = frames
