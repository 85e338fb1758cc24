"""Random use of the package by several threads: `python soak.py SECONDS [--seed N] [--threads 8] [--without ACTION]`.

Every Y is compared with SciPy. The program fails on a wrong Y, an exception that is not expected, a process that crashes, a hang, and on
memory, threads or file descriptors that grow. It runs rounds of a few seconds; between rounds nothing but the package itself is left,
and its memory, threads and descriptors are counted.
"""

import argparse
import collections
import ctypes
import faulthandler
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import rowloom
from soak_inputs import DEVICES, THREADS, integers, new_shared, random_x

try:
    import joblib
    from joblib.externals.loky import get_reusable_executor
except ImportError:
    joblib = None

ROUND_SECONDS = 4.0
#: A thread that ends no action for as long hangs: all stacks are printed, and the program ends. So long, since other processes may
#: take the cores: beside four compilers and with a lower priority, threads waited for 90 s.
HANG_SECONDS = 300
CHILD_SECONDS = 200
#: Memory that may be added after the first third of the rounds: caches of allocators, of each thread.
ALLOWED_GROWTH_MIB = 64
#: Operators that threads share.
SHARED = 6


class Interrupted(Exception):
    """Raised in a thread while it computes."""


def check(y, expected):
    np.testing.assert_array_equal(y, expected, strict=True)


