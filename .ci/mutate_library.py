#!/usr/bin/env python3
"""Mutation testing of the library's graphs, plans, executor, work, adaptation and files of matrices.

    .ci/mutants library                        250 mutants, drawn with a seed of the clock
    .ci/mutants library --count 50 --seed 7    50 mutants; the same seed draws the same ones
    .ci/mutants library --iterate              the unlisted survivors of the last draw again, and those that were not run yet
    .ci/mutants library --stages 1             with the tests of the mutant's own module only
    .ci/mutants library --list                 prints the draw and runs nothing

cargo-mutants lists the mutants; rust_schemata.py writes those of the draw into one copy of the source, each behind a switch, so
that the tests are built once. Mutants that the compiler refuses are left out of the copy and do not count. For each mutant the
tests of its module run first, then those of modules that use it, then all tests of the library, then those of tests/library.
The first failure catches it, and so does a run that takes LIMIT_FACTOR times as long as without mutants.

Fails if a mutant survives that tests/mutants-survivors.txt does not have. Each line of this list is a mutant without its
position and, after `#`, the reason why no test catches it.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from rust_schemata import SWITCHES, Schemata

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target" / "mutants" / "library"
COPY = FOLDER / "source"
RESULTS = FOLDER / "results.json"
# The mutants that the compiler refused, so that the next run does not build with them again.
REFUSED = FOLDER / "refused.json"
SURVIVORS = ROOT / "tests" / "mutants-survivors.txt"
MODULES = ["graph", "plan", "exec", "work", "adapt", "matrix/io"]
TESTS = ["--lib", "--test", "library"]
# The tests that use a module: those of tests/library for files, and for the others tests of the library.
OF_FILES = ["bad_matrix_market", "edited_files", "fuzz_corpus", "read_limits", "statistics"]
OF_PLANS = ["graph::", "plan::", "exec::", "work::", "adapt::", "runtime::"]
# The first reads source files, which differ in the copy; the others have a model of a card alone, or take minutes.
SKIPPED = [word for name in ("layering", "device::model", "shared_matrices", "adapting::") for word in ("--skip", name)]
LIMIT_FACTOR, LIMIT_ADDEND_S = 3, 20


def list_mutants():
    """All mutants of the modules."""
    command = ["cargo", "mutants", "--list", "--json", "--no-config"]
    for module in MODULES:
        command += ["--file", f"src/{module}/**"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)


def name(mutant):
    """What a list of survivors calls a mutant: everything but its position."""
    return re.sub(r"^([^:]*):\d+:\d+: ", r"\1: ", mutant["name"])


def module(mutant):
    """The path with which the names of the module's own tests begin."""
    folder = next(folder for folder in MODULES if mutant["file"].startswith(f"src/{folder}/"))
    return folder.replace("/", "::") + "::"


def copy_sources(mutated):
    """Copies what cargo needs but the mutated files; only files that differ are written, so that cargo compiles only those again."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    for file in map(Path, listed.stdout.decode().splitlines()):
        if (ROOT / file).is_file() and str(file) not in mutated | {"src/lib.rs"}:
            write(COPY / file, (ROOT / file).read_bytes())
            shutil.copymode(ROOT / file, COPY / file)
    # Tests read matrices beside the checkout.
    shared = COPY.parent / "shared"
    if (ROOT.parent / "shared").exists() and not shared.exists():
        shared.symlink_to(ROOT.parent / "shared")


def write(path, content):
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_mutants(mutants, files):
    """Writes the mutants (number to mutant) into the copy's files; returns the numbers whose place cannot have a switch."""
    without_place = set()
    for file in files:
        schemata = Schemata((ROOT / file).read_text())
        numbers = [number for number, mutant in mutants.items() if mutant["file"] == file]
        without_place.update(number for number in numbers if not schemata.add(number, mutants[number]))
        write(COPY / file, schemata.written().encode())
    write(COPY / "src/mutant.rs", SWITCHES.encode())
    write(COPY / "src/lib.rs", (ROOT / "src/lib.rs").read_bytes() + b"\n#[doc(hidden)]\npub mod mutant;\n")
    return without_place


