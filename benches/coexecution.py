#!/usr/bin/env python3
"""Times Y = A X on the CPU, on the GPU and on both (`auto`), in interleaved rounds, and prints one table.

    python benches/coexecution.py [--rowloom target/release/rowloom] [--rounds 3] [--runs runs.jsonl] [--traces FOLDER]
    python benches/coexecution.py --read runs.jsonl

Six generated matrices, K = 1, 8, 32, `--mode oneshot` and `stream` (memory of the GPU limited to 5/4 X and a quarter of A).
Every round runs every case once on `cpu`, on `cuda:0` and on `auto`, each in its own process, so that a machine that
is slow for a while is slow for all three. Calibrate first (`rowloom calibrate`). A time is the median of nine products; the
table has the median of the rounds. Set-up (opening the card, registering memory) is a column of its own. Columns:

- speed-up: time of the faster device alone over that of `auto`; below 1, `auto` is slower than that device;
- CPU's share: share of the nonzeros that were planned for the CPU, in every round;
- predicted, simulated: predicted and simulated time over the measured time, in every round;
- rates: nonzeros per second of the last product over the sum of the devices' nonzeros per second while they were busy;
- set-up: `prepare_s` of `auto`, once per process, not part of the other times.

Every Y is verified after its products were timed; of a product with more than 2^28 multiplications the first Y is checked (`--check first`).
If one was not, the script prints no table and ends with exit code 1.
"""

import argparse
import collections
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

from support.verified import is_verified, refuse

MATRICES = [
    "rmat,scale=20,degree=16",
    "uniform,rows=1048576,degree=16",
    "stencil27,n=128",
    "road,n=4194304",
    "fem3,n=40",
    "band,rows=3000000,width=9",
]
WIDTHS = [1, 8, 32]
MODES = ["oneshot", "stream"]
BYTES = 8
# Multiplications of the largest product that is compared with the reference.
VERIFIED_MULTIPLICATIONS = 1 << 28
# Warm-up products for each K: a CPU that was idle is slower for a tenth of a second.
WARMUP = {1: 60, 8: 30, 32: 10}


def run(rowloom, *arguments):
    """The JSON report of one run, or None and the error message."""
    done = subprocess.run([rowloom, *map(str, arguments)], capture_output=True, text=True)
    return (json.loads(done.stdout), None) if done.returncode == 0 else (None, done.stderr)


def limit(matrix, k):
    """A limit of GPU memory, in bytes, that A exceeds, so that it is streamed."""
    a_bytes = matrix["nnz"] * (BYTES + 4) + (matrix["rows"] + 1) * 8
    return int(1.25 * matrix["cols"] * k * BYTES + a_bytes / 4)


def cases(matrix):
    """Every run of a matrix: K, mode, devices, and further arguments."""
    for k in WIDTHS:
        yield k, "oneshot", "cpu", []
        for mode in MODES:
            memory = ["--mem-limit", limit(matrix, k)] if mode == "stream" else []
            for devices in ("cuda:0", "auto"):
                yield k, mode, devices, ["--mode", mode, *memory]


def check(rowloom):
    """Exits with a message where every run would fail: no program, no card."""
    try:
        _, error = run(rowloom, "run", "gen:band,rows=1000,width=3", "-k", 1, "--devices", "cpu,cuda:0", "--json", "-q")
    except OSError as problem:
        error = f"{rowloom}: {problem.strerror}; build it with cargo build --release, or name it with --rowloom"
    if error:
        sys.exit(error.strip())


def measure(arguments):
    """Runs all cases, and writes a line of JSON for every run."""
    check(arguments.rowloom)
    runs = []
    with tempfile.TemporaryDirectory() as folder, open(arguments.runs, "w") as lines:
        files = {}
        for name in MATRICES:
            path = pathlib.Path(folder) / f"{name}.rlm"
            subprocess.run([arguments.rowloom, "convert", f"gen:{name}", path], check=True, capture_output=True)
            files[name] = path
        shapes = {name: run(arguments.rowloom, "inspect", path, "--json")[0]["matrix"] for name, path in files.items()}
        for turn in range(arguments.rounds):
            for name, path in files.items():
                for k, mode, devices, more in cases(shapes[name]):
                    if arguments.traces and devices == "auto":
                        more = [*more, "--trace", pathlib.Path(arguments.traces) / f"{name}-{k}-{mode}-{turn}.json"]
                    product = ["run", path, "-k", k, "--devices", devices, "--repeat", 9, "--warmup", WARMUP[k]]
                    if shapes[name]["nnz"] * k <= VERIFIED_MULTIPLICATIONS:
                        product.append("--verify")
                    report, error = run(arguments.rowloom, *product, "--no-refine", "--json", "-q", *more)
                    line = {"round": turn, "matrix": name, "k": k, "mode": mode, "devices": devices}
                    if report is None:
                        line["error"] = error
                    else:
                        kept = ("name", "nnz", "busy_s")
                        on = [{key: device[key] for key in kept} for device in report["devices"]]
                        line |= {"timing": report["timing"], "on": on, "verified": is_verified(report)}
                    print(json.dumps(line), file=lines, flush=True)
                    runs.append(line)
    return runs


