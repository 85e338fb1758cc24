#!/usr/bin/env python3
"""Compiles the kernels of kernels/ and kernels/sources/ with NVIDIA's compilers, which need no GPU, and keeps kernels/compiled current.

    pip install -r .ci/kernels.txt
    compile_kernels.py [FILE.cu ...]            checks: every file compiles without messages for every architecture, its
                                                code in kernels/compiled is current, and fast kernels spill no register
    compile_kernels.py --drawn N                the same for N files that are drawn and for those whose code is not of
                                                their text; of the others only fingerprints are compared
    compile_kernels.py --write [FILE.cu ...]    writes kernels/compiled

kernels/compiled/NAME.bin has one archive per target: PTX, then the machine code of each architecture in MACHINE_CODE. An
archive is a raw deflate stream. It begins with one line `ENTRY BYTES` per entry point and an empty line; the code of the
entries follows in this order, each a module with one entry. The entries of a kernel share a stream because they are
similar: separate streams are 60 % larger. A reader stops after the entry it needs. manifest.txt has one line per archive.

A file with a line `// fast: no spills` is a fast one. Each line `// exact: EXACT_K=32 LANES=8` of it names a form that
NVRTC compiles at run time; those forms are checked too.
"""
import argparse
import concurrent.futures
import ctypes
import pathlib
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
import zlib

# PTX for the first of these is built in: any newer card's driver can compile it. The compiler is an old one, since a
# driver refuses PTX that is newer than itself; kernels.txt pins it.
ARCHITECTURES = ["75", "80", "90"]
# Architectures with built-in machine code, and the PTX that it is made from. Machine code runs on cards of the same major
# version and the same or a later minor one: sm_80 serves 8.6 and 8.9 as well, sm_100 serves 10.3, sm_120 serves 12.1.
MACHINE_CODE = {"80": "80", "90": "90", "100": "90", "120": "90"}
TARGETS = ["ptx", *(f"sm_{architecture}" for architecture in MACHINE_CODE)]
# The same as in src/device/cuda/forms.rs.
OPTIONS = ["--std=c++17", "--fmad=false", "--diag-suppress=177,128"]
FAST = "// fast: no spills"
KERNELS = pathlib.Path(__file__).resolve().parent.parent / "kernels"
# Kernels that are kept for comparison have a folder of their own.
FOLDERS = [KERNELS, KERNELS / "sources"]
COMPILED = KERNELS / "compiled"
MANIFEST = COMPILED / "manifest.txt"
HEADER = """\
# Written by .ci/compile_kernels.py --write. One line per archive in NAME.bin, in the order of the archives: kernel file,
# fingerprint of its text, target, bytes of the archive, fingerprint of the archive.
"""
# How often a text is compiled again whose result is not the stored one.
ATTEMPTS = 40
NOT_CURRENT = "run .ci/compile_kernels.py --write"
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


def fingerprint(content):
    """FNV-1a, 64 bits; build.rs computes it too, and takes only code that was compiled from the text beside it."""
    value = 0xCBF29CE484222325
    for byte in content:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def modules(ptx):
    """The PTX of each entry, as a module with this entry alone."""
    # NVRTC puts constants of its own into every file; nothing refers to them.
    lines = [line for line in ptx.rstrip("\0").splitlines() if not (line.startswith(".global") and "nv6target" in line)]
    text = "\n".join(lines[next(at for at, line in enumerate(lines) if line.startswith(".version")):])
    # An entry ends at the first closing brace at the start of a line; inner braces are indented.
    entry = re.compile(r"\.visible \.entry (\w+)\(.*?\n\}", re.DOTALL)

    def only(name):
        alone = entry.sub(lambda match: match.group() if match.group(1) == name else "", text)
        kept = [line for line in alone.splitlines() if line.strip() and not line.lstrip().startswith("//")]
        return "\n".join(kept) + "\n"

    return {match.group(1): only(match.group(1)) for match in entry.finditer(text)}


