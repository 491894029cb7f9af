"""The public names of the package: all there, and none imported before it is used."""

import dataclasses
import importlib
import pkgutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tiny import write_inputs

import carsim

STATES = {"Core", "Drafts", "Record"}
"""Data classes whose fields change as a machine runs or a decoder decodes."""

HEAVY = ("numpy", "pandas", "matplotlib", "pyarrow", "simpy", "pydantic", "rich")


@pytest.mark.parametrize("name", carsim.__all__)
def test_every_public_name_is_there(name):
    assert getattr(carsim, name).__doc__
    assert name in dir(carsim)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'carsim' has no attribute 'nope'"):
        _ = carsim.nope


def test_a_run_takes_names_as_a_comparison_does(tmp_path):
    design, trace = write_inputs(tmp_path)
    by_name = carsim.run(design, [trace])
    loaded = carsim.run(carsim.load_design(design), [carsim.load_trace(trace)])
    assert carsim.summary(by_name) == carsim.summary(loaded)
    assert carsim.run(Path(design), [Path(trace)]).design == loaded.design


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert carsim.__version__ == version("carsim")


def test_what_is_handed_around_cannot_be_changed():
    states = set()
    for found in pkgutil.walk_packages(carsim.__path__, "carsim."):
        with suppress(ImportError):  # extras
            name = found.name if "__main__" not in found.name else "carsim"
            for each in vars(importlib.import_module(name)).values():
                is_own = dataclasses.is_dataclass(each) and each.__module__.startswith("carsim")
                if is_own and not each.__dataclass_params__.frozen:
                    states.add(each.__name__)
    assert states == STATES


@pytest.mark.parametrize(
    "code",
    [
        "import carsim",
        "from carsim.cli import carsim; carsim.main(['--help'], standalone_mode=False)",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code):
    check = f"import sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
