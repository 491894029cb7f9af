"""The files of docs/cluster: linters find nothing, and their commands make shards that join."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from explore_study import answers, make_study

from carsim.explore.merge import merge
from carsim.explore.sweep import sweep

FILES = Path(__file__).parents[2] / "docs" / "cluster"
LINTERS = [
    ("shellcheck", "slurm.sh"),
    ("shellcheck", "dask.sh"),
    ("yamllint", "kubernetes.yaml"),
    ("kubernetes-validate", "kubernetes.yaml"),
]
SHARDS = 2


@pytest.mark.parametrize(("linter", "file"), LINTERS)
def test_linters_find_nothing(linter: str, file: str) -> None:
    command = shutil.which(linter)
    if command is None:
        pytest.skip(f"{linter} is not installed")
    strict = ["--strict"] * (linter != "shellcheck")
    subprocess.run([command, *strict, FILES / file], check=True)


def surroundings(folder: Path, **variables: object) -> dict[str, str]:
    """An environment in which ``carsim`` is this carsim."""
    command = folder / "bin" / "carsim"
    if not command.exists():
        # Written once: a command that is written again while a process starts may be busy.
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m carsim "$@"\n')
        command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path} | {name: str(value) for name, value in variables.items()}


def slurm_job(folder: Path, number: int) -> None:
    # No CPU: it evaluates in its own process, so that no memory is needed for others.
    variables = {"SLURM_ARRAY_TASK_ID": number, "SLURM_CPUS_PER_TASK": 0, "SHARDS": SHARDS}
    command = ["bash", str(FILES / "slurm.sh"), str(folder / "study.yaml"), str(folder)]
    run(command, surroundings(folder, **variables))


def run(command: list[str], environment: dict[str, str]) -> None:
    """Run a command of a job; a failure shows what it said."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def kubernetes_pod(folder: Path, number: int) -> None:
    job = yaml.safe_load((FILES / "kubernetes.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    named = {each["name"]: each["value"] for each in container["env"]}
    assert named == {"STUDY": "/results/grid.yaml", "SHARDS": str(job["spec"]["completions"])}
    variables = {
        "STUDY": folder / "study.yaml",
        "SHARDS": SHARDS,
        "JOB_COMPLETION_INDEX": number - 1,
    }
    command = [argument.replace("/results/", f"{folder}/") for argument in container["args"]]
    run([*container["command"], *command], surroundings(folder, **variables))


@pytest.mark.parametrize("job", [slurm_job, kubernetes_pod])
def test_jobs_in_processes_of_their_own_make_shards_that_join(tmp_path: Path, job) -> None:
    study = make_study(tmp_path, axes={"machine.cores": [1, 2, 4], "policy.tau": [0.0, 0.5]})
    for number in range(1, SHARDS + 1):
        job(tmp_path, number)
    folders = [tmp_path / str(number) for number in range(1, SHARDS + 1)]
    assert merge(folders, tmp_path / "joined").missing == ()
    whole = answers(sweep(study, workers=0))
    pd.testing.assert_frame_equal(answers(tmp_path / "joined"), whole)
