"""Fits what predicts the times of kernels on a card to what `rowloom bench --json` wrote, with --oracle or without.

    python3 benches/fit/fit.py --rowloom target/release/rowloom large.json small.json

writes configs/kernels/h200.toml (weights) and configs/kernels/h200-cases.csv (what the weights leave over, case by case), and prints the
regret of choosing by them. With --remember what these files hold from before counts as a measurement too: memory.py says how.
Everything else: benches/results/choice-h200.md. Needs numpy.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy

from memory import Memory, closeness

RIDGE = 2.0            # of the regression of a shape's times over the fastest
RIDGE_OF_COMMON = 1.0  # of that of the fastest times
SLOW, LEAST = 0.8, 0.1 # a sample counts as (time / fastest)^-SLOW, at least LEAST
ODD = 0.25             # logarithms off by more than this count less
TEMPERATURE = 0.05     # of the softmax by which a form is taken
STAY = 60.0            # how strongly weights stay at the regression's
CANONICAL = 0.5        # how much regret among canonical forms counts
MOST_REGRET = 1.5      # logarithms of regret count up to here
STEPS = 40
NOISE = 0.1            # of what the weights leave over, in parts of its variance
GAIN = 1.03            # a free order must be faster by this factor
MOST = 6.0             # logarithms of factors are cut here
FEW = 5                # shapes with fewer times get no weights


class Data:
    """Times of shapes, case by case; NaN where there is none."""

    def __init__(self, report):
        cases = report["cases"]
        self.numbers = report["numbers"]
        self.shapes = sorted({shape for case in cases for shape in case["shapes"]})
        canonical = {shape for case in cases for shape in case["canonical"]}
        self.canonical = numpy.array([shape in canonical for shape in self.shapes])
        times = [[case["shapes"].get(shape, numpy.nan) for shape in self.shapes] for case in cases]
        self.times = numpy.log(numpy.array(times))
        enough = (~numpy.isnan(self.times)).sum(0) >= FEW
        self.times, self.canonical = self.times[:, enough], self.canonical[enough]
        self.shapes = [shape for shape, kept in zip(self.shapes, enough) if kept]
        self.missing = numpy.isnan(self.times)
        self.best = numpy.log([case["fastest_s"] for case in cases])
        self.best_canonical = numpy.log([case["fastest_canonical_s"] for case in cases])
        self.floor = numpy.log([case["reference"]["floor_s"] for case in cases])
        self.x = numpy.array([case["reference"]["numbers"] for case in cases])
        self.looks = numpy.array([case["reference"]["looks"] + case["reference"]["looks_of_x"] for case in cases])
        self.matrix = numpy.array([case["matrix"] for case in cases])
        self.k = [case["k"] for case in cases]
        self.dtype = [case["dtype"] for case in cases]


def regression(x, y, weights, ridge):
    """Weights by least squares; odd samples count less."""
    diagonal = numpy.full(x.shape[1], ridge)
    diagonal[0] = 0.005
    trust = weights
    for _ in range(3):
        scaled = x * trust[:, None]
        found = numpy.linalg.solve(scaled.T @ x + numpy.diag(diagonal), scaled.T @ y)
        trust = weights / numpy.hypot((y - x @ found) / ODD, 1)
    return found


def regressions(data, train):
    """Weights of all shapes: those of the fastest time over the floor, and each shape's over the fastest."""
    common = regression(data.x[train], (data.best - data.floor)[train], numpy.ones(train.sum()), RIDGE_OF_COMMON)
    found = numpy.zeros((len(data.shapes), data.x.shape[1]))
    for shape in range(len(data.shapes)):
        there = train & ~data.missing[:, shape]
        if there.sum() < FEW:
            found[shape] = common
            found[shape, 0] += MOST
            continue
        behind = data.times[there, shape] - data.best[there]
        counts = numpy.maximum(numpy.exp(-SLOW * numpy.maximum(behind, 0)), LEAST)
        found[shape] = common + regression(data.x[there], behind, counts, RIDGE)
    return found


