"""PageRank of a web graph, a Markov chain with random jumps, with products of Rowloom and of SciPy.

Without an argument, a graph with the degrees of the web is generated; an argument is the path of a graph's adjacency matrix.
"""

import sys
import time

import numpy as np
import rowloom
import scipy.sparse

DAMPING = 0.85
TOLERANCE = 1e-10

source = sys.argv[1] if len(sys.argv) > 1 else "gen:rmat,scale=18,degree=16"
links = rowloom.csr(source).to_scipy()
links.data[:] = 1.0
pages = links.shape[0]
degrees = links.sum(axis=1)
dangling = degrees == 0
# Column i of the chain has the probabilities of the pages that page i links to.
chain = (scipy.sparse.diags_array(1.0 / np.where(dangling, 1.0, degrees)) @ links).T.tocsr()
a = rowloom.csr(chain)


def step_of_rowloom(rank, jumps, step):
    step.fill(jumps)
    a.matmul(rank, alpha=DAMPING, beta=1.0, out=step)


def step_of_scipy(rank, jumps, step):
    step[:] = DAMPING * (chain @ rank) + jumps


def ranks(take_step):
    """The ranks of all pages, and the number of steps."""
    rank, step = np.full(pages, 1.0 / pages), np.empty(pages)
    for iteration in range(1, 200):
        jumps = (1.0 - DAMPING + DAMPING * rank[dangling].sum()) / pages
        take_step(rank, jumps, step)
        change = np.abs(step - rank).sum()
        rank, step = step, rank
        if change < TOLERANCE:
            break
    return rank, iteration


seconds, results = {}, {}
for name, take_step in [("Rowloom", step_of_rowloom), ("SciPy", step_of_scipy)]:
    begin = time.perf_counter()
    results[name], iterations = ranks(take_step)
    seconds[name] = time.perf_counter() - begin
    print(f"{name}: {iterations} iterations in {seconds[name]:.3f} s")
print(f"Rowloom has {seconds['SciPy'] / seconds['Rowloom']:.1f}× the speed of SciPy, on {a}")
np.testing.assert_allclose(results["Rowloom"], results["SciPy"], rtol=1e-8, atol=1e-14)

rank = results["Rowloom"]
print("the sum of the ranks is", round(float(rank.sum()), 9))
for page in np.argsort(rank)[::-1][:5]:
    print(f"page {page}: {rank[page]:.3e}")
