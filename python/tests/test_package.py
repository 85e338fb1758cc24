"""The package itself: import, types, size."""

import importlib.metadata
import importlib.resources
import subprocess
import sys

import rowloom


def test_the_import_needs_neither_numpy_nor_scipy_nor_threads():
    script = """
import sys, threading, rowloom
assert "numpy" not in sys.modules and "scipy" not in sys.modules
assert len(__import__("os").listdir("/proc/self/task")) == 1
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_package_is_typed():
    assert importlib.resources.files(rowloom).joinpath("py.typed").is_file()


def test_the_package_names_its_authors_licence_and_version():
    metadata = importlib.metadata.metadata("rowloom")
    assert metadata["Version"] == rowloom.__version__
    assert "Rowloom developers" in (metadata["Author"] or metadata["Author-email"])
    assert metadata["License-Expression"] == "MIT OR Apache-2.0"
    assert metadata["Keywords"] and len(metadata.get_all("Classifier", [])) > 5


def test_a_process_ends_without_a_message_while_operators_live():
    script = """
import rowloom, numpy
a = rowloom.csr("gen:stencil5,n=30")
x = a.vectors(2)
a @ numpy.ones(900)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert (ended.stdout, ended.stderr) == (b"", b"")
