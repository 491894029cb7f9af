"""Golden vectors: recorded inputs and outputs of the FastCar authors' decoder, replayed by ours.

A file holds weights, embeddings, thresholds and the outputs of the authors' code; the format is
described in ``tests/data/golden/README.md``. A file may leave outputs out; they are not checked.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from carsim.base.errors import InputError
from carsim.base.section import explained
from carsim.decisions.replay import Tas, TasForm
from carsim.decisions.trace import Geometry
from carsim.decisions.trace.npz import MAX_BYTES, NpzArchive
from carsim.decoder.decode import decode_steps, prefill
from carsim.decoder.structures import (
    Config,
    DecoderPolicy,
    LayerRecord,
    parse_shapes,
    stack_weights,
)

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
"""Largest absolute error allowed, by the arithmetic that the file was made with."""

_CURE = "make the file again in the golden format"
_GEOMETRY = ("n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim", "ffn_size")
_COUNTS = (*_GEOMETRY, "tokens_per_frame", "n_frames", "batch", "prompt_len", "n_steps")


_INPUT_SHAPES = parse_shapes(
    "wq: L Hhd d, wk: L KVhd d, wv: L KVhd d, wo: L d Hhd, w_gate: L F d, w_up: L F d, "
    "w_down: L d F, ln_attn: L d, ln_mlp: L d, ln_final: d, prompt_embeds: B P d, "
    "visual_embeds: B S d, prompt_mask: B P, tau: L, tau_is_none: L"
)
_REQUIRED_SHAPES = parse_shapes("skip: S L B, tas: S L B, hidden: S B d")
_OUTPUT_SHAPES = _REQUIRED_SHAPES | parse_shapes(
    "tas_postrope_q: S L B, tas_prerope_q: S L B, mlp_held: S L B d, layer_out: S L-1 B d, "
    "hidden_dense: S B d, prefill_hidden: B P d, k_cache: L B KV C hd, v_cache: L B KV C hd, "
    "replay_ratio_all:, replay_ratio_eligible:, tau_margin:"
)


@dataclass(frozen=True)
class ArrayCheck:
    """One output compared with the file.

    Attributes:
        name: Name of the array.
        max_abs_error: Largest absolute difference; infinite where NaN or infinity stand at
            different places. For ``skip``, the number of decisions that differ.
        tolerance: Largest difference allowed.
    """

    name: str
    max_abs_error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Within tolerance."""
        return self.max_abs_error <= self.tolerance


