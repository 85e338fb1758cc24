"""Operators over the ranks of a communicator of mpi4py. Each test is a job of `mpirun`, whose ranks compare with SciPy."""

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import rowloom
from rowloom import _rowloom
from scipy import sparse

from requirements import needs

PREAMBLE = """
import gc, os, sys
import numpy as np
from mpi4py import MPI
import rowloom
from scipy import sparse

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()

def whole(rows, columns, dtype=np.float64):
    # Small integers, so that all sums are exact.
    matrix = sparse.random_array((rows, columns), density=0.05, rng=np.random.default_rng(7), format="csr")
    matrix.data = np.rint(16 * matrix.data - 8).astype(dtype)
    return matrix

def own(matrix, comm=comm):
    # Rank 0 has fewer rows than the others.
    bounds = [matrix.shape[0] * r * (r + 1) // (comm.Get_size() * (comm.Get_size() + 1)) for r in range(comm.Get_size() + 1)]
    return matrix[bounds[comm.Get_rank()]:bounds[comm.Get_rank() + 1]]

def values(rows, *columns, dtype=np.float64):
    return np.random.default_rng(len(columns)).integers(-8, 9, (rows, *columns)).astype(dtype)

def raised(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"{kind.__name__} expected")
"""


@pytest.fixture
def job():
    """Runs code on some ranks; every rank ends without an exception."""
    needs(importlib.util.find_spec("mpi4py"), "mpi", "mpi4py is not installed")
    needs(shutil.which("mpirun"), "mpi", "mpirun is not installed")
    needs(_rowloom.Ranks.are_supported(), "mpi", "this build has no MPI: maturin develop --features emulator,mpi")

    def run(ranks, code, folder=None):
        program = PREAMBLE + textwrap.dedent(code) + "\nprint('ended well')\n"
        environment = {
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            # Containers forbid the system call that it would use.
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        }
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment)
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
        assert done.stdout.count("ended well") == ranks, done.stdout + done.stderr
        return done

    return run


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_give_their_rows_and_get_their_rows_of_y(job, ranks):
    job(
        ranks,
        """
        for shape in [(90, 90), (90, 31), (20, 75)]:
            for dtype in (np.float64, np.float32):
                matrix = whole(*shape, dtype=dtype)
                a = rowloom.csr(own(matrix), comm=comm, devices="cpu")
                assert a.shape == shape and a.dtype == dtype and a.nnz == matrix.nnz
                assert comm.allreduce(len(a.rows)) == shape[0] and comm.allreduce(len(a.x_rows)) == shape[1]
                for columns in [(), (1,), (5,), (5,)]:
                    x = values(shape[1], *columns, dtype=dtype)
                    expected = (matrix @ x)[a.rows.start:a.rows.stop]
                    mine = x[a.x_rows.start:a.x_rows.stop]
                    y = a @ mine
                    assert y.shape == expected.shape and y.dtype == dtype
                    np.testing.assert_array_equal(y, expected)
                    out = np.ones_like(expected)
                    assert a.matmul(mine, alpha=2.0, beta=-1.0, out=out) is out
                    np.testing.assert_array_equal(out, 2 * expected - 1)
                    np.testing.assert_array_equal(a.dot(np.asfortranarray(mine)), expected)
                assert (a @ np.zeros((len(a.x_rows), 0), dtype)).shape == (len(a.rows), 0)
        assert a.plan(5).devices == ["cpu"] and a.explain(5) and "on this rank" in repr(a)
        """,
    )


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_read_their_own_rows_of_a_file(job, ranks, tmp_path):
    matrix = rowloom.csr("gen:rmat,scale=7,degree=6", devices="cpu").to_scipy()
    sparse.save_npz(tmp_path / "a.npz", matrix)
    from scipy.io import mmwrite

    mmwrite(tmp_path / "a.mtx", matrix)
    job(
        ranks,
        """
        matrix = sparse.load_npz("a.npz")
        x = values(matrix.shape[1], 3)
        for source in ("a.npz", "a.mtx", "gen:rmat,scale=7,degree=6"):
            a = rowloom.csr(source, comm=comm, devices="cpu")
            assert a.nnz == matrix.nnz and 0 < len(a.rows) < matrix.shape[0]
            expected = (matrix @ x)[a.rows.start:a.rows.stop]
            np.testing.assert_allclose(a @ x[a.x_rows.start:a.x_rows.stop], expected, rtol=1e-12, atol=1e-12)
        raised(OSError, "missing.mtx", lambda: rowloom.csr("missing.mtx", comm=comm))
        """,
        tmp_path,
    )


