"""Digests of the files of a folder, as the tool ``sha256sum`` writes and checks them.

They show damage on the way to a colleague. They do not prove who made the files.
"""

from collections.abc import Iterable, Iterator
from hashlib import file_digest
from pathlib import Path

from carsim.base.files import admit

DIGESTS = "SHA256SUMS"


def write_digests(folder: Path, names: Iterable[str], path: Path | None = None) -> None:
    """Write the digests of these files of a folder, into it or to another path.

    Raises:
        OSError: A file cannot be read, or the digests cannot be written.
    """
    lines = "".join(f"{_digest(folder / name)}  {name}\n" for name in names)
    (path or folder / DIGESTS).write_text(lines, encoding="utf-8")


def digest_of(folder: Path, name: str) -> str | None:
    """The digest of a file that a folder states; None if it states none.

    Raises:
        OSError: The digests cannot be read.
    """
    for digest, stated_name in _stated(folder):
        if stated_name == name:
            return digest
    return None


def problems(folder: Path, only: str | None = None) -> dict[str, str]:
    """Faults of each file of which a folder has a digest; an empty text: none.

    Args:
        folder: The folder.
        only: Check this file alone.

    Raises:
        OSError: A file cannot be read.
    """
    found: dict[str, str] = {}
    admit(folder)
    if not (folder / DIGESTS).is_file():
        return found
    for digest, name in _stated(folder):
        if len(digest) != 64 or Path(name).name != name or not name.isprintable():
            found[DIGESTS] = "is damaged: a line is no digest and name"
        elif only not in (None, name):
            continue
        elif not (folder / name).is_file():
            found[name] = "is missing"
        else:
            is_right = _digest(folder / name) == digest
            found[name] = "" if is_right else f"does not match its digest in {DIGESTS}"
    return found


def _stated(folder: Path) -> Iterator[tuple[str, str]]:
    """Digest and name of each file that a folder states, as they stand in it."""
    text = (folder / DIGESTS).read_bytes().decode("utf-8", "replace")
    for line in text.splitlines():
        digest, _, name = line.partition("  ")
        yield digest, name


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
