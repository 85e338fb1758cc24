#!/usr/bin/env python3
"""Faults on a card: kernels that never end, illegal addresses, memory that another process holds.

    python3 benches/card_faults.py [ROWLOOM]

Each case must give the right Y (`--verify`) or exit code 4. A kernel that never ends is given up after the 30 s of the watchdog. Where
another process holds nearly all memory, a product that does not fit is exit code 3. Needs PyTorch or CuPy to take memory.
"""
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROWLOOM = sys.argv[1] if len(sys.argv) > 1 else "target/release/rowloom"
WATCHDOG_SECONDS = 30 + 10
MATRICES = ["gen:stencil27,n=40", "gen:rmat,scale=16,degree=8", "gen:uniform,rows=200000,degree=9"]
HOLDER = """
import sys
try:
    import torch
    free = torch.cuda.mem_get_info()[0]
    held = torch.empty(free - int(sys.argv[1]), dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
except ImportError:
    import cupy
    held = cupy.cuda.alloc(cupy.cuda.Device().mem_info[0] - int(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
"""


def run(case):
    devices, matrix, k, words = case
    command = [ROWLOOM, "run", matrix, "-k", str(k), "--devices", devices, "--verify", "--repeat", "2", *words]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    taken = time.perf_counter() - begin
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return done.returncode, taken, " ".join(command[1:]), lines[-1] if lines else ""


def report(name, results, allowed=(0, 4)):
    codes = {code: sum(result[0] == code for result in results) for code in {result[0] for result in results}}
    slowest = max(result[1] for result in results)
    wrong = [result for result in results if result[0] not in allowed or result[0] == 4 and result[1] > WATCHDOG_SECONDS]
    exits = ", ".join(f"{count} with exit code {code}" for code, count in sorted(codes.items()))
    print(f"| {name} | {len(results)} | {exits} | {slowest:.1f} s | {len(wrong)} |", flush=True)
    for code, taken, command, line in wrong:
        print(f"    {code} after {taken:.1f} s: {command}: {line}")


def cases(option, lists):
    for number in range(20):
        devices = lists[number % len(lists)].replace("cuda:0", f"cuda:0{option(number)}")
        transfer = ["--transfer", "staged"] if number % 2 else []
        mode = ["--mode", ["resident", "oneshot", "stream"][number % 3]]
        yield devices, MATRICES[number % 3], [1, 8, 32][number % 3], [*transfer, *mode]


print("| fault on the card | cases | outcome | slowest | wrong |")
print("|---|---:|---|---:|---:|")
lists = ["cpu,cuda:0", "cpu,cuda:0", "cuda:0"]
with ThreadPoolExecutor(4) as pool:
    illegal = cases(lambda number: f"?illegal_address_at_launch={1 + number // 4}", lists)
    report("illegal address", list(pool.map(run, illegal)))
# The cases wait for the watchdog at the same time. The system then ends the contexts of hung kernels one after the other.
with ThreadPoolExecutor(20) as pool:
    hang = cases(lambda number: f"?hang_at_launch={1 + number // 4}", lists)
    report("kernel that never ends", list(pool.map(run, hang)))
results = []
for left in [16 << 20, 64 << 20, 600 << 20, 700 << 20]:
    command = [sys.executable, "-c", HOLDER, str(left)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        holder.stdout.readline()
        results += [run(case) for case in list(cases(lambda number: "", lists))[:5]]
        holder.communicate("\n")
report("memory taken by another process", results, allowed=(0, 3, 4))
