"""Times Y = A X with SciPy or Intel MKL; runs as a child process of `rowloom bench --against`.

Standard input: a line of JSON (peer, rows, cols, nnz, dtype, threads), then row pointers (int64), columns (int32) and
values; then for each K a line of JSON (k, warmup, repeat, time_cap_s) and X, row-major. Standard output: a line of JSON
with the library's version, or with "missing" and the interpreter ("python"); then for each K a line of JSON with the seconds of every run, and Y.
"""
import json
import os
import sys
import time

stdin, stdout = sys.stdin.buffer, sys.stdout.buffer


def send(**fields):
    stdout.write(json.dumps(fields).encode() + b"\n")
    stdout.flush()


head = json.loads(stdin.readline())
for name in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = str(head["threads"])
os.environ.setdefault("MKL_THREADING_LAYER", "INTEL")
try:
    import numpy as np
    if head["peer"] == "scipy":
        import scipy
        import scipy.sparse
except ImportError as error:
    send(missing=str(error), python=sys.executable)
    sys.exit()


def find_mkl():
    import ctypes
    import glob
    folders = [os.path.join(base, *below) for base in sys.path + [sys.prefix]
               for below in (("lib",), ("..", ".."), ("..", "..", ".."))]
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "libmkl_rt.so*"))):
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    for name in ("libmkl_rt.so", "libmkl_rt.so.2", "libmkl_rt.so.3"):
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            pass
    return None


value = np.float64 if head["dtype"] == "f64" else np.float32


def read_array(count, dtype):
    data = stdin.read(count * np.dtype(dtype).itemsize)
    return np.frombuffer(data, dtype)


class Scipy:
    def __init__(self, pointers, columns, values):
        self.version = scipy.__version__ + ", one thread"
        shape = (head["rows"], head["cols"])
        self.matrix = scipy.sparse.csr_matrix((values, columns, pointers), shape=shape)

    def prepare(self, k):
        pass

    def multiply(self, x, y):
        return self.matrix @ x


class Mkl:
    """Inspector-executor: created, hinted and optimised before it is timed; row-major."""

    def __init__(self, pointers, columns, values):
        import ctypes
        self.c = ctypes
        self.library = find_mkl()
        if self.library is None:
            raise OSError("libmkl_rt is not found; pip install mkl")

        class Description(ctypes.Structure):
            _fields_ = [("type", ctypes.c_int), ("mode", ctypes.c_int), ("diagonal", ctypes.c_int)]

        self.description = Description(20, 0, 0)
        if pointers[-1] >= 2**31:
            raise OSError("the matrix has too many entries for 32-bit MKL")
        self.arrays = pointers.astype(np.int32), columns, values
        letter = "d" if value == np.float64 else "s"
        self.scalar = ctypes.c_double if letter == "d" else ctypes.c_float
        self.create = getattr(self.library, f"mkl_sparse_{letter}_create_csr")
        self.mm = getattr(self.library, f"mkl_sparse_{letter}_mm")
        text = ctypes.create_string_buffer(200)
        self.library.mkl_get_version_string(text, 200)
        self.version = text.value.decode().strip() + f", {head['threads']} threads"

    def at(self, array, offset=0):
        return self.c.c_void_p(array.ctypes.data + offset)

    def prepare(self, k):
        pointers, columns, values = self.arrays
        self.k, self.handle = k, self.c.c_void_p()
        status = self.create(self.c.byref(self.handle), 0, head["rows"], head["cols"], self.at(pointers),
                             self.at(pointers, 4), self.at(columns), self.at(values))
        if status != 0:
            raise OSError(f"mkl_sparse_create_csr returned status {status}")
        self.library.mkl_sparse_set_mm_hint(self.handle, 10, self.description, 101, k, 1000)
        self.library.mkl_sparse_optimize(self.handle)

    def multiply(self, x, y):
        status = self.mm(10, self.scalar(1.0), self.handle, self.description, 101, self.at(x), self.k, self.k,
                         self.scalar(0.0), self.at(y), self.k)
        if status != 0:
            raise OSError(f"mkl_sparse_mm returned status {status}")
        return y


arrays = read_array(head["rows"] + 1, np.int64), read_array(head["nnz"], np.int32), read_array(head["nnz"], value)
try:
    peer = {"scipy": Scipy, "mkl": Mkl}[head["peer"]](*arrays)
except OSError as error:
    send(missing=str(error), python=sys.executable)
    sys.exit()
send(version=peer.version)
while line := stdin.readline():
    request = json.loads(line)
    k = request["k"]
    x = read_array(head["cols"] * k, value).reshape(head["cols"], k)
    y = np.empty((head["rows"], k), value)
    peer.prepare(k)
    for _ in range(request["warmup"]):
        result = peer.multiply(x, y)
    seconds = []
    while len(seconds) < request["repeat"] and (len(seconds) < 3 or sum(seconds) < request["time_cap_s"]):
        start = time.perf_counter()
        result = peer.multiply(x, y)
        seconds.append(time.perf_counter() - start)
    send(seconds=seconds)
    stdout.write(np.ascontiguousarray(result, value).tobytes())
    stdout.flush()
