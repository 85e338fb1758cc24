"""The largest singular triplets of an operator by block Lanczos bidiagonalisation with restarts.

Bases U and V with orthonormal columns and a small B hold ``A V = U B`` and ``A.T U = V B.T + F S E.T``, where F is the next block of V
and E selects the last columns of U. The singular vectors of B give approximations of those of A. Only the second equation has a
remainder, so its norm, known without a product, is the residual of each approximation. Columns of V are orthogonalised against all
others, twice. Those of U, which are longer, then need the block before them only, as long as B is well conditioned (H. Simon, H. Zha,
Low-rank matrix approximation using the Lanczos bidiagonalization process, 2000). When the bases are full they are restarted with the
best approximations (J. Baglama, L. Reichel, Augmented implicitly restarted Lanczos bidiagonalization methods, 2005).

A block of b columns finds at most b copies of a repeated singular value. Therefore a converged result is confirmed: a few blocks of random
columns, which have a part in every direction that is missing, must find no larger value.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._transformed import TransformedCSR

if TYPE_CHECKING:
    from ._solver_methods import Multiplies

    Array = np.ndarray[Any, Any]

#: Columns of a product: each further column costs less time than the first, and brings less than a column of a later product.
_BLOCK_COLUMNS = 8
#: Blocks between two restarts: at least, and at most where the bases take no more memory than A.
_FEWEST_BLOCKS, _MOST_BLOCKS = 24, 40
#: Columns and number of the blocks that confirm a result.
_CONFIRMING_COLUMNS, _CONFIRMING_BLOCKS = 4, 5
#: After so many restarts the residuals do not fall any more; a few are usual.
_MOST_RESTARTS = 1000
#: Where singular values of B or of a block are less than this power of rounding, over the largest, columns of U are orthogonalised against
#: all others: a hundredth in float64, and a seventh in float32.
_WELL_CONDITIONED_POWER = 1 / 8
#: Rounding of products and sums, in units of the last place of the largest singular value.
_ROUNDING_UNITS = 16.0


class Triplets(NamedTuple):
    """Left vectors as columns, singular values, right vectors as columns, and for each the larger norm of ``A v - s u`` and
    ``A.T u - s v``."""

    left: Array
    values: Array
    right: Array
    residuals: Array
    #: Columns that were multiplied by A, and as many by its transposed matrix.
    products: int


def largest_triplets(a: Multiplies, n: int, tolerance: float, seed: int | None) -> Triplets:
    """The ``n`` largest singular values of ``a`` and their vectors, to an angle of ``tolerance``.

    The angle is estimated by the residual over the distance to the next singular value. Vectors of values that are equal to rounding
    span their space to the accuracy of rounding.
    """
    if a.shape[0] < a.shape[1]:
        left, values, right, residuals, products = _Bases(a.T, n, seed).triplets(tolerance)
        return Triplets(right, values, left, residuals, products)
    return _Bases(a, n, seed).triplets(tolerance)


class _Approximations(NamedTuple):
    """The singular value decomposition of B, its vectors as columns, and the residuals of the approximations."""

    p: Array
    values: Array
    q: Array
    residuals: Array


def _columns_of_bases(a: Multiplies, kept: int) -> int:
    """The number of columns of the bases: many make restarts rare. They take no more memory than A, if that is enough columns."""
    nonzeros = a.base.nnz if isinstance(a, TransformedCSR) else 0
    size = a.dtype.itemsize
    as_many_bytes = nonzeros * (size + 4) // (size * (a.shape[0] + a.shape[1]))
    columns = min(max(as_many_bytes, kept + _FEWEST_BLOCKS * _BLOCK_COLUMNS), kept + _MOST_BLOCKS * _BLOCK_COLUMNS)
    return min(columns, a.shape[1])


class _Bases:
    """The bases for a matrix with as many rows as columns, or more."""

    def __init__(self, a: Multiplies, n: int, seed: int | None) -> None:
        self.a, self.n = a, n
        rows, columns = a.shape
        self.random = np.random.default_rng(seed)
        # The approximations that a restart keeps: those next to the wanted ones make these converge faster.
        self.kept = n + _BLOCK_COLUMNS
        self.most = _columns_of_bases(a, self.kept)
        self.u = np.zeros((rows, self.most), a.dtype, order="F")
        self.v = np.zeros((columns, self.most), a.dtype, order="F")
        self.b = np.zeros((self.most, self.most))
        self.size = 0
        # Columns of U before this one are orthogonal to the next block already.
        self.window = 0
        self.is_ill_conditioned = False
        # F and S.
        self.following = self.v[:, :0]
        self.s = np.zeros((0, 0))
        self.largest = 0.0
        self.products = 0

    def triplets(self, tolerance: float) -> Triplets:
        """Extends and restarts the bases until the wanted approximations have converged and are confirmed."""
        self.follow_with_random(_BLOCK_COLUMNS)
        for _ in range(_MOST_RESTARTS):
            found, has_converged = self.cycle(tolerance)
            if not has_converged:
                self.restart(found, self.kept)
                continue
            is_complete = self.size == len(self.v)
            # The remainder is as small as asked, so its block can be left out.
            self.restart(found, self.n)
            if is_complete or self.are_confirmed(found):
                n = self.n
                return Triplets(self.u[:, :n], found.values[:n], self.v[:, :n], found.residuals[:n], self.products)
        residual = found.residuals[: self.n].max() / self.largest
        raise RuntimeError(
            f"after {_MOST_RESTARTS} restarts the largest residual is {residual:.1e} of the largest singular value; pass a larger tolerance"
        )

    def cycle(self, tolerance: float) -> tuple[_Approximations, bool]:
        """Extends the bases until the approximations have converged, or no further block fits in. Returns whether they have converged."""
        # The decomposition of B costs time too. Smaller bases rarely converge.
        target = max(self.size + 1, 2 * self.n)
        size, before = 0, np.inf
        while True:
            while self.size < target and self.has_room():
                self.extend()
            found = self.approximations()
            excess = self.excess(found, tolerance)
            if excess <= 1.0 or not self.has_room():
                return found, excess <= 1.0
            # An eighth of growth, or less if the decline until now would do.
            target = self.size + max(1, self.size // 8)
            if excess < before < np.inf:
                decline = np.log(before / excess) / (self.size - size)
                target = min(target, self.size + math.ceil(np.log(excess) / decline))
            size, before = self.size, excess

    def has_room(self) -> bool:
        """Whether there is a following block, and room for it."""
        return bool(0 < self.following.shape[1] <= self.most - self.size)

    def extend(self) -> None:
        """Adds the following block to both bases, which gives the next one."""
        old, new = self.size, self.size + self.following.shape[1]
        self.v[:, old:new] = self.following
        window = 0 if self.is_ill_conditioned else self.window
        image = self.a @ self.v[:, old:new]
        left, coefficients, r = self.orthonormal(image, self.u[:, window:old])
        if window > 0 and self.has_small(np.linalg.svd(r, compute_uv=False)):
            self.is_ill_conditioned, window = True, 0
            left, coefficients, r = self.orthonormal(image, self.u[:, :old])
        self.u[:, old:new] = left
        self.b[window:old, old:new], self.b[old:new, old:new] = coefficients, r
        self.window = old
        self.following, _, self.s = self.orthonormal(self.a.T @ left, self.v[:, :new])
        self.size = new
        self.products += new - old

    def approximations(self) -> _Approximations:
        """Those of A by the bases as they are."""
        p, values, qt = np.linalg.svd(self.b[: self.size, : self.size])
        self.is_ill_conditioned |= self.has_small(values)
        return _Approximations(p, values, qt.T, np.linalg.norm(self.s @ p[self.size - self.s.shape[1] :], axis=0))

    def restart(self, found: _Approximations, kept: int) -> None:
        """Keeps the best approximations only."""
        size, kept = self.size, min(kept, self.size)
        self.u[:, :kept] = self.u[:, :size] @ self.cast(found.p[:, :kept])
        self.v[:, :kept] = self.v[:, :size] @ self.cast(found.q[:, :kept])
        self.b[:] = 0.0
        self.b[range(kept), range(kept)] = found.values[:kept]
        self.size = kept
        self.window = 0

    def are_confirmed(self, found: _Approximations) -> bool:
        """Whether a few blocks of random columns find no larger values than the wanted ones, which are in the bases."""
        self.follow_with_random(_CONFIRMING_COLUMNS)
        for _ in range(_CONFIRMING_BLOCKS):
            if self.has_room():
                self.extend()
        values = self.approximations().values
        n = self.n
        return bool((values[:n] <= found.values[:n] + found.residuals[:n] + self.rounding()).all())

    def follow_with_random(self, columns: int) -> None:
        """A following block of random columns."""
        zeros = np.zeros((len(self.v), columns), self.v.dtype)
        self.following, _, self.s = self.orthonormal(zeros, self.v[:, : self.size])

    def orthonormal(self, w: Array, basis: Array) -> tuple[Array, Array, Array]:
        """Orthonormal columns Q, orthogonal to a basis, with ``w = basis @ c + Q @ r``. Returns Q, c and r.

        Directions that are rounding only are replaced by random ones, whose rows of r are zero; of no more columns than there is room for.
        """
        width = min(w.shape[1], w.shape[0] - basis.shape[1])
        self.largest = max(self.largest, float(np.linalg.norm(w, axis=0).max(initial=0.0)))
        c = basis.T @ w
        q, r = _factored(w - basis @ c)
        c, r = c.astype(np.float64), r.astype(np.float64)
        p, sizes, qt = np.linalg.svd(r)
        lost = sizes[:width] <= self.rounding()
        if lost.any() or width < w.shape[1]:
            q, r = q @ self.cast(p[:, :width]), sizes[:width, None] * qt[:width]
            r[lost] = 0.0
            q[:, lost] = self.random.standard_normal((len(w), int(lost.sum())))
        # A random column has a large part in the basis, so it needs one more pass.
        for _ in range(1 + int(lost.any())):
            more = basis.T @ q
            q, turned = _factored(q - basis @ more)
            c, r = c + more @ r, turned @ r
        return q, c, r

    def excess(self, found: _Approximations, tolerance: float) -> float:
        """The largest residual over what is allowed: a wanted singular vector is as close as asked, or as rounding allows, at 1."""
        n, values, residuals = self.n, found.values, found.residuals
        if self.size == len(self.v):
            return 0.0
        if self.size <= n:
            return np.inf
        distances = np.abs(values[:n, None] - values[None, : n + 1])
        # The next value is a bound from below until it has converged itself.
        distances[:, n] -= residuals[n]
        np.fill_diagonal(distances, np.inf)
        # A matrix of zeros has neither residuals nor distances.
        allowed = np.maximum(tolerance * distances.min(axis=1), max(self.rounding(), np.finfo(np.float64).tiny))
        return float((residuals[:n] / allowed).max())

    def rounding(self) -> float:
        """What rounding leaves of a vector that is zero in exact arithmetic."""
        return _ROUNDING_UNITS * float(np.finfo(self.v.dtype).eps) * self.largest

    def has_small(self, values: Array) -> bool:
        """Whether singular values of B, or of a part of it, are too small for short orthogonalisation."""
        return bool(values[-1] < float(np.finfo(self.v.dtype).eps) ** _WELL_CONDITIONED_POWER * self.largest)

    def cast(self, small: Array) -> Array:
        """A small matrix in the type of the bases."""
        return small.astype(self.v.dtype)


def _factored(w: Array) -> tuple[Array, Array]:
    """Q and R of ``w``. Of few long columns that are far from dependent, Cholesky's factor of ``w.T @ w`` is the faster way to R.

    Its Q is as far from orthonormal as the square of the condition times rounding, and one more pass makes up for that.
    """
    gram = (w.T @ w).astype(np.float64)
    if len(gram) > 0 and np.isfinite(gram).all():
        values = np.linalg.eigvalsh(gram)
        if values[0] > np.sqrt(np.finfo(w.dtype).eps) * values[-1]:
            r = np.linalg.cholesky(gram).T
            return w @ np.linalg.inv(r).astype(w.dtype), r
    q, r = np.linalg.qr(w)
    return q, r
