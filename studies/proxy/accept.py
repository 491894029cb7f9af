"""Does FastCar's premise hold in a proxy model? Exit with status 1 unless all conditions hold.

    python -m studies.proxy.accept runs/premise NAME

Conditions of the last checkpoint of a recipe:

* MLPs of all layers but the first are worth at least 0.5 nats per token, and no less than at the
  checkpoint nearest to half of the training (tuning scenes, ``checkpoints.csv``);
* at TAS's places, at 50 % replay under one threshold for all layers, as FastCar has it, the 95 %
  interval of zero less replay is above 0 (held-out); the same at equal shares of the layers is
  printed and decides nothing;
* the cosine of MLP outputs of neighbouring frames is at least 0.4 in every layer (held-out);
* keys and queries started at random and apart, and nothing constrains them.

The forty held-out scenes are decoded once; their row stays in ``held_out.csv`` in the folder.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from carsim.decoder.model import DecoderModel, load_model
from studies.content import CLIPS
from studies.proxy.worth import measure
from studies.record import Archive

LEAST_WORTH, LEAST_COSINE, LEAST_DISTANCE = 0.5, 0.4, 0.5
HELD_OUT = "held_out.csv"


def failures(
    curve: pd.DataFrame, held_out: Mapping[str, Any], distance: float, *, plain: bool
) -> list[str]:
    """A line for each condition that does not hold.

    Args:
        curve: ``step`` and ``worth`` of the checkpoints on tuning scenes, in their order.
        held_out: Figures of :func:`studies.proxy.worth.measure` on held-out scenes.
        distance: Of :func:`apart`.
        plain: Whether training started at random.
    """
    last = curve.iloc[-1]
    half = curve.loc[(curve["step"] - last["step"] / 2).abs().idxmin()]
    cosines = [value for name, value in held_out.items() if name.startswith("cosine_")]
    found = []
    if held_out["worth"] < LEAST_WORTH:
        found.append(f"MLPs are worth {held_out['worth']:.3f} nats, less than {LEAST_WORTH}")
    if last["worth"] < half["worth"]:
        found.append(
            f"their worth falls: {half['worth']:.3f} at step {half['step']:.0f}, "
            f"{last['worth']:.3f} at step {last['step']:.0f}"
        )
    if held_out["zero_less_replay_low"] <= 0:
        low, high = held_out["zero_less_replay_low"], held_out["zero_less_replay_high"]
        found.append(f"replay is not better than zero: [{low:+.3f}, {high:+.3f}]")
    if min(cosines) < LEAST_COSINE:
        found.append(f"a layer's cosine is {min(cosines):.2f}, less than {LEAST_COSINE}")
    if not plain or distance < LEAST_DISTANCE:
        found.append(f"keys and queries are tied or put in by hand (distance {distance:.2f})")
    return found


def apart(model: DecoderModel) -> float:
    """Least relative distance between the queries' and the keys' matrix over layers."""
    q, k = (model.arrays[name].astype(np.float64) for name in ("wq", "wk"))
    lengths = [np.linalg.norm(each, axis=(1, 2)) for each in (q, k)]
    return float((np.linalg.norm(q - k, axis=(1, 2)) / np.maximum(*lengths)).min())


def main() -> int:
    """Measure held-out scenes, unless that was done, and judge."""
    from studies.proxy.recipes import named  # which needs PyTorch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of studies.proxy.train")
    parser.add_argument("name", help="of a recipe")
    options = parser.parse_args()
    table = pd.read_csv(options.folder / "checkpoints.csv")
    curve = table[table["recipe"] == options.name].sort_values("step").reset_index(drop=True)
    if curve.empty:
        sys.exit(f"{options.name}: no checkpoint was measured; train it first")
    own = options.folder / options.name
    model = load_model(own / f"step_{curve['step'].iloc[-1]:05d}.safetensors")
    path = own / HELD_OUT
    if not path.exists():
        figures = measure(Archive(model, own / "held_out"), CLIPS)
        pd.DataFrame([figures]).to_csv(path, index=False)
    held_out = pd.read_csv(path).iloc[0].to_dict()
    recipe = named(options.name)
    found = failures(curve, held_out, apart(model), plain=recipe.plan.plain)
    low, high = (held_out[f"even_zero_less_replay_{end}"] for end in ("low", "high"))
    print(
        f"{options.name}: zero less replay, equal shares of the layers: [{low:+.3f}, {high:+.3f}]"
    )
    for line in found or ["all conditions hold"]:
        print(f"{options.name}: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
