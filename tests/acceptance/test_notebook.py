"""The notebook runs, and shows what it shows."""

import ast
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "explorer.ipynb"
NUMBER = re.compile(r"[-+]?\d[\d.,]*")


def run_cell(source: str, namespace: dict[str, Any]) -> tuple[Any, str]:
    """Run a cell as a notebook does: (value of its last expression, what it printed)."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), NOTEBOOK.name, "exec"), namespace)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), namespace)
    return value, printed.getvalue()


def shown(cell: dict[str, Any], kind: str) -> str:
    """An output that the notebook stores."""
    return "".join(
        "".join(output["text"] if kind == "stream" else output["data"].get(kind, ""))
        for output in cell["outputs"]
        if (output["output_type"] == "stream") == (kind == "stream")
    )


def test_the_notebook_runs_and_shows_what_it_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = [
        cell
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    assert len(cells) > 5
    namespace: dict[str, Any] = {}
    for cell in cells:
        value, printed = run_cell("".join(cell["source"]), namespace)
        # Numbers are those of the trace that was there; what is shown of them stays.
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown(cell, "stream"))
        assert bool(shown(cell, "text/html")) == (value is not None)
        if value is not None:
            assert value._repr_html_()


def test_the_notebook_is_small() -> None:
    assert NOTEBOOK.stat().st_size < 60_000