def ptxas(ptx, architecture, output, *options):
    """Runs ptxas."""
    program = PACKAGES / "cuda_nvcc" / "bin" / "ptxas"
    if not program.exists():
        sys.exit(f"no ptxas: {MISSING}")
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        words = [program, *options, f"--gpu-name=sm_{architecture}", f"--output-file={output}", file.name]
        return subprocess.run(words, capture_output=True, text=True)


def machine_code(ptx, architecture):
    """The machine code of a module."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        done = ptxas(ptx, architecture, file.name, "--fmad=false")
        if done.returncode:
            sys.exit(done.stderr.strip())
        return pathlib.Path(file.name).read_bytes()


def archives(ptx, architecture):
    """The archives that are made from a file's PTX for `architecture`, by target, before compression."""
    single = modules(ptx)
    made = {}
    if architecture == ARCHITECTURES[0]:
        made["ptx"] = {entry: text.encode() for entry, text in single.items()}
    for target, source in MACHINE_CODE.items():
        if source == architecture:
            made[f"sm_{target}"] = {entry: machine_code(text, target) for entry, text in single.items()}

    def archive(codes):
        index = "".join(f"{entry} {len(code)}\n" for entry, code in codes.items())
        return index.encode() + b"\n" + b"".join(codes.values())

    return {target: archive(codes) for target, codes in made.items()}


def compress(content):
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    return deflate.compress(content) + deflate.flush()


def decompress(stored):
    try:
        return zlib.decompress(stored, -zlib.MAX_WBITS)
    except zlib.error:
        return None


def stored_archives():
    """Kernel file -> the fingerprint of the text that it was compiled from, and its archives by target."""
    rows = [line.split() for line in MANIFEST.read_text().splitlines() if line[:1] != "#"] if MANIFEST.exists() else []
    stored = {}
    for file, of, target, size, own in rows:
        content = COMPILED / file.replace(".cu", ".bin")
        content = content.read_bytes() if content.exists() else b""
        _, found, begin = stored.setdefault(file, [of, {}, 0])
        archive = content[begin : begin + int(size)]
        # A damaged archive counts as missing.
        if fingerprint(archive) == own:
            found[target] = archive
        stored[file][2] += int(size)
    return {file: (of, found) for file, (of, found, _) in stored.items()}


def write(path, made, stored):
    """Writes the archives of a kernel file; returns its lines of the manifest."""
    of = fingerprint(whole_text(path).encode())
    _, old = stored.get(path.name, (None, {}))
    # Archives with the same content keep their bytes: versions of zlib differ.
    kept = {target: decompress(archive) for target, archive in old.items()}
    packed = [(target, old[target] if kept.get(target) == made[target] else compress(made[target])) for target in TARGETS]
    (COMPILED / f"{path.stem}.bin").write_bytes(b"".join(archive for _, archive in packed))
    return [f"{path.name} {of} {target} {len(archive)} {fingerprint(archive)}" for target, archive in packed]


def write_all(sources, made, stored):
    """Writes kernels/compiled: the archives in `made`, and the stored ones of files that were not compiled."""
    COMPILED.mkdir(exist_ok=True)
    lines = []
    for path in sources:
        if path.name in made:
            lines += write(path, made[path.name], stored)
        elif len(stored.get(path.name, (None, {}))[1]) == len(TARGETS):
            of, old = stored[path.name]
            lines += [f"{path.name} {of} {target} {len(old[target])} {fingerprint(old[target])}" for target in TARGETS]
    MANIFEST.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    for path in COMPILED.glob("*.bin"):
        if path.stem not in {source.stem for source in sources}:
            path.unlink()


def is_stored(path, stored):
    """Whether there is undamaged code for every target that was compiled from the text as it is now."""
    of, old = stored.get(path.name, (None, {}))
    return of == fingerprint(whole_text(path).encode()) and len(old) == len(TARGETS)


