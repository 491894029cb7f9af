"""A stored run in sentences: what was asked, and the answer."""

from collections.abc import Iterator

from carsim.design import Design
from carsim.report.stored import StoredRun
from carsim.report.words import (
    PHASE_LABELS,
    board_text,
    machine_text,
    memory_text,
    model_text,
    policy_text,
    run_text,
    signed_percent,
    video_text,
)
from carsim.text import number, percent

PLURALS = {"port": "the ports limit", "memory": "the DRAM limits", "compute": "compute limits"}
"""What the name of a limit reads like; what is missing is limited by dependencies."""


def asked(run: StoredRun, design: Design) -> tuple[tuple[str, str], ...]:
    """What was simulated, as terms with their texts."""
    video = run.video
    return (
        ("design", f"{run.design} (sha256 {run.design_sha256[:12]})"),
        ("board", board_text(design)),
        *(
            (
                f"memory {each.name}",
                memory_text(
                    design.board.memories[each.name].standard,
                    each.sustained_gbps,
                    each.peak_gbps,
                    each.limited_by,
                    each.latency_cycles,
                ),
            )
            for each in run.memories
            if run.own.memory_gb_per_video.get(each.name) and each.name in design.board.memories
        ),
        ("machine", machine_text(design)),
        ("model", model_text(design)),
        ("policy", policy_text(design)),
        (
            "video",
            video_text(video.frames, video.tokens_per_frame, video.steps, video.prompt_tokens),
        ),
        *(("trace", f"{trace.name} (sha256 {trace.sha256[:12]})") for trace in run.traces),
        (
            "run",
            run_text(
                run.batches,
                run.sequences_per_batch,
                run.videos_per_batch,
                run.rows_left_out,
                run.fidelity,
            ),
        ),
        ("made by", f"carsim {run.carsim_version}"),
    )


def answer(run: StoredRun) -> Iterator[str]:
    """What a reader came for, a paragraph each."""
    own, dense, joules = run.own, run.dense, run.own.energy_per_video_j
    text = f"{own.policy} finishes a video in {number(own.s_per_video)} s"
    if own is not dense:
        text += (
            f", {own.speedup_over_dense:.2f} times as fast as {dense.policy} "
            f"({number(dense.s_per_video)} s)"
        )
    text += (
        f". It costs {number(joules.value)} J, or between {number(joules.low)} and "
        f"{number(joules.high)} J were all energy constants off in one direction."
    )
    best = min(
        (policy for policy in run.policies if not policy.is_bound),
        key=lambda policy: policy.s_per_video,
    )
    if best.s_per_video < own.s_per_video:
        text += f" Fastest is {best.policy} with {number(best.s_per_video)} s."
    bound = run.bound
    if bound is not None and bound.attention == own.attention:
        above = own.latency_s / bound.latency_s - 1
        text += f" {own.policy} takes {percent(above)} longer than the bound of all schedules."
    yield text
    yield _limits(run)
    if not run.head_included:
        yield (
            "The head is left out of these figures; with it a batch would take "
            f"{number(run.latency_with_head_s)} s, and without it "
            f"{number(run.latency_without_head_s)} s."
        )


def _limits(run: StoredRun) -> str:
    texts = []
    if run.limits:
        longest = max(run.limits, key=lambda limit: limit.share_of_time)
        name = PHASE_LABELS.get(longest.phase, longest.phase)
        limited = PLURALS.get(longest.limited_by, "dependencies limit")
        texts.append(
            f"The longest phase is {name} with {percent(longest.share_of_time)} of the time; "
            f"{limited} it."
        )
    if run.elasticities:
        best = min(run.elasticities, key=lambda each: each.latency_change_per_10_percent)
        change = best.latency_change_per_10_percent
        texts.append(
            f"Of all resources, 10 % more of {best.resource} would bring the most: "
            f"{signed_percent(change)} of latency."
            if change < 0
            else "10 % more of any one resource would bring nothing."
        )
    return " ".join(texts)
