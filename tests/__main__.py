"""The gate: format, lint, types, layering, tests. Arguments go to pytest: ``python tests -k drs``.

The first call installs what that needs into .venv.
"""

import os
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS = (
    ["ruff", "format", "--check"],
    ["ruff", "check"],
    ["mypy"],
    ["lint-imports"],
    ["python", "-m", "pytest", "-n", os.environ.get("JOBS", "2"), *sys.argv[1:]],
)

if __name__ == "__main__":
    venv = runpy.run_path(str(ROOT / ".ci" / "venv.py"))
    venv["ready"]("dev")
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    environment["PATH"] = f"{venv['SCRIPTS']}{os.pathsep}{environment['PATH']}"
    for step in STEPS:
        sys.stderr.write(f"+ {' '.join(step)}\n")
        status = subprocess.call(step, cwd=str(ROOT), env=environment)
        if status:
            sys.exit(status)
