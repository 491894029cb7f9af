"""A study of the toy, whose points take milliseconds."""

from pathlib import Path

import yaml
from tiny import write_inputs

AXES = {
    "machine.cores": [1, 2, 4],
    "policy.tau": [-0.5, 0.0, 0.5],
    "policy.schedule": ["static", "drs"],
}


def write_study(folder: Path, **changes) -> Path:
    """Write ``study.yaml``, ``toy.yaml`` and ``toy.npz``; 18 points unless changed."""
    if not (folder / "toy.npz").exists():
        write_inputs(folder)
    study = {"name": "toy study", "design": "toy.yaml", "traces": ["toy.npz"], "axes": AXES}
    path = folder / "study.yaml"
    fields = {key: value for key, value in {**study, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    return path
