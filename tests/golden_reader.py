"""Golden vectors: recorded inputs and outputs of the FastCar authors' decoder, decoded by ours.

The format is described in ``tests/data/golden/README.md``. Each output of a file is compared with
the decoder's own within :data:`TOLERANCE`; decisions must be identical.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.replay import Tas
from carsim.decisions.replay.tas import TasForm
from carsim.decisions.trace.meta import Geometry
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.structures import Config, DecoderPolicy, LayerRecord, stack_weights
from carsim.testing.decoder import DecodedLog

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
"""Largest absolute error allowed, by the arithmetic that the file was made with."""

_GEOMETRY = ("n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim", "ffn_size")

Arrays = dict[str, NDArray[Any]]


def errors_of(path: Path) -> dict[str, float]:
    """The largest error of each output of a golden file; of ``skip``, decisions that differ."""
    golden = dict(np.load(path))
    outputs = decode_golden(golden)
    # The form of the score that does not decide is a diagnostic, defined where tas is.
    for name in ("tas_postrope_q", "tas_prerope_q"):
        if name in golden:
            golden[name] = np.where(np.isnan(outputs["tas"]), np.nan, golden[name])
    found = {name: max_abs_error(golden[name], outputs[name]) for name in outputs if name in golden}
    return found | {"skip": float((golden["skip"] != outputs["skip"]).sum())}


def failures_of(path: Path) -> list[str]:
    """Outputs of a golden file that the decoder does not reproduce."""
    tolerance = TOLERANCE[str(np.load(path)["dtype"])]
    return [name for name, error in errors_of(path).items() if error > tolerance]


def max_abs_error(expected: NDArray[Any], got: NDArray[Any]) -> float:
    """Largest absolute difference; infinite where shapes differ, or NaN and infinity do."""
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], got[~finite], equal_nan=True):
        return float("inf")
    difference = np.abs(expected[finite].astype(np.float64) - got[finite])
    return float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0))


def setting_of(golden: Arrays) -> tuple[Config, DecoderPolicy]:
    """Shapes and arithmetic of a file, and its policy."""
    geometry = Geometry(name="golden", **{name: int(golden[name]) for name in _GEOMETRY})
    config = Config(
        geometry=geometry,
        tokens_per_frame=int(golden["tokens_per_frame"]),
        n_frames=int(golden["n_frames"]),
        rms_eps=float(golden["rms_eps"]),
        rope_theta=float(golden["rope_theta"]),
        dtype=str(golden["dtype"]),  # type: ignore[arg-type]
    )
    taus = zip(golden["tau"], golden["tau_is_none"], strict=True)
    # A file holds the score of the form that does not decide under a name of its own.
    form: TasForm = "paper" if "tas_prerope_q" in golden else "released"
    return config, DecoderPolicy(
        tuple(None if none else float(tau) for tau, none in taus), Tas(form=form)
    )


def decode_golden(golden: Arrays) -> Arrays:
    """Every output of the format, decoded from the inputs of a file."""
    config, policy = setting_of(golden)
    weights = stack_weights(config, golden)
    prompt, mask = golden["prompt_embeds"], golden["prompt_mask"]
    embeddings = golden["visual_embeds"].astype(config.dtype).swapaxes(0, 1)  # [S, B, d]
    rules = {form: Tas(form=form) for form in get_args(TasForm)}
    kept = DecodedLog(config, embeddings.shape[1])
    scores = {form: np.full_like(kept.tas, np.nan) for form in rules}

    def record(seen: LayerRecord) -> None:
        kept(seen)
        if seen.tas is not None:
            for form, rule in rules.items():
                scores[form][seen.step, seen.layer] = rule.score(None, seen.layer, 0, seen.seen)

    state, prefilled = prefill(config, policy, weights, prompt, mask)
    hidden = np.stack([decode_step(state, x, record) for x in embeddings])
    never = replace(policy, tau=(None,) * len(policy.tau))
    dense_state, _ = prefill(config, never, weights, prompt, mask)
    return {
        "skip": kept.replay,
        "tas": kept.tas,
        "tas_postrope_q": scores["paper"],
        "tas_prerope_q": scores["released"],
        "mlp_held": kept.mlp,
        "layer_out": kept.residual[:, :-1],
        "hidden": hidden,
        "hidden_dense": np.stack([decode_step(dense_state, x) for x in embeddings]),
        "prefill_hidden": prefilled,
        "k_cache": state.k,
        "v_cache": state.v,
    }
