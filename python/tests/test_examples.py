"""The notebook of the examples runs. `.ci/python` runs the other examples."""

import ast
import json
import pathlib

import pytest

DATA = pathlib.Path(__file__).parent / "data"
NOTEBOOK = pathlib.Path(__file__).parents[1] / "examples" / "study.ipynb"


def show(value):
    """What a notebook would show of a value."""
    for name in ("_repr_svg_", "_repr_html_"):
        representation = getattr(value, name, None)
        if representation is not None:
            return representation()
    return repr(value)


def test_the_notebook_runs_on_the_results_of_a_study(monkeypatch):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(DATA)
    notebook = json.loads(NOTEBOOK.read_text())
    names: dict[str, object] = {"__name__": "__main__"}
    shown = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        code = ast.parse("".join(cell["source"]), f"cell {number}")
        last = code.body.pop() if isinstance(code.body[-1], ast.Expr) else None
        exec(compile(code, f"cell {number}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
            shown.append(show(value))
    assert any("<svg" in text for text in shown), "the spy plot of the matrix"
    assert any("kernels" in text for text in shown), "the first rows of the results"
