"""A checksum of the code that made a result; two checkouts of one version may differ."""

from functools import cache
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

WITHOUT_A_SAY = ("cli", "configs", "decoder", "report", "validate")
"""Packages on which no metric of a point depends. Designs are inputs, hashed on their own."""

SUFFIXES = (".csv", ".py", ".yaml")


@cache
def code_sha256(package: Path = PACKAGE) -> str:
    """SHA-256 over the names and bytes of the files on which metrics depend, in hexadecimal.

    Args:
        package: The folder of carsim.
    """
    digest = sha256()
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package)
        if path.suffix in SUFFIXES and name.parts[0] not in WITHOUT_A_SAY:
            digest.update(f"{name.as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
