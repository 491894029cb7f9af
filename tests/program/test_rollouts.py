"""Videos in chunks, by how chunks follow one another: forwards by hand, work, memory, bad input."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from carsim import InputError, load_design, override, run
from carsim.base.section import FieldError
from carsim.cost.capacity import cache_bytes
from carsim.design import Design
from carsim.design.load import for_work
from carsim.metrics import figures
from carsim.program.sample import macs_of_all_forwards
from carsim.report.explain import document
from carsim.report.files import save_report
from carsim.report.stored import read_run
from carsim.runs.report import Report
from carsim.runs.rollout import chunk_figures
from carsim.validate.preset_counts import preset_model
from carsim.workload.forwards import Forward, forwards_of
from carsim.workload.network import DiffusionTransformer
from carsim.workload.sample import Sample
from carsim.workload.workload import Workload, workload_of

N, D, LAYERS = 1560, 1536, 30
"""Tokens of a latent frame, width and layers of Wan2.1 1.3B."""


def sample(**fields: Any) -> Sample:
    """A sample of six chunks of two latent frames, of two steps."""
    usual = {"height": 16, "width": 16, "chunk_frames": 2, "chunks": 6, "steps": 2}
    return Sample.model_validate({**usual, **fields})


def shapes(forwards: tuple[Forward, ...]) -> list[list[tuple[int, int]]]:
    """Frames that pass and frames whose keys they read, of each part of each forward."""
    return [[(part.frames, part.keys) for part in forward.parts] for forward in forwards]


def design_of(work: str) -> Design:
    """A design that makes chunks."""
    return for_work(load_design("asic_7nm_hbm3"), workload_of(work))


def report_of(work: str) -> Report:
    """A run of chunks."""
    return run(design_of(work), workload=work, what_if=False, allow_misfit=True)


# ------------------------------------------------------------------ forwards by hand


def test_a_window_is_read_by_two_steps_and_the_clean_forward() -> None:
    forwards = forwards_of(sample(window_frames=5, sink_frames=1))
    keys = [2, 4, 5, 5, 5, 5]
    assert shapes(forwards) == [[(2, each)] for each in keys for _ in range(3)]
    assert [forward.done for forward in forwards[:3]] == [0, 0.5, 1]


def test_without_a_cache_the_window_passes_and_nothing_is_clean() -> None:
    forwards = forwards_of(sample(window_frames=5, cache="none"))
    frames = [2, 4, 5, 5, 5, 5]
    assert shapes(forwards) == [[(each, each)] for each in frames for _ in range(2)]


def test_what_stays_behind_the_sinks_is_moved_once_a_chunk() -> None:
    forwards = forwards_of(sample(window_frames=5, sink_frames=1, cache="moved"))
    # From the third chunk on, 3 frames stay for 2 new ones, and one of them is a sink.
    assert [forward.moved for forward in forwards] == 6 * [0] + 4 * [2, 0, 0]


def test_rolling_chunks_enter_and_leave() -> None:
    forwards = forwards_of(sample(chunks=3, rolling=2, window_frames=5))
    assert shapes(forwards) == [
        [(2, 2)],  # chunk 0 at the first level
        [(4, 4)],  # chunk 0 at the last level, chunk 1 at the first
        [(2, 2)],  # chunk 0, clean
        [(4, 5)],
        [(2, 4)],
        [(2, 5)],  # chunk 2 at the last level
        [(2, 5)],
    ]
    assert [forward.chunk for forward in forwards] == [0, 0, 0, 1, 1, 2, 2]


def test_pipelined_chunks_read_by_their_noise_level() -> None:
    forwards = forwards_of(sample(chunks=3, pipelined=2, ranges=(6, 4, 2)))
    assert shapes(forwards) == [
        [(2, 2)],
        [(2, 2), (2, 4)],
        [(2, 2)],
        [(2, 4), (2, 6)],
        [(2, 2)],
        [(2, 4)],
        [(2, 2)],
    ]


def test_a_switch_of_the_prompt_renews_the_window() -> None:
    forwards = forwards_of(sample(chunks=4, prompts=2, window_frames=4))
    before, renewed, after = forwards[:6], forwards[6:8], forwards[8:]
    assert shapes(renewed) == [[(2, 2)], [(2, 4)]]
    assert shapes(before[-1:]) == [[(2, 4)]]
    assert len(after) == 6
    assert {forward.chunk for forward in (*renewed, *after[:3])} == {2}


# ------------------------------------------------------------------ work and memory


def test_a_rolling_chunk_takes_as_many_products_as_one_at_a_time() -> None:
    """0.202 PFLOP a chunk of Self-Forcing, of which a fifth is its clean forward."""
    rolling = macs_of_chunk("rolling_forcing_1.3b", "clean=false")
    single = macs_of_chunk("self_forcing_1.3b")
    assert 2 * rolling / 1e15 == pytest.approx(0.202, abs=5e-4)
    assert rolling == pytest.approx(single, rel=1e-5)


def macs_of_chunk(name: str, changes: str = "") -> int:
    """Products of one more chunk of a long rollout."""
    sums = [
        sum(macs_of_all_forwards(preset_model(name, f"chunks={chunks} {changes}")).values())
        for chunks in (40, 41)
    ]
    return sums[1] - sums[0]


def test_prompts_are_read_once_each_and_the_window_is_renewed() -> None:
    one = report_of("chunks:longlive_1.3b,chunks=12").chosen.simulation.totals
    two = report_of("chunks:longlive_1.3b,chunks=12,prompts=2").chosen.simulation.totals
    assert two["prefill"].macs == 2 * one["prefill"].macs
    # The window of 12 frames has four chunks, beside 12 x 5 forwards.
    assert two["mlp"].macs * 60 == one["mlp"].macs * 64
    keys = sum(3 * chunk for chunk in range(1, 5))
    renewed = two["attention"].macs - one["attention"].macs
    assert renewed == LAYERS * 2 * 3 * N * keys * N * D


def test_moved_keys_are_read_and_written_once_a_chunk() -> None:
    work = "chunks:longlive_1.3b,chunks=6"
    ring = report_of(work).chosen.simulation.totals["attention"]
    moved = report_of(f"{work},cache=moved").chosen.simulation.totals["attention"]
    # Chunks 5 and 6 find a full window of 12: 9 frames stay, 3 of them sinks.
    extra = sum(moved.dram_bytes) - sum(ring.dram_bytes)
    assert extra == 2 * LAYERS * 6 * N * 2 * D * 2
    assert moved.cycles > ring.cycles
    assert moved.macs == ring.macs


def test_a_cache_holds_what_is_read_and_none_holds_the_prompt_alone() -> None:
    frame = LAYERS * 2 * D * N
    prompt = LAYERS * 2 * D * 512
    held = {
        "window=21": 21,
        "window=all": 36,
        "window=all,pipelined=2": 36,
        "steps=5,rolling=5,window=21": 21,
        "cache=none": 0,
    }
    for fields, frames in held.items():
        design = design_of(f"chunks:self_forcing_1.3b,chunks=12,{fields}")
        assert cache_bytes(design) == frames * frame + prompt


def test_a_pipeline_holds_from_the_oldest_frame_that_is_read() -> None:
    fields = {"chunks": 20, "pipelined": 2, "ranges": (8, 6, 2)}
    # The older of two chunks reads 6 frames back from its end, the newer one 8 from two later.
    assert max(forward.cached for forward in forwards_of(sample(**fields))) == 8
    fields["ranges"] = (4, 10, 2)
    assert max(forward.cached for forward in forwards_of(sample(**fields))) == 12


@pytest.mark.parametrize("fields", ["window=all", "steps=5,rolling=5,window=21"])
def test_chunks_add_up_to_the_run(fields: str, tmp_path: Path) -> None:
    report = report_of(f"chunks:self_forcing_1.3b,chunks=12,{fields}")
    chunks = list(chunk_figures(report))
    row = report.chosen
    seconds = row.latency_s - row.seconds_by_phase["prefill"]
    assert sum(chunk.seconds for chunk in chunks) == pytest.approx(seconds)
    last = chunks[12 - report.design.model.sample.in_flight]  # type: ignore[union-attr]
    metrics = figures(row, report)
    assert metrics["last_chunk_s"] == pytest.approx(last.seconds)
    assert metrics["kv_cache_gb"] == pytest.approx(chunks[-1].kv_cache_gb)
    # Three latent frames become nine pixel frames in the first chunk, and twelve in later ones.
    assert [chunk.frames for chunk in chunks] == list(range(9, 142, 12))
    assert np.all(np.diff([chunk.kv_cache_gb for chunk in chunks]) >= 0)
    names = save_report(report, tmp_path / "run")
    assert "chunks.csv" in names
    with (tmp_path / "run/chunks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(each["seconds"]) for each in rows] == [chunk.seconds for chunk in chunks]


def test_chunks_of_a_batch_count_the_frames_of_all_its_videos() -> None:
    work = workload_of("chunks:longlive_1.3b,64x64,chunks=2")
    design = override(for_work(load_design("asic_7nm_hbm3"), work), {"policy.batch": 3})
    report = run(design, what_if=False, allow_misfit=True)
    assert report.chosen.batches.videos_per_batch == 3
    first, second = chunk_figures(report)
    assert first.frames_per_s == pytest.approx(3 * 9 / first.seconds)
    assert second.frames_per_s == pytest.approx(3 * 12 / second.seconds)


def test_a_pixel_decoder_that_is_not_causal_makes_as_many_frames_of_the_first() -> None:
    magi = preset_model("magi1_4.5b")
    assert isinstance(magi.network, DiffusionTransformer)
    assert magi.sample is not None
    assert magi.network.pixel_frames(magi.sample) == 96  # 24 latent frames, as published
    whole = Sample(height=720, width=720, frames=96)
    assert magi.network.latent_frames(whole) == 24
    magi.network.check(whole)
    with pytest.raises(FieldError, match=r"97 is not a multiple of 4.*96 or 100"):
        magi.network.check(whole.model_copy(update={"frames": 97}))


@pytest.mark.parametrize("window", [None, 4, 5, 7])
@pytest.mark.parametrize("prompts", [1, 2, 4, 6])
def test_renewed_chunks_are_counted_without_their_forwards(
    window: int | None, prompts: int
) -> None:
    made = sample(window_frames=window, prompts=prompts)
    without = sample(window_frames=window)
    assert made.forwards == without.forwards + made.renewed_chunks


@pytest.mark.parametrize("fields", ["rolling=2", "prompts=2", "cache=none"])
def test_a_timeline_and_an_explanation_of_chunks(fields: str, tmp_path: Path) -> None:
    report = report_of(f"chunks:longlive_1.3b,64x64,chunks=4,{fields}")
    assert "timeline.json" in save_report(report, tmp_path / "run", timeline=(1, 3))
    parts = document(read_run(tmp_path / "run"))
    equations = [each for part in parts["lines"] for each in part["equations"]]
    (forwards,) = (each for each in equations if each["figure"] == "forwards")
    assert forwards["value"] == report.design.model.sample.forwards  # type: ignore[union-attr]
    assert forwards["printed"] == forwards["value"]


def test_a_chunk_says_when_memory_is_full() -> None:
    design = design_of("chunks:self_forcing_1.3b,chunks=30,window=all")
    design = override(design, {"board.memories.hbm.capacity_gib": 8.0})
    report = run(design, what_if=False, allow_misfit=True)
    fits = [chunk.fits for chunk in chunk_figures(report)]
    left = 8 * 2**30 - sum(
        content.nbytes
        for use in report.fit.memories
        for content in use.contents
        if content.content != "KV cache"
    )
    frames = (left - LAYERS * 2 * D * 512) // (LAYERS * 2 * D * N)
    assert fits.count(True) == frames // 3
    assert fits == sorted(fits, reverse=True)


def test_what_is_made_at_once_has_no_chunks() -> None:
    report = report_of("diffusion:wan2.1_1.3b,64x64,frames=5,steps=2")
    assert list(chunk_figures(report)) == []
    assert figures(report.chosen, report)["last_chunk_s"] is None


@pytest.mark.parametrize("fields", ["rolling=2", "pipelined=2", "cache=moved", "cache=none"])
def test_both_fidelity_levels_take_as_long(fields: str) -> None:
    work = f"chunks:longlive_1.3b,64x64,chunks=6,{fields}"
    seconds = [
        run(design_of(work), what_if=False, allow_misfit=True, fidelity=fidelity).chosen.latency_s
        for fidelity in ("fluid", "tile")
    ]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.01)


# ------------------------------------------------------------------ words, bad input


def test_words_of_chunks_are_read_back() -> None:
    word = "chunks:longlive_1.3b,chunks=9,window=all,cache=moved,prompts=3"
    assert workload_of(word).text == word
    assert workload_of("chunks:window=all").sample_changes == {
        "window_frames": None,
        "sink_frames": 0,
    }
    with pytest.raises(InputError, match="window: expected a whole number of 1 or more"):
        Workload("chunks", window="some")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("work", "problem"),
    [
        ("rolling=3", "rolling: 3 noise levels do not divide the 4 steps"),
        ("rolling=2,pipelined=2", "pipelined: 2, beside rolling=2"),
        ("rolling=4,window=6", "window_frames: 6 are fewer than those of 4 chunks"),
        ("rolling=2,cache=none", "where chunks in flight read the keys of earlier ones"),
        ("rolling=2,prompts=2", "prompts: 2, where a switch is simulated with one chunk"),
        ("prompts=99", "prompts: 99 are more than the 10 chunks"),
        ("chunks=1500,prompts=1500,window=all", "prompts: 1,500 renew 1,124,250 chunks"),
        ("sinks=10", "sink_frames: 10 leave no room for a chunk in 12"),
        ("window=all,sinks=3", "sink_frames: 3 means nothing in a cache without a window"),
        ("window=all,cache=moved", "cache: moved means nothing in a cache without a window"),
        ("cache=none,sinks=3", "sink_frames: 3, where no keys are kept"),
        ("cache=shelf", "cache: expected ring, moved, none, got 'shelf'"),
        ("chunks=4096,steps=64", "chunks: 4,096 of 64 steps take"),
        ("rolling=2,every=2", "every is of chunks that pass one at a time"),
        ("prompts=2,replay=0.5", "replay is of chunks that pass one at a time"),
    ],
)
def test_chunks_that_make_no_sense_get_one_line(work: str, problem: str) -> None:
    text = f"chunks:longlive_1.3b,{work}"
    with pytest.raises(InputError) as caught:
        run(load_design("asic_7nm_hbm3"), workload=text, allow_misfit=True, what_if=False)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"ranges": [4, 4]}, "ranges: are of noise levels in flight"),
        ({"pipelined": 2, "ranges": [4]}, "ranges: 1 are given for 2 levels of pipelined"),
        ({"rolling": 2, "ranges": [4, 4]}, "ranges: 2 are given for 2 levels of rolling"),
        ({"pipelined": 2, "ranges": [4, 1]}, "ranges: 1 are fewer than the 2 of a chunk"),
        ({"chunk_frames": None, "chunks": 1, "rolling": 2}, "rolling: 2 means nothing without"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        sample(**fields)


def test_policies_of_one_chunk_at_a_time_are_refused() -> None:
    design = design_of("chunks:self_forcing_1.3b,rolling=2")
    design = override(design, {"policy.attention": {"kind": "ann", "density": 0.5}})
    with pytest.raises(InputError, match="'ann' is of chunks that pass one at a time"):
        run(design, what_if=False, allow_misfit=True)