def share(line):
    """Share of the nonzeros that were planned for the CPU."""
    of = {device["name"]: device["nnz"] for device in line["on"]}
    return of.get("cpu", 0) / max(sum(of.values()), 1)


def rates(line):
    """Throughput of the product over the sum of the devices' throughputs while busy; None where only one device computed."""
    busy = [device for device in line["on"] if device["nnz"] and device["busy_s"]]
    if len(busy) < 2:
        return None
    together = sum(device["nnz"] for device in busy) / line["timing"]["run_s"]["samples"][-1]
    return together / sum(device["nnz"] / device["busy_s"] for device in busy)


def within(ratios, tolerance):
    near = sum(abs(ratio - 1) <= tolerance for ratio in ratios)
    return f"{near} of {len(ratios)}"


def listed(numbers):
    """The numbers of all rounds as text, or a dash where no round has one."""
    numbers = [number for number in numbers if number is not None]
    return ", ".join(f"{number:.2f}" for number in numbers) if numbers else "-"


def table(runs):
    """Prints the table and the summary."""
    of = collections.defaultdict(list)
    for line in runs:
        if "error" in line:
            print(f"failed: {line}")
        elif not line.get("verified"):
            refuse(f"Y was not verified: {line['matrix']}, K = {line['k']}, {line['mode']}, {line['devices']}")
        else:
            of[line["matrix"], line["k"], line["mode"], line["devices"]].append(line)

    def median_ms(*case):
        return statistics.median([line["timing"]["run_s"]["median"] for line in of[case]] or [math.nan]) * 1e3

    print("| matrix | K | mode | CPU ms | GPU ms | auto ms | speed-up | CPU's share | predicted | simulated | rates | set-up ms |")
    print("|---|--:|---|--:|--:|--:|--:|---|---|---|---|--:|")
    gains, predicted, simulated, shared, streamed = [], [], [], [], []
    for name in MATRICES:
        for k in WIDTHS:
            for mode in MODES:
                lines = of[name, k, mode, "auto"]
                cpu_ms, gpu_ms = median_ms(name, k, "oneshot", "cpu"), median_ms(name, k, mode, "cuda:0")
                both_ms = median_ms(name, k, mode, "auto")
                gain = min(cpu_ms, gpu_ms) / both_ms
                set_up_ms = statistics.median([line["timing"]["prepare_s"] for line in lines] or [math.nan]) * 1e3
                gains.append((mode, gain))
                predictions = [line["timing"]["predicted_over_measured"] for line in lines]
                measured = [line["timing"]["run_s"]["median"] for line in lines]
                virtual = [line["timing"]["simulated_s"] for line in lines]
                virtual = [s and s / measured_s for s, measured_s in zip(virtual, measured)]
                of_rates = [rates(line) for line in lines]
                predicted += predictions
                simulated += [ratio for ratio, line in zip(virtual, lines) if ratio and rates(line)]
                (streamed if mode == "stream" else shared).extend(rate for rate in of_rates if rate)
                print(
                    f"| {name} | {k} | {mode} | {cpu_ms:.2f} | {gpu_ms:.2f} | {both_ms:.2f} | {gain:.2f} "
                    f"| {listed(map(share, lines))} | {listed(predictions)} | {listed(virtual)} | {listed(of_rates)} | {set_up_ms:.0f} |"
                )
    near = sum(gain >= 0.98 for _, gain in gains)
    best = max(gain for mode, gain in gains if mode == "stream")
    slower = sum(gain < 1 for _, gain in gains)
    mean = math.exp(statistics.fmean(math.log(gain) for _, gain in gains))
    print(f"\nspeed-up of auto over the faster device, all {len(gains)} cases: geometric mean {mean:.2f}, "
          f"worst {min(gain for _, gain in gains):.2f}, {slower} below 1, {near} at least 0.98; best in stream mode {best:.2f}")
    for devices in ("cpu", "cuda:0"):
        alone = [line for line in runs if line["devices"] == devices and "error" not in line]
        ratios = [line["timing"]["predicted_over_measured"] for line in alone]
        print(f"predicted within 20 %, {devices}: {within(ratios, 0.2)}")
    print(f"predicted within 20 %, auto: {within(predicted, 0.2)}")
    print(f"simulated within 15 %, where both compute: {within(simulated, 0.15)}")
    for mode, of_mode in (("oneshot", shared), ("stream", streamed)):
        if of_mode:
            good = sum(rate >= 0.9 for rate in of_mode)
            print(f"rates, {mode}: {good} of {len(of_mode)} at least 0.90, median {statistics.median(of_mode):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rowloom", default="target/release/rowloom")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", default="runs.jsonl", help="file that gets a line of JSON for every run")
    parser.add_argument("--traces", help="folder for the traces of runs with auto")
    parser.add_argument("--read", help="measure nothing; print the table of a file that --runs wrote")
    arguments = parser.parse_args()
    if arguments.read:
        try:
            runs = [json.loads(line) for line in pathlib.Path(arguments.read).read_text().splitlines()]
        except (OSError, ValueError) as problem:
            sys.exit(f"{arguments.read}: {problem}")
    else:
        runs = measure(arguments)
    table(runs)


if __name__ == "__main__":
    main()
