"""The trace file: what is written comes back, and every bad file gives one clear line."""

import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_maker import make_meta, make_quality, make_trace

from carsim.base.errors import InputError
from carsim.decisions.attention import Streaming
from carsim.decisions.trace import Trace, load_trace, save_trace
from carsim.decisions.trace.file import narrow_tas
from carsim.decisions.trace.npz import npz_bytes


def stored(trace: Trace) -> dict[str, Any]:
    """The arrays of a trace file, to be tampered with."""
    return {
        "replay": trace.replay.copy(),
        "tas": trace.tas.astype(np.float16),
        "meta": json.loads(trace.meta.model_dump_json()),
    }


def write(path: Path, arrays: dict[str, Any]) -> Path:
    arrays = dict(arrays)
    if isinstance(arrays.get("meta"), dict):
        arrays["meta"] = np.array(json.dumps(arrays["meta"]))
    path.write_bytes(npz_bytes(arrays))
    return path


def refusal(path: Path) -> str:
    """The one line that opening this file gives."""
    with pytest.raises(InputError) as caught:
        load_trace(path)
    line = str(caught.value)
    assert str(path) in line
    assert "\n" not in line
    assert caught.value.cure
    return line


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tau": (0.2, None)},
        {"tau": None},
        {"tau": float("inf")},
        {"decision_scope": "pair"},
        {"decision_scope": "batch"},
        {"attention": Streaming(window=3)},
        {"tau": (0.2, float("inf")), "quality": make_quality()},
    ],
)
def test_a_trace_comes_back_as_it_was_saved(tmp_path: Path, changes: dict[str, Any]) -> None:
    trace = make_trace(**changes)
    saved = save_trace(tmp_path / "a.npz", trace)
    loaded = load_trace(tmp_path / "a.npz")
    assert loaded.meta == trace.meta
    assert loaded.sha256 == saved.sha256
    assert loaded.tas.dtype == np.float16
    np.testing.assert_array_equal(loaded.replay, trace.replay)
    np.testing.assert_array_equal(loaded.tas, saved.tas)
    np.testing.assert_allclose(loaded.tas, trace.tas, rtol=1.1e-3, atol=1e-7)
    assert not loaded.replay.flags.writeable
    assert list(tmp_path.iterdir()) == [tmp_path / "a.npz"]


def test_equal_traces_give_equal_bytes(tmp_path: Path) -> None:
    first = save_trace(tmp_path / "a.npz", make_trace())
    second = save_trace(tmp_path / "b.npz", make_trace())
    other = save_trace(tmp_path / "c.npz", make_trace(seed=1))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert first.sha256 == second.sha256 != other.sha256


@given(
    tau=st.floats(-4, 4),
    offsets=st.lists(st.floats(-1e-3, 1e-3), min_size=16, max_size=16),
    dtype=st.sampled_from([np.float32, np.float64]),
    largest=st.sampled_from([1.0, 1e6]),
)
def test_narrowing_contradicts_no_decision(tau, offsets, dtype, largest):
    """Scores as near to tau as they can be stay on their side of it."""
    meta = make_meta(tau=tau)
    tas = np.full((12, 2, 4), np.nan, dtype)
    tas[4:6] = (tau + np.array(offsets)).reshape(2, 2, 4)
    tas[6:8] = np.nextafter(dtype(tau), dtype(9))
    tas[8:10] = np.nextafter(dtype(tau), dtype(-9))
    tas[10:] = dtype(tau)
    tas[11] = largest
    narrow = narrow_tas(tas, meta.replay)
    assert narrow.dtype == (np.float16 if largest == 1.0 else np.float32)
    np.testing.assert_array_equal(meta.replay.exceeds(narrow), meta.replay.exceeds(tas))


def test_context_counts_valid_tokens() -> None:
    assert make_trace().context()[[0, -1], :2].tolist() == [[6, 3], [17, 14]]


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    save_trace(path, make_trace())
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"a\.npz: exists already; .*`overwrite`"):
        save_trace(path, make_trace(seed=1))
    assert path.read_bytes() == before
    save_trace(path, make_trace(seed=1), overwrite=True)
    assert path.read_bytes() != before


