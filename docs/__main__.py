"""``python docs``: build the site in out/site.

The first call installs what that needs into .venv.
"""

import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "out" / "site"

if __name__ == "__main__":
    venv = runpy.run_path(str(ROOT / ".ci" / "venv.py"))
    venv["ready"]("docs")
    sphinx = [
        venv["PYTHON"],
        "-m",
        "sphinx",
        "--quiet",
        "--fresh-env",
        "--fail-on-warning",
        "--keep-going",
    ]
    status = subprocess.call([*sphinx, "-c", str(ROOT / "docs"), str(ROOT), str(SITE)])
    if status == 0:
        sys.stdout.write(f"Written to {SITE / 'index.html'}\n")
    sys.exit(status)
