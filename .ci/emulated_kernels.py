"""The CUDA kernels as shared libraries for the emulator, and the differential oracle that loads them.

The oracle is built by cargo and linked with one library for each kernel. Another library of the same kernel replaces it in a run,
without cargo and without the linker.
"""

import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from pathlib import Path

KERNELS = Path("kernels")
FOLDER = Path("target/mutants/cuda")
HEADER = Path("src/device/emulated/cuda_builtins.h")
# As src/device/emulated/build.rs, with less optimization: it builds faster, and results have the same bits.
FLAGS = """-std=c++17 -O1 -w -fPIC -fsanitize=thread -fsanitize=alignment -ffp-contract=off -fno-exceptions -fno-rtti -fno-builtin
    -fno-tree-loop-distribute-patterns""".split()
# Counters of executed lines, without optimization, which would merge lines. Host threads may lose counts, but no line.
COUNTERS = ["-O0", "--coverage"]
# Options of the oracle that run the kernels of a file.
FAMILIES = {"gemm": ["--only", "dense"], "colmean": ["--only", "dense"], "vector": ["--only", "vectors"]}
# Files with several kernels.
NAMES = {
    "csr_scalar": ["csr_scalar_v2", "csr_scalar_v3", "csr_scalar_v1"],
    "csr_subwarp": ["csr_subwarp", "csr_ways"],
    "row_groups": ["row_groups_cut", "row_groups"],
}
# Beyond the time that the oracle was asked for, a run is an endless loop. It covers the longest case on a busy machine.
HANG_SECONDS = 20


def including(file):
    """The kernels whose text has a file of the folder, the shortest first: they compile fastest."""
    paths = sorted(KERNELS.glob("*.cu"), key=lambda path: (len(whole_text(path, {})), path.name))
    return [path for path in paths if path.name == file or f'#include "{file}"\n' in path.read_text()]


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


def compile_to_assembly(path, changed, folder, flags=()):
    """Assembly language with the emulator's names of the sanitizer's functions; None if it does not compile."""
    source, assembly = folder / f"{path.stem}.cc", folder / f"{path.stem}.s"
    source.write_text(prepared(path, changed))
    command = ["g++", *FLAGS, *flags, "-S", source, "-o", assembly]
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


def link_library(path, folder, flags=()):
    library = folder / f"libemulated_{path.stem}.so"
    command = ["g++", "-shared", *flags, folder / f"{path.stem}.s", "-o", library]
    subprocess.run(command, check=True)
    return library


def coverage(seconds):
    """The counts of each file's lines and branches in runs of the oracle with every kernel, as `.ci/coverage` has them."""
    emulated = Emulated()
    folder = (FOLDER / "coverage").resolve()
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    files = {}
    for path in emulated.kernels:
        if compile_to_assembly(path, {}, folder, COUNTERS) is None:
            sys.exit(f"{path} does not compile: {folder / path.stem}.errors")
        library = link_library(path, folder, ["--coverage"])
        wrong = emulated.run_oracle(path, library, 1, seconds)
        if wrong:
            sys.exit(f"{path}: {wrong}")
        library.unlink()
        add_counts(files, path.stem, folder)
    return files


def add_counts(files, name, folder):
    """Adds the counts of a library that was run."""
    command = ["gcov", "--json-format", "--branch-probabilities", "--stdout", f"{name}.gcda"]
    counts = json.loads(subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout)
    for file in counts["files"]:
        if not file["file"].startswith("kernels/"):
            continue
        lines, branches = files.setdefault(file["file"], ({}, {}))
        for line in file["lines"]:
            number = line["line_number"]
            lines[number] = lines.get(number, 0) + line["count"]
            # The same branch of other instances of a template has a number of its own in its function.
            for place, branch in enumerate(line["branches"]):
                key = (number, line.get("function_name"), place)
                branches[key] = branches.get(key, 0) + branch["count"]


