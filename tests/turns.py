"""What costs too much for every run is done in part, and commits take turns."""

import subprocess
from pathlib import Path


def turn() -> int:
    """A number that another commit changes; a run can be repeated."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return int(head.stdout[:8] or "0", 16)
