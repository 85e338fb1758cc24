"""The CUDA kernels as shared libraries for the emulator, and the programs that load them: the differential oracle and the unit tests.

Both are built by cargo and linked with one library for each kernel. Another library of the same kernel replaces it in a run,
without cargo and without the linker.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from worker_cores import workers

KERNELS = Path("kernels")
FOLDER = Path("target/mutants/cuda")
HEADER = Path("src/device/emulated/cuda_builtins.h")
# As src/device/emulated/build.rs, with less optimization: it builds faster, and results have the same bits.
FLAGS = """-std=c++17 -w -fPIC -fsanitize=thread -fsanitize=alignment -ffp-contract=off -fno-exceptions -fno-rtti -fno-builtin
    -fno-tree-loop-distribute-patterns""".split()
# Files with the forms of lanes.cuh have ten times the code of others.
LARGE = ["csr_cuts", "csr_packed", "csr_pattern", "csr_pieces", "csr_runs", "csr_segments", "csr_subwarp", "hybrid", "row_groups"]
# Families of the oracle that run the kernels of a file, by the first word of its name; `emu` runs the others.
FAMILIES = {"gemm": "dense", "colmean": "dense", "vector": "vectors"}
# Kernels that read X by rows also compute vectors on devices. Only there beta may differ from zero on the device.
WITH_VECTORS = ["csr_cuts", "csr_pattern", "csr_pieces", "csr_runs", "csr_scalar", "csr_segments", "csr_subwarp", "csr_vector", "csr_vector_subwarp", "ellpack", "ellpack_subwarp", "hybrid", "row_groups", "sell"]
# Files with several kernels, or without one of their own name.
NAMES = {
    "csr_scalar": ["csr_scalar_v2", "csr_scalar_v3", "csr_scalar_v1"],
    "csr_subwarp": ["csr_subwarp", "csr_ways"],
    "row_groups": ["row_groups_cut", "row_groups"],
    "colmean_totals": ["colmean_reduce"],
    "gemm_tiled": ["gemm_tiled_t8", "gemm_tiled_t16", "gemm_tiled_t32"],
    "vector_rows": [None],
    "vector_sums": [None],
}
# The unit tests that compare the kernels of a file with the CPU, by the first word of its name; EVERY_FORM is the one of the others.
TESTS = {word: f"device::emulated::{tests}" for word, tests in [("gemm", "dense_tests"), ("colmean", "dense_tests"), ("vector", "vector_tests")]}
EVERY_FORM = "canonical_kernels_equal_the_reference_for_rows_of_any_length_in_every_form"
# A run is an endless loop after so much processor time more than it was asked for: the longest cases take less.
HANG_CPU_SECONDS = 15
# A run that waits for nothing has ended by then even on a busy machine.
HANG_SECONDS = 300


def kernel_files(ending=".cu"):
    """The files of kernels by name; those that are kept for comparison have a folder of their own."""
    return sorted((path for folder in (KERNELS, KERNELS / "sources") for path in folder.glob(f"*{ending}")), key=lambda path: path.name)


def including(file):
    """The kernels whose text has a file of the folder: the shortest of each family of the oracle first, since each family uses other
    parts of a file, then the next ones. Short kernels compile fastest. `sell` is short and computes vectors."""
    paths = sorted(kernel_files(), key=lambda path: (path.stem != "sell", len(whole_text(path, {})), path.name))
    paths = [path for path in paths if path.name == file or f'#include "{file}"\n' in path.read_text()]
    families = [path.stem.split("_")[0] if path.stem.split("_")[0] in FAMILIES else "emu" for path in paths]
    turn = {path: families[:at].count(families[at]) for at, path in enumerate(paths)}
    return sorted(paths, key=turn.get)


def whole_text(path, changed):
    """A kernel's text with its includes pasted in; `changed` has other texts of files."""
    text, pieces = changed.get(path.name) or path.read_text(), []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        name = re.match(r'#include "(.*)"', line)
        if name:
            included = changed.get(name[1]) or (KERNELS / name[1]).read_text()
            line = f'#line 1 "{KERNELS / name[1]}"\n{included}#line {number + 1} "{path}"\n'
        pieces.append(line)
    return "".join(pieces)


