"""Sparse matrix times dense array, on every processor of a machine at once.

``rowloom.csr`` makes an operator from a SciPy sparse matrix, from the arrays of CSR, or from a file. ``A @ X`` multiplies it by a
NumPy array.

>>> import numpy, rowloom, scipy.sparse
>>> a = rowloom.csr(scipy.sparse.eye_array(3, format="csr") * 2.0)
>>> a @ numpy.array([1.0, 2.0, 3.0])
array([2., 4., 6.])
"""

import atexit as _atexit

from . import _rowloom
from ._complex import ComplexCSR
from ._csr import CSR, csr
from ._distributed import DistributedCSR
from ._pca import PrincipalComponents, pca
from ._plan import Plan
from ._report import Fault, Report
from ._rowloom import DeviceError
from ._rowloom import __version__ as __version__
from ._transformed import TransformedCSR
from ._vectors import Scalars, Vectors

__all__ = [
    "CSR",
    "ComplexCSR",
    "DeviceError",
    "DistributedCSR",
    "Fault",
    "Plan",
    "PrincipalComponents",
    "Report",
    "Scalars",
    "TransformedCSR",
    "Vectors",
    "csr",
    "pca",
]

# A thread may still start the CUDA driver, which must have ended before the process does.
_atexit.register(_rowloom.close)
