"""Decode what the ledger of claims needs and no other study has: FastCar's sweep and its theorem.

    python -m studies.claims.decoded [--clips 10] [--workers 1]

Held-out scenes of 8 frames with the proxy model, true tokens fed, intervals over scenes:

* ``taus.csv``: FastCar's thresholds, closed loop, with and without the exemption of layer 0. Loss
  over dense decoding of TAS's replay, of nothing at the same places, and of TAS's decisions with
  the places permuted in each layer (equal counts and ages).
* ``bound.csv``: the right side of theorem 4.7 against the change of MLP outputs that it bounds, by
  scene and layer.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from carsim.base.statistics import bootstrap_mean
from carsim.decoder.content import TOKENS_PER_FRAME
from studies.content import CLIPS, EXEMPT, TUNING, Row, rows_of
from studies.ranks import spearman
from studies.record import Archive, Ask
from studies.rules import Damped, Given, TasScore, Threshold, permuted
from studies.whole import Rule, Seen

HERE = Path(__file__).parent
TAUS = (0.0, -0.5, -1.0, -2.0, -4.0, -8.0)
"""FastCar's ablation."""

SEED = 0


def sweep_taus(archive: Archive, clips: tuple[str, ...]) -> pd.DataFrame:
    """A row for each threshold and exemption: ratios, and losses with intervals."""
    rows = rows_of(clips)
    dense = [each.loss for each in archive.decode([Ask(None, row) for row in rows], "dense")]
    table = []
    for exempt in (EXEMPT, ()):
        for tau in TAUS:
            taus = tuple(np.inf if i in exempt else tau for i in range(archive.n_layers))
            kept = archive.decode([Ask(Threshold(TasScore(), taus), row) for row in rows])
            losses: dict[str, Any] = {"replay": [each.loss for each in kept]}
            moved = [Given(permuted(each.replay, TOKENS_PER_FRAME, SEED)) for each in kept]
            zeros: list[Rule] = [Damped(Given(each.replay), 0.0) for each in kept]
            ways: dict[str, list[Rule]] = {"zero": zeros, "permuted": list(moved)}
            for name, rules in ways.items():
                asked = [Ask(rule, row) for rule, row in zip(rules, rows, strict=True)]
                losses[name] = [each.loss for each in archive.decode(asked, f"{name} {tau}")]
            over = {name: np.subtract(each, dense) for name, each in losses.items()}
            over["replay_less_zero"] = over["replay"] - over["zero"]
            over["replay_less_permuted"] = over["replay"] - over["permuted"]
            line: dict[str, Any] = {"tau": tau, "exempt": len(exempt), "scenes": len(rows)}
            line["ratio_eligible"] = np.mean([each.ratio for each in kept])
            line["ratio_all"] = np.mean([each.replay.mean() for each in kept])
            for name, values in over.items():
                found = bootstrap_mean(values)
                line |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
            table.append(line)
            print(line, flush=True)
    return pd.DataFrame(table)


def look_at_bound(archive: Archive, row: Row) -> pd.DataFrame:
    """Changes of one scene in dense decoding: a row for each layer, frame pair and place.

    X is the input of the layer, Y the output of its MLP, s the score; each against the same place
    one frame before. Frame 0 is no partner, as no rule looks at it.
    """
    before: dict[int, tuple[Any, Any]] = {}
    parts = []

    def look(seen: Seen) -> None:
        now = seen.before[-TOKENS_PER_FRAME:], seen.fresh
        if seen.layer in before:
            x, y = before[seen.layer]
            columns = {
                "dx": np.linalg.norm(now[0] - x, axis=-1),
                "dy": np.linalg.norm(now[1] - y, axis=-1),
                "score": TasScore().score(seen),
            }
            parts.append(pd.DataFrame(columns).assign(layer=seen.layer))
        before[seen.layer] = now

    archive.decoder.decode(None, row.prompt, row.codes, look=look)
    return pd.concat(parts)


def bound_table(archive: Archive, clips: tuple[str, ...]) -> pd.DataFrame:
    """How well the theorem's right side describes the changes, by scene and layer.

    The theorem leaves C and gamma open. Here gamma is the least that keeps the root real on the
    tuning scenes (the largest score less 1), and C the least that makes the bound hold on them.
    ``violated`` is the share of places beyond the bound, ``slack`` the median of bound over change;
    ``rank_*`` are rank correlations with the change of the output: of both terms, of the change of
    the input alone, and of the root alone.
    """
    tuning = pd.concat([look_at_bound(archive, row) for row in rows_of(TUNING)])
    most = tuning.groupby("layer")["score"].max()
    tuning["root"] = np.sqrt(most.loc[tuning["layer"]].to_numpy() - tuning["score"])
    tuning["constant"] = tuning["dy"] / (tuning["dx"] + tuning["root"])
    constant = tuning.groupby("layer")["constant"].max()
    table = []
    for row in rows_of(clips):
        for layer, part in look_at_bound(archive, row).groupby("layer"):
            root = np.sqrt(np.maximum(most[layer] - part["score"], 0))
            terms = part["dx"] + root
            bound = constant[layer] * terms
            table.append(
                {
                    "clip": row.clip,
                    "layer": layer,
                    "violated": (part["dy"] > bound).mean(),
                    "slack": (bound / np.maximum(part["dy"], 1e-9)).median(),
                    "root_share": (root / terms).mean(),
                    "rank_both": spearman(terms, part["dy"]),
                    "rank_input": spearman(part["dx"], part["dy"]),
                    "rank_root": spearman(root, part["dy"]),
                }
            )
    return pd.DataFrame(table)


def main() -> None:
    """Decode and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    archive = Archive(workers=options.workers)
    clips = CLIPS[:: len(CLIPS) // options.clips]
    today = datetime.now(UTC).date().isoformat()
    command = f"python -m studies.claims.decoded --clips {options.clips}"
    recorded = {"seed": SEED, "date": today, "command": command}
    bound = bound_table(archive, clips).assign(**recorded)
    bound.round(4).to_csv(HERE / "bound.csv", index=False)
    sweep_taus(archive, clips).assign(**recorded).round(4).to_csv(HERE / "taus.csv", index=False)


if __name__ == "__main__":
    main()