@pytest.mark.parametrize("ranks", [2, 3])
def test_vectors_stay_on_the_devices_of_the_ranks_and_sums_are_over_all_ranks(job, ranks):
    job(
        ranks,
        """
        matrix = whole(80, 80)
        # Ranks may have different devices.
        a = rowloom.csr(own(matrix), comm=comm, devices=["cpu", "emu:0", "cpu,emu:0"][rank])
        start = values(80, 4)
        x, y = a.vectors(4), a.vectors(4)
        x.copy_from(start[a.rows.start:a.rows.stop])
        a.matmul(x, out=y)
        a.matmul(y, alpha=0.5, beta=2.0, out=x)
        first = matrix @ start
        second = 0.5 * (matrix @ first) + 2 * start
        np.testing.assert_array_equal(x.to_numpy(), second[a.rows.start:a.rows.stop])
        np.testing.assert_allclose(x.norm(), np.linalg.norm(second, axis=0), rtol=1e-12)
        np.testing.assert_allclose(x.dot(y), (first * second).sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose(x.gram(y), second.T @ first, rtol=1e-12)
        assert len(set(comm.allgather(x.norm().tobytes()))) == 1
        report = a.last_report
        assert report is not None and report.seconds > 0
        """
        if "emu" in built_devices()
        else "pass",
    )


def built_devices():
    """The kinds of devices of this build."""
    try:
        rowloom.csr("gen:stencil5,n=4", devices="emu:0")
    except (ValueError, rowloom.DeviceError):
        return ["cpu"]
    return ["cpu", "emu"]


def test_a_program_keeps_its_mpi_and_may_free_its_communicators(job):
    done = job(
        3,
        """
        matrix = whole(60, 60)
        x = values(60, 2)

        def check(comm, matrix=matrix):
            a = rowloom.csr(own(matrix, comm), comm=comm, devices="cpu", threads=1)
            np.testing.assert_array_equal(a @ x[a.rows.start:a.rows.stop], (matrix @ x)[a.rows.start:a.rows.stop])
            return a

        # Messages of the program with any tags are not mistaken for those of a product.
        requests = [comm.isend(tag, dest=(rank + 1) % size, tag=tag) for tag in range(50)]
        kept = check(comm)
        assert [comm.recv(source=(rank - 1) % size, tag=tag) for tag in range(50)] == list(range(50))
        MPI.Request.waitall(requests)
        threads = len(os.listdir("/proc/self/task"))
        for _ in range(5):
            check(comm)
        # All operators of a communicator have the same worker threads.
        assert len(os.listdir("/proc/self/task")) <= threads
        # The opposite order, without rank 1.
        part = comm.Split(MPI.UNDEFINED if rank == 1 else 0, -rank)
        if rank == 1:
            raised(ValueError, "null communicator", lambda: rowloom.csr(matrix, comm=part))
        else:
            a = check(part)
            part.Free()
            raised(ValueError, "was freed", lambda: rowloom.csr(matrix, comm=part))
            # The operator has a duplicate.
            np.testing.assert_array_equal(a @ x[a.rows.start:a.rows.stop], (matrix @ x)[a.rows.start:a.rows.stop])
        # Communicators that are freed before and after their operators.
        for _ in range(20):
            again = comm.Dup()
            a = check(again)
            if rank == 0:
                del a
            again.Free()
            gc.collect()
        cart = comm.Create_cart([size])
        check(cart)
        cart.Free()
        comm.Barrier()
        np.testing.assert_array_equal(kept @ x[kept.rows.start:kept.rows.stop], (matrix @ x)[kept.rows.start:kept.rows.stop])
        """,
    )
    assert done.stderr == ""