def minimise(function, start, steps):
    """L-BFGS with halved steps."""
    at, (value, slope), past = start, function(start), []
    for _ in range(steps):
        direction, factors = slope.copy(), []
        for move, change, scale in reversed(past):
            factors.append(scale * (move @ direction))
            direction -= factors[-1] * change
        if past:
            move, change, _ = past[-1]
            direction *= (move @ change) / (change @ change)
        else:
            direction *= min(1.0, 1.0 / numpy.abs(slope).sum())
        for (move, change, scale), factor in zip(past, reversed(factors)):
            direction += (factor - scale * (change @ direction)) * move
        length, along = 1.0, slope @ direction
        while True:
            trial = at - length * direction
            trial_value, trial_slope = function(trial)
            if trial_value <= value - 1e-4 * length * along or length < 1e-6:
                break
            length *= 0.5
        if trial_value >= value:
            break
        move, change = trial - at, trial_slope - slope
        if move @ change > 1e-12:
            past = (past + [(move, change, 1.0 / (move @ change))])[-10:]
        at, value, slope = trial, trial_value, trial_slope
    return at


def fewer_wrong_choices(data, train, weights):
    """Moves weights to lower the regret that is expected where a form is taken with a probability that falls with its time."""
    rows = numpy.where(train)[0]
    x, missing = data.x[rows], data.missing[rows]
    stay = numpy.full(x.shape[1], STAY)
    stay[0] *= 0.1

    def regret(best):
        behind = numpy.where(missing, MOST_REGRET, data.times[rows] - best[rows, None])
        return numpy.minimum(behind, MOST_REGRET)

    free, canonical = regret(data.best), regret(data.best_canonical)

    def expected(logarithms, allowed, regrets):
        power = numpy.where(allowed, -logarithms / TEMPERATURE, -1e30)
        chance = numpy.exp(power - power.max(1, keepdims=True))
        chance /= chance.sum(1, keepdims=True)
        mean = (chance * regrets).sum(1)
        return mean.sum(), -chance * (regrets - mean[:, None]) / TEMPERATURE

    def function(flat):
        moved = flat.reshape(weights.shape) - weights
        logarithms = x @ flat.reshape(weights.shape).T
        value, slope = expected(logarithms, ~missing, free)
        own, own_slope = expected(logarithms, ~missing & data.canonical, canonical)
        value += CANONICAL * own + 0.5 * (stay * moved * moved).sum()
        return value, ((slope + CANONICAL * own_slope).T @ x + stay * moved).ravel()

    return minimise(function, weights.ravel(), STEPS).reshape(weights.shape)


def fit(data, train):
    """Weights, with a common factor that makes the times of what they choose right on average."""
    weights = fewer_wrong_choices(data, train, regressions(data, train))
    rows = numpy.where(train)[0]
    logarithms = weighed(data, weights)[rows]
    chosen, _ = choices(data, rows, logarithms)
    at = numpy.arange(len(rows))
    weights[:, 0] += (data.times[rows, chosen] - logarithms[at, chosen]).mean()
    return weights


def weighed(data, weights):
    return data.floor[:, None] + numpy.clip(data.x @ weights.T, -MOST, MOST)


def left_over(data, logarithms):
    """What the weights leave over: what all shapes of a case share, and what is each shape's own."""
    left = numpy.where(data.missing, numpy.nan, data.times - logarithms)
    common = numpy.nanmedian(left, axis=1)
    return common, left - common[:, None]


def coefficients(data, train, logarithms):
    """Of the Gaussian process on what the weights leave over: the common one of each case, then those of its shapes."""
    common, own = left_over(data, logarithms)
    close = closeness(data.looks, data.looks)
    found = numpy.zeros((len(data.matrix), 1 + len(data.shapes)))

    def solve(rows, targets):
        kernel = close[numpy.ix_(rows, rows)] + NOISE * numpy.eye(len(rows))
        return numpy.linalg.solve(kernel, targets)

    rows = numpy.where(train)[0]
    found[rows, 0] = solve(rows, common[rows])
    for rows, shapes in measured_alike(data, train):
        found[numpy.ix_(rows, 1 + shapes)] = solve(rows, own[numpy.ix_(rows, shapes)])
    return numpy.round(found, 2)


