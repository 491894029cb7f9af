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

STATES = {
    *("AcrossFrames", "AcrossSteps", "ThinningOf"),
    *("DecisionState", "Drafts", "Ledger", "TaskTimes", "Walk", "_Run"),
}
"""Data classes whose fields change as a machine runs, a decoder decodes, or a rule is traced."""

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


def test_a_complete_design_does_not_pass_the_chooser_of_first_designs():
    """Neither when it is opened, nor when it runs."""
    code = [
        "import sys, carsim",
        "carsim.run(carsim.open_design('zcu102'), workload='text:2+2', what_if=False)",
        "print('carsim.runs.first' in sys.modules)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


LEAVES = ("carsim.studio", "carsim.validate", "carsim.decoder", "carsim.hardware.rtl")


def test_a_run_loads_no_leaf(tmp_path: Path) -> None:
    """Imports by name, which `lint-imports` cannot see, are found as well."""
    design, trace = write_inputs(tmp_path)
    code = (
        "import sys\n"
        "from carsim.cli import carsim\n"
        f"carsim.main(['run', {str(design)!r}, '--trace', {str(trace)!r}], standalone_mode=False)\n"
        f"print([name for name in sys.modules if name.startswith({LEAVES})])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
