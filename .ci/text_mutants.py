#!/usr/bin/env python3
"""Mutates files as text, for code that cargo-mutants does not see (macros, C++).

    text_mutants.py LIST FOLDER COMMAND [WORDS...]

Each line of LIST is `FILE | TEXT | OTHER TEXT`. Each occurrence of TEXT in FOLDER/FILE is one mutant, in which OTHER TEXT
stands instead. COMMAND runs in FOLDER for each mutant: if it fails, or takes longer than five times as long as without
mutants (at least a minute), the mutant is caught. A mutant that does not compile does not count. The survivors are written to
FOLDER/survivors.txt, one per line.
"""
import collections
import pathlib
import subprocess
import sys
import time


def outcome(command, folder, limit):
    try:
        ended = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return "TIMEOUT"
    if ended.returncode == 0:
        return "MISSED"
    return "UNVIABLE" if "could not compile" in ended.stderr else "CAUGHT"


def mutants(path, folder):
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        file, text, other = (part.strip() for part in line.split(" | "))
        whole = (folder / file).read_text()
        count = whole.count(text)
        if count == 0:
            sys.exit(f"{path}: {file} has no text {text}")
        at = -1
        for number in range(1, count + 1):
            at = whole.index(text, at + 1)
            name = f"{file}: replace {text} with {other}" + (f", occurrence {number}" if count > 1 else "")
            yield name, folder / file, whole, whole[:at] + other + whole[at + len(text):]


def main():
    path, folder, command = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    start = time.monotonic()
    if outcome(command, folder, None) != "MISSED":
        sys.exit(f"fails without mutants: {' '.join(command)}")
    limit = max(60, 5 * (time.monotonic() - start))
    outcomes = collections.Counter()
    survivors = []
    for name, file, whole, mutated in mutants(path, folder):
        file.write_text(mutated)
        try:
            what = outcome(command, folder, limit)
        finally:
            file.write_text(whole)
        outcomes[what] += 1
        if what != "CAUGHT":
            print(f"{what:8} {name}", flush=True)
        if what == "MISSED":
            survivors.append(name)
    (folder / "survivors.txt").write_text("".join(f"{name}\n" for name in survivors))
    caught = outcomes["CAUGHT"] + outcomes["TIMEOUT"]
    print(f"{caught + outcomes['MISSED']} text mutants compile, {caught} are caught, {outcomes['MISSED']} survive;", end=" ")
    print(f"{outcomes['UNVIABLE']} do not compile.")


main()
