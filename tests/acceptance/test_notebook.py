"""The notebooks show what they show; one is executed, of which commits take turns.

``.ci/run`` executes all of them with Jupyter's client.
"""

import ast
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from turns import turn

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs/notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"[-+]?\d[\d.,]*")


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def run_cell(source: str, namespace: dict[str, Any]) -> tuple[Any, str]:
    """Run a cell as a notebook does: (value of its last expression, what it printed)."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), "cell", "exec"), namespace)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    return value, printed.getvalue()


def shown(cell: dict[str, Any], kind: str) -> str:
    """An output that the notebook stores: a stream, or data of a type."""
    return "".join(
        "".join(output["text"] if kind == "stream" else output["data"].get(kind, ""))
        for output in cell["outputs"]
        if (output["output_type"] == "stream") == (kind == "stream")
    )


def test_a_notebook_runs_and_shows_what_it_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = NOTEBOOKS[turn() % len(NOTEBOOKS)]
    monkeypatch.chdir(notebook.parent)
    namespace: dict[str, Any] = {}
    plt.close("all")  # what other tests have left
    with mpl.rc_context({"backend": "agg"}):
        for cell in code_cells(notebook):
            value, printed = run_cell("".join(cell["source"]), namespace)
            assert printed == shown(cell, "stream")
            assert bool(plt.get_fignums()) == bool(shown(cell, "image/png"))
            plt.close("all")
            if hasattr(value, "_repr_html_"):
                now, kept = value._repr_html_(), shown(cell, "text/html")
                assert NUMBER.findall(now) == NUMBER.findall(kept)
            elif value is not None:
                assert repr(value) == shown(cell, "text/plain")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_small_and_was_executed(notebook: Path) -> None:
    assert notebook.stat().st_size < 60_000
    cells = code_cells(notebook)
    assert len(cells) >= 4
    assert all(cell["execution_count"] == at for at, cell in enumerate(cells, 1))
