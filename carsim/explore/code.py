"""A checksum of the code that made a result; two checkouts of one version may differ."""

from functools import cache
from hashlib import sha256
from pathlib import Path

from carsim.base.plugins import loaded_plugins

PACKAGE = Path(__file__).parents[1]

WITHOUT_A_SAY = ("cli", "configs", "decoder", "report", "validate")
"""Packages on which no metric of a point depends. Designs are inputs, hashed on their own."""

SUFFIXES = (".csv", ".py", ".yaml")


def code_sha256(package: Path = PACKAGE) -> str:
    """SHA-256 over the files on which metrics depend, and over loaded plugins, in hexadecimal.

    Args:
        package: The folder of carsim.
    """
    own, plugins = package_sha256(package), sorted(loaded_plugins().values())
    return sha256(" ".join([own, *plugins]).encode()).hexdigest() if plugins else own


@cache
def package_sha256(package: Path) -> str:
    """The same over the names and bytes of the package's files alone."""
    digest = sha256()
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package)
        if path.suffix in SUFFIXES and name.parts[0] not in WITHOUT_A_SAY:
            digest.update(f"{name.as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