def test_saving_needs_a_folder_and_a_consistent_trace(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing or cannot be written; name a folder"):
        save_trace(tmp_path / "nowhere" / "a.npz", make_trace())
    with pytest.raises(InputError, match="is a folder"):
        save_trace(tmp_path, make_trace())
    trace = make_trace()
    with pytest.raises(InputError, match="frame 0 cannot replay"):
        save_trace(tmp_path / "a.npz", replace(trace, replay=~trace.replay))
    assert not list(tmp_path.iterdir())


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.npz")
    assert "Is a directory" in refusal(tmp_path)
    text = tmp_path / "text.npz"
    text.write_text("not a zip")
    assert "not a readable .npz archive" in refusal(text)
    empty = tmp_path / "empty.npz"
    empty.write_bytes(b"")
    assert "not a readable .npz archive" in refusal(empty)
    np.save(tmp_path / "array.npy", np.zeros(3))
    assert "is an array, and a trace is an .npz archive" in refusal(tmp_path / "array.npy")
    foreign = write(tmp_path / "foreign.npz", {"x": np.zeros(3)})
    assert "not a trace: holds arrays ['x']" in refusal(foreign)


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.98])
def test_truncated_files(tmp_path: Path, keep: float) -> None:
    path = write(tmp_path / "a.npz", stored(make_trace()))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    assert "not a readable .npz archive" in refusal(path)


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    """No damage of one byte gives anything but the same trace or one clear line."""
    trace = make_trace()
    path = write(tmp_path / "a.npz", stored(trace))
    data = bytearray(path.read_bytes())
    noticed = 0
    for position in range(0, len(data), 7):
        damaged = data.copy()
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        try:
            np.testing.assert_array_equal(load_trace(path).replay, trace.replay)
        except InputError:
            noticed += 1
    assert noticed > len(data) // 14


def test_pickled_arrays_are_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    arrays = stored(make_trace())
    np.savez(path, replay=np.array([{}], object), tas=arrays["tas"], meta=np.array("{}"))
    assert "array 'replay': holds Python objects" in refusal(path)


def with_header(path: Path, name: str, header: bytes) -> Path:
    """Replace the header of one array by a crafted one, keeping its data."""
    write(path, stored(make_trace()))
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    old = members[f"{name}.npy"]
    length = int.from_bytes(old[8:10], "little")
    members[f"{name}.npy"] = (
        old[:8] + len(header).to_bytes(2, "little") + header + old[10 + length :]
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return path


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 9)}\n", "limit"),
        (b"{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824, 1)}\n", "limit"),
        (b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4, 2, 4)}\n", "unreadable header"),
        (b"(((((" * 40 + b"\n", "unreadable header"),
        (b"{'descr': '<f2', 'fortran_order': False, 'shape': (0, 2, 4)}\n", "of shape (0, 2, 4)"),
        (b"{'descr': '<c8', 'fortran_order': False, 'shape': (12, 2, 4)}\n", "got complex64"),
    ],
)
def test_crafted_headers(tmp_path: Path, header: bytes, words: str) -> None:
    """A header that asks for exabytes is refused before any memory is."""
    assert words in refusal(with_header(tmp_path / "a.npz", "tas", header))


