"""Principal components of a sparse matrix: Rowloom against scikit-learn.

    python benches/pca.py [--rows 50000] [--columns 8000] [--density 0.03] [--components 50] [--threads 2] [--devices cpu]

The matrix is a stand-in for the logarithms of counts of genes in cells: every cell is a mixture of 80 programmes, and every programme
has its own genes. Competitors are `PCA(svd_solver="arpack")` on the sparse matrix, and what `TruncatedSVD(algorithm="arpack")`
computes, on the centred matrix as SciPy's `LinearOperator`: the recipe from before `PCA` took sparse matrices. Rowloom makes its
operator within its time. Every competitor computes once, because that takes hundreds of products; `--without NAME` leaves one out. Then the
components are compared: a difference of more than 1e-6 ends the script with exit code 1. Needs the package (`pip install ./python`)
and scikit-learn. Prints a Markdown table.
"""

import argparse
import os
import resource
import sys
import time

import numpy as np
import rowloom
import scipy.sparse as sparse
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.decomposition import PCA
from sklearn.utils.extmath import svd_flip
from threadpoolctl import threadpool_limits

#: Components may differ by so much.
EQUAL = 1e-6
PROGRAMMES = 80
#: Rows that are made at once.
BLOCK_ROWS = 5000


def cells(rows, columns, density, seed=0):
    """Logarithms of counts: each count of a cell belongs to one of its programmes, and the programme draws the gene."""
    random = np.random.default_rng(seed)
    # Every gene has its own level in all programmes; a programme has some genes of much higher level.
    levels = random.lognormal(0.0, 1.0, columns)
    genes = levels * np.where(random.random((PROGRAMMES, columns)) < 0.03, random.lognormal(3.0, 0.5, (PROGRAMMES, columns)), 1.0)
    cumulated = np.cumsum(genes / genes.sum(axis=1, keepdims=True), axis=1)
    common = np.arange(1, PROGRAMMES + 1) ** -0.5
    blocks = []
    for first in range(0, rows, BLOCK_ROWS):
        count = min(BLOCK_ROWS, rows - first)
        mixture = random.dirichlet(0.2 * common, count)
        # Counts of the same gene are added, so there are more of them than nonzeros.
        drawn = random.multinomial(random.poisson(1.4 * density * columns, count), mixture)
        of_cell, programme = np.divmod(np.repeat(np.arange(drawn.size), drawn.ravel()), PROGRAMMES)
        of_gene = np.empty(len(programme), np.int64)
        for number in range(PROGRAMMES):
            here = np.flatnonzero(programme == number)
            of_gene[here] = np.searchsorted(cumulated[number], random.random(len(here)) * cumulated[number, -1])
        block = sparse.csr_array((np.ones(len(of_gene)), (of_cell, of_gene)), shape=(count, columns))
        block.sum_duplicates()
        block.data = np.log1p(block.data)
        blocks.append(block)
    return sparse.vstack(blocks, format="csr")


def with_rowloom(matrix, options):
    result = rowloom.pca(rowloom.csr(matrix, threads=options.threads, devices=options.devices), options.components)
    return result.components, result.singular_values, f"{result.products} columns by A, as many by its transposed matrix"


def with_pca(matrix, options):
    fitted = PCA(options.components, svd_solver="arpack", random_state=0).fit(matrix)
    return fitted.components_, fitted.singular_values_, ""


def with_truncated_svd(matrix, options):
    """What `TruncatedSVD(algorithm="arpack")` computes, of the centred matrix, which it does not take itself."""
    means, calls = matrix.mean(axis=0), []

    def product(x):
        calls.append(1)
        return matrix @ x - means @ x

    def transposed(y):
        return matrix.T @ y - np.multiply.outer(means, y.sum(axis=0))

    centered = LinearOperator(matrix.shape, matvec=product, rmatvec=transposed, matmat=product, rmatmat=transposed, dtype=matrix.dtype)
    u, s, vt = svds(centered, k=options.components, rng=0)
    _, vt = svd_flip(u[:, ::-1], vt[::-1], u_based_decision=False)
    return vt, s[::-1], f"{len(calls)} products"


COMPETITORS = {"rowloom": with_rowloom, "PCA, arpack": with_pca, "svds, centred operator": with_truncated_svd}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--columns", type=int, default=8_000)
    parser.add_argument("--density", type=float, default=0.03)
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--devices", default="cpu")
    parser.add_argument("--without", action="append", choices=COMPETITORS, default=[])
    options = parser.parse_args()
    matrix = cells(options.rows, options.columns, options.density)
    loads = " ".join(f"{load:.2f}" for load in os.getloadavg())
    print(f"{options.rows} x {options.columns}, {matrix.nnz} nonzeros, {options.components} components, load before: {loads}\n")
    print("| | seconds | of processors | slower than Rowloom | largest difference of components | of singular values | |")
    print("|---|---|---|---|---|---|---|")
    ours, first_seconds, failed = None, None, False
    for name, compute in COMPETITORS.items():
        if name in options.without:
            continue
        with threadpool_limits(options.threads):
            started, used = time.perf_counter(), time.process_time()
            components, values, note = compute(matrix, options)
            seconds, used = time.perf_counter() - started, time.process_time() - used
        if ours is None:
            ours, first_seconds = (components, values), seconds
        difference = np.abs(components - ours[0]).max()
        of_values = (np.abs(values - ours[1]) / ours[1]).max()
        failed |= difference > EQUAL
        print(f"| {name} | {seconds:.2f} | {used:.2f} | {seconds / first_seconds:.2f}× | {difference:.1e} | {of_values:.1e} | {note} |", flush=True)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    print(f"\nMost memory of the process: {used:.2f} GiB")
    print(f"Singular values: {ours[1][0]:.1f}, {ours[1][1]:.1f} to {ours[1][-2]:.2f}, {ours[1][-1]:.2f}")
    sys.exit("the components differ" if failed else 0)


main()