class Worker:
    """The actions of one thread in one round."""

    def __init__(self, soak, number, seed):
        self.soak = soak
        self.random = np.random.default_rng(seed)
        self.number = number
        self.actions = [
            (40, self.product), (8, self.scaled_product), (6, self.transposed_product), (6, self.other_type),
            (8, self.vectors), (6, self.replace), (3, self.collect), (3, self.clear), (3, self.pickled),
            (3, self.interrupted), (6, self.wrong_input), (2, self.reports), (1, self.forked), (0.15, self.spawned),
        ]  # fmt: skip
        if joblib is not None:
            self.actions += [(1, self.joblib_file), (0.1, self.joblib_workers)]
        self.actions = [(weight, action) for weight, action in self.actions if action.__name__ not in soak.without]

    def run(self):
        weights = np.array([weight for weight, _ in self.actions], float)
        weights /= weights.sum()
        try:
            while not self.soak.round_ended.is_set():
                action = self.actions[self.random.choice(len(self.actions), p=weights)][1]
                if action() is not False:
                    self.soak.count(self.number, action.__name__)
        except BaseException:
            self.soak.fail(f"thread {self.number}, {action.__name__}:\n{traceback.format_exc()}")

    def shared(self):
        return self.soak.shared[self.random.integers(0, SHARED)]

    def product(self):
        one = self.shared()
        x = random_x(self.random, one.matrix.shape[1], one.matrix.dtype)
        check(one.operator @ x, one.matrix @ x)

    def scaled_product(self):
        one = self.shared()
        x = random_x(self.random, one.matrix.shape[1], one.matrix.dtype)
        out = integers(self.random, (one.matrix.shape[0], *x.shape[1:]), one.matrix.dtype)
        expected = 2 * (one.matrix @ x) - out
        assert one.operator.matmul(x, alpha=2.0, beta=-1.0, out=out) is out
        check(out, expected.astype(out.dtype))

    def transposed_product(self):
        one = self.shared()
        x = random_x(self.random, one.matrix.shape[0], one.matrix.dtype)
        check(one.operator.T @ x, one.matrix.T @ x)

    def other_type(self):
        one = self.shared()
        dtype = self.random.choice([np.float64, np.float32, np.int64, np.complex128])
        x = random_x(self.random, one.matrix.shape[1], dtype)
        if dtype == np.complex128:
            x = x + 1j * x[::-1]
        check(one.operator @ x, one.matrix @ x)

    def vectors(self):
        one = new_shared(self.random, self.soak.folder, square=True) if self.random.random() < 0.3 else self.shared()
        (rows, columns), k = one.matrix.shape, int(self.random.integers(1, 7))
        start = integers(self.random, (columns, k), one.matrix.dtype)
        x, y = one.operator.x_vectors(k), one.operator.vectors(k)
        x.copy_from(start)
        one.operator.matmul(x, out=y)
        expected = one.matrix @ start
        check(y.to_numpy(), expected)
        if self.random.random() < 0.5:
            factors = np.array([0.5, 2.0, -1.0, 4.0, 1.0, -0.5])[:k]
            y.scale(factors)
            z = one.operator.vectors(k)
            z.fill(3.0)
            z.axpby(2.0, y, -1.0)
            expected = (2 * (expected * factors) - 3).astype(expected.dtype)
            check(z.to_numpy(), expected)
            np.testing.assert_allclose(z.norm(), np.linalg.norm(expected.astype(float), axis=0), rtol=1e-5)
            gram = expected.T.astype(float) @ expected
            np.testing.assert_allclose(z.gram(z), gram, atol=1e-4 * np.abs(gram).max())
            flip = np.fliplr(np.eye(k))
            check(z.times(flip, y).to_numpy(), expected[:, ::-1])
        if rows == columns and self.random.random() < 0.5:
            # A product whose X was a Y.
            one.operator.matmul(y, out=x)
            check(x.to_numpy(), one.matrix @ y.to_numpy())

    def replace(self):
        self.soak.shared[self.random.integers(0, SHARED)] = new_shared(self.random, self.soak.folder)

    def collect(self):
        gc.collect()

    def clear(self):
        self.shared().operator.clear()

    def pickled(self):
        one, buffers = self.shared(), []
        stream = pickle.dumps(one.operator, protocol=5, buffer_callback=buffers.append)
        # Buffers beside the pickle, in memory that others have.
        buffers = [bytes(buffer) if self.random.random() < 0.5 else bytearray(buffer) for buffer in buffers]
        copied = pickle.loads(stream, buffers=buffers)
        del buffers, stream
        x = random_x(self.random, one.matrix.shape[1], one.matrix.dtype)
        check(copied @ x, one.matrix @ x)

    def interrupted(self):
        """An exception that another thread raises in this one, during one of its products."""
        one = self.shared()
        x = random_x(self.random, one.matrix.shape[1], one.matrix.dtype)
        thread, seconds, has_begun = ctypes.c_ulong(threading.get_ident()), self.random.random() / 100, []
        has_raised = []

        def raise_in_thread():
            # Not while Python starts this thread, which it could not undo.
            while not has_begun:
                time.sleep(0.001)
            time.sleep(seconds)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(Interrupted))
            has_raised.append(True)

        timer = threading.Thread(target=raise_in_thread)
        timer.start()
        try:
            has_begun.append(True)
            # Python ignores an exception in a finalizer, so it may never arrive here.
            while not has_raised:
                check(one.operator @ x, one.matrix @ x)
        except Interrupted:
            pass
        timer.join()
        check(one.operator @ x, one.matrix @ x)

    def wrong_input(self):
        one = self.shared()
        operator, (rows, columns), dtype = one.operator, one.matrix.shape, one.matrix.dtype
        indices, indptr = np.array([0, 7]), np.array([0, 1, 2])
        read_only = np.zeros(rows, dtype)
        read_only.setflags(write=False)
        x = np.ones(columns, dtype)
        kind, call = [
            (ValueError, lambda: operator @ np.ones(columns + 1, dtype)),
            (ValueError, lambda: operator @ np.ones((columns, 2, 2), dtype)),
            (TypeError, lambda: operator @ one.matrix),
            (TypeError, lambda: operator @ np.array(["word"] * columns)),
            (TypeError, lambda: operator.dot(x, out=np.zeros(rows, np.int32))),
            (ValueError, lambda: operator.dot(x, out=read_only)),
            (ValueError, lambda: operator.matmul(x, beta=1.0)),
            (ValueError, lambda: operator.vectors(0)),
            (ValueError, lambda: operator.vectors(2).copy_from(np.ones((rows + 1, 2)))),
            (TypeError, lambda: pickle.dumps(operator.vectors(1))),
            (ValueError, lambda: operator.matmul(operator.x_vectors(2), out=operator.vectors(3))),
            (TypeError, lambda: rowloom.csr(np.eye(3))),
            (ValueError, lambda: rowloom.csr((np.ones(2), indices, indptr), shape=(2, 3))),
            (ValueError, lambda: rowloom.csr((np.ones(2), indices, indptr[::-1]), shape=(2, 9))),
            (ValueError, lambda: rowloom.csr((np.ones(2), -indices, indptr), shape=(2, 9), copy=False)),
            (ValueError, lambda: rowloom.csr(one.matrix, devices="nothing")),
            (ValueError, lambda: rowloom.csr(one.matrix, threads=0)),
            (ValueError, lambda: rowloom.csr("gen:nothing,n=3")),
            (OSError, lambda: rowloom.csr(os.path.join(self.soak.folder, "missing.mtx"))),
            (TypeError, lambda: rowloom.csr(one.matrix, comm="world")),
        ][self.random.integers(0, 20)]
        try:
            call()
        except kind:
            return
        raise AssertionError(f"{kind.__name__} expected")

    def reports(self):
        one = self.shared()
        one.operator.plan(int(self.random.integers(1, 4)))
        one.operator.explain()
        # Another thread may have cleared it.
        report = one.operator.last_report
        assert report is None or report.seconds >= 0
        repr(one.operator)
        operator = one.operator.as_linear_operator()
        x = integers(self.random, one.matrix.shape[1], one.matrix.dtype)
        check(operator.matvec(x), one.matrix @ x)

    def forked(self):
        """A child of this process, forked while other threads compute, that uses an operator."""
        one = self.shared()
        x = random_x(self.random, one.matrix.shape[1], one.matrix.dtype)
        expected = one.matrix @ x
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(CHILD_SECONDS)
                status = 0 if np.array_equal(one.operator @ x, expected) else 2
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        status = os.waitstatus_to_exitcode(status)
        assert status == 0, f"a forked child ended with {status}"

    def spawned(self):
        return self.in_process(self.in_spawned)

    def in_spawned(self, one, x):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return pool.submit(product_of, one.operator, x).result(CHILD_SECONDS)

    def joblib_workers(self):
        return self.in_process(self.in_joblib)

    def in_joblib(self, one, x):
        # Arrays of more than 100 bytes are mapped by the workers.
        tasks = [joblib.delayed(product_of)(one.operator, x) for _ in range(2)]
        return joblib.Parallel(n_jobs=2, max_nbytes=100)(tasks)[1]

    def in_process(self, work):
        """A product in other processes; those are started by one thread at a time."""
        if not self.soak.starts_processes.acquire(blocking=False):
            return False
        try:
            one = self.shared()
            x = random_x(self.random, one.matrix.shape[1], one.matrix.dtype)
            check(work(one, x), one.matrix @ x)
        finally:
            self.soak.starts_processes.release()

    def joblib_file(self):
        one = new_shared(self.random, self.soak.folder)
        arrays = (one.matrix.data, one.matrix.indices, one.matrix.indptr)
        path = tempfile.mktemp(suffix=".joblib", dir=self.soak.folder)
        joblib.dump(arrays, path)
        operator = rowloom.csr(tuple(joblib.load(path, mmap_mode="r")), shape=one.matrix.shape, devices="cpu")
        os.unlink(path)
        x = random_x(self.random, one.matrix.shape[1], one.matrix.dtype)
        check(operator @ x, one.matrix @ x)


