"""Which code results come from, beside its version: between two releases, a checkout changes."""

from functools import cache
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

DECIDING = (
    "spec/**/*",
    "trace/*",
    "workload/*",
    "hw/*",
    "cost/*",
    "machine/*",
    "explore/axis.py",
    "explore/evaluate.py",
    "explore/metrics.py",
    "explore/points.py",
    "explore/quality.py",
    "units.py",
)
"""Files that the metrics of a point follow from, given its inputs."""


@cache
def code_sha256(package: Path = PACKAGE) -> str:
    """SHA-256 over the names and bytes of those files, in hexadecimal.

    Args:
        package: The folder of carsim.
    """
    digest = sha256()
    found = {path for pattern in DECIDING for path in package.glob(pattern)}
    for path in sorted(found):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(package).as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
