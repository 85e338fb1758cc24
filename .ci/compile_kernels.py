#!/usr/bin/env python3
"""Compiles kernels/*.cu with NVIDIA's compilers, which need no GPU, and keeps kernels/ptx in step with them.

    pip install -r .ci/kernels.txt
    compile_kernels.py [FILE.cu ...]            checks: every file compiles without a word for every architecture, its
                                                PTX in kernels/ptx is current, and fast kernels spill no register
    compile_kernels.py --write [FILE.cu ...]    writes kernels/ptx

A file with a line `// fast: no spills` is a fast one. Each line `// exact: EXACT_K=32 LANES=8` of it names a form that
NVRTC makes at run time; those are looked at too.
"""
import argparse
import concurrent.futures
import ctypes
import itertools
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

# PTX for the first of these is built in: any newer card's driver can compile it. The compiler is an old one, since a
# driver refuses PTX that is newer than itself; kernels.txt pins it.
ARCHITECTURES = ["75", "80", "90"]
# The same as in src/device/cuda/forms.rs.
OPTIONS = ["--std=c++17", "--fmad=false", "--diag-suppress=177,128"]
FAST = "// fast: no spills"
KERNELS = pathlib.Path(__file__).resolve().parent.parent / "kernels"
PACKAGES = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia"
MISSING = "pip install -r .ci/kernels.txt, and run this with the Python it was installed for"


def load():
    try:
        return ctypes.CDLL(str(PACKAGES / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"))
    except OSError:
        sys.exit(f"no NVRTC: {MISSING}")


def compile_text(nvrtc, text, name, options):
    """The PTX, or none where the text does not compile, and what the compiler said."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
    words = [option.encode() for option in options]
    failed = nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    ptx = None
    if not failed:
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetPTX(program, buffer)
        ptx = buffer.value.decode()
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return ptx, log.value.decode().strip()


def whole_text(path):
    """The text with the files it includes in their places, as build.rs makes it."""
    def line(text):
        match = re.fullmatch(r'#include "(.*)"\n', text)
        return (KERNELS / match.group(1)).read_text() if match else text

    return "".join(map(line, path.read_text().splitlines(keepends=True)))


def fingerprint(text):
    """FNV-1a, 64 bits; build.rs computes it too, and takes only PTX that was made of the text beside it."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def stamped(nvrtc, path, ptx):
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    text = whole_text(path)
    # NVRTC puts constants of its own into every file; nothing refers to them.
    lines = [line for line in ptx.splitlines() if not (line.startswith(".global") and "nv6target" in line)]
    body = lines[next(at for at, line in enumerate(lines) if line.startswith(".version")):]
    stamp = f"// {path.name} {fingerprint(text)} by NVRTC {major.value}.{minor.value}; .ci/compile_kernels.py --write"
    return "\n".join([stamp, *body]).rstrip("\n\0") + "\n"


def spills(ptx, architecture):
    """Entries that spill, and how much they do, as ptxas sees them."""
    ptxas = PACKAGES / "cuda_nvcc" / "bin" / "ptxas"
    if not ptxas.exists():
        sys.exit(f"no ptxas: {MISSING}")
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        words = [ptxas, "-v", f"--gpu-name=sm_{architecture}", "--output-file=/dev/null", file.name]
        done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        return [done.stderr.strip()]
    found, entry = [], "?"
    for line in done.stderr.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            entry = match.group(1)
        if match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            if match.group(1) != "0" or match.group(2) != "0":
                found.append(f"{entry} spills {match.group(1)} bytes and loads {match.group(2)}")
    return found


def forms(path):
    """What is compiled of a file: its generic form and, of a fast one, those for a K, each for all architectures."""
    lines = whole_text(path).splitlines()
    exact = [line.split()[2:] for line in lines if line.startswith("// exact: ")] if FAST in lines else []
    return [(path, architecture, defines) for architecture in ARCHITECTURES for defines in [[], *exact]]


def check(form, write):
    """What to say of a form, and what is wrong with it."""
    path, architecture, defines = form
    nvrtc, text = load(), whole_text(path)
    fast = FAST in text.splitlines()
    name = " ".join([f"{path.name} compute_{architecture}", *defines])
    options = [f"--gpu-architecture=compute_{architecture}", *OPTIONS, *(f"-D{word}" for word in defines)]
    ptx, log = compile_text(nvrtc, text, path.name, options)
    complaints = [f"{name}: {log or 'does not compile'}"] if log or ptx is None else []
    if ptx is None:
        return f"{name}: nothing", complaints
    if fast:
        complaints += [f"{name}: {spill}" for spill in spills(ptx, architecture)]
    if architecture == ARCHITECTURES[0] and not defines:
        target = KERNELS / "ptx" / f"{path.stem}.ptx"
        wanted = stamped(nvrtc, path, ptx)
        if write:
            target.parent.mkdir(exist_ok=True)
            target.write_text(wanted)
        elif not target.exists() or target.read_text() != wanted:
            complaints.append(f"{target.name} is not current: run .ci/compile_kernels.py --write")
    return f"{name}: {ptx.count('.visible .entry')} entries{', fast' if fast else ''}", complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write kernels/ptx")
    parser.add_argument("files", nargs="*", metavar="FILE.cu", help="names in kernels/; all without one")
    arguments = parser.parse_args()
    sources = sorted(KERNELS.glob("*.cu"))
    chosen = [path for path in sources if not arguments.files or path.name in arguments.files]
    if not chosen:
        sys.exit(f"none of these is in kernels/; there are {', '.join(path.name for path in sources)}")
    load()
    complaints, wanted = [], [form for path in chosen for form in forms(path)]
    # Processes, since the compiler compiles one text at a time in each.
    with concurrent.futures.ProcessPoolExecutor() as workers:
        for words, wrong in workers.map(check, wanted, itertools.repeat(arguments.write)):
            print(words, flush=True)
            complaints += wrong
    for ptx in sorted((KERNELS / "ptx").glob("*.ptx")):
        if not (KERNELS / f"{ptx.stem}.cu").exists():
            complaints.append(f"kernels/ptx/{ptx.name} is of no kernel: delete it")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
