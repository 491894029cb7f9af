"""Execute the notebooks beside this file with Jupyter's client, and keep what they show.

    python docs/notebooks/execute.py            # write the outputs
    python docs/notebooks/execute.py --check    # fail if they are not those that are kept

It needs the extra ``notebook``.
"""

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def executed(path: Path) -> Any:
    """The notebook with what it shows now, without what differs between two executions."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(HERE)}}).execute()
    notebook.metadata.pop("language_info", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


def told(notebook: Any) -> list[str]:
    """The texts that a notebook shows."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    texts = [out.get("text") or out.get("data", {}).get("text/plain", "") for out in outputs]
    return [ADDRESS.sub("", text) for text in texts]


if __name__ == "__main__":
    stale = []
    for file in sorted(HERE.glob("*.ipynb")):
        new = executed(file)
        if "--check" not in sys.argv:
            nbformat.write(new, file)
        elif told(new) != told(nbformat.read(file, as_version=4)):
            stale.append(file.name)
    sys.exit(f"stale: {', '.join(stale)}; python docs/notebooks/execute.py" if stale else 0)