def product_of(operator, x):
    """A product in another process."""
    return operator @ x


class Soak:
    """All rounds."""

    def __init__(self, seed, threads, folder, without):
        self.seed, self.threads, self.folder, self.without = seed, threads, folder, without
        self.round_ended = threading.Event()
        self.starts_processes = threading.Semaphore(1)
        self.counts = [collections.Counter() for _ in range(threads + 1)]
        self.last_action = [time.monotonic()] * (threads + 1)
        self.failures = []
        self.shared = []

    def count(self, thread, action):
        self.counts[thread][action] += 1
        self.last_action[thread] = time.monotonic()

    def fail(self, words):
        self.failures.append(words)
        self.round_ended.set()

    def fill(self, random):
        self.shared[:] = [new_shared(random, self.folder, square=number % 2 == 0) for number in range(SHARED)]

    def warm_up(self):
        """Opens every runtime and starts what other libraries keep."""
        random = np.random.default_rng(self.seed)
        for devices in DEVICES:
            for threads in THREADS:
                operator = rowloom.csr("gen:stencil5,n=9", devices=devices, threads=threads)
                operator.vectors(2).copy_from(operator @ np.ones((81, 2)))
        self.fill(random)
        worker = Worker(self, self.threads, self.seed)
        for action in [action for _, action in worker.actions]:
            action()
            self.count(self.threads, action.__name__)

    def round(self, number, end):
        self.round_ended.clear()
        self.fill(np.random.default_rng([self.seed, number]))
        self.last_action = [time.monotonic()] * (self.threads + 1)
        workers = [Worker(self, thread, [self.seed, number, thread]) for thread in range(self.threads)]
        threads = [threading.Thread(target=worker.run, daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        random = np.random.default_rng([self.seed, number, self.threads])
        while time.monotonic() < end and not self.round_ended.is_set():
            try:
                self.interrupt_main_thread(random, end)
            except Interrupted:
                # The signal came at the end of the work.
                pass
            self.watch(threads)
        self.round_ended.set()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
                self.watch(threads)

    def watch(self, threads):
        """Puts off the end of the program, unless a thread hangs."""
        oldest = [last for last, thread in zip(self.last_action, threads, strict=False) if thread.is_alive()]
        if time.monotonic() - min(oldest, default=time.monotonic()) < HANG_SECONDS:
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)

    def interrupt_main_thread(self, random, end):
        """A signal whose handler raises, during work of the main thread."""
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001 + random.random() / 10)
            end = min(end, time.monotonic() + 1)
            while time.monotonic() < end and not self.round_ended.is_set():
                one = new_shared(random, self.folder)
                for _ in range(5):
                    x = random_x(random, one.matrix.shape[1], one.matrix.dtype)
                    check(one.operator @ x, one.matrix @ x)
                    vectors = one.operator.vectors(2)
                    vectors.fill(2.0)
                    np.testing.assert_allclose(vectors.norm(), 2 * np.sqrt(one.matrix.shape[0]), rtol=1e-6)
        except Interrupted:
            self.count(self.threads, "signal")
        except Exception as error:
            # NumPy may fail to close a file that it was writing, and raises that instead, or loses the signal's exception.
            has_fired = signal.getitimer(signal.ITIMER_REAL)[0] == 0
            is_numpy = "write_array" in [frame.name for frame in traceback.extract_tb(error.__traceback__)[-1:]]
            if not isinstance(error.__context__, Interrupted) and not (has_fired and is_numpy):
                self.fail(f"main thread:\n{traceback.format_exc()}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def left(self):
        """Memory in MiB, threads and file descriptors that are left after a round."""
        self.shared.clear()
        if joblib is not None:
            get_reusable_executor().shutdown(wait=True)
        gc.collect()
        # A fork ends the threads of NumPy's library, and the next product of dense matrices starts them.
        np.ones((256, 256)) @ np.ones((256, 256))
        ctypes.CDLL(None).malloc_trim(0)
        # Threads of calls that were interrupted end by themselves.
        deadline, threads = time.monotonic() + 5, len(os.listdir("/proc/self/task"))
        while time.monotonic() < deadline:
            time.sleep(0.05)
            threads = min(threads, len(os.listdir("/proc/self/task")))
            names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
            if "rowloom-call\n" not in names:
                break
        with open("/proc/self/statm") as file:
            memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        return memory, threads, len(os.listdir("/proc/self/fd"))

    def check_growth(self, rounds):
        first = rounds[: max(1, len(rounds) // 3)]
        limits = [max(values) for values in zip(*first, strict=True)]
        limits[0] += ALLOWED_GROWTH_MIB
        for name, limit, last in zip(("memory in MiB", "threads", "file descriptors"), limits, rounds[-1], strict=True):
            if last > limit:
                self.failures.append(f"{name} grow: {last:.0f} after the last round, at most {limit:.0f} were expected")


def interrupt(_signal, _frame):
    raise Interrupted


def main():
    parser = argparse.ArgumentParser(description="Random use of the package by several threads.")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--threads", type=int, default=8)
    # AddressSanitizer's allocator cannot be used in a child that is forked while other threads allocate: --without forked.
    parser.add_argument("--without", action="append", default=[], metavar="ACTION")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}, {arguments.threads} threads", flush=True)
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    faulthandler.enable()
    faulthandler.dump_traceback_later(2 * HANG_SECONDS, exit=True)
    signal.signal(signal.SIGALRM, interrupt)
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(seed, arguments.threads, folder, arguments.without)
        end = time.monotonic() + arguments.seconds
        soak.warm_up()
        rounds = []
        while time.monotonic() < end and not soak.failures:
            soak.round(len(rounds), min(end, time.monotonic() + ROUND_SECONDS))
            rounds.append(soak.left())
        soak.check_growth(rounds)
    faulthandler.cancel_dump_traceback_later()
    counts = sum(soak.counts, collections.Counter())
    print(", ".join(f"{name} {count}" for name, count in counts.most_common()))
    for name, index in (("memory in MiB", 0), ("threads", 1), ("file descriptors", 2)):
        values = [one[index] for one in rounds]
        print(f"{name} after the first and last of {len(rounds)} rounds: {values[0]:.0f}, {values[-1]:.0f}")
    for failure in soak.failures:
        print(failure, file=sys.stderr)
    print(f"{sum(counts.values())} actions, {len(soak.failures)} failures")
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
