"""The gate: format, lint, types, layering, tests. Arguments go to pytest: ``python tests -k drs``.

``python tests --fast`` runs some 650 quick tests of all folders alone, in ten seconds. The first
call installs what all that needs into .venv.
"""

import os
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FAST = (
    *("cli/test_cli_words.py", "decisions/trace", "decisions/replay/test_decide.py"),
    *("decoder/test_sampling.py", "design/test_bad_input.py", "explore/test_expressions.py"),
    *("explore/test_explore_study.py", "hardware/schedule", "design/test_hf_config.py"),
    *("machine/test_rules.py", "machine/test_timing.py", "metrics", "report/test_ratios.py"),
    *("test_api.py", "test_kinds.py", "workload"),
)
PYTEST = ["python", "-m", "pytest", "-n", os.environ.get("JOBS", "2")]
CHECKS = (["ruff", "format", "--check"], ["ruff", "check"], ["mypy"], ["lint-imports"])


def steps(arguments: list[str]) -> list[list[str]]:
    """Commands to call, one after the other."""
    if "--fast" not in arguments:
        return [*CHECKS, [*PYTEST, *arguments]]
    others = [each for each in arguments if each != "--fast"]
    return [[*PYTEST, *(f"tests/{name}" for name in FAST), *others]]


if __name__ == "__main__":
    venv = runpy.run_path(str(ROOT / ".ci" / "venv.py"))
    venv["ready"]("dev")
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    environment["PATH"] = f"{venv['SCRIPTS']}{os.pathsep}{environment['PATH']}"
    for step in steps(sys.argv[1:]):
        sys.stderr.write(f"+ {' '.join(step)}\n")
        status = subprocess.call(step, cwd=str(ROOT), env=environment)
        if status:
            sys.exit(status)
