"""Plans, reports, traces and pictures."""

import json
import pathlib
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import rowloom


@pytest.fixture
def a():
    return rowloom.csr("gen:stencil5,n=30", devices="cpu")


def test_a_plan_has_its_devices_and_reasons(a):
    plan = a.plan(8)
    assert plan.k == 8 and plan.devices == ["cpu"] and plan.predicted_seconds > 0.0
    assert plan.reasons and str(plan) == "\n".join(plan.reasons)
    assert plan.data["matrix"]["rows"] == 900
    with pytest.raises(ValueError):
        a.plan(0)


def test_a_plan_is_explained_before_and_after_products(a):
    assert "cpu" in a.explain().lower()
    a @ np.ones((900, 3))
    assert a.explain() == a.explain(3)


def topics(text):
    return [line.split(": ", 1)[0] for line in text.splitlines()]


def test_a_plan_of_the_cpu_names_device_kernel_reasons_and_predicted_times(a):
    plan = a.plan(8)
    assert plan.kernels == ["cpu_csr"]
    lines = str(plan).splitlines()
    assert lines[0] == "device: cpu: 900 rows in 1 chunk"
    assert lines[1] == "kernel: cpu_csr on csr, 1 chunk on cpu"
    assert topics(str(plan)) == ["device", "kernel", "kernel", "mode", "set-up", "product"]
    assert "predicted" in lines[-1] and all(line.split(": ", 1)[1] for line in lines)


def test_an_explanation_also_has_the_measured_time(a):
    assert "last product" not in topics(a.explain(8))
    a @ np.ones((900, 8))
    assert topics(a.explain()) == ["device", "kernel", "kernel", "mode", "set-up", "product", "last product"]


def test_an_explanation_names_every_device_that_computes():
    a = rowloom.csr("gen:stencil5,n=30", devices="cpu,emu:0")
    a @ np.ones((900, 8))
    devices = [line.split(": ")[1] for line in a.explain().splitlines() if line.startswith("device: ")]
    assert devices == ["cpu", "emu:0"] and len(a.plan(8).kernels) == 2


def test_the_last_report_has_the_times_of_the_product(a):
    assert a.last_report is None
    a @ np.ones((900, 3))
    report = a.last_report
    assert report.seconds > 0.0 and report.faults == ()
    assert set(report.devices) == {"cpu"} and 0.0 < report.devices["cpu"] <= report.seconds


def test_a_trace_has_the_last_product(a, tmp_path):
    with pytest.raises(ValueError, match="no product"):
        a.trace(tmp_path / "none.json")
    a @ np.ones((900, 3))
    a.trace(tmp_path / "one.json")
    events = json.loads((tmp_path / "one.json").read_text())["traceEvents"]
    assert any(event.get("ph") == "X" and "compute" in event["name"] for event in events)
    with pytest.raises(OSError):
        a.trace(tmp_path / "missing" / "one.json")


def test_the_representation_names_shape_type_and_devices(a):
    assert repr(a) == "<rowloom.CSR 900 x 900, 4380 nonzeros, float64, devices='cpu'>"


def test_notebooks_show_a_spy_plot(a):
    root = ElementTree.fromstring(a._repr_svg_())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_cleared_operators_still_multiply(a):
    y = a @ np.ones(900)
    a.clear()
    np.testing.assert_array_equal(a @ np.ones(900), y)
    assert a.last_report is not None


@pytest.mark.parametrize("check", ["maybe", "", "First"])
def test_another_word_for_check_is_refused(check: str) -> None:
    with pytest.raises(ValueError, match="first, always or never"):
        rowloom.csr("gen:stencil5,n=8", check=check)


def test_a_wrong_result_of_a_device_is_computed_again_and_named() -> None:
    wrong = 0
    for seed in range(8):
        a = rowloom.csr("gen:stencil5,n=8", devices=f"emu:0?stale_launch=2&fault_seed={seed}", check="always")
        b = rowloom.csr("gen:stencil5,n=8", devices="cpu", check="never")
        for product in range(3):
            x = np.random.default_rng(product).standard_normal((64, 5))
            assert np.allclose(a @ x, b @ x, rtol=1e-9, atol=1e-9)
            report = a.last_report
            assert report is not None
            wrong += sum(fault.task.startswith("check of chunk") for fault in report.faults)
    assert wrong > 0


def test_a_trace_replaces_traces_and_no_other_file(a, tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes")
    a @ np.ones((900, 3))
    with pytest.raises(FileExistsError, match="notes.txt exists.*force=True"):
        a.trace(notes)
    assert notes.read_text() == "my notes"
    a.trace(notes, force=True)
    first = notes.read_text()
    a @ np.ones((900, 4))
    a.trace(notes)
    assert "traceEvents" in first and notes.read_text() != first
    empty = tmp_path / "empty.json"
    empty.touch()
    a.trace(empty)
    assert empty.stat().st_size > 0


def test_products_with_any_number_of_columns_share_one_copy_of_a_on_a_device() -> None:
    source = "gen:uniform,rows=1500,degree=60"
    a_bytes = 1501 * 8 + rowloom.csr(source, devices="cpu").nnz * 12
    a = rowloom.csr(source, devices=f"emu:0?memory_bytes={a_bytes * 3 // 2}", uses=100)
    b = rowloom.csr(source, devices="cpu")
    columns = [*range(1, 17), *range(16, 0, -1)]
    for k in columns:
        x = np.random.default_rng(k).standard_normal((1500, k))
        assert np.allclose(a @ x, b @ x, rtol=1e-9, atol=1e-9)
        report = a.last_report
        assert report is not None and set(report.devices) == {"emu:0"} and report.faults == ()
        assert "fault:" not in a.explain(k) and a.plan(k).data["mode"] == "resident"
    x = a.vectors(3)
    x.fill(1.0)
    assert np.allclose((a @ x).to_numpy(), b @ np.ones((1500, 3)))


def test_the_explanation_in_the_documents_is_what_explain_returns(monkeypatch, tmp_path):
    document = (pathlib.Path(__file__).parents[2] / "docs" / "python.md").read_text()
    block = next(block for block in document.split("```python\n") if block.startswith(">>> print("))
    call, shown = block.split("```")[0].split("\n", 1)
    # Without the cost model that this user may have.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    explained = eval(call.removeprefix(">>> print(").removesuffix(")"), {"rowloom": rowloom})
    assert explained == shown.rstrip("\n")
