"""Matrices of the SuiteSparse collection, from a server on this machine."""

import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import rowloom

MATRIX = b"%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 2.0\n2 2 3.0\n3 1 4.0\n"


def archive():
    """The archive of the matrix, as the collection has it."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w:gz") as tar:
        member = tarfile.TarInfo("small/small.mtx")
        member.size = len(MATRIX)
        tar.addfile(member, io.BytesIO(MATRIX))
    return text.getvalue()


@pytest.fixture
def requests(tmp_path, monkeypatch):
    """The paths that were asked for, of a server whose only matrix is Test/small."""
    paths, body = [], archive()

    class Collection(BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            found = self.path == "/MM/Test/small.tar.gz"
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body) if found else 0))
            self.end_headers()
            if found:
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collection)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("ROWLOOM_SUITESPARSE_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("ROWLOOM_MATRICES", str(tmp_path))
    yield paths
    server.shutdown()


def test_a_matrix_of_the_collection_is_downloaded_once(requests, tmp_path):
    for _ in range(2):
        a = rowloom.csr("suitesparse:Test/small", devices="cpu")
        np.testing.assert_array_equal(a @ np.array([1.0, 10.0, 100.0]), [402.0, 30.0, 4.0])
    assert requests == ["/MM/Test/small.tar.gz"]
    assert (tmp_path / "Test" / "small.tar.gz").is_file()


def test_a_matrix_that_the_collection_does_not_have_is_named(requests):
    with pytest.raises(ValueError, match="Test/missing"):
        rowloom.csr("suitesparse:Test/missing")


def test_a_damaged_archive_names_what_to_do(requests, tmp_path):
    rowloom.csr("suitesparse:Test/small", devices="cpu")
    stored = tmp_path / "Test" / "small.tar.gz"
    stored.write_bytes(stored.read_bytes()[:-1])
    with pytest.raises(ValueError, match="not the one that was downloaded; remove the file, or fetch it again"):
        rowloom.csr("suitesparse:Test/small")