@dataclass(frozen=True)
class GoldenReport:
    """One golden file, checked.

    Attributes:
        path: The file.
        note: Remark in the file.
        dtype: Arithmetic.
        tas_form: Form of the score that decides in this file.
        checks: One per output in the file.
        missing: Outputs of the format that the file leaves out, so that they are not checked.
    """

    path: Path
    note: str
    dtype: str
    tas_form: str
    checks: tuple[ArrayCheck, ...]
    missing: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Every output in the file is reproduced."""
        return all(check.ok for check in self.checks)

    @property
    def reproduced(self) -> bool:
        """Every output of the format is there and reproduced."""
        return self.ok and not self.missing


def check_golden(path: str | Path) -> GoldenReport:
    """Decode the inputs of a golden file and compare with its outputs.

    Raises:
        InputError: The file is missing, damaged, or not of the golden format.
    """
    archive = NpzArchive(Path(path))
    config, policy = _read_setting(archive)
    inputs = {name: archive.read(name) for name in _INPUT_SHAPES}
    _refuse_bad_inputs(archive, inputs)
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow shows as a mismatch
        outputs = _decode_all(config, policy, inputs, dense="hidden_dense" in archive.headers)
    tolerance = TOLERANCE[config.dtype]
    # A file holds the score of the form that does not decide, and not that of the other one.
    form = _form(archive)
    other_form = {"tas_postrope_q" if form == "paper" else "tas_prerope_q": None}
    checks = []
    for name in _OUTPUT_SHAPES:
        if name not in archive.headers:
            continue
        expected, got = archive.read(name), outputs[name]
        if name == "skip":
            checks.append(ArrayCheck(name, float((expected != got).sum()), 0.0))
            continue
        if name in ("tas_postrope_q", "tas_prerope_q"):  # a diagnostic, defined where tas is
            expected = np.where(np.isnan(outputs["tas"]), np.nan, expected)
        checks.append(ArrayCheck(name, max_abs_error(expected, got), tolerance))
    return GoldenReport(
        path=Path(path),
        note=str(archive.read("note")) if "note" in archive.headers else "",
        dtype=config.dtype,
        tas_form=form,
        checks=tuple(checks),
        missing=tuple(name for name in _OUTPUT_SHAPES if name not in archive.headers | other_form),
    )


def max_abs_error(expected: NDArray[Any], got: NDArray[Any]) -> float:
    """Largest absolute difference; infinite where only one is NaN or infinite, or signs differ.

    >>> max_abs_error(np.array([1.0, np.nan, np.inf]), np.array([1.5, np.nan, np.inf]))
    0.5
    >>> max_abs_error(np.array([1.0, np.nan]), np.array([np.nan, 1.0]))
    inf
    """
    finite = np.isfinite(expected) & np.isfinite(got)
    if not np.array_equal(expected[~finite], got[~finite], equal_nan=True):
        return float("inf")
    difference = expected[finite].astype(np.float64) - got[finite].astype(np.float64)
    return float(np.abs(difference).max(initial=0.0))


def _decode_all(
    config: Config, policy: DecoderPolicy, inputs: dict[str, NDArray[Any]], *, dense: bool
) -> dict[str, NDArray[Any]]:
    """Every output of the format, from one decoding and, on demand, one without replay."""
    weights = stack_weights(config, inputs)
    prompt, mask = inputs["prompt_embeds"], inputs["prompt_mask"]
    embeddings = inputs["visual_embeds"].astype(config.dtype).swapaxes(0, 1)  # [S, B, d]
    n_steps, batch, width = embeddings.shape
    layers = config.geometry.n_layers
    rules = [Tas(form=form) for form in get_args(TasForm)]
    scores = {rule.form: np.full((n_steps, layers, batch), np.nan) for rule in rules}
    tas = np.full((n_steps, layers, batch), np.nan)
    skip = np.zeros((n_steps, layers, batch), bool)
    mlp = np.empty((n_steps, layers, batch, width), config.dtype)
    residual = np.empty_like(mlp)

    def record(seen: LayerRecord) -> None:
        at = seen.step, seen.layer
        skip[at], mlp[at], residual[at] = seen.replay, seen.mlp, seen.residual
        if seen.tas is not None:
            tas[at] = seen.tas
            for rule in rules:
                scores[rule.form][at] = rule.score(None, seen.layer, 0, seen.seen)

    state, prefill_hidden = prefill(config, policy, weights, prompt, mask)
    hidden = decode_steps(config, policy, weights, state, embeddings, record)
    tau = np.array([np.nan if tau is None else tau for tau in policy.tau])[:, None]
    margin = np.abs(tas - tau)[np.isfinite(tas) & np.isfinite(tau)]
    eligible = skip[config.tokens_per_frame :]
    outputs: dict[str, NDArray[Any]] = {
        "skip": skip,
        "tas": tas,
        "tas_postrope_q": scores["paper"],
        "tas_prerope_q": scores["released"],
        "mlp_held": mlp,
        "layer_out": residual[:, :-1],
        "hidden": hidden,
        "prefill_hidden": prefill_hidden,
        "k_cache": state.k,
        "v_cache": state.v,
        "replay_ratio_all": np.array(skip.mean()),
        "replay_ratio_eligible": np.array(eligible.mean() if eligible.size else 0.0),
        "tau_margin": np.array(margin.min(initial=np.inf)),
    }
    if dense:
        never = replace(policy, tau=(None,) * layers)
        state, _ = prefill(config, never, weights, prompt, mask)
        outputs["hidden_dense"] = decode_steps(config, never, weights, state, embeddings)
    return outputs


def _read_setting(archive: NpzArchive) -> tuple[Config, DecoderPolicy]:
    """Scalars of the file, checked against the shapes of all its arrays before any is read."""
    counts = {name: int(_scalar(archive, name, "iu")) for name in _COUNTS}
    dtype = _scalar(archive, "dtype", "U")
    if dtype not in TOLERANCE:
        raise _bad(archive, "dtype", f"expected float32 or float64, got {dtype!r}")
    if counts["n_steps"] != counts["n_frames"] * counts["tokens_per_frame"]:
        raise _bad(archive, "n_steps", f"{counts['n_steps']} steps are not frames times tokens")
    try:
        geometry = Geometry(name=archive.path.stem, **{name: counts[name] for name in _GEOMETRY})
    except ValidationError as error:
        raise explained(error, f"{archive.path}: geometry", counts, Geometry, _CURE) from error
    _check_shapes(archive, counts)
    config = Config(
        geometry=geometry,
        tokens_per_frame=counts["tokens_per_frame"],
        n_frames=counts["n_frames"],
        rms_eps=float(_scalar(archive, "rms_eps", "fiu")),
        rope_theta=float(_scalar(archive, "rope_theta", "fiu")),
        dtype=dtype,
    )
    absent = archive.read("tau_is_none")
    tau = tuple(
        None if none else float(tau) for tau, none in zip(archive.read("tau"), absent, strict=True)
    )
    if any(value is not None and np.isnan(value) for value in tau):
        raise _bad(archive, "tau", "NaN in a layer where tau_is_none is False")
    return config, DecoderPolicy(tau, Tas(form=_form(archive)))


def _form(archive: NpzArchive) -> TasForm:
    """Form of the score that decides: the file holds the other one under a name of its own."""
    return "paper" if "tas_prerope_q" in archive.headers else "released"


def _check_shapes(archive: NpzArchive, counts: dict[str, int]) -> None:
    head_dim, slots = counts["head_dim"], counts["prompt_len"] + counts["n_steps"]
    sizes = {
        **{"L": counts["n_layers"], "L-1": counts["n_layers"] - 1, "d": counts["hidden_size"]},
        **{"KV": counts["n_kv_heads"], "hd": head_dim, "F": counts["ffn_size"]},
        **{"Hhd": counts["n_heads"] * head_dim, "KVhd": counts["n_kv_heads"] * head_dim},
        **{"B": counts["batch"], "P": counts["prompt_len"], "S": counts["n_steps"], "C": slots},
    }
    for name, letters in (_INPUT_SHAPES | _OUTPUT_SHAPES).items():
        header = archive.headers.get(name)
        if header is None:
            if name in _INPUT_SHAPES | _REQUIRED_SHAPES:
                raise _bad(archive, name, "missing")
            continue
        shape = tuple(sizes[letter] for letter in letters.split())
        kind = "bool" if name in ("prompt_mask", "tau_is_none", "skip") else "floats"
        if header.shape != shape or header.dtype.kind != kind[0]:
            raise _bad(
                archive,
                name,
                f"expected {kind} of shape {shape} as its scalars say, got {header.dtype} of "
                f"shape {header.shape}",
            )
    cache_bytes = 8 * sizes["L"] * sizes["B"] * sizes["KVhd"] * slots
    if cache_bytes > MAX_BYTES:
        raise _bad(archive, "k_cache", f"would need {cache_bytes:,} bytes")


def _refuse_bad_inputs(archive: NpzArchive, inputs: dict[str, NDArray[Any]]) -> None:
    for name, array in inputs.items():
        if name != "tau" and not np.isfinite(array).all():
            raise _bad(archive, name, "holds NaN or infinity")
    mask = inputs["prompt_mask"]
    if not mask[:, -1].all() or (mask[:, :-1] & ~mask[:, 1:]).any():
        raise _bad(archive, "prompt_mask", "every row must be False (padding) first, then True")


def _scalar(archive: NpzArchive, name: str, kinds: str) -> Any:
    header = archive.headers.get(name)
    if header is None:
        raise _bad(archive, name, "missing")
    if header.shape != () or header.dtype.kind not in kinds or header.n_bytes > 4096:
        raise _bad(archive, name, f"expected one value, got {header.dtype} of {header.shape}")
    value = archive.read(name).item()
    if not isinstance(value, str) and not (0 < value < 2**40):
        raise _bad(archive, name, f"expected a positive number, got {value!r}")
    return value


def _bad(archive: NpzArchive, name: str, problem: str) -> InputError:
    return InputError(f"{archive.path}: array {name!r}", problem, _CURE)