def measured_alike(data, train):
    """Shapes that were measured in the same cases, with these: they share a system."""
    alike = {}
    for shape in range(len(data.shapes)):
        alike.setdefault((train & ~data.missing[:, shape]).tobytes(), []).append(shape)
    for shapes in alike.values():
        rows = numpy.where(train & ~data.missing[:, shapes[0]])[0]
        if len(rows):
            yield rows, numpy.array(shapes)


def without_own_group(data, logarithms, groups):
    """Predictions where the cases of the same group are left out of the process, the weights staying as they are."""
    common, own = left_over(data, logarithms)
    close = closeness(data.looks, data.looks)

    def smoothed(rows, targets):
        inverse = numpy.linalg.inv(close[numpy.ix_(rows, rows)] + NOISE * numpy.eye(len(rows)))
        solved, found = inverse @ targets, targets.copy()
        for group in set(groups[rows]):
            out = numpy.where(groups[rows] == group)[0]
            found[out] -= numpy.linalg.solve(inverse[numpy.ix_(out, out)], solved[out])
        return found

    every = numpy.ones(len(groups), bool)
    found = logarithms + smoothed(numpy.where(every)[0], common[:, None])
    for rows, shapes in measured_alike(data, every):
        found[numpy.ix_(rows, shapes)] += smoothed(rows, own[numpy.ix_(rows, shapes)])
    return found


def predicted(data, rows, logarithms, found):
    near = closeness(data.looks[rows], data.looks) @ found
    return logarithms[rows] + near[:, :1] + near[:, 1:]


def choices(data, rows, logarithms):
    """The form that is chosen in each case, and the one that is where only canonical ones are allowed."""
    possible = numpy.where(data.missing[rows], numpy.inf, logarithms)
    canonical = numpy.where(data.canonical, possible, numpy.inf)
    at = numpy.arange(len(rows))
    free, own = possible.argmin(1), canonical.argmin(1)
    return numpy.where(canonical[at, own] <= possible[at, free] + numpy.log(GAIN), own, free), own


class Judgement:
    """Regret and errors of predictions over all cases."""

    def __init__(self, data):
        self.data = data
        count = len(data.matrix)
        self.free, self.canonical, self.error = numpy.zeros(count), numpy.zeros(count), numpy.zeros(count)

    def take(self, rows, logarithms):
        data, at = self.data, numpy.arange(len(rows))
        chosen, own = choices(data, rows, logarithms)
        self.free[rows] = data.times[rows, chosen] - data.best[rows]
        self.canonical[rows] = data.times[rows, own] - data.best_canonical[rows]
        self.error[rows] = logarithms[at, chosen] - data.times[rows, chosen]
        return self

    def line(self, label, which=slice(None)):
        def regret(logarithms):
            ratios = numpy.exp(logarithms)
            mean, right = numpy.exp(logarithms.mean()), 100 * (ratios <= 1.05).mean()
            return f"{mean:.3f} | {numpy.percentile(ratios, 95):.2f} | {ratios.max():.2f} | {right:.0f} %"

        error = self.error[which]
        near = 100 * (numpy.abs(error) <= numpy.log(1.2)).mean()
        print(
            f"| {label} | {regret(self.free[which])} | {regret(self.canonical[which])} "
            f"| {numpy.exp(error.mean()):.2f} | {100 * (numpy.exp(error.std()) - 1):.0f} % | {near:.0f} % |"
        )


