"""Traces of decisions that no file holds, and designs with room for more tokens at once."""

from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from carsim import Design, override
from carsim.base.units import KIB
from carsim.cost.fit import check_fit
from carsim.decisions.trace import Trace
from carsim.runs.pipeline import sources_of

_GROWING = ("machine.activation_buffer_kib", "machine.kv_buffer_kib")
_STEP_KIB = 64


def of_pairs(like: Trace, replay: NDArray[np.bool_], label: str) -> Trace:
    """Decisions of guidance pairs as a trace.

    Args:
        like: Gives the video and prompts.
        replay: bool[S, L, R], the rows of a pair side by side.
        label: Name of the decisions in outputs.
    """
    rows = replay.shape[-1]
    meta = like.meta.model_copy(
        update={
            "prompt_lengths": like.meta.prompt_lengths[:rows],
            "guidance_pairs": tuple((row, row + 1) for row in range(0, rows, 2)),
        }
    )
    return Trace.from_decisions(replay, replace(like, meta=meta), label)


def with_room(design: Design, trace: Trace, tokens: int) -> Design:
    """A design whose buffers hold so many tokens of each sequence, enlarged where they do not.

    Whether the board has room for such buffers is not asked.

    Args:
        design: The design, of one token a step.
        trace: Gives the video.
        tokens: Of one step or pass.
    """
    many = override(design, {"policy.tokens_per_step": tokens})
    sizes: dict[str, int] = {}
    for row in check_fit(many, sources_of(design, [trace]).video).rows:
        for path in _GROWING:
            if not row.ok and path in row.cure:
                kib = _STEP_KIB * ceil(row.needed / (_STEP_KIB * KIB))
                sizes[path] = max(kib, sizes.get(path, 0))
    return override(design, sizes) if sizes else design
