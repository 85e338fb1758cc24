"""No figure without a right Y: scripts check every Y that they time, and end with exit code 1 and without a ratio if one is wrong."""

import sys


def refuse(reason):
    """Ends the script with exit code 1."""
    sys.exit(f"no figures: {reason}")


def is_verified(report):
    """Whether the Y of a report of `rowloom run --json` was verified (`--verify`) or checked (`--check first`, the default), and is right."""
    if report.get("verify") is not None:
        return report["verify"]["passed"] is True
    # A product whose check fails and that cannot be computed again is exit code 5, without a report.
    return (report.get("check") or {}).get("products", 0) > 0


def require_product(what, y, matrix, x):
    """Ends the script unless `y` is `matrix @ x` up to rounding. The product in double precision is SciPy's."""
    import numpy as np

    wide, x = matrix.astype(np.float64), np.asarray(x, np.float64)
    y = np.asarray(y)
    expected, sizes = wide @ x, abs(wide) @ abs(x)
    if y.shape != expected.shape:
        refuse(f"{what}: Y has the shape {y.shape}, not {expected.shape}")
    terms = (np.diff(matrix.indptr) + 2.0).reshape((-1,) + (1,) * (y.ndim - 1))
    # The rounding bounds of both products; a NaN is not within them.
    if not (np.abs(y - expected) <= 2.0 * terms * np.finfo(y.dtype).eps * sizes).all():
        refuse(f"{what}: Y is wrong")


def require_near(what, y, expected):
    """Ends the script unless two arrays of double precision, of NumPy or CuPy, agree up to the rounding of a long row. A NaN does not."""
    if y.shape != expected.shape or not bool((abs(y - expected) <= 1e-10 + 1e-10 * abs(expected)).all()):
        refuse(f"{what}: Y is wrong")
