"""Ratios of each layer under TAS, and what the comparison with permuted places can detect.

    python -m studies.chance.power

The model in which the premise holds, forty held-out scenes of 8 frames, true codes fed, real
replays. Three rules:

* *one threshold* for all layers, as FastCar has it, found on the tuning scenes for half of the
  eligible steps of layers 1 to 3, closed loop;
* *a threshold for each layer*, found on the tuning scenes, so that each layer replays half of its
  eligible steps there. The measured scenes have other scores, so they replay less;
* *a threshold for each layer, equal ratio*: found on the measured scenes themselves, so that each
  layer replays as many of its eligible steps as *one threshold* replays in all layers together. The
  thresholds are chosen by the ratio alone, and not by the loss.

Beside each rule stand its own decisions at permuted places (three seeds), and the *oracle*: in each
scene, frame and layer as many places as the rule replays there, but those whose outputs change
least. The oracle's gain over permuted places is the most that any score could gain at these counts.
The *detectable* gain is the gain that the comparison finds in four of five experiments: 2.80
standard errors over scenes, for a two-sided test at 5 %. Writes ``power.csv``.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.model import load_model
from studies.chance.benchmark import HERE, SEEDS
from studies.content import CLIPS, EXEMPT, ROOT, SCRATCH, TUNING, rows_of
from studies.record import Archive, Ask, Kept
from studies.rules import (
    Counted,
    Given,
    Measure,
    OutputChange,
    TasScore,
    Threshold,
    counts_of,
    permuted,
)
from studies.table import columns
from studies.thresholds import dense_scores, one_tau

MODEL = ROOT / "studies/proxy/small.safetensors"
SHARE = 0.5
CLOSE = 0.02
MOST_TRIES = 6
EQUAL = "TAS, a threshold for each layer, equal ratio"
DETECTED = 2.80
"""Normal quantiles of 97.5 % and 80 %, added up (1.960 + 0.842)."""


def tau_by_layer(
    archive: Archive, measure: Measure, share: float, clips: tuple[str, ...]
) -> Threshold:
    """A threshold for each layer, at which each replays a share of its eligible steps.

    Layers are settled together: replays in one layer move the scores of those above. Each round
    moves every layer's quantile of the dense scores by the share that it missed.

    Args:
        archive: Decodes.
        measure: The score.
        share: Of the eligible steps of each layer that is not exempt.
        clips: Scenes in which each layer replays that share.
    """
    rows = rows_of(clips, n_frames=archive.config.n_frames)
    scores = dense_scores(archive, measure)
    layers = range(archive.n_layers)
    free = [layer for layer in layers if layer not in EXEMPT]
    wanted = np.full(archive.n_layers, share)
    for _ in range(MOST_TRIES):
        taus = [
            round(float(np.quantile(scores[:, layer], 1 - wanted[layer])), 4) for layer in layers
        ]
        rule = Threshold.of_all(measure, taus)
        kept = archive.decode([Ask(rule, row) for row in rows])
        got = np.mean([ratios(each) for each in kept], axis=0)
        if np.abs(got - share)[free].max() < CLOSE:
            break
        wanted = np.clip(wanted + (share - got) / 2, 0.01, 0.99)
    return rule


def ratios(kept: Kept) -> np.ndarray:
    """Replayed share of the eligible steps of each layer, float[L]."""
    return np.asarray(kept.replay[TOKENS_PER_FRAME:].mean(axis=0))


def _losses(kept: Sequence[Kept]) -> np.ndarray:
    return np.array([each.loss for each in kept])


def row_of(archive: Archive, name: str, rule: Threshold) -> dict[str, object]:
    """A row of the table for one rule: ratios, losses, gains and the detectable gain."""
    rows = rows_of(CLIPS, n_frames=archive.config.n_frames)
    dense = _losses(archive.decode([Ask(None, row) for row in rows]))
    kept = archive.decode([Ask(rule, row) for row in rows])
    moved = []
    permuted_losses = []
    for seed in range(SEEDS[SHARE]):
        others = [permuted(each.replay, TOKENS_PER_FRAME, seed) for each in kept]
        pairs = zip(kept, others, strict=True)
        changed = [(each.replay != other)[TOKENS_PER_FRAME:, 1:].mean() for each, other in pairs]
        moved.append(np.mean(changed))
        asked = [Ask(Given(each), row) for each, row in zip(others, rows, strict=True)]
        permuted_losses.append(_losses(archive.decode(asked)))
    best = [Counted(OutputChange(), counts_of(each.replay, TOKENS_PER_FRAME)) for each in kept]
    asked = [Ask(each, row) for each, row in zip(best, rows, strict=True)]
    oracle = _losses(archive.decode(asked))
    own = _losses(kept)
    at_permuted = np.mean(permuted_losses, axis=0)
    by_layer = np.mean([ratios(each) for each in kept], axis=0)
    gain = at_permuted - own
    figures: dict[str, object] = {"rule": name, "scenes": len(rows)}
    figures |= {f"ratio_{layer}": share for layer, share in enumerate(by_layer)}
    figures |= {"replay": (own - dense).mean(), "permuted": (at_permuted - dense).mean()}
    figures |= {"oracle": (oracle - dense).mean(), "decisions_moved": np.mean(moved)}
    figures |= columns("gain", gain)
    figures |= columns("oracle_gain", at_permuted - oracle)
    figures["detectable"] = DETECTED * gain.std(ddof=1) / np.sqrt(len(gain))
    return figures


def main() -> None:
    """Measure, write and print."""
    archive = Archive(load_model(MODEL), SCRATCH / MODEL.stem)
    score = TasScore()
    one = one_tau(archive, score, SHARE)
    rows = rows_of(CLIPS, n_frames=archive.config.n_frames)
    kept = archive.decode([Ask(one, row) for row in rows])
    free = [layer for layer in range(archive.n_layers) if layer not in EXEMPT]
    replayed = float(np.mean([ratios(each)[free].mean() for each in kept]))
    rules = {
        "TAS, one threshold": one,
        "TAS, a threshold for each layer": tau_by_layer(archive, score, SHARE, TUNING),
        EQUAL: tau_by_layer(archive, score, replayed, CLIPS),
    }
    found = pd.DataFrame([row_of(archive, name, rule) for name, rule in rules.items()])
    found.round(4).to_csv(HERE / "power.csv", index=False)
    for name, rule in rules.items():
        print(name, rule.tau)
    print(found.round(4).T.to_string())


if __name__ == "__main__":
    main()
