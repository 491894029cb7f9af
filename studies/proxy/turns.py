"""How much faster is decoding where layers replay by turns, beside FastCar's decisions?

    python -m studies.proxy.turns

Runs ``vilau_8f`` (51 % of eligible steps replay, scheduled by DRS) and the rule ``periodic`` with
layer 0 exempt (48 %) on four designs, and prices a gain of one half on what is replayed. Writes
``turns.csv``.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from carsim import load_design, load_trace, run
from carsim.decisions.replay import Periodic, ReplayRule, Tas
from carsim.decisions.trace import Trace

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DESIGNS = ("zcu102", "zcu102_16gb", "u280", "asic_28nm")


def by_turns(like: Trace, rule: Periodic) -> Trace:
    """The decisions that a decoder makes under the rule, in a trace of the same video."""
    meta, (steps, layers, rows) = like.meta, like.replay.shape
    tau = (np.inf, *[0.5] * (layers - 1))
    frame = np.arange(steps) // meta.tokens_per_frame
    scores = (frame[:, None] + np.arange(layers)) % rule.period != 0
    tas = np.where(frame[:, None] > 0, scores, np.nan).astype(np.float32)
    tas = np.repeat(tas[..., None], rows, axis=2)
    changes = {"rule": rule, "tau": tau, "producer": "studies/proxy", "quality": None}
    made = meta.model_copy(update=changes | {"content": {"schedule": rule.text}})
    return Trace(made.replay.decide(tas), tas, made)


def damped(trace: Trace, rule: ReplayRule) -> Trace:
    """The same decisions, priced with the rule's gain."""
    return replace(trace, meta=trace.meta.model_copy(update={"rule": rule}))


def main() -> None:
    """Run, write and print."""
    plain = load_trace(ROOT / "traces" / "vilau_8f.npz")
    tas = plain.meta.rule
    assert isinstance(tas, Tas)
    traces = {
        "TAS": plain,
        "TAS, gain 0.5": damped(plain, tas.model_copy(update={"gain": 0.5})),
        "by turns": by_turns(plain, Periodic()),
        "by turns, gain 0.5": by_turns(plain, Periodic(gain=0.5)),
    }
    rows = []
    for name in DESIGNS:
        for label, trace in traces.items():
            report = run(load_design(ROOT / "configs" / f"{name}.yaml"), [trace], allow_misfit=True)
            seconds = {row.variant.key: row.seconds_per_video for row in report.rows}
            replayed = trace.replay[trace.meta.tokens_per_frame :].mean()
            rows.append(
                {
                    "design": name,
                    "decisions": label,
                    "replayed": float(replayed),
                    "static": seconds["dense/static"] / seconds["replay/static"],
                    "drs": seconds["dense/static"] / seconds["replay/drs"],
                }
            )
    table = pd.DataFrame(rows)
    table.round(4).to_csv(HERE / "turns.csv", index=False)
    print(table.round(4).to_string(index=False))


if __name__ == "__main__":
    main()
