"""TempCache, AnnSA and AnnCA in token-by-token decoding: each alone, and the three as a stack.

The small model that needs its MLPs decodes four held-out scenes of 8 frames with their true codes,
as guidance pairs, by carsim's own decoder. Nothing replays. The reads that are captured then run on
machines with a larger model, whose layers and heads take those at relative depth.
"""

import numpy as np
import pandas as pd

from carsim import Trace, load_design, override, run
from carsim.decisions.attention import Ann, AnnCa, AttentionPolicy, Dense, Stack, TempCache
from carsim.decoder.capture import capture
from studies.chance.free import RECIPE, of_scenes
from studies.record import Archive

FRAMES = 8
SCENES = ("slow_0", "lively_0", "fast_0", "cut_0")
MACHINES = ("zcu102_head", "zcu102_16gb", "asic_28nm")

ALONE: dict[str, AttentionPolicy] = {
    "TempCache": TempCache(theta=0.5),
    "AnnSA": Ann(bits=3),
    "AnnCA": AnnCa(bits=8),
}
WAYS: dict[str, AttentionPolicy] = {
    "dense": Dense(),
    **ALONE,
    "all three": Stack(policies=tuple(ALONE.values())),
}


def captured(attention: AttentionPolicy) -> Trace:
    """The scenes decoded under an attention policy, true codes fed."""
    recipe = of_scenes(
        SCENES,
        attention=attention,
        tau=None,
        exempt_layers=(),
        given_frames=FRAMES,
        sampling=None,
    )
    return capture(recipe, RECIPE.parent, workers=0)


def share_read(trace: Trace) -> float:
    """Share of the context that a head reads, mean over steps after frame 0, layers and rows."""
    if trace.kv_tokens is None:
        return 1.0
    shares = trace.kv_tokens / trace.context()[:, None, None]
    return float(np.mean(shares[trace.tokens_per_frame :]))


def stack_table(_archive: Archive, _clips: tuple[str, ...]) -> pd.DataFrame:
    """Seconds a video and the share of the keys that is read: a row for each way and machine.

    The scenes are :data:`SCENES`, and the small model decodes them, whatever is asked for.
    """
    lines = []
    for name, attention in WAYS.items():
        trace = captured(attention)
        for machine in MACHINES:
            design = override(load_design(machine), {"policy.attention": dict(attention.used)})
            report = run(design, traces=[trace], allow_misfit=True, what_if=False)
            lines.append(
                {
                    "way": name,
                    "machine": machine,
                    "seconds": report.chosen.seconds_per_video,
                    "read": share_read(trace),
                }
            )
    return pd.DataFrame(lines)