def judge(data, sources):
    print("\n| cases | mean | 95 % | worst | within 5 % | canonical: mean | 95 % | worst | within 5 % "
          "| predicted over measured | spread | within 20 % |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    every = numpy.ones(len(data.matrix), bool)
    rows = numpy.arange(len(every))
    weights = fit(data, every)
    logarithms = weighed(data, weights)
    found = coefficients(data, every, logarithms)
    kept = Judgement(data).take(rows, predicted(data, rows, logarithms, found))
    plain, other = Judgement(data), Judgement(data)
    groups = numpy.array([f"{matrix} {k}" for matrix, k in zip(data.matrix, data.k)])
    width = Judgement(data).take(rows, without_own_group(data, logarithms, groups))
    alone = Judgement(data).take(rows, logarithms)
    for matrix in sorted(set(data.matrix)):
        out = data.matrix == matrix
        own = weighed(data, fit(data, ~out))
        rows_out = numpy.where(out)[0]
        plain.take(rows_out, own[rows_out])
        other.take(rows_out, predicted(data, rows_out, own, coefficients(data, ~out, own)))
    for label, judgement in (
        ("in sample", kept),
        ("K left out", width),
        ("matrix left out", other),
        ("weights alone, in sample", alone),
        ("weights alone, matrix left out", plain),
    ):
        judgement.line(label)
        for name, which in sources.items():
            judgement.line(f"- {name}", which)
    limit = Judgement(data).take(rows, numpy.where(data.missing, numpy.inf, data.times))
    limit.line("best that the shapes allow")
    for label, judgement in (("in sample", kept), ("left out", other)):
        worst = numpy.argsort(-judgement.free)[:8]
        named = [f"{data.matrix[i]} {data.dtype[i]} k={data.k[i]} {numpy.exp(judgement.free[i]):.2f}" for i in worst]
        print(f"\nworst {label}: {'; '.join(named)}")
    return weights, logarithms, found


def write_weights(path, data, weights, logarithms, found):
    after = predicted(data, numpy.arange(len(data.matrix)), logarithms, found)
    wide = len(set(data.matrix))
    lines = [
        f"# Weights that predict the times of kernels on this card, one list for each shape of their forms, from {(~data.missing).sum()} times of",
        f"# {wide} matrices in {len(data.matrix)} cases (rowloom bench, kernels alone, A resident): least squares on logarithms, then moved a little",
        "# towards fewer wrong choices. Made by benches/fit; the residuals are in h200-cases.csv.",
        "# In their order:",
    ]
    for name in data.numbers:
        word = name + ("." if name == data.numbers[-1] else ",")
        if len(lines[-1]) + len(word) > 108:
            lines.append("#")
        lines[-1] += " " + word
    for shape, name in enumerate(data.shapes):
        there = ~data.missing[:, shape]
        off = [100 * (numpy.exp((all_[there, shape] - data.times[there, shape]).std()) - 1) for all_ in (logarithms, after)]
        lines.append(f"\n# {there.sum()} times, off by {off[0]:.0f} %, {off[1]:.0f} % with the cases (standard deviation)")
        words = [f"{weight:.4f}" for weight in weights[shape]]
        lines.append(f"{name} = [")
        lines += ["    " + ", ".join(words[at:at + 12]) + "," for at in range(0, len(words), 12)]
        lines.append("]")
    path.write_text("\n".join(lines) + "\n")


def write_cases(path, data, found, rows_looks):
    lines = [
        "# What the weights beside this leave over on the cases they were fitted to. Made by benches/fit; src/cost/cases.rs says what it means.",
        ",".join(["shapes"] + data.shapes),
    ]
    for matrix in sorted(set(data.matrix)):
        own = numpy.where(data.matrix == matrix)[0]
        looks = [f"{look:.3f}".rstrip("0").rstrip(".") for look in data.looks[own[0], :rows_looks]]
        lines.append(",".join(["matrix"] + looks + [matrix]))
        for case in own:
            hundredths = numpy.round(100 * found[case]).astype(int)
            gone = numpy.concatenate([[False], data.missing[case]])
            words = ["" if missing else str(number) for missing, number in zip(gone, hundredths)]
            lines.append(",".join(["case", str(data.k[case]), data.dtype[case]] + words))
    path.write_text("\n".join(lines) + "\n")


def references(rowloom, card, files):
    """What the program knows of the cases."""
    with tempfile.TemporaryDirectory() as folder:
        command = [rowloom, "calibrate", "--from", ",".join(files), "--devices", f"sim:{card}"]
        command += ["--output", f"{folder}/model.toml", f"--json={folder}/report.json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(Path(f"{folder}/report.json").read_text())


def remembered(asked, memory, measured):
    """Cases from before that were not measured again, as they are remembered, where a report tells what their rows look like."""
    rows = {}
    for path in asked.remember:
        rows |= {case["matrix"]: case["features"] for case in json.loads(Path(path).read_text())["cases"]}
    reports = [json.loads(Path(path).read_text()) for path in asked.files]
    # The program tells of cases in reports; what was timed in these does not matter.
    like = {(case["k"], case["dtype"]): case for report in reports for case in report["cases"]}
    wanted = [key for key in memory.coefficients if key[0] in rows and key not in measured]
    if not wanted:
        return []
    cases = [{**like[k, dtype], "matrix": matrix, "features": rows[matrix]} for matrix, k, dtype in wanted]
    with tempfile.TemporaryDirectory() as folder:
        Path(f"{folder}/cases.json").write_text(json.dumps({**reports[0], "cases": cases}))
        known = references(asked.rowloom, asked.card, [f"{folder}/cases.json"])["cases"]
    canonical = {shape for case in measured.values() for shape in case["canonical"]}
    return [memory.recall(case, canonical) for case in known]


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("files", nargs="+", help="reports of rowloom bench --json; of a case that is in several the last counts")
    words.add_argument("--rowloom", default="target/release/rowloom", help="the program")
    words.add_argument("--card", default="h200", help="whose rates and whose files")
    words.add_argument("--folder", type=Path, default=Path("configs/kernels"), help="where to write")
    words.add_argument("--remember", nargs="*", metavar="REPORT", help="keep what was measured before; reports of rowloom bench "
                       "--oracle, on any device, with the matrices that were not measured again")
    asked = words.parse_args()
    reports = {Path(file).stem: references(asked.rowloom, asked.card, [file]) for file in asked.files}
    cases = {}
    for source, report in reports.items():
        for case in report["cases"]:
            cases[case["matrix"], case["k"], case["dtype"]] = {**case, "source": source}
    if asked.remember is not None:
        before = (asked.folder / f"{asked.card}.toml", asked.folder / f"{asked.card}-cases.csv")
        memory = Memory(*before, cases.values(), MOST)
        cases = {key: memory.mean(case) for key, case in cases.items()}
        for case in remembered(asked, memory, cases):
            cases[case["matrix"], case["k"], case["dtype"]] = {**case, "source": "remembered"}
        reports["remembered"] = None
    # What no shape or no canonical one was timed of tells nothing of choices.
    cases = {key: case for key, case in cases.items() if case["shapes"] and case["fastest_canonical_s"]}
    report = {"cases": list(cases.values()), "numbers": next(iter(reports.values()))["numbers"]}
    data = Data(report)
    source = numpy.array([case["source"] for case in report["cases"]])
    sources = {name: source == name for name in reports} if len(reports) > 1 else {}
    print(f"{(~data.missing).sum()} times of {len(data.shapes)} shapes in {len(data.matrix)} cases of {len(set(data.matrix))} matrices")
    weights, logarithms, found = judge(data, sources)
    weights = numpy.round(weights, 4)
    write_weights(asked.folder / f"{asked.card}.toml", data, weights, logarithms, found)
    write_cases(asked.folder / f"{asked.card}-cases.csv", data, found, len(report["cases"][0]["reference"]["looks"]))


if __name__ == "__main__":
    main()
