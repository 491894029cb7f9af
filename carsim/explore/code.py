"""The code that made a result: its checksum, as two checkouts of one version may differ."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

from carsim.base.plugins import PluginGap, loaded_plugins, plugin_gap, plugins_by_name
from carsim.design import Design

PACKAGE = Path(__file__).parents[1]

WITHOUT_A_SAY = ("cli", "configs", "decoder", "report", "validate")
"""Packages on which no metric of a point depends. Designs are inputs, hashed on their own."""

SUFFIXES = (".csv", ".py", ".yaml")

MANIFEST = "manifest.json"
"""File beside exports of a sweep and reports of a validation."""

LIBRARIES = ("carsim", "numpy", "pandas", "simpy")
"""Libraries on which figures depend."""


def code_sha256(package: Path = PACKAGE) -> str:
    """SHA-256 over the files on which metrics depend, and over loaded plugins, in hexadecimal.

    Args:
        package: The folder of carsim.
    """
    of_package = package_sha256(package)
    of_plugins = sorted(loaded_plugins().values())
    if not of_plugins:
        return of_package
    return sha256(" ".join([of_package, *of_plugins]).encode()).hexdigest()


def plugin_gap_of(facts: Mapping[str, Any]) -> PluginGap | None:
    """Difference between the plugins of a store's results and those that are loaded.

    Args:
        facts: Facts of the store; in a store of an earlier version they name no plugins.
    """
    plugins = facts.get("plugins")
    return None if plugins is None else plugin_gap(plugins, exactly=True)


def manifest(command: str, design: Design, **facts: Any) -> dict[str, Any]:
    """Everything that a result depends on, as hashes and versions.

    Args:
        command: The command that repeats it; empty if it was made from Python.
        design: The design.
        facts: Hashes of other inputs, and the seed.
    """
    overheads = design.machine.overheads
    calibration_sha256 = ""
    if overheads.calibration is not None:
        calibration_sha256 = sha256(overheads.model_dump_json().encode()).hexdigest()
    return {
        "command": command,
        **facts,
        "design_sha256": design.sha256,
        "calibration_sha256": calibration_sha256,
        "code_sha256": package_sha256(PACKAGE),
        "plugins": plugins_by_name(),
        "versions": {name: version(name) for name in LIBRARIES} | {"python": python_version()},
    }


@cache
def package_sha256(package: Path) -> str:
    """SHA-256 over the names and bytes of a package's files on which metrics depend."""
    digest = sha256()
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package)
        if path.suffix in SUFFIXES and name.parts[0] not in WITHOUT_A_SAY:
            digest.update(f"{name.as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
