#!/usr/bin/env python3
"""Mutation testing of the CUDA kernels, on the emulator.

    .ci/mutants cuda                          300 mutants, drawn with a seed of the clock
    .ci/mutants cuda --count 50 --seed 7      50 mutants; the same seed draws the same ones
    .ci/mutants cuda --file lanes.cuh         mutants of one file only
    .ci/mutants cuda --iterate                the unlisted survivors of the last run again; with --oracle-seed and --seconds for other cases
    .ci/mutants cuda --list                   prints the draw and runs nothing
    .ci/mutants cuda --jobs 16                16 mutants at a time; with --keep-programs it needs no cargo

A mutant is one change in the text of a kernel (kernel_mutations.py). The differential oracle (benches/oracle) runs with it, then the unit
tests of the kernels: a wrong product, a fault that the emulator finds, a crash or an endless loop catches it. Mutants that do not
compile do not count, nor do those that compile to the same code.

The programs are linked once, with each kernel in a shared library of its own; a mutant is a new library for each file that its text is
in. Fails if a mutant survives that kernels/mutants-survivors.txt does not have. Each line of this list is a mutant without its position
and, after `#`, the reason why no test can catch it.
"""

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from emulated_kernels import FOLDER, KERNELS, Emulated, including, kernel_files
from kernel_mutations import mutants_of
from worker_cores import workers

SURVIVORS = KERNELS / "mutants-survivors.txt"
RESULTS = FOLDER / "results.json"
# Every file has at least this many mutants in a draw.
LEAST_PER_FILE = 3


def drawn(mutants, count, seed):
    """`count` of the mutants, with at least LEAST_PER_FILE of each file."""
    chooser = random.Random(seed)
    by_file = {}
    for mutant in mutants:
        by_file.setdefault(mutant.file, []).append(mutant)
    chosen, rest = [], []
    for file in sorted(by_file):
        own = by_file[file]
        chooser.shuffle(own)
        chosen += own[:LEAST_PER_FILE]
        rest += own[LEAST_PER_FILE:]
    chooser.shuffle(rest)
    chosen += rest[: max(0, count - len(chosen))]
    chooser.shuffle(chosen)
    return chosen


def judge(mutant, emulated, options):
    """What happens with a mutant: `caught`, `survived`, `same code` or `not viable`, and why."""
    tried = 0
    for source in including(mutant.file):
        library = emulated.compile_mutant(source, {mutant.file: mutant.text()})
        if library is None:
            return "not viable", "it does not compile"
        if library == "same":
            continue
        tried += 1
        emulated.expect_to_pass(source)
        caught = emulated.run_oracle(source, library, options.oracle_seed, options.seconds) or emulated.run_tests(source, library)
        if caught:
            return "caught", f"{source.name}: {caught}"
        if tried == options.sources:
            break
    return ("survived", "") if tried else ("same code", "")


def reasons():
    """The survivors of the list, each with its reason."""
    lines = SURVIVORS.read_text().splitlines() if SURVIVORS.exists() else []
    split = [line.partition(" # ") for line in lines if line and not line.startswith("#")]
    return {mutant.strip(): reason.strip() for mutant, _, reason in split}


def report(results):
    """Prints the result of each file; returns whether an unlisted mutant survived."""
    counts, listed = {}, reasons()
    for name, result in results.items():
        of_file = counts.setdefault(name.split(":")[0], Counter())
        of_file["listed" if result["what"] == "survived" and name in listed else result["what"]] += 1
    total = Counter()
    print(f"\n{'file':28} {'viable':>7} {'caught':>7} {'listed':>7} {'survived':>9} {'same code':>10} {'not viable':>11}")
    for file, count in [*sorted(counts.items()), ("all", total)]:
        viable = count["caught"] + count["listed"] + count["survived"]
        print(
            f"{file:28} {viable:7} {count['caught']:7} {count['listed']:7} {count['survived']:9} {count['same code']:10} {count['not viable']:11}"
        )
        if count is not total:
            total.update(count)
    viable = total["caught"] + total["listed"] + total["survived"]
    print(f"caught: {100 * total['caught'] / max(1, viable):.1f} % of {viable}")
    unlisted = [name for name, result in results.items() if result["what"] == "survived" and name not in listed]
    if unlisted:
        print(f"Survivors that {SURVIVORS} does not list:", *unlisted, sep="\n")
    return bool(unlisted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--oracle-seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6, help="of processor time of the oracle, for each kernel of a file")
    parser.add_argument("--sources", type=int, default=6, help="kernels with the text of a .cuh file that are tried at most")
    parser.add_argument("--file", action="append", help="the name of a file in kernels/ or kernels/sources/")
    parser.add_argument("--iterate", action="store_true")
    parser.add_argument("--resume", action="store_true", help="the mutants of the draw that the last run did not reach")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that run at a time")
    parser.add_argument("--keep-programs", action="store_true", help="does not build the oracle and the tests again: cargo does so after each commit")
    options = parser.parse_args()

    mutants = [mutant for path in sorted([*kernel_files(".cu"), *kernel_files(".cuh")]) for mutant in mutants_of(path)]
    results = {}
    if options.iterate:
        results = json.loads(RESULTS.read_text())
        unlisted = {name for name, result in results.items() if result["what"] == "survived"} - reasons().keys()
        mutants = [mutant for mutant in mutants if mutant.name() in unlisted]
    if options.file:
        mutants = [mutant for mutant in mutants if mutant.file in options.file]
    print(f"seed {options.seed}, {len(mutants)} mutants to draw from", flush=True)
    chosen = drawn(mutants, options.count, options.seed)
    if options.resume:
        results = json.loads(RESULTS.read_text())
        chosen = [mutant for mutant in chosen if mutant.name() not in results]
    if options.list:
        print(*(f"{mutant.file}:{mutant.line}: {mutant.name()}" for mutant in chosen), sep="\n")
        return 0
    emulated, writing = Emulated(options.keep_programs, options.jobs), threading.Lock()

    def one(numbered):
        number, mutant = numbered
        start = time.monotonic()
        what, why = judge(mutant, emulated, options)
        seconds = round(time.monotonic() - start, 1)
        with writing:
            results[mutant.name()] = {"what": what, "why": why, "seconds": seconds, "line": mutant.line}
            RESULTS.write_text(json.dumps(results, indent=1))
            print(f"{number + 1}/{len(chosen)} {what} {seconds} s  {mutant.line}: {mutant.name()}  [{why}]", flush=True)

    with workers(options.jobs) as pool:
        list(pool.map(one, enumerate(chosen)))
    return int(report(results))


if __name__ == "__main__":
    sys.exit(main())
