"""Reading untrusted ``.npz`` archives safely, and writing them bit for bit repeatably.

Simplification: only plain arrays (no objects, no records) of at most :data:`MAX_BYTES` altogether,
which is far more than a trace needs and far less than what a crafted header can ask for.
"""

import hashlib
import io
import math
import os
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.files import read_file, write_whole

MAX_BYTES = 2**31
"""Most bytes that all arrays of one archive may unpack to (and that the file itself may have)."""

_MAX_ARRAYS = 256
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes
_INFLATION = 1032  # most bytes of a byte of deflate: 258 in two bits, RFC 1951
_PIECE = 2**20  # unpacked at a time, so that no array is in memory twice
_HEADER_BYTES = 10_016  # magic, length, and the longest header that NumPy reads
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip can hold: remaking gives the same bytes
_CURE = "make the file again, or fetch it again if it was copied"


@dataclass(frozen=True)
class Header:
    """Declaration of an array, read before any of its data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool

    @property
    def n_bytes(self) -> int:
        """Bytes of the data, as an exact integer however large the shape claims to be."""
        return math.prod(self.shape) * self.dtype.itemsize


class NpzArchive:
    """An ``.npz`` file whose headers were checked; arrays are read on demand.

    Args:
        path: The file.

    Attributes:
        path: The file.
        sha256: Hash of the whole file, in hexadecimal.
        headers: Array name -> header, in the order of the file.

    Raises:
        InputError: The file is missing, is no zip, is truncated, or declares arrays that are
            objects, malformed, or larger than :data:`MAX_BYTES`. Nothing is unpacked before that
            is known.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Traces are a few megabytes, and hash and content cannot disagree.
        data = read_file(path, MAX_BYTES)
        self.sha256 = hashlib.sha256(data).hexdigest()
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            infos = self._zip.infolist()
            packed = sum(info.compress_size for info in infos)
            if packed > len(data) or any(info.compress_type not in _METHODS for info in infos):
                raise ValueError(
                    "its arrays lie over each other, or are packed as NumPy never does"
                )
            if any(info.file_size > _INFLATION * info.compress_size for info in infos):
                raise ValueError("its arrays claim to be larger than what is packed can be")
        except Exception as error:  # whatever a damaged directory raises, the cure is the same
            raise InputError(
                str(path), f"not a readable .npz archive ({_reason(error)})", _CURE
            ) from error
        if len(infos) > _MAX_ARRAYS or len({info.filename for info in infos}) < len(infos):
            raise InputError(
                str(path), f"holds {len(infos)} arrays, too many or of equal names", _CURE
            )
        self._infos = {info.filename.removesuffix(".npy"): info for info in infos}
        self.headers = {name: self._header(name) for name in self._infos}
        total = sum(header.n_bytes for header in self.headers.values())
        if total > MAX_BYTES:
            raise InputError(
                str(path),
                f"its arrays would unpack to {total:,} bytes, more than the limit of {MAX_BYTES:,}",
                "split the work into smaller files",
            )

    def read(self, name: str) -> NDArray[Any]:
        """Unpack one array (its own memory, writable).

        Raises:
            InputError: The array is absent, or its data are damaged or shorter than declared.
        """
        if name not in self.headers:
            raise InputError(f"{self.path}: array {name!r}", "missing", _CURE)
        header = self.headers[name]
        try:
            if header.n_bytes > self._infos[name].file_size:
                raise ValueError("fewer bytes than its header declares")
            data = np.empty(header.n_bytes, np.uint8)
            with self._zip.open(self._infos[name]) as stream:
                _, piece = _parse_header(stream)
                filled = 0
                while piece and filled + len(piece) <= header.n_bytes:
                    data[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
                    filled += len(piece)
                    piece = stream.read(_PIECE)
            if filled < header.n_bytes or piece:
                raise ValueError("more or fewer bytes than its header declares")
            return data.view(header.dtype).reshape(
                header.shape, order="F" if header.fortran_order else "C"
            )
        except Exception as error:
            raise InputError(
                f"{self.path}: array {name!r}", f"damaged ({_reason(error)})", _CURE
            ) from error

    def _header(self, name: str) -> Header:
        try:
            with self._zip.open(self._infos[name]) as stream:
                header, _ = _parse_header(stream)
        except Exception as error:
            raise InputError(
                f"{self.path}: array {name!r}", f"unreadable header ({_reason(error)})", _CURE
            ) from error
        if header.dtype.hasobject or header.dtype.names:
            raise InputError(
                f"{self.path}: array {name!r}",
                f"holds Python objects or records (dtype {header.dtype}), which are refused",
                "store plain numbers only",
            )
        return header


def npz_bytes(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Pack arrays into a compressed ``.npz``; equal arrays give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", date_time=_EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = 0o644 << 16
            data = io.BytesIO()
            np.lib.format.write_array(data, array, version=(1, 0), allow_pickle=False)
            archive.writestr(info, data.getvalue(), compresslevel=9)
    return buffer.getvalue()


def write_bytes(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write a file so that it appears whole or not at all.

    Raises:
        InputError: The file exists and ``overwrite`` is off, or its folder cannot be written.
    """
    refuse_existing(path, overwrite=overwrite)
    write_whole(path, lambda unfinished: unfinished.write_bytes(data))


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise an :class:`InputError` where writing ``path`` is bound to fail; call before long work.

    Raises:
        InputError: The file exists and ``overwrite`` is off, or its folder cannot be written.
    """
    if path.is_dir():
        raise InputError(str(path), "is a folder", "name a file")
    if path.exists() and not overwrite:
        raise InputError(str(path), "exists already", "name another file, or set `overwrite`")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(
            str(path),
            f"folder {str(path.parent)!r} is missing or cannot be written",
            "name a folder that exists and can be written",
        )


def _parse_header(packed: IO[bytes]) -> tuple[Header, bytes]:
    """The header that a stream begins with, and what has been read of the data after it."""
    stream = io.BytesIO(packed.read(_HEADER_BYTES))
    version = np.lib.format.read_magic(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers written by Python 2 read well, with a warning
        if version == (1, 0):
            shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran_order, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise ValueError(f"npy version {version}")
    if any(length < 0 for length in shape):
        raise ValueError(f"shape {shape}")
    return Header(dtype, shape, fortran_order), stream.read()


def _reason(error: Exception) -> str:
    """First line of a foreign exception, short enough for one line of ours."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:120]