def prepared(path, changed):
    """The text that the C++ compiler gets: as src/device/emulated/build.rs prepares it, with the line numbers of each file."""

    def shared(match):
        kind, name, sizes = match[2], match[3], match[4]
        return (
            f"static char {name}_key; typedef {kind} {name}_type{sizes}; auto &{name} = *({name}_type *)"
            f'rowloom_shared(&{name}_key, "{name}", sizeof({name}_type), alignof({name}_type));'
        )

    text = re.sub(r"^( *)extern __shared__ (\w+) (\w+)\[\];", r"\1\2 *\3 = (\2 *)rowloom_dynamic_shared();", whole_text(path, changed), flags=re.M)
    text = re.sub(r"^( *)__shared__ ([^;\[]*?)\s*\b(\w+)((?:\[[^;]*\])?);", lambda m: m[1] + shared(m), text, flags=re.M)
    return f'#include "{HEADER.resolve()}"\n#line 1 "{path}"\n{text}'


def compile_to_assembly(path, changed, folder, *flags):
    """Assembly language with the emulator's names of the sanitizer's functions; None if it does not compile."""
    source, assembly = folder / f"{path.stem}.cc", folder / f"{path.stem}.s"
    source.write_text(prepared(path, changed))
    level = "-O0" if path.stem in LARGE else "-O1"
    command = ["g++", *FLAGS, *flags, level, "-S", source, "-o", assembly]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        (folder / f"{path.stem}.errors").write_text(done.stderr)
        return None
    text = assembly.read_text().replace("__tsan_", "rowloom_tsan_").replace("__ubsan_", "rowloom_ubsan_")
    assembly.write_text(text)
    return text


def link_library(path, folder, *flags):
    library = folder / f"libemulated_{path.stem}.so"
    command = ["g++", "-shared", *flags, folder / f"{path.stem}.s", "-o", library]
    subprocess.run(command, check=True)
    return library


