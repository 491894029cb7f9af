"""The league's machines: seconds, joules and capacity of every contestant on each.

The decisions and reads of the first scenes, as guidance pairs, run through carsim's own machine: of
four scenes, or of as many as a machine batches. For 32 and 64 frames they are continued by
:mod:`studies.league.longer`. A design that does not fit its board is simulated all the same, and
says so.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from carsim import Design, Trace, load_design, override
from carsim.account.variants import own_variant
from carsim.base.units import GB
from carsim.cost.capacity import MemoryUse
from carsim.decisions.trace.file import filed
from carsim.explore.evaluate import Asked, Fitted, Machines
from carsim.runs.pipeline import fit_of, sources_of
from studies.content import ROOT, Row
from studies.league.cells import Bench, Contestant
from studies.league.longer import Kept, continued, kept_of

DESIGNS = ("zcu102_head", "zcu102_16gb", "u280", "asic_28nm")
FRAMES = (8, 32, 64)
LEAST_ROWS = 8
KEYS = ["machine", "frames", "layout", "contestant"]

ARITHMETIC = {4: "int4", 8: "int8", 16: "int16"}
SEPARATE, INTERLEAVED = "separate", "interleaved"
"""Layouts of the cache: all keys of a head before its values, or 16 keys, then their values."""

Done = Collection[tuple[object, ...]]


def trace_of(who: Contestant, kept: Sequence[Kept], prompts: Sequence[int], like: Trace) -> Trace:
    """Rows of a contestant as a trace; one that replays nothing holds no scores.

    Its hash is that of its name, as hashing what a file would hold takes longer than a run.

    Args:
        who: The contestant.
        kept: Of each row, guidance pairs side by side.
        prompts: Tokens of each prompt.
        like: Gives the rest of the metadata.
    """
    n_frames, records = len(kept[0].held), who.attention.records
    first = len(kept[0].replay) // n_frames
    replay, tokens, runs, held = (
        np.stack(each, axis=-1) for each in zip(*kept, strict=True)
    )  # rows last
    tas = np.full(replay.shape, np.nan, np.float16)
    if who.replays:
        tas[first:] = replay[first:]
    meta = like.meta.model_copy(
        update={
            "n_frames": n_frames,
            "prompt_lengths": tuple(prompts),
            "guidance_pairs": tuple((row, row + 1) for row in range(0, len(kept), 2)),
            "attention": who.attention,
            "decision_scope": "row",
            "tau": 0.5 if who.replays else None,
            "quality": None,
            "mode": "teacher_forced",
            "sampling": None,
            "content": {"own_decisions": f"league: {who.name}"},
        }
    )
    found = replace(
        like,
        meta=meta,
        replay=replay,
        tas=tas,
        kv_tokens=tokens if records else None,
        kv_runs=runs if records else None,
        kv_held=held if records else None,
    )
    return filed(found, hashlib.sha256(who.name.encode()).hexdigest())


def design_of(name: str, who: Contestant, layout: str = SEPARATE) -> Design:
    """A shipped design under a contestant's policy and precision.

    A KV cache that has fewer bits than the contestant's keeps them.
    """
    chosen: dict[str, Any] = {
        "policy.attention": dict(who.attention.used),
        "machine.kv_layout": layout,
    }
    plain = load_design(ROOT / f"configs/{name}.yaml")
    if who.precision is not None:
        bits = who.precision
        chosen |= {
            "machine.array.arithmetic": ARITHMETIC[bits.activations],
            "machine.array.cols": who.wider * plain.machine.array.cols,
            "model.activations.bits": bits.activations,
            "model.kv.bits": min(plain.model.kv.bits, bits.kv.bits),
            "model.replay.bits": bits.replay,
            "model.polished": list(bits.polish),
        }
    return override(plain, chosen)


def simulated(machines: Machines, design: Design, trace: Trace) -> dict[str, object]:
    """What a machine makes of a trace: the columns of ``machines.csv`` beside its keys.

    Args:
        machines: Keeps what designs share; of this trace alone.
        design: The design.
        trace: Decisions and reads.
    """
    replays = not trace.meta.never_replays
    own, sources = own_variant(design, replays=replays), sources_of(design, [trace])
    fit = fit_of(design, sources, sources.video, replays=replays)
    (row,) = machines.rows([Fitted(Asked(design, sources, sources.video, replays), fit)])
    context = trace.context()[-1].max(keepdims=True)
    held = own.attention.held(context) if trace.kv_held is None else trace.kv_held
    kv = next(use for use in fit.memories if _holds_kv(use))
    per_video = row.seconds_per_video / row.latency_s
    return {
        "seconds": row.seconds_per_video,
        "joules": row.energy_per_video.value_j,
        "fits": fit.fits,
        "misfit": "; ".join(fit.misfits),
        "memory_fits": all(use.free_bytes >= 0 for use in fit.memories),
        "used_gb": kv.used_bytes / GB,
        "usable_gb": kv.usable_bytes / GB,
        "held": int(held.max()) / int(context[0]),
        "attention_s": row.seconds_by_phase["attention"] * per_video,
        "search_s": search_seconds(design, trace),
        "ratio": row.replay_eligible,
    }


def _holds_kv(use: MemoryUse) -> bool:
    return any(content.content.startswith("KV cache") for content in use.contents)


def search_seconds(design: Design, trace: Trace) -> float:
    """Seconds a video of the serial search before keys can be fetched, which nothing hides."""
    machine, body = design.machine, design.model.body
    work = design.policy.attention.side_work(
        trace.context()[:, 0], body.n_heads, body.n_kv_heads, body.head_dim
    )
    cycles = np.broadcast_to(work.scan_cycles, trace.n_steps).sum() * body.n_layers
    rounds = -(-design.policy.batch // machine.cores)
    seconds = float(cycles) * rounds / (design.board.fabric_clock_mhz * 1e6)
    return seconds / (design.policy.batch / 2)


def kept_rows(
    bench: Bench, who: Contestant, rows: Sequence[Row], n_frames: int
) -> tuple[list[Kept], list[int]]:
    """What a contestant decided on rows, continued to so many frames, and their prompts."""
    prompts = [len(row.prompt) for row in rows]
    cells = (kept_of(bench.cell(who, row)) for row in rows)
    kept = [
        continued(who.attention, each, prompt, n_frames)
        for each, prompt in zip(cells, prompts, strict=True)
    ]
    return kept, prompts


def measure(
    bench: Bench,
    who: Iterable[Contestant],
    rows: Sequence[Row],
    like: Trace,
    *,
    frames: Sequence[int] = FRAMES,
    layout: str = SEPARATE,
    done: Done = frozenset(),
) -> Iterable[dict[str, object]]:
    """A row for each contestant, length and machine that is not done yet.

    A machine takes the first rows: a batch, and four guidance pairs where there are so many.
    Machines that batch more rows than there are stay out.
    """
    batches = {name: load_design(ROOT / f"configs/{name}.yaml").policy.batch for name in DESIGNS}
    groups: dict[int, list[str]] = {}
    for name, batch in batches.items():
        if batch <= len(rows):
            groups.setdefault(min(max(batch, LEAST_ROWS), len(rows)), []).append(name)
    for n_frames, each, (n_rows, names) in product(frames, who, groups.items()):
        due = [name for name in names if (name, n_frames, layout, each.name) not in done]
        if not due:
            continue
        trace = trace_of(each, *kept_rows(bench, each, rows[:n_rows], n_frames), like)
        machines = Machines("fluid")
        for name in due:
            found = simulated(machines, design_of(name, each, layout), trace)
            yield dict(zip(KEYS, (name, n_frames, layout, each.name), strict=True)) | found
