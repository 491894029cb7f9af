"""The store of a study: a text file that survives Ctrl-C, kill -9, reboots and full disks.

The first line has the facts of the study: which study, design, traces and code of carsim the
results are of. Each further line has the result of a point, and is on disk before the next points
begin. Of two lines of one point, the later counts. Each line begins with a checksum: a line that
does not match its checksum counts as not evaluated. One command writes at a time; others may read
meanwhile, and write nothing.

Results are kept by content (:mod:`carsim.explore.content`). A study that shares points with the
stored one, because an axis has got a value for instance, takes over the store: results that are no
point of it stay in the file, without a place in the study.

Simplification: a file that was cut exactly behind a line looks like that of an interrupted sweep.
Once a sweep has ended, the digests of its folder tell them apart.
"""

import errno
import json
import logging
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from hashlib import file_digest, sha256
from importlib.metadata import version
from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pydantic_core import from_json

from carsim.base.digests import DIGESTS
from carsim.base.errors import InputError
from carsim.base.files import admit, make_folder, reason, unwritable, write_whole
from carsim.base.plugins import plugins_by_name
from carsim.base.text import shortened
from carsim.base.yaml_file import shown
from carsim.explore.code import code_sha256, plugin_gap_of
from carsim.explore.evaluate import Row
from carsim.explore.points import Point, changes_of
from carsim.explore.shards import ALL_POINTS
from carsim.explore.study import Study, load_study, result_columns, value_of

STORE_FILE = "store.txt"
LOCK_FILE = "store.lock"
STUDY_FILE = "study.yaml"
CERTIFICATE = "certificate.json"
"""File beside the store of a front, see :mod:`carsim.explore.certificate`."""

SCHEMA = "6"
RESCUED = " (rescued)"
"""Ends the name of a study whose results come from a damaged store."""

FOREIGN = {
    "version": "was made by carsim {version}, not by this version",
    "code": "was made by other code of this carsim",
    "kind": "holds a {kind}, and this is none",
    "shard": "holds {shard} of the study, and this is another part",
    "columns": "has other metrics than there are now",
}
"""Fact that must be the same to go on with a store -> problem if it is not."""

OTHER_STUDY = "is of another study ({name}), or its study, design or traces have changed"

OF_CODE = ("version", "code", "columns")
"""Facts that other code of carsim changes."""

REUSABLE = ("ok", "misfit")
"""Status of results that are taken over by content. A refusal may quote the study, and is quick."""

NOWHERE = -1
"""Place in the study of a result that is no point of it."""

OWN = ("study", "objectives", "constraints", "within", "points", "assumed")
"""Facts on which no result depends: those of the study with which a store goes on."""

MOST_BYTES = 1 << 24
"""Bytes of a line at most; what is longer is no line."""

log = logging.getLogger("carsim")


class _StoredLine(NamedTuple):
    """Place of a result's line in the file, and the fields that it begins with.

    Attributes:
        ordinal: Place of the point in the study; :data:`NOWHERE` if it is no point of it.
        status: Status of the result.
        begin: First byte of the line.
        size: Bytes of the line.
        key: Content of the point (:mod:`carsim.explore.content`).
    """

    ordinal: int
    status: str
    begin: int
    size: int
    key: str


