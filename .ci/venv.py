"""Make .venv hold what this checkout declares; do nothing if it already does.

``python carsim``, ``python tests`` and ``python docs`` use it. It runs on Python 3.6 and later. The
environment is made with the Python that runs it, or, if carsim does not support that version, with
the first ``python3.X`` that it does support. Once it is up to date, no network is needed.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
SCRIPTS = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = str(SCRIPTS / "python")


def ready(extra=""):
    """Install what is missing; ``extra`` is an optional dependency group of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    # What an environment depends on: where the checkout is, and all before the settings of tools.
    wanted = f"{ROOT}\n{text.partition('[tool.')[0]}"
    if _read(_stamp(extra)) == wanted:
        return
    python = _supported(text)
    named = f"[{extra}]" if extra else ""
    sys.stderr.write(f"Installing carsim{named} and what it needs into {VENV} ...\n")
    if _read(_stamp()) != wanted:
        _make(python, moved=not (_read(_stamp()) or wanted).startswith(f"{ROOT}\n"))
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.call([*pip, "--editable", f".{named}"], cwd=str(ROOT)):
        sys.exit("What carsim needs could not be installed; the lines above say why.")
    for stamp in {_stamp(), _stamp(extra)}:
        stamp.write_text(wanted, encoding="utf-8")


def run(command, extra=""):
    """Go on as ``command``, given to the Python of the environment."""
    ready(extra)
    if os.name == "nt":
        sys.exit(subprocess.call([PYTHON, *command]))
    os.execv(PYTHON, [PYTHON, *command])


def _make(python, moved):
    """Make the environment, or mend what is there; scripts of a moved one name old paths."""
    new = moved or not VENV.exists()
    if subprocess.call([python, "-m", "venv", str(VENV), *(["--clear"] if moved else [])]):
        if new:
            shutil.rmtree(str(VENV), ignore_errors=True)
        sys.exit(
            f"{python} cannot make virtual environments; install its venv package "
            "(on Debian and Ubuntu: apt install python3-venv)."
        )


def _stamp(extra=""):
    return VENV / (f"installed-{extra}.txt" if extra else "installed.txt")


def _read(path):
    return path.read_text(encoding="utf-8") if path.exists() else None


def _supported(pyproject):
    """A Python of a version that pyproject.toml declares: this one, or another that runs."""
    declared = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', pyproject)
    oldest, beyond = map(int, declared.groups())
    if (3, oldest) <= sys.version_info[:2] < (3, beyond):
        # Not that of an environment: it may be the very one that is made anew.
        return getattr(sys, "_base_executable", None) or sys.executable
    for minor in reversed(range(oldest, beyond)):
        name = shutil.which(f"python3.{minor}")
        # On PATH may be a launcher that stands for no installed version: only a run tells.
        if name and not subprocess.call([name, "-c", "import venv"], stderr=subprocess.DEVNULL):
            return name
    return sys.exit(
        f"carsim needs Python 3.{oldest} to 3.{beyond - 1}; this is {sys.version.split()[0]}. "
        f"Install one of these, or use one that is there: python3.{beyond - 1} ..."
    )