def test_an_error_of_one_rank_is_an_error_on_all_ranks_and_the_next_call_works(job):
    job(
        2,
        """
        matrix = whole(40, 40)
        mine = own(matrix)
        def on_rank_1(kind, words, call):
            raised(kind if rank == 1 else ValueError, words, call)
        damaged = (mine.data, mine.indices + (1000 if rank == 1 else 0), mine.indptr)
        on_rank_1(ValueError, "the matrix has 40 columns", lambda: rowloom.csr(damaged, shape=mine.shape, comm=comm))
        on_rank_1(TypeError, "no sparse matrix", lambda: rowloom.csr(mine if rank == 0 else 5, comm=comm))
        on_rank_1(ValueError, "threads", lambda: rowloom.csr(mine, comm=comm, threads=1 - rank))
        on_rank_1(ValueError, "weekly", lambda: rowloom.csr(mine, comm=comm, check="weekly" if rank else "first"))
        on_rank_1(ValueError, "nothing", lambda: rowloom.csr(mine, comm=comm, devices="nothing" if rank else "cpu"))
        raised(ValueError, "do not continue", lambda: rowloom.csr(mine if rank else mine[:, :30], comm=comm))
        raised(TypeError, "shape=", lambda: rowloom.csr((mine.data, mine.indices, mine.indptr), comm=comm))
        a = rowloom.csr(mine, comm=comm, devices="cpu")
        x = values(40)
        part = x[a.x_rows.start:a.x_rows.stop]
        on_rank_1(ValueError, "this rank owns", lambda: a @ (part if rank == 0 else x))
        on_rank_1(TypeError, "complex", lambda: a @ (part if rank == 0 else part + 1j))
        on_rank_1(TypeError, "out must be", lambda: a.dot(part, out=np.zeros(len(a.rows), np.float32 if rank else np.float64)))
        np.testing.assert_array_equal(a @ part, (matrix @ x)[a.rows.start:a.rows.stop])
        raised(TypeError, "cannot be pickled", lambda: __import__("pickle").dumps(a))
        # A forked child is no rank.
        child = os.fork()
        if child == 0:
            try:
                raised(ValueError, "forked child", lambda: a.vectors(7))
                del a
                gc.collect()
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        np.testing.assert_array_equal(a @ part, (matrix @ x)[a.rows.start:a.rows.stop])
        """,
    )


def test_communicators_between_groups_and_other_objects_are_refused(job):
    job(
        2,
        """
        matrix = whole(10, 10)
        for other in (5, "MPI.COMM_WORLD", object(), MPI.INFO_NULL, comm.Get_group(), MPI._addressof(comm)):
            raised(TypeError, "communicator of mpi4py", lambda: rowloom.csr(matrix, comm=other))
        raised(ValueError, "null communicator", lambda: rowloom.csr(matrix, comm=MPI.COMM_NULL))
        raised(ValueError, "null communicator", lambda: rowloom.csr(matrix, comm=MPI.Intracomm()))
        half = comm.Split(rank)
        between = half.Create_intercomm(0, comm, 1 - rank)
        raised(ValueError, "two groups", lambda: rowloom.csr(matrix, comm=between))
        raised(RuntimeError, "another", lambda: rowloom._rowloom.Ranks(comm, MPI._addressof(comm), "another library"))
        # One rank alone.
        a = rowloom.csr(matrix, comm=MPI.COMM_SELF)
        np.testing.assert_array_equal(a @ values(10), matrix @ values(10))
        MPI.Finalize()
        raised(RuntimeError, "has ended", lambda: rowloom.csr(matrix, comm=comm))
        del a
        gc.collect()
        """,
    )


def test_mpi_for_one_thread_is_refused_with_advice(job):
    job(
        1,
        """
        assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
        MPI.Query_thread = lambda: MPI.THREAD_FUNNELED
        raised(RuntimeError, "mpi4py.rc.thread_level", lambda: rowloom.csr(whole(5, 5), comm=comm))
        """,
    )


def test_what_is_no_communicator_is_refused_without_mpi():
    matrix = sparse.eye_array(3, format="csr")
    for other in (5, "world", object(), np.zeros(3)):
        with pytest.raises(TypeError, match="communicator of mpi4py"):
            rowloom.csr(matrix, comm=other)


def test_a_build_without_mpi_says_how_to_install_one_with_it(monkeypatch):
    class Comm:
        pass

    class Module:
        pass

    Module.Comm = Comm
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", Module)
    if _rowloom.Ranks.are_supported():
        monkeypatch.setattr("rowloom._distributed._rowloom", Without())
    with pytest.raises(RuntimeError, match="pip install .*--features mpi"):
        rowloom.csr(sparse.eye_array(3, format="csr"), comm=Comm())


class Without:
    """The native module of a build without MPI."""

    class Ranks:
        @staticmethod
        def are_supported():
            return False
