"""The trace file: replay decisions and scores of one decoding, with their metadata."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.errors import InputError
from carsim.trace.meta import TraceMeta, parse_meta
from carsim.trace.npz import NpzArchive, npz_bytes, write_bytes
from carsim.trace.scope import decision_units, unanimous

_ARRAYS = {"replay", "tas", "meta"}
_MAX_META_BYTES = 2**22
_CURE = "capture the trace again"

Tas = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Trace:
    """Replay decisions of one decoding. S steps, L layers, B rows.

    Attributes:
        replay: bool[S, L, B], True where the cached MLP output was replayed.
        tas: [S, L, B], the score that decided, float16 or float32 once saved; NaN only where it
            was never evaluated (frame 0, and layers without tau).
        meta: Everything else.
        path: The file it was loaded from or saved to, if any.
        sha256: Hash of that file in hexadecimal, empty if there is none.
    """

    replay: NDArray[np.bool_]
    tas: Tas
    meta: TraceMeta
    path: Path | None = None
    sha256: str = ""

    def __post_init__(self) -> None:
        """Hold read-only views, so that nothing downstream can edit a decision."""
        for name in ("replay", "tas"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @property
    def name(self) -> str:
        """File name for labels."""
        return self.path.name if self.path else "unsaved trace"

    @property
    def n_steps(self) -> int:
        """S = n_frames * tokens_per_frame."""
        return self.meta.n_steps

    @property
    def n_layers(self) -> int:
        """L."""
        return self.meta.decoded.n_layers

    @property
    def n_rows(self) -> int:
        """B."""
        return self.meta.n_rows

    @property
    def n_frames(self) -> int:
        """T."""
        return self.meta.n_frames

    @property
    def tokens_per_frame(self) -> int:
        """N."""
        return self.meta.tokens_per_frame

    @property
    def prompt_tokens(self) -> int:
        """P, the length to which every prompt is padded."""
        return self.meta.prompt_tokens

    def kv_len(self) -> NDArray[np.int64]:
        """int64[S, B]: keys that each step of each row attends to, itself included."""
        first = np.array(self.meta.prompt_lengths) + 1
        context = np.arange(self.n_steps)[:, None] + first  # [S, B]
        return self.meta.attention.reads(context).tokens


def evaluated(meta: TraceMeta) -> NDArray[np.bool_]:
    """bool[S, L]: where TAS is evaluated, that is outside frame 0 in layers with a tau."""
    has_tau = np.array([tau is not None for tau in meta.tau_per_layer])
    beyond_first_frame = np.arange(meta.n_steps) >= meta.tokens_per_frame
    scored: NDArray[np.bool_] = beyond_first_frame[:, None] & has_tau
    return scored


def would_replay(tas: Tas, meta: TraceMeta) -> NDArray[np.bool_]:
    """bool[S, L, B]: ``tas > tau``, strictly and in double precision; False where TAS is NaN."""
    tau = np.array([np.nan if tau is None else tau for tau in meta.tau_per_layer])
    above: NDArray[np.bool_] = tas.astype(np.float64) > tau[:, None]
    return above


def narrow_tas(tas: Tas, meta: TraceMeta) -> Tas:
    """Scores in half precision, or single where half is too small, contradicting no decision.

    Where rounding would move a score across tau, the next number on its own side is taken.
    """
    largest = np.nanmax(np.abs(tas), initial=0.0)
    narrow = np.float16 if largest < float(np.finfo(np.float16).max) else np.float32
    rounded: Tas = tas.astype(narrow)
    wanted, got = would_replay(tas, meta), would_replay(rounded, meta)
    rounded = np.where(wanted & ~got, np.nextafter(rounded, narrow(np.inf)), rounded)
    return np.where(~wanted & got, np.nextafter(rounded, narrow(-np.inf)), rounded)


def load_trace(path: str | Path) -> Trace:
    """Open and validate a trace.

    Raises:
        InputError: The file is missing, damaged, or contradicts itself; the message names the
            file, the array or field, and what to do.
    """
    archive = NpzArchive(Path(path))
    names = set(archive.headers)
    if names != _ARRAYS:
        raise InputError(
            str(path),
            f"not a trace: holds arrays {sorted(names)}, a trace holds {sorted(_ARRAYS)}",
            "make a trace with 'carsim capture'",
        )
    header = archive.headers["meta"]
    if header.dtype.kind != "U" or header.shape != () or header.dtype.itemsize > _MAX_META_BYTES:
        raise InputError(
            f"{path}: array 'meta'",
            f"expected one string, got {header.dtype} of shape {header.shape}",
            _CURE,
        )
    try:
        text = str(archive.read("meta"))
    except (ValueError, SystemError) as error:  # code points beyond Unicode
        raise InputError(f"{path}: array 'meta'", f"no text ({error})", _CURE) from error
    meta = parse_meta(text, f"{path}: meta")
    shape = (meta.n_steps, meta.decoded.n_layers, meta.n_rows)
    for name, dtypes in (("replay", ("bool",)), ("tas", ("float16", "float32"))):
        header = archive.headers[name]
        if header.shape != shape or header.dtype.name not in dtypes:
            raise InputError(
                f"{path}: array {name!r}",
                f"expected {' or '.join(dtypes)} of shape {shape} as its metadata says, "
                f"got {header.dtype.name} of shape {header.shape}",
                _CURE,
            )
    trace = Trace(
        replay=archive.read("replay"),
        tas=archive.read("tas").astype(archive.headers["tas"].dtype.newbyteorder("=")),
        meta=meta,
        path=Path(path),
        sha256=archive.sha256,
    )
    check_trace(trace, str(path))
    return trace


def save_trace(path: str | Path, trace: Trace, *, overwrite: bool = False) -> Trace:
    """Write a trace whole or not at all; equal traces give equal bytes.

    Returns:
        The trace as it stands in the file, with ``path`` and ``sha256``.

    Raises:
        InputError: The trace contradicts itself, the file exists and ``overwrite`` is off, or the
            folder cannot be written.
    """
    path = Path(path)
    stored = replace(trace, tas=narrow_tas(trace.tas, trace.meta), path=path)
    check_trace(stored, str(path))
    data = npz_bytes(
        {
            "replay": stored.replay,
            "tas": stored.tas,
            "meta": np.array(stored.meta.model_dump_json()),
        }
    )
    write_bytes(path, data, overwrite=overwrite)
    return replace(stored, sha256=hashlib.sha256(data).hexdigest())


def check_trace(trace: Trace, place: str) -> None:
    """Check that arrays and metadata agree.

    Raises:
        InputError: They do not; the message gives the first step, layer and row that disagree.
    """
    shape = (trace.n_steps, trace.n_layers, trace.n_rows)
    for name, array in (("replay", trace.replay), ("tas", trace.tas)):
        if array.shape != shape:
            raise InputError(
                f"{place}: array {name!r}",
                f"expected shape {shape} as the metadata says, got {array.shape}",
                _CURE,
            )
    if trace.replay.view(np.uint8).max(initial=0) > 1:
        raise InputError(f"{place}: array 'replay'", "holds bytes other than 0 and 1", _CURE)
    scored = evaluated(trace.meta)[:, :, None]
    _refuse(
        place,
        "tas",
        "NaN or infinite where it was evaluated",
        scored & ~np.isfinite(trace.tas),
    )
    _refuse(
        place,
        "tas",
        "a number where it is never evaluated (first frame, or a layer without tau)",
        ~scored & ~np.isnan(trace.tas),
    )
    _refuse(
        place,
        "replay",
        "a replay where TAS is never evaluated (first frame, or a layer without tau)",
        ~scored & trace.replay,
    )
    units = decision_units(trace.meta.decision_scope, trace.meta.guidance_pairs, trace.n_rows)
    decided = unanimous(would_replay(trace.tas, trace.meta), units)
    _refuse(
        place,
        "replay",
        f"contradicts tas > tau under decision scope {trace.meta.decision_scope!r}",
        decided != trace.replay,
    )


def _refuse(place: str, array: str, problem: str, bad: NDArray[np.bool_]) -> None:
    if bad.any():
        step, layer, row = (int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
        raise InputError(
            f"{place}: array {array!r}",
            f"{problem} at step {step}, layer {layer}, row {row} ({int(bad.sum())} places)",
            _CURE,
        )