class Emulated:
    """The oracle and the unit tests with the kernels of this checkout."""

    def __init__(self, keeps_programs=False, jobs=1):
        self.base = (FOLDER / "base").resolve()
        self.base.mkdir(parents=True, exist_ok=True)
        self.kernels = kernel_files()
        with workers(jobs) as pool:
            self.assembly = dict(zip(self.kernels, pool.map(self.base_of, self.kernels)))
        self.passing, self.trying = set(), threading.Lock()
        self.oracle, self.tests = FOLDER.resolve() / "oracle", FOLDER.resolve() / "unit_tests"
        if not (keeps_programs and self.oracle.exists() and self.tests.exists()):
            shutil.copy(self.build("oracle", "--profile", "dev", "--bench", "oracle"), self.oracle)
            shutil.copy(self.build("rowloom", "--profile", "test", "--lib"), self.tests)

    def base_of(self, path):
        """The assembly language of an unchanged kernel, whose library is made too."""
        source, assembly = self.base / f"{path.stem}.cc", self.base / f"{path.stem}.s"
        library = self.base / f"libemulated_{path.stem}.so"
        if library.exists() and source.read_text() == prepared(path, {}):
            return assembly.read_text()
        text = compile_to_assembly(path, {}, self.base)
        if text is None:
            sys.exit(f"{path} does not compile: {self.base / path.stem}.errors")
        link_library(path, self.base)
        return text

    def build(self, name, *target):
        """Builds a program; libraries on the linker's line come before the kernels in the crate."""
        linker = FOLDER.resolve() / "linker"
        libraries = " ".join(f"-lemulated_{path.stem}" for path in self.kernels)
        linker.write_text(
            f'#!/bin/sh\nexec cc -L"{self.base}" -Wl,--no-as-needed {libraries} -Wl,--as-needed -Wl,--export-dynamic "$@"\n'
        )
        linker.chmod(0o755)
        command = ["cargo", "rustc", "-p", "rowloom", "--features", "emulator,fetch", *target, "--message-format", "json-render-diagnostics"]
        built = subprocess.run([*command, "--", "-C", f"linker={linker}"], stdout=subprocess.PIPE, text=True, check=True)
        found = re.findall(rf'"executable":"([^"]*/{name}-[^"]*)"', built.stdout)
        undefined = subprocess.run(["nm", "-D", "--undefined-only", found[-1]], capture_output=True, text=True, check=True)
        if " csr_scalar_v1_f64" not in undefined.stdout:
            sys.exit(f"{name} has kernels of its own")
        return found[-1]

    def expect_to_pass(self, path):
        """Ends the program if the oracle fails with the unchanged kernel: every mutant would be caught."""
        with self.trying:
            if path in self.passing:
                return
            library = self.base / f"libemulated_{path.stem}.so"
            wrong = self.run_oracle(path, library, 1, 0.5)
            if not wrong and tests_of(path) not in self.passing:
                wrong = self.run_tests(path, library)
            if wrong:
                sys.exit(f"{path}, unchanged: {wrong}: {self.base}/*.log")
            self.passing.add(tests_of(path))
            self.passing.add(path)

    def compile_mutant(self, path, changed):
        """The library of a changed kernel, in a folder of this thread; `same` if its code is the same, None if it does not compile."""
        folder = FOLDER.resolve() / f"mutant-{threading.get_ident()}"
        folder.mkdir(exist_ok=True)
        text = compile_to_assembly(path, changed, folder)
        if text is None:
            return None
        if without_names(text) == without_names(self.assembly[path]):
            return "same"
        # Libraries of earlier mutants must not be loaded.
        for other in folder.glob("*.so"):
            other.unlink()
        return link_library(path, folder)

    def run_oracle(self, path, library, seed, seconds):
        """Why the oracle fails with a library of a kernel; an empty text if it does not in so many seconds of processor time for
        each kernel of the file."""
        families = [FAMILIES.get(path.stem.split("_")[0], "emu"), *(["vectors"] if path.stem in WITH_VECTORS else [])]
        runs = [(family, name) for family in families for name in NAMES.get(path.stem, [path.stem])]
        # A little of each first: a mutant is in one of the kernels, and most are caught at once.
        for family, name, seconds in [(*run, share) for share in (seconds / 8, seconds) for run in runs]:
            options = ["--only", family, *(["--kernel", name] if name else [])]
            spent = 0
            # The oracle measures time by the clock: on a busy machine it is run again, with the next seed.
            while spent < seconds:
                wrong, more = self.one_run([*options, "--seed", str(seed), "--seconds", str(seconds - spent)], library, seconds)
                if wrong:
                    return wrong
                spent += more + 0.1
                seed += 1
        return ""

    def run_tests(self, path, library):
        """Why the unit tests fail with a library of a kernel; an empty text if they pass."""
        tests = tests_of(path)
        with open(library.parent / "tests.log", "w") as log:
            try:
                ended = subprocess.run([self.tests, tests], env=with_library(library, self.base), stdout=log, stderr=log, timeout=HANG_SECONDS)
            except subprocess.TimeoutExpired:
                return "no end"
        return "" if ended.returncode == 0 else f"{tests} fail"

    def one_run(self, words, library, seconds):
        """Why the oracle fails, if it does, and the processor time of the run."""
        with open(library.parent / "oracle.log", "w+") as log:
            process = subprocess.Popen(
                [self.oracle, *words],
                env=with_library(library, self.base),
                cwd=library.parent,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            wrong, spent, start = None, 0, time.monotonic()
            while wrong is None:
                ended = process.poll() is not None
                spent = max(spent, cpu_seconds(process.pid))
                wrong = judged(Path(log.name).read_text(errors="replace"), process.returncode if ended else None)
                if wrong is None and (spent > seconds + HANG_CPU_SECONDS or time.monotonic() - start > HANG_SECONDS):
                    wrong = "no end"
                if wrong is None:
                    time.sleep(0.02)
            # The oracle would reduce a failure for a minute.
            process.kill()
            process.wait()
        return wrong, spent


def tests_of(path):
    return TESTS.get(path.stem.split("_")[0], EVERY_FORM)


def with_library(library, base):
    """The environment of a program that loads a library of one kernel, and those of `base` of the others."""
    return {**os.environ, "LD_LIBRARY_PATH": f"{library.parent}:{base}", "RUST_BACKTRACE": "0"}


def cpu_seconds(process):
    """The processor time of a process so far; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def judged(text, code):
    """What the output of the oracle and its exit code say: why it fails, an empty text if it does not, None if it still runs."""
    if "; 1 failures" in text:
        return "wrong product or fault"
    if code is None:
        return None
    # A value of a dimension that was not drawn says nothing of the kernel.
    passed = "; 0 failures" in text and (code == 0 or "never drawn" in text)
    return "" if passed else f"exit code {code}"


def without_names(assembly):
    """Assembly language without the lines that name the source."""
    return re.sub(r"^\t\.(file|ident|loc)\b.*$", "", assembly, flags=re.M)
