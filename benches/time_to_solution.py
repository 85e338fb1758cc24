#!/usr/bin/env python3
"""Times whole commands, from process start to exit: `rowloom run` on the CPU, on cuda:0 and with `auto`.

    python3 benches/time_to_solution.py [--rowloom target/release/rowloom] [MATRIX ...]

Each matrix is converted to .rlm first. For K = 1, 8, 32 and 1, 10, 100, 1000 products the commands run in turns: seven times where one
takes less than 0.35 s, three times below 1.5 s, otherwise once. A device that takes more than 1.5 times as long as the other one is not
timed again. The table has the medians and the ratio of `auto` to the faster of the other two. Every command checks its first Y
(`--check first`, the default); if one did not, there is no table row, and the exit code is 1.
Without arguments: four generated matrices. Calibrate the machine first (`rowloom calibrate`).
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

from support.verified import is_verified, refuse

DEVICES = ["cpu", "cuda:0", "auto"]
GENERATED = [
    "gen:stencil27,n=96",
    "gen:road,n=1000000",
    "gen:uniform,rows=700000,degree=13",
    "gen:fem3,n=48",
]
# Rounds of commands that take less than so many seconds; longer ones run once.
ROUNDS = [(0.35, 7), (1.5, 3)]
SLOWER = 1.5


def seconds(command):
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    taken = time.perf_counter() - begin
    if done.returncode != 0:
        refuse(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    if not is_verified(json.loads(done.stdout)):
        refuse(f"{' '.join(command)}: Y was not checked")
    return taken


def rounds(first):
    return next((number for limit, number in ROUNDS if first < limit), 1)


def case(rowloom, path, k, products):
    times = {device: [] for device in DEVICES}
    for number in range(ROUNDS[0][1]):
        for device, taken in times.items():
            fastest = min((other[0] for other in times.values() if other), default=0.0)
            if taken and (number >= rounds(taken[0]) or device != "auto" and taken[0] > SLOWER * fastest):
                continue
            flags = ["-k", str(k), "--devices", device, "--repeat", str(products), "--warmup", "0"]
            taken.append(seconds([rowloom, "run", path, *flags, "--json"]))
    return [statistics.median(taken) for taken in times.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rowloom", default="target/release/rowloom")
    parser.add_argument("matrices", nargs="*", default=GENERATED)
    arguments = parser.parse_args()
    print("| matrix | K | products | cpu, s | cuda:0, s | auto, s | auto over the faster |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for number, matrix in enumerate(arguments.matrices):
            path = os.path.join(folder, f"{number}.rlm")
            subprocess.run([arguments.rowloom, "convert", matrix, path], check=True, stdout=subprocess.DEVNULL)
            for k in [1, 8, 32]:
                for products in [1, 10, 100, 1000]:
                    cpu, gpu, auto = case(arguments.rowloom, path, k, products)
                    ratios.append(auto / min(cpu, gpu))
                    row = f"{cpu:.3f} | {gpu:.3f} | {auto:.3f} | {ratios[-1]:.2f}"
                    print(f"| {matrix} | {k} | {products} | {row} |", flush=True)
    within = sum(ratio <= 1.05 for ratio in ratios)
    print(f"{within} of {len(ratios)} cases at most 1.05; worst {max(ratios):.2f}, best {min(ratios):.2f}")


if __name__ == "__main__":
    main()
