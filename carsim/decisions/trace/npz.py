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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError, first_line
from carsim.base.files import read_file, write_whole

MAX_BYTES = 2**31
"""Most bytes that all arrays of one archive may unpack to (and that the file itself may have)."""

_MAX_ARRAYS = 256
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes
_INFLATION = 1032  # most bytes of a byte of deflate: 258 in two bits, RFC 1951
_HEADER_BYTES = 10_016  # magic, length, and the longest header that NumPy reads
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip can hold: remaking gives the same bytes
_CURE = "make the file again, or fetch it again if it was copied"


class Header(NamedTuple):
    """Declaration of an array, read before any of its data."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

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
        if data.startswith(b"\x93NUMPY"):
            cure = "make a trace of it: Trace.from_decisions"
            raise InputError(str(path), "is an array, and a trace is an .npz archive", cure)
        with self._blaming("", "not a readable .npz archive"):
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            infos = self._zip.infolist()
            packed = sum(info.compress_size for info in infos)
            if packed > len(data) or any(info.compress_type not in _METHODS for info in infos):
                problem = "its arrays lie over each other, or are packed as NumPy never does"
                raise ValueError(problem)
            if any(info.file_size > _INFLATION * info.compress_size for info in infos):
                raise ValueError("its arrays claim to be larger than what is packed can be")
            if len(infos) > _MAX_ARRAYS or len({info.filename for info in infos}) < len(infos):
                raise ValueError(f"holds {len(infos)} arrays, too many or of equal names")
        self._infos = {info.filename.removesuffix(".npy"): info for info in infos}
        self.headers = {name: self._header(name) for name in self._infos}
        total = sum(header.n_bytes for header in self.headers.values())
        if total > MAX_BYTES:
            problem = f"its arrays would take {total:,} bytes, the limit is {MAX_BYTES:,}"
            raise InputError(str(path), problem, _CURE)

    def read(self, name: str) -> NDArray[Any]:
        """Unpack one array.

        Raises:
            InputError: Its data do not match its header.
        """
        info = self._infos[name]
        with self._blaming(name, "damaged"), self._zip.open(info) as stream:
            if self.headers[name].n_bytes > info.file_size:
                raise ValueError("fewer bytes than its header declares")
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
            if stream.read(1):
                raise ValueError("more bytes than its header declares")
            return array

    def _header(self, name: str) -> Header:
        """Shape and type of an array, from the beginning of its file; objects are refused."""
        with self._blaming(name, "unreadable header"):
            with self._zip.open(self._infos[name]) as packed:
                stream = io.BytesIO(packed.read(_HEADER_BYTES))
                version = np.lib.format.read_magic(stream)
                if version not in _HEADERS:
                    raise ValueError(f"npy version {version}")
                shape, _, dtype = _HEADERS[version](stream)
            if any(length < 0 for length in shape):
                raise ValueError(f"shape {shape}")
        if dtype.hasobject or dtype.names:
            problem = f"holds Python objects or records (dtype {dtype}), which are refused"
            raise InputError(f"{self.path}: array {name!r}", problem, "store plain numbers only")
        return Header(shape, dtype)

    @contextmanager
    def _blaming(self, name: str, problem: str) -> Iterator[None]:
        """Whatever a damaged file raises becomes one line, with the first line of the reason."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # headers of Python 2 read well, with a warning
                yield
        except Exception as error:
            location = f"{self.path}: array {name!r}" if name else str(self.path)
            raise InputError(location, f"{problem} ({first_line(error)})", _CURE) from error


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
        problem = f"folder {str(path.parent)!r} is missing or cannot be written"
        raise InputError(str(path), problem, "name a folder that exists and can be written")
