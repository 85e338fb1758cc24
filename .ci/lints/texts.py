"""The text files of the repository, and how rules search them."""

import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Folders and files that people read, and the endings of their text files.
READ = ["README.md", "CONTRIBUTING.md", "build.rs", "benches", "cli", "configs", "docs", "examples", "kernels", "src", "tests", "traces", "Cargo.toml"]
TEXT = {".cu", ".cuh", ".h", ".json", ".md", ".py", ".rs", ".toml"}


def expect(condition, message):
    """Ends the program where a rule would hold because it found nothing to check, or where a check of a rule fails."""
    if not condition:
        raise SystemExit(f".ci/lint: {message}")


def read(name):
    """The text of a file, by its path from the root."""
    return (ROOT / name).read_text()


@functools.cache
def files(*names):
    """The files of some folders, or files, that git tracks or would track, as paths from the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *names]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [name for name in sorted(set(listed.split("\0"))) if (ROOT / name).is_file()]


@functools.cache
def texts():
    """Path and text of every file that people read."""
    found = [(name, read(name)) for name in files(*READ) if pathlib.Path(name).suffix in TEXT]
    expect(len(found) > 300, f"only {len(found)} files were found")
    return found


def flowing(text):
    """The text in lower case without comment markers and line breaks, so that a phrase is found across lines."""
    return " ".join(line.lstrip().lstrip("/!#*").strip().lower() for line in text.splitlines())


def words(listed):
    """An expression that finds the listed words and phrases with no letter, digit or underscore next to them."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, listed))})(?!\w)", re.ASCII)


def line_of(text, at):
    """The number of the line of a position."""
    return text.count("\n", 0, at) + 1


def check_phrases_are_found_across_lines():
    expect("nobody is woken" in flowing("/// Nobody is\n    // woken\n"), "a phrase across lines is not found")


def check_words_are_found_whole():
    fleet, products = words(["Fleet"]), words(["1 products"])
    expect(fleet.search("a Fleet.") and not fleet.search("Fleets") and not fleet.search("my_Fleet"), "words are not found whole")
    expect(products.search("for 1 products") and not products.search("for 11 products"), "numbers are not found whole")
