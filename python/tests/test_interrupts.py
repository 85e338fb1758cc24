"""Ctrl-C during long work, and other threads meanwhile."""

import pytest
from processes import assert_runs

INTERRUPTED = """
import os, signal, threading, time

# A shell starts background jobs with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupted(work):
    '''Seconds from a signal to KeyboardInterrupt. The work is repeated until the signal, whatever the speed of the machine.'''
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.3, send).start()
    try:
        while True:
            work()
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]

def assert_quick(work):
    # The shortest of ten: other processes may take the cores meanwhile.
    seconds = []
    for _ in range(10):
        seconds.append(interrupted(work))
        if seconds[-1] <= 0.2:
            return
    raise AssertionError(f"KeyboardInterrupt after {seconds} s")
"""


def test_a_product_is_interrupted_and_the_operator_stays_usable():
    assert_runs(
        INTERRUPTED
        + """
a = rowloom.csr("gen:rmat,scale=14,degree=512", devices="cpu", threads=1, check="never")
x = np.ones((16_384, 512))
expected = a @ x[:, :2]
assert_quick(lambda: a @ x)
out = np.empty_like(x)
assert_quick(lambda: a.dot(x, out=out))
assert_same((a @ x)[:, :2], expected)
assert_same(a @ x[:, :2], expected)
"""
    )


def test_generating_reading_and_transposing_are_interrupted(tmp_path):
    assert_runs(
        INTERRUPTED
        + """
from scipy.io import mmwrite
a = rowloom.csr("gen:stencil27,n=60", threads=1, devices="cpu")
assert_quick(lambda: rowloom.csr("gen:rmat,scale=18,degree=16", threads=1))
assert_quick(lambda: a.to_scipy())
matrix = a.to_scipy()
mmwrite("a.mtx", matrix)
assert_quick(lambda: rowloom.csr("a.mtx", threads=1))
parts = matrix.data, matrix.indices.astype(np.int64), matrix.indptr
assert_quick(lambda: rowloom.csr(parts, shape=matrix.shape, threads=1, copy=True))
""",
        tmp_path,
    )


def test_operations_on_vectors_are_interrupted():
    assert_runs(
        INTERRUPTED
        + """
a = rowloom.csr("gen:stencil5,n=500", threads=1, devices="cpu")
x, y = a.vectors(64), a.vectors(64)
x.fill(1.0)
assert_quick(lambda: x.gram(y))
assert_quick(lambda: a.matmul(x, out=y))
assert_quick(lambda: x.times(np.eye(64), y))
a.matmul(x, out=y)
assert_same(y.to_numpy()[:, 0], a @ np.ones(250_000))
"""
    )


def test_an_interrupted_operation_changes_nothing_that_a_later_one_wrote():
    assert_runs(
        INTERRUPTED
        + """
a = rowloom.csr("gen:stencil5,n=400", threads=1, devices="cpu")
x, y, z = a.vectors(64), a.vectors(64), a.vectors(64)
x.fill(1.0)
for _ in range(3):
    # Operations of this thread wait for those of the other one.
    busy = threading.Thread(target=lambda: [x.gram(z) for _ in range(6)])
    busy.start()
    interrupted(lambda: y.fill(1.0))
    y.fill(2.0)
    busy.join()
    assert (y.to_numpy() == 2.0).all()
"""
    )


def test_a_signal_during_a_wait_for_another_thread_is_handled():
    assert_runs(
        INTERRUPTED
        + """
a = rowloom.csr("gen:rmat,scale=16,degree=48", devices="cpu", threads=1, check="never")
x = np.ones((65_536, 256))
ended = threading.Event()

def multiply():
    while not ended.is_set():
        a @ x

thread = threading.Thread(target=multiply)
thread.start()
try:
    assert_quick(lambda: a @ x)
finally:
    ended.set()
    thread.join()
"""
    )


@pytest.mark.parametrize("use", ["x.shape", "repr(x)", "x.__dlpack_device__()", "x.to_numpy()"])
def test_the_interpreter_runs_while_vectors_wait_for_a_product(use):
    assert_runs(
        f"""
        import threading, time
        a = rowloom.csr("gen:rmat,scale=16,degree=48", devices="cpu", threads=1, check="never")
        x, y = a.vectors(256), a.vectors(256)
        x.fill(1.0)
        started, ended = threading.Event(), threading.Event()
        # How often the main thread has run, and how often it did during each product. Not a time: other processes may take the cores,
        # but they slow the products too.
        turns, turns_of_products = 0, []

        def multiply():
            started.set()
            for _ in range(5):
                begin = turns
                a.matmul(x, out=y)
                turns_of_products.append(turns - begin)
            ended.set()

        def ask():
            while not ended.is_set():
                {use}

        threads = [threading.Thread(target=multiply), threading.Thread(target=ask)]
        for thread in threads:
            thread.start()
        started.wait()
        while not ended.is_set():
            time.sleep(0.001)
            turns += 1
        for thread in threads:
            thread.join()
        median = sorted(turns_of_products)[2]
        assert median >= 5, f"the main thread stood still: {{turns_of_products}} turns during the products"
        """
    )
