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
    print("| matrix | K | never | always | ratio | first product, never | first product, checked | ratio | set-up, never | set-up, checked | ratio of both |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for matrix in options.matrix or MATRICES:
        for k in columns:
            times = {"never": [], "always": []}
            one = {"never": [], "first": []}
            for _ in range(options.turns):
                for check in times:
                    report = run(options, matrix, k, options.dtype, check, 3, options.repeat)
                    times[check].append(report["timing"]["run_s"]["median"])
                for check in one:
                    timing = run(options, matrix, k, options.dtype, check, 0, 1)
                    check_s = timing.get("check", {}).get("seconds", 0.0) if check == "first" else 0.0
                    one[check].append((timing["timing"]["run_s"]["median"] + check_s, timing["timing"]["prepare_s"]))
            never, checked = min(times["never"]), min(times["always"])
            least = {check: [min(part) for part in zip(*pairs)] for check, pairs in one.items()}
            product = [least[check][0] for check in one]
            set_up = [least[check][1] for check in one]
            always[k].append(checked / never)
            first[k].append(product[1] / product[0])
            first_with_set_up[k].append((product[1] + set_up[1]) / (product[0] + set_up[0]))
            print(
                f"| {matrix} | {k} | {never * 1e6:.0f} µs | {checked * 1e6:.0f} µs | {always[k][-1]:.3f} "
                f"| {product[0] * 1e6:.0f} µs | {product[1] * 1e6:.0f} µs | {first[k][-1]:.3f} "
                f"| {set_up[0] * 1e6:.0f} µs | {set_up[1] * 1e6:.0f} µs | {first_with_set_up[k][-1]:.3f} |",
                flush=True,
            )
    mean = lambda values: math.exp(statistics.fmean(math.log(max(value, 1e-9)) for value in values))
    for k in columns:
        print(
            f"K = {k}: always over never {mean(always[k]):.3f}; first product, checked over unchecked {mean(first[k]):.3f}, "
            f"with set-up {mean(first_with_set_up[k]):.3f}"
        )
    wide = [ratio for k in columns if k >= 8 for ratio in always[k]]
    if wide:
        print(f"K >= 8: always over never {mean(wide):.3f}")


if __name__ == "__main__":
    main()
