#!/usr/bin/env python3
"""Times reading a .mtx file to CSR with Rowloom and with fast_matrix_market + SciPy: the same file, as many threads.

    python benches/read_peer.py [FILE.mtx] [--threads 2] [--repeat 5]

Without FILE a 100 MB real general matrix is written to a temporary folder first (uniformly random positions, values of
full precision, entries by column as in the SuiteSparse collection). Needs fast_matrix_market and SciPy.
Prints both times (the shortest of three interleaved rounds of the repeats), the speed-up of Rowloom, and its peak resident memory over the
size of the CSR. Both must read the same matrix; otherwise there are no figures, and the exit code is 1.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import fast_matrix_market
import numpy
import scipy.sparse

from support.verified import refuse



def write_matrix(path: pathlib.Path, megabytes: int) -> None:
    bytes_per_entry = 33
    entries = megabytes * 1_000_000 // bytes_per_entry
    rows = 200_000
    generator = numpy.random.default_rng(1)
    column, row = numpy.divmod(numpy.unique(generator.integers(0, rows * rows, entries)), rows)
    values = generator.standard_normal(row.size)
    matrix = scipy.sparse.coo_array((values, (row, column)), shape=(rows, rows))
    fast_matrix_market.mmwrite(str(path), matrix)


def time_peer(path: pathlib.Path, threads: int, repeat: int) -> tuple[float, int]:
    best = float("inf")
    nonzeros = 0
    for _ in range(repeat):
        start = time.perf_counter()
        csr = fast_matrix_market.mmread(str(path), parallelism=threads).tocsr()
        best = min(best, time.perf_counter() - start)
        nonzeros = csr.nnz
    return best, nonzeros


def is_same_matrix(path: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether Rowloom reads the matrix that fast_matrix_market reads."""
    project = pathlib.Path(__file__).resolve().parent.parent
    target = folder / "read.npz"
    command = ["cargo", "run", "--release", "--quiet", "--bin", "rowloom", "--", "convert", str(path), str(target)]
    subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)
    ours, peers = scipy.sparse.load_npz(target).tocsr(), fast_matrix_market.mmread(str(path)).tocsr()
    ours.sort_indices()
    peers.sort_indices()
    pairs = [(ours.indptr, peers.indptr), (ours.indices, peers.indices), (ours.data, peers.data)]
    return ours.shape == peers.shape and all(numpy.array_equal(one, other) for one, other in pairs)


def time_rowloom(path: pathlib.Path, threads: int) -> dict:
    project = pathlib.Path(__file__).resolve().parent.parent
    command = ["cargo", "run", "--release", "--quiet", "--example", "read_time", "--", str(path), str(threads)]
    return json.loads(subprocess.run(command, cwd=project, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.file
        if path is None:
            path = pathlib.Path(folder) / "generated.mtx"
            write_matrix(path, arguments.megabytes)
        path = path.resolve()
        # Interleaved, so that a busy moment of the machine affects both.
        rounds = [
            (time_peer(path, arguments.threads, arguments.repeat), time_rowloom(path, arguments.threads))
            for _ in range(3)
        ]
        peer_seconds, peer_nonzeros = min(peer for peer, _ in rounds)
        ours = min((ours for _, ours in rounds), key=lambda ours: ours["seconds"])
        if ours["nnz"] != peer_nonzeros or not is_same_matrix(path, pathlib.Path(folder)):
            refuse(f"{path.name}: both read different matrices")
        print(f"file                       {path.name}, {path.stat().st_size / 1e6:.1f} MB")
        print(f"threads                    {arguments.threads}")
        print(f"nonzeros                   {ours['nnz']} (peer {peer_nonzeros})")
        print(f"fast_matrix_market + SciPy {peer_seconds:.4f} s")
        print(f"rowloom                    {ours['seconds']:.4f} s")
        print(f"speed-up of rowloom        {peer_seconds / ours['seconds']:.2f}")
        print(f"peak memory / CSR          {ours['peak_over_csr']:.2f}")


if __name__ == "__main__":
    main()
