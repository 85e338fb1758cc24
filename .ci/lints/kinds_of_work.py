"""The modules above `work` know no kind of work by name."""

import pathlib

from texts import expect, files, read

# The modules, and what of them binds one kind of work to bytes and launches.
ABOVE_THE_LINE = ["plan", "graph", "exec", "adapt", "trace", "runtime"]
BINDERS = ["spmm", "vectors", "product", "cluster", "dense/gemm", "dense/colmean"]

# Words that only a kind of work has.
WORDS = ["csr", "nnz", "gemm", "colmean"]


def declares_binder(line):
    """Whether a line declares the module of a binder or passes on its public names."""
    line = line.removeprefix("pub(crate) ")
    passed_on = tuple(f"pub use {binder.replace('/', '::')}::" for binder in BINDERS)
    return line in [f"mod {binder.split('/')[-1]};" for binder in BINDERS] or line.startswith(passed_on)


def named_kinds(code):
    """The lines of code with one of the words, comments included. Tests at the end of a file may use any kind of work."""
    lines = code.split("#[cfg(test)]\nmod tests {")[0].splitlines()
    return [line for line in lines if any(word in line.lower() for word in WORDS) and not declares_binder(line)]


def is_test(path):
    """Whether only tests are made of a file."""
    stem = pathlib.Path(path).stem
    return stem.endswith("tests") or stem in ["fixture", "fault_sweep"] or "/tests/" in path


def rule_no_kind_above_the_line():
    """No module above the line names a kind of work (docs/work.md)."""
    binders = tuple(f"src/runtime/{binder}/" for binder in BINDERS)
    paths = files(*(f"src/{module}" for module in ABOVE_THE_LINE))
    paths = [path for path in paths if path.endswith(".rs") and not path.startswith(binders) and not is_test(path)]
    expect(len(paths) > 60, f"only {len(paths)} files above the line were found")
    return [f"{path}: {line.strip()}" for path in paths for line in named_kinds(read(path))]


def check_names_are_found_in_code_and_comments_but_not_in_tests():
    for code, lines in [
        ("use crate::matrix::CsrView;", ["use crate::matrix::CsrView;"]),
        ("mod gemm;\npub use dense::gemm::Gemm;\nuse super::gemm::Gemm;", ["use super::gemm::Gemm;"]),
        ("/// Rows and nnz.\nlet gemm = 1;\nlet entries = 2;", ["/// Rows and nnz.", "let gemm = 1;"]),
        ("fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::matrix::Csr;\n}", []),
    ]:
        expect(named_kinds(code) == lines, f"names of kinds: {named_kinds(code)}, not {lines}")
