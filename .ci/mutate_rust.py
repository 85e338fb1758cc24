#!/usr/bin/env python3
"""Mutation testing of Rust code: of the CPU kernels, and of the library's graphs, plans, executor, work, adaptation and files of matrices.

    .ci/mutants cpu                            400 mutants of kernels/cpu, drawn with a seed of the clock
    .ci/mutants library                        250 mutants of the library
    .ci/mutants library --count 50 --seed 7    50 mutants; the same seed draws the same ones
    .ci/mutants library --iterate              the unlisted survivors of the last draw again, and those that were not run yet
    .ci/mutants library --stages 1             with the tests of the mutant's own module only
    .ci/mutants library --list                 prints the draw and runs nothing
    .ci/mutants library --build                builds the tests and runs nothing
    .ci/mutants library --built --jobs 16      runs what was built, 16 mutants at a time; needs no cargo

cargo-mutants lists the mutants; rust_schemata.py writes those of the draw into one copy of the source, each behind a switch, so
that the tests are built once. Mutants that the compiler refuses are left out of the copy and do not count. For each mutant of the
library the tests of its module run first, then those of modules that use it, then all tests of the library, then those of
tests/library; for one of the CPU kernels those of kernels/cpu.
The first failure catches it, and so does a run that takes LIMIT_FACTOR times as long as without mutants.

Fails if a mutant survives that the list of survivors does not have. Each line of this list is a mutant without its position and, after
`#`, the reason why no test catches it.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

from mutated_packages import ROOT, CpuKernels, Library, write
from worker_cores import workers

PACKAGES = {"cpu": CpuKernels, "library": Library}
LIMIT_FACTOR, LIMIT_ADDEND_S = 3, 20


class Draw:
    """The mutants of one draw, and the programs that were built with them."""

    def __init__(self, package):
        self.package = package
        self.path = package.folder / "built.json"
        # The mutants that the compiler refused, so that the next run does not build with them again.
        self.refused = package.folder / "refused.json"

    def make(self, seed, count):
        self.package.copy_sources()
        listed = self.package.mutants()
        print(f"seed {seed}, {len(listed)} mutants to draw from", flush=True)
        self.seed, self.count = seed, count
        self.mutants = dict(enumerate(random.Random(seed).sample(listed, min(count, len(listed)))))
        return self

    def load(self):
        built = json.loads(self.path.read_text())
        self.seed, self.count, self.programs, self.left_out = (built[key] for key in ("seed", "count", "programs", "left_out"))
        self.mutants = {int(number): mutant for number, mutant in built["mutants"].items()}
        return self

    def build(self):
        """Builds the tests with all mutants that compile."""
        known = set(json.loads(self.refused.read_text())) if self.refused.exists() else set()
        left_out = {number for number, mutant in self.mutants.items() if mutant["diff"] in known}
        written = {number: mutant for number, mutant in self.mutants.items() if number not in left_out}
        sources = {file: (self.package.copy / file).read_text() for file in {mutant["file"] for mutant in self.mutants.values()}}
        root_text = (self.package.copy / self.package.root_file).read_text()
        while True:
            without = self.write_mutants(written, sources, root_text)
            succeeded, messages = self.cargo(*self.package.build_words)
            if succeeded:
                break
            numbers = self.refused_in(messages) & written.keys()
            if not numbers:
                texts = [m["message"]["rendered"] for m in messages if m["reason"] == "compiler-message" and m["message"]["level"] == "error"]
                sys.exit("The copy does not compile, with no mutant in place:\n" + "\n".join(texts))
            left_out |= numbers
            known |= {written.pop(number)["diff"] for number in numbers}
            self.refused.write_text(json.dumps(sorted(known)))
            print(f"{len(numbers)} mutants do not compile", flush=True)
        programs = [m for m in messages if m.get("executable") and m["profile"]["test"]]
        self.programs = {m["target"]["name"]: os.path.relpath(m["executable"], ROOT) for m in programs}
        self.left_out = sorted(left_out | without)
        keys = ("seed", "count", "programs", "left_out", "mutants")
        self.path.write_text(json.dumps({key: getattr(self, key) for key in keys}))

    def write_mutants(self, mutants, sources, root_text):
        """Writes the mutants (number to mutant) into the copy's files; returns the numbers whose place cannot have a switch."""
        # Needed only here: a machine that runs what was built has no parser.
        from rust_schemata import SWITCHES, Schemata

        without_place = set()
        for file, text in sources.items():
            schemata = Schemata(text)
            numbers = [number for number, mutant in mutants.items() if mutant["file"] == file]
            without_place.update(number for number in numbers if not schemata.add(number, mutants[number]))
            write(self.package.copy / file, schemata.written().encode())
        root = self.package.copy / self.package.root_file
        write(root.parent / "mutant.rs", SWITCHES.encode())
        written = root.read_text() if self.package.root_file in sources else root_text
        write(root, f"{written}\n#[doc(hidden)]\npub mod mutant;\n".encode())
        return without_place

    def cargo(self, *words):
        """Runs cargo in the copy; returns whether it succeeded, and its messages."""
        command = ["cargo", *words, "--message-format=json"]
        more = {"CARGO_TARGET_DIR": str(self.package.folder / "target"), "CARGO_INCREMENTAL": "0", **self.package.environment}
        ended = subprocess.run(command, cwd=self.package.copy, env={**os.environ, **more}, stdout=subprocess.PIPE, text=True)
        return ended.returncode == 0, [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]

    def refused_in(self, messages):
        """The numbers of the mutants at which the compiler reports errors."""
        numbers = set()
        for message in messages:
            error = message.get("message", {})
            if message["reason"] != "compiler-message" or error["level"] != "error":
                continue
            for span in [span for span in error["spans"] if span["is_primary"]] or error["spans"]:
                lines = (self.package.copy / span["file_name"]).read_text().splitlines()
                # The switch is in the line of the error or, in an expression of several lines, before it.
                first, last = span["line_start"], span["line_end"]
                while first > 0:
                    found = re.findall(r"mutant::active\((\d+)\)", "\n".join(lines[first - 1 : last]))
                    if found:
                        numbers.update(map(int, found))
                        break
                    first -= 1
        return numbers