def cargo(*words):
    """Runs cargo in the copy; returns whether it succeeded, and its messages."""
    command = ["cargo", *words, "--message-format=json"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(FOLDER / "target"), "CARGO_INCREMENTAL": "0"}
    ended = subprocess.run(command, cwd=COPY, env=environment, stdout=subprocess.PIPE, text=True)
    return ended.returncode == 0, [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def refused(messages):
    """The numbers of the mutants at which the compiler reports errors."""
    numbers = set()
    for message in messages:
        error = message.get("message", {})
        if message["reason"] != "compiler-message" or error["level"] != "error":
            continue
        for span in [span for span in error["spans"] if span["is_primary"]] or error["spans"]:
            lines = (COPY / span["file_name"]).read_text().splitlines()
            # The switch is in the line of the error or, in an expression of several lines, before it.
            first, last = span["line_start"], span["line_end"]
            while first > 0:
                found = re.findall(r"mutant::active\((\d+)\)", "\n".join(lines[first - 1 : last]))
                if found:
                    numbers.update(map(int, found))
                    break
                first -= 1
    return numbers


def build(mutants):
    """Builds the tests with all mutants that compile; returns the programs by target, and the numbers that were left out."""
    mutated = {mutant["file"] for mutant in mutants.values()}
    copy_sources(mutated)
    known = set(json.loads(REFUSED.read_text())) if REFUSED.exists() else set()
    left_out = {number for number, mutant in mutants.items() if mutant["diff"] in known}
    written = {number: mutant for number, mutant in mutants.items() if number not in left_out}
    while True:
        without = write_mutants(written, mutated)
        succeeded, messages = cargo("check", "--lib")
        if succeeded:
            succeeded, messages = cargo("test", "--no-run", *TESTS)
        if succeeded:
            programs = {m["target"]["name"]: m["executable"] for m in messages if m.get("executable") and m["profile"]["test"]}
            return programs, left_out | without
        numbers = refused(messages) & written.keys()
        if not numbers:
            texts = [m["message"]["rendered"] for m in messages if m["reason"] == "compiler-message" and m["message"]["level"] == "error"]
            sys.exit("The copy does not compile, with no mutant in place:\n" + "\n".join(texts))
        left_out |= numbers
        known |= {written.pop(number)["diff"] for number in numbers}
        REFUSED.write_text(json.dumps(sorted(known)))
        print(f"{len(numbers)} mutants do not compile", flush=True)


def run(program, words, number, limit):
    """Runs tests with a mutant until the first one fails; returns what caught it, or None."""
    # A failure with one mutant must not become a case of the next.
    environment = {**os.environ, "CARGO_MANIFEST_DIR": str(COPY), "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true"}
    if number is not None:
        environment["ROWLOOM_MUTANT"] = str(number)
    process = subprocess.Popen(
        [program, *words, *SKIPPED], cwd=COPY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        errors="replace", start_new_session=True,
    )
    over = threading.Event()

    def stop():
        over.set()
        kill(process)

    timer = threading.Timer(limit, stop)
    timer.start()
    failed = None
    for line in process.stdout:
        if line.rstrip().endswith("... FAILED"):
            failed = line.split()[1]
            break
    if failed:
        kill(process)
    process.stdout.close()
    status = process.wait()
    timer.cancel()
    if failed:
        return failed
    return "time limit" if over.is_set() else f"exit status {status}" if status else None


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def stages(mutant, programs, count):
    own = module(mutant)
    users = (programs["library"], OF_FILES) if own == "matrix::io::" else (programs["rowloom"], OF_PLANS)
    return [(programs["rowloom"], [own]), users, (programs["rowloom"], []), (programs["library"], [])][:count]


def judge(number, mutant, programs, seconds, count):
    for program, words in stages(mutant, programs, count):
        caught = run(program, words, number, LIMIT_FACTOR * seconds[program, tuple(words)] + LIMIT_ADDEND_S)
        if caught:
            return "caught", caught
    return "survived", ""


def normal_seconds(mutants, programs, count):
    """How long each stage takes without a mutant; every test must pass."""
    seconds = {}
    for mutant in mutants.values():
        for program, words in stages(mutant, programs, count):
            if (program, tuple(words)) not in seconds:
                start = time.monotonic()
                failed = run(program, words, None, 3600)
                if failed:
                    sys.exit(f"fails without a mutant: {failed}")
                seconds[program, tuple(words)] = time.monotonic() - start
    return seconds


def reasons():
    """The survivors of the list, each with its reason."""
    lines = SURVIVORS.read_text().splitlines() if SURVIVORS.exists() else []
    split = [line.partition("  # ") for line in lines if line and not line.startswith("#")]
    return {mutant.strip(): reason.strip() for mutant, _, reason in split}


def report(results):
    """Prints the counts of each module; returns whether an unlisted mutant survived."""
    listed = reasons()
    rows = {}
    for result in results.values():
        what = "listed" if result["what"] == "survived" and result["name"] in listed else result["what"]
        for row in (result["module"], "all"):
            counts = rows.setdefault(row, {})
            counts[what] = counts.get(what, 0) + 1
    print(f"\n{'module':14} {'viable':>7} {'caught':>7} {'listed':>7} {'survived':>9} {'not viable':>11}")
    for row, counts in sorted(rows.items(), key=lambda row: (row[0] == "all", row[0])):
        caught, known, survived = (counts.get(what, 0) for what in ("caught", "listed", "survived"))
        print(f"{row:14} {caught + known + survived:7} {caught:7} {known:7} {survived:9} {counts.get('not viable', 0):11}")
    viable = caught + known + survived
    print(f"caught: {100 * caught / max(1, viable):.1f} % of {viable}")
    unlisted = [result for result in results.values() if result["what"] == "survived" and result["name"] not in listed]
    if unlisted:
        print(f"Survivors that {SURVIVORS.relative_to(ROOT)} does not list:", *(result["full"] for result in unlisted), sep="\n")
    return bool(unlisted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--iterate", action="store_true")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()

    all_mutants = list_mutants()
    results, (seed, count) = {}, (options.seed, options.count)
    if options.iterate:
        last = json.loads(RESULTS.read_text())
        (seed, count), listed = last["draw"], reasons()
        results = {key: one for key, one in last["results"].items() if one["what"] != "survived" or one["name"] in listed}
    print(f"seed {seed}, {len(all_mutants)} mutants to draw from", flush=True)
    chosen = random.Random(seed).sample(all_mutants, min(count, len(all_mutants)))
    if options.list:
        print(*(mutant["name"] for mutant in chosen), sep="\n")
        return 0
    mutants = dict(enumerate(chosen))
    programs, left_out = build(mutants)
    seconds = normal_seconds(mutants, programs, options.stages)
    print("seconds without a mutant:", *(f"{' '.join(words) or Path(program).name}: {s:.0f}" for (program, words), s in seconds.items()), flush=True)
    for number, mutant in mutants.items():
        if mutant["name"] in results:
            continue
        start = time.monotonic()
        what, why = ("not viable", "") if number in left_out else judge(number, mutant, programs, seconds, options.stages)
        results[mutant["name"]] = {"what": what, "why": why, "name": name(mutant), "full": mutant["name"], "module": module(mutant)}
        RESULTS.write_text(json.dumps({"draw": [seed, count], "results": results}, indent=1))
        print(f"{number + 1}/{len(mutants)} {what} {time.monotonic() - start:.0f} s  {mutant['name']}  [{why}]", flush=True)
    return int(report(results))


if __name__ == "__main__":
    sys.exit(main())