def stale(sources, chosen, made, stored):
    """The differences between kernels/compiled and what it should hold for the files in `chosen`."""
    found = []
    for path in chosen:
        of, old = stored.get(path.name, (None, {}))
        if of != fingerprint(whole_text(path).encode()):
            found.append(f"kernels/compiled has no code of {path.name} as it is now: {NOT_CURRENT}")
            continue
        for target in TARGETS:
            differs = path.name in made and decompress(old.get(target, b"")) != made[path.name].get(target)
            if target not in old or differs:
                found.append(f"kernels/compiled/{path.stem}.bin is not current for {target}: {NOT_CURRENT}")
    files = {path.stem for path in sources}
    others = {path.stem for path in COMPILED.glob("*.bin")} | {file.removesuffix(".cu") for file in stored}
    found += [f"kernels/compiled has code of {name}, which is no kernel: {NOT_CURRENT}" for name in sorted(others - files)]
    return found


def spills(ptx, architecture):
    """Entries that spill, and how much they do, as ptxas sees them."""
    done = ptxas(ptx, architecture, "/dev/null", "-v")
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


def check(form):
    """What to say of a form, what is wrong with it, and the archives that are made from it."""
    path, architecture, defines = form
    nvrtc, text = load(), whole_text(path)
    fast = FAST in text.splitlines()
    name = " ".join([f"{path.name} compute_{architecture}", *defines])
    options = [f"--gpu-architecture=compute_{architecture}", *OPTIONS, *(f"-D{word}" for word in defines)]
    ptx, log = compile_text(nvrtc, text, path.name, options)
    complaints = [f"{name}: {log or 'does not compile'}"] if log or ptx is None else []
    if ptx is None:
        return f"{name}: nothing", complaints, {}
    if fast:
        complaints += [f"{name}: {spill}" for spill in spills(ptx, architecture)]
    made = archives(ptx, architecture) if not defines else {}
    # NVRTC numbers the registers of large kernels by addresses in its memory: one text has several results, and one of
    # them is stored.
    of, stored = stored_archives().get(path.name, (None, {}))
    if of == fingerprint(text.encode()):
        kept = {target: decompress(stored[target]) for target in made if target in stored}
        for _ in range(ATTEMPTS):
            if all(kept.get(target) == archive for target, archive in made.items()):
                break
            made = archives(compile_text(nvrtc, text, path.name, options)[0], architecture)
    return f"{name}: {ptx.count('.visible .entry')} entries{', fast' if fast else ''}", complaints, made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write kernels/compiled")
    parser.add_argument("files", nargs="*", metavar="FILE.cu", help="names of files; all without one")
    parser.add_argument("--drawn", type=int, metavar="N", help="compile N files that are drawn, and those without current code")
    arguments = parser.parse_args()
    sources = sorted((path for folder in FOLDERS for path in folder.glob("*.cu")), key=lambda path: path.name)
    chosen = [path for path in sources if not arguments.files or path.name in arguments.files]
    if not chosen:
        sys.exit(f"none of these is a kernel; there are {', '.join(path.name for path in sources)}")
    load()
    compiled_now = chosen
    if arguments.drawn is not None:
        stored, seed = stored_archives(), random.randrange(2**32)
        current = [path for path in chosen if is_stored(path, stored)]
        drawn = random.Random(seed).sample(current, min(arguments.drawn, len(current)))
        compiled_now = [path for path in chosen if path not in current or path in drawn]
        print(f"{len(compiled_now)} of {len(chosen)} files are compiled, drawn with seed {seed}", flush=True)
    complaints, wanted = [], [form for path in compiled_now for form in forms(path)]
    made = {path.name: {} for path in compiled_now}
    # Processes, since the compiler compiles one text at a time in each.
    with concurrent.futures.ProcessPoolExecutor() as workers:
        for (path, _, _), (words, wrong, archives_of) in zip(wanted, workers.map(check, wanted)):
            print(words, flush=True)
            complaints += wrong
            made[path.name] |= archives_of
    compiled = {file: targets for file, targets in made.items() if len(targets) == len(TARGETS)}
    if arguments.write:
        write_all(sources, compiled, stored_archives())
    complaints += stale(sources, [path for path in chosen if path.name in compiled or path.name not in made], compiled, stored_archives())
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
