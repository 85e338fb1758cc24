#!/usr/bin/env python3
"""Times Y = A X on a card where A is copied with each product, and compares it with the time of the copies.

    python benches/oneshot_bound.py [--rowloom target/release/rowloom] [--runs runs.jsonl] [--kernels csr_subwarp,csr_ways] [--ones] MATRIX...

For each matrix and K = 1, 8, 32: `--mode oneshot` on `cuda:0`, f64, with the kernel that the planner chooses and, if given, with each kernel
of `--kernels`. A time is the median of `--repeat` products. The bound is the time of the bytes of a plain CSR and X to the card and of Y
back, at the bandwidths of large copies in page-locked memory that `rowloom bench transfers` measures first: one direction alone, or both
at once. With `--ones` every value of the matrices is 1, as in the files of graphs; the bound is still that of a plain CSR. Every Y is
verified; if one is wrong, the script ends with exit code 1.
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import tempfile

from support.verified import is_verified, refuse

WIDTHS = [1, 8, 32]


def run(rowloom, *arguments):
    """The JSON report of a command."""
    done = subprocess.run([rowloom, *map(str, arguments), "--json", "-q"], capture_output=True, text=True)
    if done.returncode:
        refuse(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def rates(rowloom):
    """Bytes per second up, down, and of both directions at once, of the largest copies in registered memory."""
    copies = run(rowloom, "bench", "transfers", "--devices", "cuda:0")["transfers"][0]["copies"]
    copies = [copy for copy in copies if copy["kind"] == "registered"]

    def best(direction):
        return max(copy["gb_per_s"] for copy in copies if copy["direction"] == direction) * 1e9

    return best("up"), best("down"), best("both")


def bound_s(matrix, k, of_link):
    """The time of the copies of a product in f64."""
    up = (matrix["rows"] + 1) * 8 + matrix["nnz"] * 12 + matrix["cols"] * k * 8
    down = matrix["rows"] * k * 8
    return max(up / of_link[0], down / of_link[1], (up + down) / of_link[2])


def with_ones(rowloom, name, folder):
    """A file with the pattern of a matrix, whose values are taken as 1."""
    real, pattern = folder / "real.mtx", folder / "pattern.mtx"
    run(rowloom, "convert", name, real, "--force")
    with open(real) as lines, open(pattern, "w") as written:
        written.write(re.sub(" (real|integer) ", " pattern ", next(lines)))
        lines = (line for line in lines if not line.startswith("%"))
        written.write(next(lines))
        written.writelines(" ".join(line.split()[:2]) + "\n" for line in lines)
    return pattern


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rowloom", default="target/release/rowloom")
    parser.add_argument("--runs", default="runs.jsonl")
    parser.add_argument("--kernels", default="")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--ones", action="store_true")
    parser.add_argument("matrices", nargs="+")
    arguments = parser.parse_args()
    of_link = rates(arguments.rowloom)
    print("link, GB/s: up {:.1f}, down {:.1f}, both {:.1f}\n".format(*(rate / 1e9 for rate in of_link)))
    kernels = [kernel for kernel in arguments.kernels.split(",") if kernel]
    print("| matrix | K | bound, ms | chosen | ratio | " + "".join(f"{kernel} | " for kernel in kernels))
    print("|---|---:|---:|---|---:|" + "---:|" * len(kernels))
    ratios = []
    with tempfile.TemporaryDirectory() as folder, open(arguments.runs, "w") as lines:
        for name in arguments.matrices:
            path = pathlib.Path(folder) / "matrix.rlm"
            read = with_ones(arguments.rowloom, name, pathlib.Path(folder)) if arguments.ones else name
            run(arguments.rowloom, "convert", read, path, "--force")
            matrix = run(arguments.rowloom, "inspect", path)["matrix"]
            for k in WIDTHS:
                least, row = bound_s(matrix, k, of_link), []
                for kernel in [None, *kernels]:
                    product = ["run", path, "-k", k, "--devices", "cuda:0", "--mode", "oneshot", "--repeat", arguments.repeat, "--verify"]
                    report = run(arguments.rowloom, *product, *(["--kernel", kernel] if kernel else []))
                    if not is_verified(report):
                        refuse(f"{name}, K = {k}, {kernel or 'chosen kernel'}: Y is wrong")
                    chosen = {chunk["kernel"]: 0 for chunk in report["chunks"]}
                    ratio = report["timing"]["run_s"]["median"] / least
                    line = {"matrix": name, "k": k, "requested": kernel, "kernels": list(chosen), "bound_s": least, "ratio": ratio}
                    print(json.dumps(line | {"timing": report["timing"]}), file=lines, flush=True)
                    row.append((", ".join(chosen), ratio))
                ratios.append(row[0][1])
                cells = "".join(f"{ratio:.2f} | " for _, ratio in row[1:])
                print(f"| `{name}` | {k} | {least * 1e3:.2f} | {row[0][0]} | {row[0][1]:.2f} | {cells}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\ngeometric mean {mean:.2f}, largest {max(ratios):.2f}, of {len(ratios)}")


if __name__ == "__main__":
    main()