class Store(AbstractContextManager["Store"]):
    """An open store.

    Args:
        path: The file; None keeps results in memory.

    Attributes:
        facts: Facts of the study; none in a store that has not been claimed.
        damaged: Lines that do not match their checksum.
        others: Stores of other folders whose results are taken over by content.

    Raises:
        InputError: It cannot be read, or is no store.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.facts: dict[str, Any] = {}
        self.damaged: list[str] = []
        self.others: list[Store] = []
        self._line_of: dict[str, _StoredLine] = {}  # by identity of the point
        self._by_key: dict[str, _StoredLine] = {}  # by content: results that may be taken over
        self._size = 0
        self._file: BinaryIO = BytesIO()
        if path is not None and os.path.lexists(admit(path)):
            with ExitStack() as stack:  # which closes what is no store
                try:
                    self._file = stack.enter_context(path.open("rb"))
                    self._read()
                except OSError as error:
                    problem = f"cannot be read ({reason(error)})"
                    raise InputError(str(path), problem, "name another folder") from None
                stack.pop_all()

    def close(self) -> None:
        """Close it; nothing is pending."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, study: Study, kind: str, points: int = 0, shard: str = ALL_POINTS) -> None:
        """Make it the store of a study, or make sure that it is.

        Damaged lines are dropped. Results that failed are forgotten, so that their points are tried
        again.

        Args:
            study: The study, of which a copy is written beside the store.
            kind: ``sweep``, ``front`` or ``search``.
            points: Points of the study, for readers of a part of them.
            shard: Label of the part of the study that it holds.

        Raises:
            InputError: It belongs to another study or shard, or to other code of carsim.
        """
        wanted = _facts_of(study, kind, points=points, shard=shard)
        if not self.facts:
            self._write(wanted, ())
        self._refuse_foreign(wanted)
        self._report()
        if self.facts["fingerprint"] != wanted["fingerprint"]:
            self._take_over(study, wanted)
        facts = dict(self.facts)
        for name in OWN:
            if name != "points" or points:
                facts[name] = wanted[name]
        if self.damaged or facts != self.facts:
            self._write(facts, self._lines())
        self._line_of = {
            identity: line for identity, line in self._line_of.items() if line.status != "failed"
        }
        if self.path is not None:
            _copy_study(study, self.path)

    def prove(self, within: float) -> None:
        """Note that no point without a result is better than the front by more than this share."""
        self._write({**self.facts, "within": within}, self._lines())

    def accept(self, facts: Mapping[str, Any]) -> None:
        """Change facts of the code, after results were found equal."""
        self._write({**self.facts, **facts}, self._lines())

    def add(self, results: Iterable[tuple[Point, Row]]) -> None:
        """Store results, all or none of them; those that are there already stay as they are.

        Raises:
            InputError: They cannot be written, because the disk is full for instance.
        """
        size = self._size
        lines = []
        added = {}
        for point, row in results:
            stored = self._line_of.get(point.id)
            if stored is not None and stored.ordinal != NOWHERE:
                continue
            line = self._text_of(point, row)
            added[point.id] = _StoredLine(
                point.ordinal, row["status"], begin=size, size=len(line), key=point.key
            )
            lines.append(line)
            size += len(line)
        self._append(b"".join(lines))
        self._line_of |= added
        self._size = size

    def _text_of(self, point: Point, row: Row) -> bytes:
        """The line of a point and its result."""
        cells = [row.get(name) for name in self.facts["columns"]]
        return _line(
            [
                point.id,
                point.key,
                str(point.ordinal),
                row["status"],
                json.dumps(point.values, default=repr),
                json.dumps(cells, allow_nan=False),
            ]
        )

    def finished(self) -> dict[str, str]:
        """Status of all points that have a result, by identity."""
        return {
            identity: line.status
            for identity, line in self._line_of.items()
            if line.ordinal != NOWHERE
        }

    def counts(self) -> Counter[str]:
        """Results by status."""
        return Counter(self.finished().values())

    @property
    def has_others(self) -> bool:
        """Some results have no place in the study, or are in other stores."""
        return bool(self.others or self._by_key)

    def row_of(self, point: Point) -> Row | None:
        """The result of a point of equal content, here or in another store; None without one."""
        for store in (self, *self.others):
            line = store._by_key.get(point.key)
            if line is not None:
                return store._row_at(line)
        return None

    def rows(self) -> Iterator[tuple[int, dict[str, Any], Row]]:
        """(Ordinal, axis values, result) of all points, in the order of the study."""
        columns = self.facts["columns"]
        for ordinal, values, cells in self.cells():
            yield ordinal, values, dict(zip(columns, cells, strict=True))

    def cells(self) -> Iterator[tuple[int, dict[str, Any], list[Any]]]:
        """(Ordinal, axis values, cells) of all points, in the order of the study.

        Cells are in the order of the fact ``columns``, None where the result has none. Damaged
        lines are left out; the log names them.
        """
        self._report()
        for line in self._lines(with_nowhere=False):
            _, _, _, ordinal, _, values, cells = line.split(b"\t")
            yield int(ordinal), from_json(values), from_json(cells)

    def sha256(self) -> str | None:
        """SHA-256 of its file, in hexadecimal; None if reading the file gives other results.

        It does if lines are damaged, if others write to it, or if failed results that a sweep has
        forgotten are still in it.
        """
        if self.path is None:
            return None
        with Store(self.path) as stored:
            if stored.damaged or stored._line_of != self._line_of or stored.facts != self.facts:
                return None
        with self.path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()

    def sound_lines(self) -> Iterator[tuple[str, str, bytes]]:
        """(Identity, status, line) of all points that have a result, failed ones included.

        Damaged lines are left out; the log names them.
        """
        self._report()
        for identity, line in self._line_of.items():
            if line.ordinal != NOWHERE:
                yield identity, line.status, self._bytes_at(line)

    def replace(self, facts: Mapping[str, Any], lines: Sequence[bytes]) -> None:
        """Write other facts and lines of stores of this schema, in place of what it holds.

        Args:
            facts: Facts of the study.
            lines: A line per point, as of :meth:`sound_lines`; they are put in the order of the
                study.

        Raises:
            InputError: They cannot be written.
        """
        self._write(facts, sorted(lines, key=_ordinal_of))

    def rescue(self, path: Path) -> None:
        """Write a store of what is sound elsewhere; the name of its study says so.

        Raises:
            InputError: It cannot be written.
        """
        name = self.facts["name"].removesuffix(RESCUED) + RESCUED
        with Store(path) as new:
            new._write({**self.facts, "name": name, "within": None}, self._lines())

    # ---------------------------------------------------------------- private

    def _refuse_foreign(self, wanted: Mapping[str, Any]) -> None:
        """Refuse a store of another kind, shard or version, or of other code or metrics.

        Raises:
            InputError: A fact of :data:`FOREIGN` differs from the one that is wanted.
        """
        for name, problem in FOREIGN.items():
            if self.facts.get(name) == wanted[name]:
                continue
            text = problem.format(**{**wanted, **self.facts})
            cure = "name another folder, or go back to what made it"
            if name in OF_CODE:
                cure = "name another folder, or add `accept_code`, which checks the results"
            gap = plugin_gap_of(self.facts)
            if name == "code" and gap is not None:
                text = gap.problem
                cure = f"{gap.cure}, or {cure}"
            raise InputError(str(self.path), text, cure)

    def _read(self) -> None:
        """Take in the facts, and find the last sound line of each point."""
        self._file.seek(0)
        first = self._file.readline(MOST_BYTES)
        facts = read_facts(first)
        if facts is None:
            problem = "is no store of carsim, or its first line is damaged"
            cure = "restore a copy of it, or name another folder"
            raise InputError(str(self.path), problem, cure)
        self.facts = facts
        schema = self.facts["schema"]
        if schema != SCHEMA:
            problem = f"is a store of schema {shown(schema)}; this carsim has {SCHEMA}"
            cure = "name another folder, or read it with the carsim that wrote it"
            raise InputError(str(self.path), problem, cure)
        self._line_of = {}
        self.damaged = []
        self._size = len(first)
        lines = iter(partial(self._file.readline, MOST_BYTES), b"")
        for number, line in enumerate(lines, start=2):
            text = _sound(line)
            if text is None:
                self.damaged.append(f"line {number}")
            else:
                identity, key, ordinal, status, _ = text.split(b"\t", 4)
                self._line_of[identity.decode()] = _StoredLine(
                    int(ordinal),
                    status.decode(),
                    begin=self._size,
                    size=len(line),
                    key=key.decode(),
                )
            self._size += len(line)
        self._by_key = {
            line.key: line
            for line in self._line_of.values()
            if line.ordinal == NOWHERE and line.status in REUSABLE
        }

    def index_all(self) -> None:
        """Find all results by content, to take them over into another store."""
        lines = self._line_of.values()
        self._by_key = {line.key: line for line in lines if line.status in REUSABLE}

    def _lines(self, *, with_nowhere: bool = True) -> Iterator[bytes]:
        """The line of each point, by ordinal; those without a place in the study come first."""
        lines = sorted(self._line_of.values())
        with self._open_bytes() as text:
            for line in lines:
                if with_nowhere or line.ordinal != NOWHERE:
                    yield text[line.begin : line.begin + line.size]

    @contextmanager
    def _open_bytes(self) -> Iterator["bytes | mmap"]:
        """All bytes of the store. A file is mapped: 100,000 lines take 0.1 s, and 0.4 s by seek."""
        if isinstance(self._file, BytesIO):
            yield self._file.getvalue()
            return
        with mmap(self._file.fileno(), 0, access=ACCESS_READ) as text:
            yield text

    def _bytes_at(self, line: _StoredLine) -> bytes:
        """The text of one line, with its checksum and its end."""
        self._file.seek(line.begin)
        return self._file.read(line.size)

    def _row_at(self, line: _StoredLine) -> Row:
        """The result of one line: column -> cell."""
        _, text_of_cells = self._bytes_at(line).rsplit(b"\t", 1)
        cells = from_json(text_of_cells)
        return dict(zip(self.facts["columns"], cells, strict=True))

    def _take_over(self, study: Study, wanted: Mapping[str, Any]) -> None:
        """Make it the store of another study that has some of its points.

        All results lose their place; points of the study find them by content.

        Raises:
            InputError: None of its points is one of the study.
        """
        lines = list(self._lines())
        if lines and not any(_is_of(study, line) for line in lines):
            problem = OTHER_STUDY.format(**self.facts)
            cure = "name another folder, and this one as `reuse` to take over equal points"
            raise InputError(str(self.path), problem, cure)
        facts = {**wanted, "accepted": self.facts["accepted"]}
        self._write(facts, [_placed(line, NOWHERE) for line in lines])

    def _append(self, text: bytes) -> None:
        """Write lines at the end of the file, all or none of them.

        Raises:
            InputError: They cannot be written.
        """
        if self.path is None:
            self._file.seek(0, os.SEEK_END)
            self._file.write(text)
            return
        try:
            with self.path.open("ab", buffering=0) as file:
                while text:
                    text = text[file.write(text) :]
                os.fsync(file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.truncate(self.path, self._size)
            refused = unwritable(self.path, error)
            cure = f"{refused.cure}, then start the same command again: what is stored stays"
            raise InputError(refused.place, refused.problem, cure) from None

    def _write(self, facts: Mapping[str, Any], lines: Iterable[bytes]) -> None:
        """Write the whole file anew."""
        texts = [_line([json.dumps(facts)]), *lines]
        if self.path is None:
            self._file = BytesIO(b"".join(texts))
        else:
            self._file.close()
            write_whole(self.path, partial(_write_lines, texts))
            self._file = self.path.open("rb")
        self._read()

    def _report(self) -> None:
        """Name damaged lines in the log."""
        if self.damaged:
            named = shortened(", ".join(self.damaged), 100)
            cure = "the same sweep or search mends it and evaluates again what is lost"
            log.warning("carsim: %s: is damaged (%s); %s", self.path, named, cure)


def _facts_of(study: Study, kind: str, *, points: int, shard: str) -> dict[str, Any]:
    """Facts of the store that a study would make, see :meth:`Store.claim`."""
    return {
        "schema": SCHEMA,
        "version": version("carsim"),
        "code": code_sha256(),
        "plugins": plugins_by_name(),
        "kind": kind,
        "shard": shard,
        "shards": [shard],
        "fingerprint": study.fingerprint,
        "name": study.name,
        "points": points,
        "within": None,
        "accepted": [],
        "assumed": study.assumed,
        "expected": None if study.expected is None else asdict(study.expected),
        "study": study.text,
        "axes": [axis.name for axis in study.axes],
        "axis_types": {axis.name: _type_names(axis.values) for axis in study.axes},
        "ends": study.ends,
        "objectives": study.objectives,
        "constraints": list(study.file.constraints),
        "columns": list(result_columns()),
        "traces": {name: trace.sha256 for name, trace in study.traces.items()},
    }


def _copy_study(study: Study, store: Path) -> None:
    """Write the study beside a store, and remove what a sweep that had ended left there.

    Raises:
        InputError: It cannot be written.
    """
    copy = store.with_name(STUDY_FILE)
    try:
        store.with_name(DIGESTS).unlink(missing_ok=True)
        store.with_name(CERTIFICATE).unlink(missing_ok=True)
        copy.write_text(study.text, encoding="utf-8")
    except OSError as error:
        raise unwritable(copy, error) from None


def read_facts(first_line: bytes) -> dict[str, Any] | None:
    """Facts of a store, from its first line; None if that is damaged."""
    text = _sound(first_line)
    return None if text is None else json.loads(text)


def checksum(text: bytes) -> bytes:
    """Checksum of a line, 16 hexadecimal digits."""
    return sha256(text).hexdigest()[:16].encode()


def _sound(line: bytes) -> bytes | None:
    """A line without its checksum; None if it is damaged."""
    stated, _, text = line.partition(b"\t")
    is_sound = line.endswith(b"\n") and stated == checksum(text[:-1])
    return text if is_sound else None


def _type_names(values: Iterable[Any]) -> list[str]:
    """Names of the types of some values, such as ``float`` and ``int``."""
    return sorted({type(value).__name__ for value in values})


def _ordinal_of(line: bytes) -> int:
    """Place of a line's point in the study."""
    _, _, _, ordinal, _ = line.split(b"\t", 4)
    return int(ordinal)


def _placed(line: bytes, ordinal: int) -> bytes:
    """A line with another place in the study."""
    _, identity, key, _, *rest = line[:-1].decode().split("\t")
    return _line([identity, key, str(ordinal), *rest])


def _is_of(study: Study, line: bytes) -> bool:
    """The result of a line is that of a point of a study, as far as axes have the same names."""
    _, _, key, _, _, values, _ = line.split(b"\t")
    stored = from_json(values)
    for axis in study.axes:
        if axis.name not in stored:
            value_of_design = value_of(study.base, axis.name)
            equal_values = [value for value in axis.values if value == value_of_design]
            if not equal_values:
                return False
            stored[axis.name] = equal_values[0]
        elif stored[axis.name] not in axis.values:
            return False
    return study.contents.key(changes_of(study, stored)) == key.decode()


def _line(fields: Sequence[str]) -> bytes:
    """A line of the file: its checksum and its fields, with tabs in between."""
    text = "\t".join(fields).encode()
    return b"%b\t%b\n" % (checksum(text), text)


def _write_lines(lines: Sequence[bytes], path: Path) -> None:
    """Write a file of lines, and make sure that it is on disk."""
    with path.open("wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def open_folder(folder: str | Path) -> Iterator[Store]:
    """The store of a folder, made if there is none; nobody else writes to it meanwhile.

    Raises:
        InputError: The folder cannot be made or written, another process is at work there, or it
            holds something else of that name.
    """
    folder = Path(folder)
    make_folder(folder)
    path = folder / LOCK_FILE
    with ExitStack() as stack:
        try:
            # SQLite locks files on all systems; the lock goes with the process that holds it.
            lock = sqlite3.connect(path, timeout=0, isolation_level=None)
            stack.enter_context(closing(lock)).execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if "locked" not in str(error):
                cure = "remove that file, or name a folder that may be written"
                raise InputError(str(path), f"cannot be locked ({error})", cure) from None
            if not _has_locks(path):
                problem = "is on a file system that cannot lock files"
                raise InputError(str(folder), problem, "name a local folder") from None
            problem = "another carsim is writing to it"
            raise InputError(str(folder), problem, "wait for it, or name another") from None
        yield stack.enter_context(Store(folder / STORE_FILE))


def _has_locks(path: Path) -> bool:
    """Find out if files can be locked at all: SQLite does not tell that from a file in use."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    with path.open("rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)  # SQLite locks bytes far behind
        except OSError as error:
            return error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
    return True


def open_store(folder: str | Path) -> Store:
    """The store in a folder that a sweep or a search has made, to be read.

    Raises:
        InputError: There is none, or it is of another schema.
    """
    path = admit(Path(folder) / STORE_FILE)
    if not os.path.isfile(path):  # noqa: PTH113 - never raises, whatever the path
        if os.path.isfile(Path(folder) / LOCK_FILE):  # noqa: PTH113
            cure = "wait for its sweep, or start that again"
            raise InputError(str(folder), "has no result yet", cure)
        raise InputError(str(folder), f"holds no {STORE_FILE}", "name the folder of a sweep")
    return Store(path)


def loaded_study(folder: Path, file: Path | None = None) -> Study:
    """The study of a folder, from its file or from the copy in the folder.

    Args:
        folder: The folder.
        file: File of the study, whose design and traces lie beside it; None for the copy.

    Raises:
        InputError: The study cannot be loaded.
    """
    try:
        return load_study(file or folder / STUDY_FILE)
    except InputError as error:
        if file is not None:
            raise
        cure = "name the file of the study with --study, as its design and traces lie beside it"
        raise InputError(error.place, error.problem, cure) from None


def study_of_folder(folder: Path, file: Path | None = None) -> Study:
    """The study of a folder, which must be the one that its store is of.

    Args:
        folder: The folder.
        file: File of the study, as of :func:`loaded_study`.

    Raises:
        InputError: The study cannot be loaded, or is another one.
    """
    study = loaded_study(folder, file)
    with open_store(folder) as store:
        fingerprints = (study.fingerprint, study.lean.fingerprint)
        if store.facts["fingerprint"] not in fingerprints:
            problem = OTHER_STUDY.format(**store.facts)
            raise InputError(str(folder), problem, "name the file of its study with --study")
    return study