class Emulated:
    """The oracle with the kernels of this checkout."""

    def __init__(self, keeps_oracle=False):
        self.base, self.mutant = (FOLDER / "base").resolve(), (FOLDER / "mutant").resolve()
        self.base.mkdir(parents=True, exist_ok=True)
        self.mutant.mkdir(exist_ok=True)
        self.kernels = sorted(KERNELS.glob("*.cu"))
        self.assembly = {path: self.base_of(path) for path in self.kernels}
        self.oracle = FOLDER.resolve() / "oracle"
        if not (keeps_oracle and self.oracle.exists()):
            shutil.copy(self.build(), self.oracle)

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

    def build(self):
        """Builds the oracle; libraries on the linker's line come before the kernels in the crate."""
        linker = FOLDER.resolve() / "linker"
        libraries = " ".join(f"-lemulated_{path.stem}" for path in self.kernels)
        linker.write_text(
            f'#!/bin/sh\nexec cc -L"{self.base}" -Wl,--no-as-needed {libraries} -Wl,--as-needed -Wl,--export-dynamic "$@"\n'
        )
        linker.chmod(0o755)
        command = ["cargo", "rustc", "--profile", "dev", "--bench", "oracle", "--message-format", "json-render-diagnostics"]
        built = subprocess.run([*command, "--", "-C", f"linker={linker}"], stdout=subprocess.PIPE, text=True, check=True)
        found = re.findall(r'"executable":"([^"]*/oracle-[^"]*)"', built.stdout)
        undefined = subprocess.run(["nm", "-D", "--undefined-only", found[-1]], capture_output=True, text=True, check=True)
        if " csr_scalar_v1_f64" not in undefined.stdout:
            sys.exit("the oracle has kernels of its own")
        return found[-1]

    def compile_mutant(self, path, changed):
        """The library of a changed kernel; `same` if its code is the same, None if it does not compile."""
        text = compile_to_assembly(path, changed, self.mutant)
        if text is None:
            return None
        if without_names(text) == without_names(self.assembly[path]):
            return "same"
        # Libraries of earlier mutants must not be loaded.
        for other in self.mutant.glob("*.so"):
            other.unlink()
        return link_library(path, self.mutant)

    def run_oracle(self, path, library, seed, seconds):
        """Why the oracle fails with a library of a kernel; an empty text if it does not."""
        family = FAMILIES.get(path.stem.split("_")[0])
        runs = [family] if family else [["--only", "emu", "--kernel", name] for name in NAMES.get(path.stem, [path.stem])]
        for words in runs:
            caught = self.one_run([*words, "--seed", str(seed), "--seconds", str(seconds)], library, seconds)
            if caught:
                return caught
        return ""

    def one_run(self, words, library, seconds):
        folders = f"{library.parent}:{self.base}" if library else str(self.base)
        process = subprocess.Popen(
            [self.oracle, *words],
            env={**os.environ, "LD_LIBRARY_PATH": folders, "RUST_BACKTRACE": "0"},
            cwd=self.mutant,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            return outcome(process, time.monotonic() + seconds + HANG_SECONDS)
        finally:  # after a failure, which the oracle would reduce for a minute
            process.kill()
            process.wait()


def outcome(process, deadline):
    """Waits for a failure or for the end."""
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    text = ""
    while True:
        if not selector.select(max(0, deadline - time.monotonic())):
            return "no end"
        block = os.read(process.stdout.fileno(), 1 << 16).decode(errors="replace")
        text += block
        if "; 1 failures" in text:
            return "wrong product or fault"
        if not block:
            break
    process.wait()
    if "; 0 failures" not in text:
        return f"exit code {process.returncode}"
    # A value of a dimension that was not drawn says nothing of the kernel.
    return "" if process.returncode == 0 or "never drawn" in text else f"exit code {process.returncode}"


def without_names(assembly):
    """Assembly language without the lines that name the source."""
    return re.sub(r"^\t\.(file|ident|loc)\b.*$", "", assembly, flags=re.M)
