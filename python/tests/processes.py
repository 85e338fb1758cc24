"""Python code in processes of its own: for what could end the process with a signal."""

import subprocess
import sys
import textwrap

PREAMBLE = """
import gc
import numpy as np
import rowloom
from scipy import sparse

def stencil(n=120):
    # 14,400 rows; the values have more than 64 KiB, so that freed memory goes back to the system.
    matrix = rowloom.csr(f"gen:stencil5,n={n}", devices="cpu").to_scipy()
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix

def reuse_freed_memory():
    gc.collect()
    return [np.full(size, np.nan) for size in (100, 5_000, 72_000, 100_000) for _ in range(30)]

def x_of(matrix):
    return np.random.default_rng(0).random((matrix.shape[1], 3))

def assert_same(y, expected):
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
"""


def assert_runs(code, folder=None):
    """The code ends without an exception and without a signal."""
    program = PREAMBLE + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
