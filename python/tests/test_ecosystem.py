"""The recipes of docs/ecosystem.md run, each in an interpreter of its own. Those that cannot run here name what they need."""

import ast
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import rowloom
from rowloom import _rowloom

from requirements import needs

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "ecosystem.md"
SECTIONS = ["SciPy", "scikit-learn", "scanpy", "CuPy", "PyTorch", "JAX", "mpi4py"]


def recipes():
    """The section and the code of each recipe."""
    section, found = "", []
    for heading, code in re.findall(r"^## ([^\n]*)$|^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        section = heading or section
        if code:
            found.append((section, code))
    return found


def libraries(code):
    """The packages that a recipe imports."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module)
    return sorted({name.partition(".")[0] for name in names})


def has_card():
    try:
        rowloom.csr("gen:stencil5,n=4", devices="cuda:0").vectors(1)
    except (ValueError, rowloom.DeviceError):
        return False
    return True


def test_the_example_of_the_front_page_runs():
    pytest.importorskip("scipy")
    [code] = re.findall(r"^```python\n(.*?)^```$", (PAGE.parents[1] / "README.md").read_text(), re.M | re.S)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_section_has_a_recipe():
    assert list(dict.fromkeys(section for section, _ in recipes())) == SECTIONS


@pytest.mark.parametrize(("section", "code"), [pytest.param(*recipe, id=f"{recipe[0]}-{n}") for n, recipe in enumerate(recipes())])
def test_recipes_run(section, code, tmp_path):
    for library in libraries(code):
        name = "mpi" if library == "mpi4py" else library
        needs(importlib.util.find_spec(library), name, f"the recipe of {section} needs {library}, which is not installed")
    if "cupy" in libraries(code) or '"cuda"' in code:
        needs(has_card(), "cuda", f"the recipe of {section} needs a CUDA card")
    command, ranks = [sys.executable, "-c"], 1
    if "mpi4py" in libraries(code):
        needs(shutil.which("mpirun"), "mpi", f"the recipe of {section} needs mpirun")
        needs(_rowloom.Ranks.are_supported(), "mpi", f"the recipe of {section} needs a package built with MPI")
        ranks = 2
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # Containers forbid the system call that it would use.
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    }
    assert "assert" in code, "a recipe checks its result"
    program = [*command, code + "\nprint('ended well')\n"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.stdout.count("ended well") == ranks, done.stdout + done.stderr
