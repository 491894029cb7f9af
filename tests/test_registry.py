"""Registries: kinds from outside are known everywhere at once, those of carsim are not replaced."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from explore_study import make_study, write_study
from strategies import CONSTANT

from carsim import load_design, override, run
from carsim.base.errors import InputError
from carsim.base.registry import Registry
from carsim.decisions.attention import ATTENTION
from carsim.decisions.replay import RULES
from carsim.design.document import design_schema
from carsim.explore.store import open_store
from carsim.explore.study import load_study
from carsim.explore.sweep import sweep
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.memory import STANDARDS
from carsim.hardware.schedule import SCHEDULES
from carsim.hardware.technology import TECHNOLOGIES
from carsim.metrics import METRICS

EVERY = (ATTENTION, MAPPINGS, METRICS, RULES, SCHEDULES, STANDARDS, TECHNOLOGIES)


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    """What a test registers is gone after it."""
    yield
    for registry in Registry.roles.values():
        for name in registry.outside:
            del registry[name]


@pytest.mark.parametrize("registry", EVERY, ids=lambda each: each.role)
def test_what_is_shipped_is_neither_replaced_nor_removed(registry: Registry[Any]) -> None:
    assert Registry.roles[registry.role] is registry
    name, kind = next(iter(registry.items()))
    for change in (
        lambda: registry.register(kind),
        lambda: registry.__setitem__(name, kind),
        lambda: registry.pop(name),
        lambda: registry.update({name: kind}),
        registry.clear,
    ):
        with pytest.raises(InputError, match="is a kind of carsim's own; take another name"):
            change()
    assert registry[name] is kind
    with pytest.raises(InputError, match="calls itself"):
        registry["another name"] = kind
    # A name that is missing is compared with those there are.
    with pytest.raises(InputError, match=f"did you mean '{name}'.*({name}, |lists all)"):
        registry.find(f"{name}x", "somewhere")


def of_busy(name: str) -> Any:
    """A metric of this name that shows how busy cores are."""
    return replace(METRICS["busy"], name=name)


def test_a_metric_from_outside_is_in_sweeps_frames_and_objectives(tmp_path: Path) -> None:
    """Registered when all modules are imported."""
    METRICS.register(of_busy("busier"))
    study = write_study(tmp_path, objectives=["busier", "latency_s"])
    frame = sweep(load_study(study), tmp_path / "out", workers=0)
    assert frame["busier"].tolist() == frame["busy"].tolist()
    assert frame["busier"].notna().all()
    del METRICS["busier"]
    with open_store(tmp_path / "out") as store:
        *_, last = store.rows()
    assert last[2]["busier"] == last[2]["busy"], "read by those who do not know it, too"
    with pytest.raises(InputError, match="has other metrics than there are now"):
        sweep(make_study(tmp_path), tmp_path / "out", workers=0)


@pytest.mark.parametrize("name", ["point", "id", "Busy", "a b", 'a"', ""])
def test_names_of_metrics_are_names_of_columns(name: str) -> None:
    with pytest.raises(InputError, match="is no name of a metric"):
        of_busy(name)


SCRIPT = """\
    from dataclasses import replace
    from pathlib import Path
    from carsim import sweep
    from carsim.base.errors import InputError
    from carsim.metrics import METRICS

    {above}METRICS.register(replace(METRICS["busy"], name="busier"))

    if __name__ == "__main__":
        METRICS.register(replace(METRICS["busy"], name="busier"))
        try:
            print(sweep("study.yaml", workers=1).busier.sum())
        except InputError as error:
            print(error)
"""


def test_workers_know_what_the_script_registers_or_say_that_they_do_not(tmp_path: Path) -> None:
    write_study(tmp_path)
    (tmp_path / "busy.py").write_text(dedent(SCRIPT.format(above="")))
    (tmp_path / "late.py").write_text(dedent(SCRIPT.format(above="# ")))
    told = [
        subprocess.run(
            [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        for script in ("busy.py", "late.py")
    ]
    expected = sweep(load_study(tmp_path / "study.yaml"), workers=0).busy.sum()
    assert [done.stderr for done in told] == ["", ""]
    assert float(told[0].stdout) == pytest.approx(expected)
    assert "knows no metric 'busier'; register it in a module that the" in told[1].stdout


def test_a_memory_of_a_family_from_outside_runs() -> None:
    hbm3 = STANDARDS["HBM3-6400"]
    family = replace(hbm3.family, name="HBM4", dram_pj_per_bit=None)
    STANDARDS.register(replace(hbm3, name="HBM4-6400", family=family, source="made up"))
    memory = next(iter(load_design("u280").board.memories))
    design = override(load_design("u280"), {f"board.memories.{memory}.standard": "HBM4-6400"})
    assert design.board.memories[memory].family.name == "HBM4"
    assert "HBM4-6400" in str(design_schema())
    with pytest.raises(InputError, match=r"energy.dram_pj_per_bit: has no entry 'HBM4'; add it"):
        run(design, what_if=False)
    design = override(design, {"energy.dram_pj_per_bit.HBM4": CONSTANT})
    assert run(design, what_if=False).chosen.energy_per_video.value_j > 0
    with pytest.raises(InputError, match="did you mean 'HBM4-6400'"):
        override(load_design("u280"), {f"board.memories.{memory}.standard": "HBM4-6401"})
