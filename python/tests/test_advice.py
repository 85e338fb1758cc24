"""Errors name what a Python program can change: arguments, not flags of commands or methods of Rust."""

import os
import subprocess
import sys

import numpy as np
import pytest
import rowloom

OVERFLOW = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1e39\n"


def message(kind, call):
    with pytest.raises(kind) as raised:
        call()
    return str(raised.value)


def test_a_value_that_overflows_names_the_dtype(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text(OVERFLOW)
    text = message(ValueError, lambda: rowloom.csr(path, dtype="float32"))
    assert text == f"{path}:3: value '1e39' overflows f32; use dtype=\"float64\""


def test_a_missing_gpu_names_the_devices():
    text = message(rowloom.DeviceError, lambda: rowloom.csr("gen:stencil5,n=4", devices="cuda:63") @ np.ones(16))
    # Without a driver no card can be used; with one, the message names its cards.
    assert text.endswith('; use devices="cpu"') or "the driver lists" in text


def test_a_build_without_emulated_gpus_says_how_to_get_them():
    a = rowloom.csr("gen:stencil5,n=4", devices="emu:0")
    try:
        a @ np.ones(16)
    except rowloom.DeviceError as error:
        assert "no emulator; install the package from its sources with emulated GPUs: pip install" in str(error)


@pytest.mark.parametrize("of", [lambda a: a, lambda a: a.to_scipy()])
def test_a_product_of_two_sparse_matrices_names_scipy(of):
    a = rowloom.csr("gen:stencil5,n=4", devices="cpu")
    for call in (lambda: a @ of(a), lambda: of(a) @ a, lambda: a.dot(of(a)), lambda: a.matmul(of(a), alpha=2.0)):
        assert "use SciPy for a product of two sparse matrices: a.to_scipy() @ b.to_scipy()" in message(TypeError, call)


def test_a_damaged_cost_model_names_the_command_that_makes_it(tmp_path):
    (tmp_path / "rowloom").mkdir()
    (tmp_path / "rowloom" / "model.toml").write_text("nonsense = 1\n")
    program = 'import numpy, rowloom; rowloom.csr("gen:stencil5,n=4", devices="cpu") @ numpy.ones(16)'
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    text = done.stderr.splitlines()[-1]
    assert text.startswith("ValueError: ") and "model.toml:1" in text
    assert text.endswith("; make it again with the command `rowloom calibrate`, or remove the file")


def test_no_error_names_a_flag_or_a_method(tmp_path):
    (tmp_path / "a.mtx").write_text(OVERFLOW)
    (tmp_path / "a.rlm").write_bytes(b"ROWLOOM\0" + bytes(200))
    generated = "gen:stencil5,n=4"
    for call in [
        lambda: rowloom.csr(tmp_path / "a.mtx", dtype="float32"),
        lambda: rowloom.csr(tmp_path / "a.rlm"),
        lambda: rowloom.csr(generated, check="sometimes"),
        lambda: rowloom.csr(generated, devices="gpu7") @ np.ones(16),
        lambda: rowloom.csr(generated, devices="cuda:63") @ np.ones(16),
        lambda: rowloom.csr(generated, devices="cpu,cpu") @ np.ones(16),
        lambda: rowloom.csr(generated, devices="sim:h200") @ np.ones(16),
        lambda: rowloom.csr("gen:stencil5,n=99999999999"),
        lambda: rowloom.csr(generated, devices="cpu").vectors(1 << 60),
    ]:
        text = message(Exception, call)
        assert "--" not in text and "(…)" not in text and "::" not in text, text


def test_reasons_of_plans_name_no_flag():
    a = rowloom.csr("gen:stencil5,n=30", devices="cpu", reproducible=True)
    a @ np.ones((900, 3))
    assert "--" not in a.explain() and all("--" not in reason for reason in a.plan(3).reasons)
