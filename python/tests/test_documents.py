"""The Python of docs/python.md runs, block after block in one program, as a reader would type it."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from rowloom import _rowloom

from requirements import needs

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"

# The files that the page names, with a matrix of 400 rows, and what no other machine has.
PREAMBLE = """
import scipy.io, scipy.sparse
line = scipy.sparse.diags_array([2.0, -1.0, -1.5], offsets=[0, -1, 1], shape=(20, 20))
grid = scipy.sparse.kron(line, scipy.sparse.eye_array(20)) + scipy.sparse.kron(scipy.sparse.eye_array(20), line)
scipy.sparse.save_npz("cant.npz", grid.tocsr())
scipy.io.mmwrite("cant.mtx", grid.tocoo())
"""

TIME = re.compile(r"\d+(\.\d+)? (µs|ms|s)\b")


def blocks():
    """The Python blocks of the page."""
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


def environment(folder):
    """The environment of this process without the cost model and the times of earlier runs."""
    folders = {name: str(folder) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME")}
    # Containers forbid the system call that MPI would use.
    mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    return {**os.environ, **folders, **mpi}


def run(command, code, folder):
    done = subprocess.run([*command, code], capture_output=True, text=True, timeout=120, cwd=folder, env=environment(folder))
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_page_has_blocks_of_every_kind():
    kinds = [("mpi4py" in block, block.startswith(">>>")) for block in blocks()]
    assert len(kinds) >= 7 and kinds.count((True, False)) == 1 and kinds.count((False, True)) == 1


def test_the_blocks_for_one_process_run_in_their_order(tmp_path):
    pytest.importorskip("scipy")
    own = [block for block in blocks() if "mpi4py" not in block and not block.startswith(">>>")]
    printed = run([sys.executable, "-c"], PREAMBLE + "\n".join(own) + "\nprint('ended well')\n", tmp_path)
    assert printed.endswith("ended well\n") and "mode: resident" in printed


def test_a_plan_in_words_is_the_one_that_the_page_shows(tmp_path):
    [block] = [block for block in blocks() if block.startswith(">>>")]
    call, shown = block.removeprefix(">>> ").split("\n", 1)
    printed = run([sys.executable, "-c"], f"import rowloom\n{call}\n", tmp_path)
    # Times depend on the machine.
    assert TIME.sub("T", printed) == TIME.sub("T", shown)


def test_the_block_for_ranks_runs_on_two(tmp_path):
    needs(importlib.util.find_spec("mpi4py"), "mpi", "mpi4py is not installed")
    needs(shutil.which("mpirun"), "mpi", "mpirun is not installed")
    needs(_rowloom.Ranks.are_supported(), "mpi", "this build has no MPI: maturin develop --features emulator,mpi")
    [block] = [block for block in blocks() if "mpi4py" in block]
    run([sys.executable, "-c"], PREAMBLE, tmp_path)
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", sys.executable, "-c"]
    assert run(command, block, tmp_path).count("range(") == 4
