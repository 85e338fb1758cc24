"""What is mutated: which files, which tests judge them, and the copy of the source that the mutants are written into."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The first reads source files, which differ in the copy; the others have a model of a card alone, or take minutes.
SKIPPED = [word for name in ("layering", "device::model", "shared_matrices", "adapting::") for word in ("--skip", name)]


def tracked_files(*folders):
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [file for file in map(Path, listed.splitlines()) if (ROOT / file).is_file()]


def write(path, content):
    """Only files that differ are written, so that cargo compiles only those again."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class Package:
    """A package in a copy of the source."""

    def __init__(self, folder):
        self.folder = ROOT / "target" / "mutants" / folder
        self.copy = self.folder / "source"

    def listed_mutants(self, *options):
        """What cargo-mutants lists in the copy, before mutants are written into it."""
        command = ["cargo", "mutants", "--list", "--json", "--no-config", *options]
        return json.loads(subprocess.run(command, cwd=self.copy, check=True, stdout=subprocess.PIPE, text=True).stdout)


class Library(Package):
    """The crate rowloom, in the modules that every product passes through."""

    MODULES = ["graph", "plan", "exec", "work", "adapt", "matrix/io"]
    # The tests that use a module: those of tests/library for files, and for the others tests of the library.
    OF_FILES = ["bad_matrix_market", "edited_files", "read_limits"]
    OF_PLANS = ["graph::", "plan::", "exec::", "work::", "adapt::", "runtime::"]
    root_file = "src/lib.rs"
    survivors = ROOT / "tests" / "mutants-survivors.txt"
    default_count = 250
    build_words = ["test", "--no-run", "-p", "rowloom", "--features", "emulator,fetch", "--lib", "--test", "library"]
    environment = {}

    def __init__(self):
        super().__init__("library")

    def copy_sources(self):
        for file in tracked_files():
            write(self.copy / file, (ROOT / file).read_bytes())
            shutil.copymode(ROOT / file, self.copy / file)
        # Tests read matrices beside the checkout.
        shared = self.copy.parent / "shared"
        if (ROOT.parent / "shared").exists() and not shared.exists():
            shared.symlink_to(ROOT.parent / "shared")

    def mutants(self):
        return self.listed_mutants(*(word for module in self.MODULES for word in ("--file", f"src/{module}/**")))

    def module(self, mutant):
        """The path with which the names of the module's own tests begin."""
        folder = next(folder for folder in self.MODULES if mutant["file"].startswith(f"src/{folder}/"))
        return folder.replace("/", "::") + "::"

    def name(self, mutant):
        """What a list of survivors calls a mutant: everything but its position."""
        return re.sub(r"^([^:]*):\d+:\d+: ", r"\1: ", mutant["name"])

    def stages(self, mutant, programs):
        """Programs with their words; a later one runs if the earlier ones did not catch the mutant."""
        own = self.module(mutant)
        users = ("library", self.OF_FILES) if own == "matrix::io::" else ("rowloom", self.OF_PLANS)
        runs = [("rowloom", [own]), users, ("rowloom", []), ("library", [])]
        return [(programs[program], [*words, *SKIPPED]) for program, words in runs]


class CpuKernels(Package):
    """The crate rowloom-cpu, in a workspace of its own.

    cargo-mutants leaves `unsafe` functions out, which are most of this crate. In the copy they are not declared unsafe; the bodies are
    the same, since every unsafe operation has a block of its own. Functions that only prefetch are left out: no result depends on them.
    """

    root_file = "kernels/cpu/src/lib.rs"
    survivors = ROOT / "kernels/cpu/mutants-survivors.txt"
    default_count = 400
    build_words = ["test", "--no-run", "--profile", "kernels", "--features", "few-instances"]
    # With optimization, hundreds of switches in generic loops would take an hour to compile.
    environment = {"RUSTFLAGS": "-Cno-prepopulate-passes"}

    def __init__(self):
        super().__init__("cpu")

    def copy_sources(self):
        settings = [f"[{text}" for text in re.split(r"^\[", (ROOT / "Cargo.toml").read_text(), flags=re.M)]
        kept = re.compile(r"\[(workspace\.package|profile\.(dev|kernels)(\.package\.rowloom-cpu)?)\]")
        workspace = '[workspace]\nmembers = ["kernels/cpu"]\nresolver = "3"\n\n'
        write(self.copy / "Cargo.toml", (workspace + "".join(text for text in settings if kept.match(text))).encode())
        write(self.copy / "Cargo.lock", (ROOT / "Cargo.lock").read_bytes())
        for file in tracked_files("kernels/cpu"):
            content = (ROOT / file).read_bytes()
            if "src" in file.parts:
                content = re.sub(rb"\bunsafe fn ([a-z_])", rb"fn \1", content)
            write(self.copy / file, content)

    def mutants(self):
        return self.listed_mutants("--exclude-re", "prefetch")

    def module(self, mutant):
        return Path(mutant["file"]).stem

    def name(self, mutant):
        return re.sub(r"^kernels/cpu/([^:]*):\d+:\d+: ", r"\1: ", mutant["name"])

    def stages(self, _mutant, programs):
        return [(programs["kernels"], [])]
