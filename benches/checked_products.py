#!/usr/bin/env python3
"""What checks of products cost: time of a product with --check always over --check never, in turns, and of the first check.

    python3 benches/checked_products.py [--rowloom target/release/rowloom] [--devices cpu] [--threads 2] [MATRIX ...]

Every Y is verified. Prints a row per matrix and K, and geometric means last.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys

MATRICES = [
    "gen:stencil27,n=48",
    "gen:stencil7,n=64",
    "gen:fem3,n=24",
    "gen:rmat,scale=16,degree=12",
    "gen:uniform,rows=100000,degree=16",
    "gen:road,n=300000",
    "gen:hub,rows=60000,degree=6,hubs=4",
    "gen:band,rows=80000,width=12",
    "gen:stencil5,n=500",
    "gen:arrow,rows=60000",
]


def run(options, matrix, k, dtype, check, warmup, repeat):
    words = [options.rowloom, "run", matrix, "-k", str(k), "--dtype", dtype, "--devices", options.devices, "--check", check]
    words += ["--warmup", str(warmup), "--repeat", str(repeat), "--verify", "--json", "--quiet", "--no-refine"]
    if options.threads:
        words += ["--threads", str(options.threads)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}: {done.stderr}")
    report = json.loads(done.stdout)
    if not report["verify"]["passed"]:
        sys.exit(f"{' '.join(words)}: Y is wrong")
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rowloom", default="target/release/rowloom")
    parser.add_argument("--devices", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--columns", default="1,8,32,128")
    parser.add_argument("--dtype", default="f64")
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("matrix", nargs="*")
    options = parser.parse_args()
    columns = [int(k) for k in options.columns.split(",")]
    always, first, first_with_set_up = ({k: [] for k in columns} for _ in range(3))
    print("| matrix | K | never | always | ratio | first check | of the first product | of set-up and first product |")
    print("|---|---|---|---|---|---|---|---|")
    for matrix in options.matrix or MATRICES:
        for k in columns:
            times = {"never": [], "always": []}
            for _ in range(options.turns):
                for check in times:
                    report = run(options, matrix, k, options.dtype, check, 3, options.repeat)
                    times[check].append(report["timing"]["run_s"]["median"])
            one = [run(options, matrix, k, options.dtype, "first", 0, 1) for _ in range(options.turns)]
            check_s = statistics.median(report["check"]["seconds"] for report in one)
            product_s = statistics.median(report["timing"]["run_s"]["median"] for report in one)
            set_up_s = statistics.median(report["timing"]["prepare_s"] for report in one)
            never, checked = min(times["never"]), min(times["always"])
            always[k].append(checked / never)
            first[k].append(check_s / product_s)
            first_with_set_up[k].append(check_s / (product_s + set_up_s))
            print(
                f"| {matrix} | {k} | {never * 1e6:.0f} µs | {checked * 1e6:.0f} µs | {checked / never:.3f} "
                f"| {check_s * 1e6:.0f} µs | {check_s / product_s:.1%} | {check_s / (product_s + set_up_s):.1%} |",
                flush=True,
            )
    mean = lambda values: math.exp(statistics.fmean(math.log(max(value, 1e-9)) for value in values))
    for k in columns:
        print(
            f"K = {k}: always over never {mean(always[k]):.3f}; first check {mean(first[k]):.1%} of the first product, "
            f"{mean(first_with_set_up[k]):.1%} of set-up and first product"
        )
    wide = [ratio for k in columns if k >= 8 for ratio in always[k]]
    if wide:
        print(f"K >= 8: always over never {mean(wide):.3f}")


if __name__ == "__main__":
    main()
