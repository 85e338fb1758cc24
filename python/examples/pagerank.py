"""PageRank of a web graph: a Markov chain with random jumps.

Without an argument, a graph with the degrees of the web is generated; an argument is the path of a graph's adjacency matrix.
"""

import sys
import time

import numpy as np
import rowloom
import scipy.sparse

DAMPING = 0.85
TOLERANCE = 1e-10

source = sys.argv[1] if len(sys.argv) > 1 else "gen:rmat,scale=14,degree=16"
links = rowloom.csr(source).to_scipy()
links.data[:] = 1.0
pages = links.shape[0]
degrees = links.sum(axis=1)
dangling = degrees == 0
# Column i of the chain has the probabilities of the pages that page i links to.
chain = (scipy.sparse.diags_array(1.0 / np.where(dangling, 1.0, degrees)) @ links).T
a = rowloom.csr(chain)

rank = np.full(pages, 1.0 / pages)
step = np.empty(pages)
begin = time.perf_counter()
for iteration in range(1, 200):
    jumps = (1.0 - DAMPING + DAMPING * rank[dangling].sum()) / pages
    step.fill(jumps)
    a.matmul(rank, alpha=DAMPING, beta=1.0, out=step)
    change = np.abs(step - rank).sum()
    rank, step = step, rank
    if change < TOLERANCE:
        break
seconds = time.perf_counter() - begin

print(f"{a}: {iteration} iterations in {seconds:.3f} s")
print("the sum of the ranks is", round(float(rank.sum()), 9))
for page in np.argsort(rank)[::-1][:5]:
    print(f"page {page}: {rank[page]:.3e}")