def test_bombs_are_refused_unopened(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for index in range(300):
            archive.writestr(f"{index}.npy", b"")
    assert "holds 300 arrays" in refusal(path)


def bomb(path: Path, method: int, head: bytes) -> Path:
    """A trace file whose first array unpacks to 30 MB, from a few kilobytes."""
    with zipfile.ZipFile(path, "w", method) as archive, archive.open("tas.npy", "w") as stream:
        stream.write(head)
        stream.write(bytes(30_000_000))
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_a_small_file_takes_little_memory(tmp_path: Path, method: int) -> None:
    """A header of version 2 may say that it is as long as all of it."""
    head = b"\x93NUMPY\x02\x00" + (29_999_000).to_bytes(4, "little")
    path = bomb(tmp_path / "a.npz", method, head)
    assert path.stat().st_size < 50_000
    tracemalloc.start()
    try:
        said = refusal(path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 10_000_000
    unpacked = "packed as NumPy never does" if method == zipfile.ZIP_BZIP2 else "unreadable header"
    assert unpacked in said


def test_arrays_cannot_be_larger_than_what_is_packed_can_hold(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", stored(make_trace()))
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24  # size before packing, in the directory
    data[at : at + 4] = (2**31).to_bytes(4, "little")
    path.write_bytes(data)
    assert "claim to be larger than what is packed can be" in refusal(path)


def put(name: str, value: Any, *at: int) -> Callable[[dict[str, Any]], None]:
    """Set one number of an array, or (without a place) the whole array."""

    def tamper(arrays: dict[str, Any]) -> None:
        if at:
            arrays[name].view(np.uint8 if isinstance(value, int) else arrays[name].dtype)[at] = (
                value
            )
        else:
            arrays[name] = value

    return tamper


def change(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def tamper(arrays: dict[str, Any]) -> None:
        arrays["meta"].update(fields)

    return tamper


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (
            put("tas", np.nan, 7, 1, 3),
            "'tas': NaN or infinite where it was evaluated at step 7, layer 1, row 3",
        ),
        (put("tas", 0.0, 3, 0, 0), "never evaluated (first frame, or a layer without tau) at"),
        (put("replay", 1, 3, 0, 2), "'replay': a replay where TAS is never evaluated"),
        (
            lambda arrays: np.logical_not.at(arrays["replay"], (9, 1, 0)),
            "contradicts tas > tau under decision scope 'row' at step 9, layer 1",
        ),
        (put("replay", 7, 9, 1, 0), "holds bytes other than 0 and 1"),
        (put("weights", np.zeros(3)), "not a trace: holds arrays"),
        (
            put("replay", np.zeros((12, 2, 4), np.int8)),
            "expected bool of shape (12, 2, 4) as its metadata says, got int8",
        ),
        (put("tas", np.zeros((12, 2, 3), np.float16)), "got float16 of shape (12, 2, 3)"),
        (put("meta", np.array([1, 2])), "expected one string, got int64 of shape (2,)"),
        (put("meta", np.array('{"producer": ')), "meta: $: Invalid JSON"),
        (
            change(schema_version=3),
            "without decisions, steps or ranges is of schema version 2, got 3",
        ),
        (change(schema_version=4), "$.schema_version: should be 2 or 3, got 4"),
        (change(colour="red"), "$.colour: unknown key 'colour'; "),
        (change(n_frames=2.5), "$.n_frames: should be a valid integer"),
        (change(n_frames=10**30), "expected bool of shape (4000000000"),
        (change(tau=float("nan")), "not NaN"),
        (change(tau=0.11, decision_scope="all"), "$.decision_scope"),
        (change(prompt_lengths=[6, 2, 4, 2]), "exceeds prompt_tokens"),
        (change(guidance_pairs=[[0, 4]]), "distinct rows below 4"),
        (
            lambda arrays: arrays["meta"]["decoded"].update(n_kv_heads=3),
            "n_heads 2 is no multiple of 3",
        ),
        (change(rule={"kind": "oracle", "gain": 2.0}), "$.rule.gain: "),
        (change(rule={"kind": "tas", "head": 2}), "rule: head 2 of 2 heads, give 0 to 1"),
        (change(rule={"kind": "tas", "bits": 8}), "bits: unknown key 'bits'"),
        (
            change(decoded={"name": "x"}),
            "$.decoded.n_layers: is missing; add it, or capture the trace again; "
            "decoded.hidden_size, decoded.n_heads",
        ),
    ],
)
def test_contradictions_and_odd_metadata(tmp_path, tamper, words):
    arrays = stored(make_trace())
    tamper(arrays)
    assert words in refusal(write(tmp_path / "a.npz", arrays))