def run(package, program, words, number, limit):
    """Runs tests with a mutant until the first one fails; returns what caught it, or None."""
    # A failure with one mutant must not become a case of the next.
    environment = {**os.environ, "CARGO_MANIFEST_DIR": str(package.copy), "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true"}
    if number is not None:
        environment["ROWLOOM_MUTANT"] = str(number)
    process = subprocess.Popen(
        [ROOT / program, *words], cwd=package.copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
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


def judge(draw, number, seconds, stages):
    """What happens with a mutant, and why."""
    for program, words in draw.package.stages(draw.mutants[number], draw.programs)[:stages]:
        caught = run(draw.package, program, words, number, LIMIT_FACTOR * seconds[program, tuple(words)] + LIMIT_ADDEND_S)
        if caught:
            return "caught", caught
    return "survived", ""


def normal_seconds(draw, stages, jobs):
    """How long each stage takes without a mutant, with as many beside it as later; every test must pass."""
    seconds = {}
    for mutant in draw.mutants.values():
        for program, words in draw.package.stages(mutant, draw.programs)[:stages]:
            if (program, tuple(words)) not in seconds:
                start = time.monotonic()
                with workers(jobs) as pool:
                    failed = list(pool.map(lambda _: run(draw.package, program, words, None, 3600), range(jobs)))
                if any(failed):
                    sys.exit(f"fails without a mutant: {next(filter(None, failed))}")
                seconds[program, tuple(words)] = time.monotonic() - start
                print(f"{time.monotonic() - start:.0f} s without a mutant: {os.path.basename(program)} {' '.join(words)}", flush=True)
    return seconds


def reasons(package):
    """The survivors of the list, each with its reason."""
    lines = package.survivors.read_text().splitlines() if package.survivors.exists() else []
    split = [line.partition("  # ") for line in lines if line and not line.startswith("#")]
    return {mutant.strip(): reason.strip() for mutant, _, reason in split}


def report(package, results):
    """Prints the counts of each module; returns whether an unlisted mutant survived."""
    listed = reasons(package)
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
        print(f"Survivors that {package.survivors.relative_to(ROOT)} does not list:", *(result["full"] for result in unlisted), sep="\n")
    return bool(unlisted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", choices=PACKAGES)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--iterate", action="store_true")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--built", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that run at a time")
    options = parser.parse_args()

    package = PACKAGES[options.package]()
    results_path = package.folder / "results.json"
    results, (seed, count) = {}, (options.seed, options.count or package.default_count)
    if options.iterate:
        last = json.loads(results_path.read_text())
        (seed, count), listed = last["draw"], reasons(package)
        results = {key: one for key, one in last["results"].items() if one["what"] != "survived" or one["name"] in listed}
    draw = Draw(package).load() if options.built else Draw(package).make(seed, count)
    if options.list:
        print(*(mutant["name"] for mutant in draw.mutants.values()), sep="\n")
        return 0
    if not options.built:
        draw.build()
    if options.build:
        return 0
    seconds = normal_seconds(draw, options.stages, options.jobs)
    writing = threading.Lock()

    def one(number):
        mutant, start = draw.mutants[number], time.monotonic()
        what, why = ("not viable", "") if number in draw.left_out else judge(draw, number, seconds, options.stages)
        with writing:
            results[mutant["name"]] = {
                "what": what, "why": why, "name": package.name(mutant), "full": mutant["name"], "module": package.module(mutant),
            }
            results_path.write_text(json.dumps({"draw": [draw.seed, draw.count], "results": results}, indent=1))
            print(f"{number + 1}/{len(draw.mutants)} {what} {time.monotonic() - start:.0f} s  {mutant['name']}  [{why}]", flush=True)

    with workers(options.jobs) as pool:
        list(pool.map(one, [number for number, mutant in draw.mutants.items() if mutant["name"] not in results]))
    return int(report(package, results))


if __name__ == "__main__":
    sys.exit(main())
