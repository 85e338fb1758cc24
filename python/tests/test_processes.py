"""Threads, forked processes and pickling."""

import copy
import multiprocessing
import os
import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import rowloom
from processes import assert_runs


def test_threads_may_share_an_operator():
    a = rowloom.csr("gen:rmat,scale=10,degree=8")
    matrix = a.to_scipy()
    xs = [np.random.default_rng(k).random((1024, 1 + k % 5)) for k in range(32)]
    expected = [matrix @ x for x in xs]

    def multiply(index):
        for _ in range(5):
            np.testing.assert_allclose(a @ xs[index], expected[index], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(a.T @ xs[index], matrix.T @ xs[index], rtol=1e-12, atol=1e-12)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(multiply, range(32)))


def test_the_interpreter_runs_during_a_product():
    a = rowloom.csr("gen:stencil27,n=40", threads=1, devices="cpu")
    x = np.ones((64_000, 32))
    done, ticks = threading.Event(), 0

    def multiply():
        for _ in range(10):
            a @ x
        done.set()

    thread = threading.Thread(target=multiply)
    thread.start()
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    assert ticks > 10


def in_child(work):
    """The exit status of a forked child that calls `work`; a child that hangs is ended."""
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            work()
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_an_operator_works_in_a_forked_child():
    a = rowloom.csr("gen:stencil27,n=12")
    x = np.random.default_rng(0).random((1728, 3))
    expected = a @ x

    def work():
        np.testing.assert_array_equal(a @ x, expected)
        np.testing.assert_allclose(a.T @ x, expected)
        np.testing.assert_allclose(rowloom.csr("gen:stencil27,n=12") @ x, expected)

    assert in_child(work) == 0
    np.testing.assert_array_equal(a @ x, expected)


def test_a_small_checked_product_uses_no_threads_but_its_own_and_works_in_a_forked_child():
    assert_runs(
        """
        import os, signal, time

        # Rows without values are checked one by one.
        matrix = sparse.csr_array((np.ones(3), [1, 2, 0], [0, 1, 1, 3, 3]), shape=(4, 3))
        x = np.ones((3, 2))
        before = len(os.listdir("/proc/self/task"))
        a = rowloom.csr(matrix, devices="cpu", threads=1, check="always")
        y = a @ x
        # The thread of the call may still end.
        time.sleep(0.2)
        threads = len(os.listdir("/proc/self/task"))
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            os._exit(0 if np.array_equal(a @ x, y) else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, f"the child ended with {status}"
        assert threads == before + 1
        """
    )


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_may_be_forked_while_other_threads_multiply():
    a = rowloom.csr("gen:stencil27,n=12")
    x = np.ones((1728, 2))
    expected = a @ x
    ended = threading.Event()

    def multiply():
        while not ended.is_set():
            a @ x

    threads = [threading.Thread(target=multiply) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert in_child(lambda: np.testing.assert_array_equal(a @ x, expected)) == 0
    finally:
        ended.set()
        for thread in threads:
            thread.join()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_vectors_of_the_parent_are_refused_in_a_child():
    a = rowloom.csr("gen:stencil5,n=10")
    x, y = a.vectors(2), a.vectors(2)

    def work():
        for use in (x.to_numpy, x.norm, lambda: a.matmul(x, out=y), lambda: x.fill(1.0)):
            with pytest.raises(RuntimeError, match="parent process"):
                use()

    assert in_child(work) == 0


def squared(a, x):
    return a @ (a @ x)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_operators_are_pickled_for_other_processes(method):
    a = rowloom.csr("gen:stencil5,n=10")
    x = np.arange(100.0)
    with multiprocessing.get_context(method).Pool(1) as pool:
        result = pool.apply_async(squared, (a, x)).get(timeout=60)
    np.testing.assert_array_equal(result, a @ (a @ x))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_pickled_operator_is_the_same(dtype):
    a = rowloom.csr("gen:rmat,scale=6,degree=4", dtype=dtype, threads=1, reproducible=True)
    x = np.arange(64, dtype=dtype)
    for b in (pickle.loads(pickle.dumps(a)), copy.copy(a), copy.deepcopy(a)):
        assert (b.shape, b.dtype, b.nnz, repr(b)) == (a.shape, a.dtype, a.nnz, repr(a))
        np.testing.assert_array_equal(b @ x, a @ x)


def test_vectors_are_not_pickled():
    with pytest.raises(TypeError, match="to_numpy"):
        pickle.dumps(rowloom.csr("gen:stencil5,n=10").vectors(1))
