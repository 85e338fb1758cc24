"""Fits the model that predicts kernel times on a card to reports of `rowloom bench --json=FILE`, with --oracle or without.

    python3 benches/fit/fit.py --rowloom target/release/rowloom large.json small.json

Writes configs/kernels/h200.toml (weights) and configs/kernels/h200-cases.csv (coefficients of the Gaussian process on the
residuals, case by case), and prints the regret of choosing by them. All times are measured ones. If the reports have times whose Y was
not verified (reports of older versions), the files are written, no regret is printed, and the exit code is 1.
The method: benches/results/choice-h200.md. Needs numpy.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

RIDGE = 2.0                 # of the regression of a shape's time over the fastest
COMMON_RIDGE = 1.0          # of the regression of the fastest time over the floor
WEIGHT_EXPONENT = 0.8       # a sample's weight is (time / fastest)^-WEIGHT_EXPONENT
MIN_WEIGHT = 0.1            # smallest weight of a sample
OUTLIER_SCALE = 0.25        # residuals of logarithms beyond this count less
SOFTMAX_TEMPERATURE = 0.05  # of the softmax that turns predicted times into probabilities of a choice
REGRESSION_PENALTY = 60.0   # on the squared distance of weights from those of the regression
CANONICAL_WEIGHT = 0.5      # of the regret among canonical forms, beside the regret among all
MAX_LOG_REGRET = 1.5        # larger logarithms of regret count as this
LBFGS_STEPS = 40
PROCESS_NOISE = 0.1         # variance of the noise of the Gaussian process, as a share of its variance
FREE_ORDER_GAIN = 1.03      # as FREE_GAIN in src/work/spmm/cost/choose.rs
MAX_LOG_FACTOR = 6.0        # logarithms of factors are clipped to this
MIN_TIMES = 5               # shapes with fewer times get no weights


def similarity(one, other):
    """Similarity of cases by their features, 1 for equal ones: a Matern kernel of order 3/2, as in src/work/spmm/cost/cases.rs."""
    squared_distance = ((one[:, None] - other[None]) ** 2).sum(2)
    scaled = numpy.sqrt(3 * squared_distance)
    return (1 + scaled) * numpy.exp(-scaled)


class Data:
    """Logarithms of the times of shapes, a row for each case; NaN where there is none."""

    def __init__(self, report):
        cases = report["cases"]
        self.numbers = report["numbers"]
        self.shapes = sorted({shape for case in cases for shape in case["shapes"]})
        canonical = {shape for case in cases for shape in case["canonical"]}
        self.canonical = numpy.array([shape in canonical for shape in self.shapes])
        times = [[case["shapes"].get(shape, numpy.nan) for shape in self.shapes] for case in cases]
        self.times = numpy.log(numpy.array(times))
        enough = (~numpy.isnan(self.times)).sum(0) >= MIN_TIMES
        self.times, self.canonical = self.times[:, enough], self.canonical[enough]
        self.shapes = [shape for shape, kept in zip(self.shapes, enough) if kept]
        self.missing = numpy.isnan(self.times)
        self.best = numpy.log([case["fastest_s"] for case in cases])
        self.best_canonical = numpy.log([case["fastest_canonical_s"] for case in cases])
        self.floor = numpy.log([case["reference"]["floor_s"] for case in cases])
        self.x = numpy.array([case["reference"]["numbers"] for case in cases])
        self.descriptors = numpy.array([case["reference"]["row_descriptors"] + case["reference"]["x_descriptors"] for case in cases])
        self.matrix = numpy.array([case["matrix"] for case in cases])
        self.k = [case["k"] for case in cases]
        self.dtype = [case["dtype"] for case in cases]


def regression(x, y, weights, ridge):
    """Weights by ridge regression; outliers count less (three rounds of reweighting)."""
    diagonal = numpy.full(x.shape[1], ridge)
    diagonal[0] = 0.005
    sample_weights = weights
    for _ in range(3):
        scaled = x * sample_weights[:, None]
        found = numpy.linalg.solve(scaled.T @ x + numpy.diag(diagonal), scaled.T @ y)
        sample_weights = weights / numpy.hypot((y - x @ found) / OUTLIER_SCALE, 1)
    return found


def regressions(data, train):
    """Weights of all shapes: the regression of the fastest time over the floor plus that of each shape's time over the fastest."""
    common = regression(data.x[train], (data.best - data.floor)[train], numpy.ones(train.sum()), COMMON_RIDGE)
    found = numpy.zeros((len(data.shapes), data.x.shape[1]))
    for shape in range(len(data.shapes)):
        timed = train & ~data.missing[:, shape]
        if timed.sum() < MIN_TIMES:
            found[shape] = common
            found[shape, 0] += MAX_LOG_FACTOR
            continue
        log_ratio = data.times[timed, shape] - data.best[timed]
        weights = numpy.maximum(numpy.exp(-WEIGHT_EXPONENT * numpy.maximum(log_ratio, 0)), MIN_WEIGHT)
        found[shape] = common + regression(data.x[timed], log_ratio, weights, RIDGE)
    return found


def minimise(function, start, steps):
    """L-BFGS with backtracking line search."""
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


def minimise_expected_regret(data, train, weights):
    """Moves weights to lower the expected regret, where the probability of choosing a form is a softmax of its predicted time."""
    rows = numpy.where(train)[0]
    x, missing = data.x[rows], data.missing[rows]
    penalty = numpy.full(x.shape[1], REGRESSION_PENALTY)
    penalty[0] *= 0.1

    def regret(best):
        log_regret = numpy.where(missing, MAX_LOG_REGRET, data.times[rows] - best[rows, None])
        return numpy.minimum(log_regret, MAX_LOG_REGRET)

    free, canonical = regret(data.best), regret(data.best_canonical)

    def expected(logarithms, allowed, regrets):
        power = numpy.where(allowed, -logarithms / SOFTMAX_TEMPERATURE, -1e30)
        probability = numpy.exp(power - power.max(1, keepdims=True))
        probability /= probability.sum(1, keepdims=True)
        mean = (probability * regrets).sum(1)
        return mean.sum(), -probability * (regrets - mean[:, None]) / SOFTMAX_TEMPERATURE

    def function(flat):
        moved = flat.reshape(weights.shape) - weights
        logarithms = x @ flat.reshape(weights.shape).T
        value, slope = expected(logarithms, ~missing, free)
        own, own_slope = expected(logarithms, ~missing & data.canonical, canonical)
        value += CANONICAL_WEIGHT * own + 0.5 * (penalty * moved * moved).sum()
        return value, ((slope + CANONICAL_WEIGHT * own_slope).T @ x + penalty * moved).ravel()

    return minimise(function, weights.ravel(), LBFGS_STEPS).reshape(weights.shape)


def fit(data, train):
    """Weights, with a common factor such that the predicted times of the chosen forms are unbiased."""
    weights = minimise_expected_regret(data, train, regressions(data, train))
    rows = numpy.where(train)[0]
    logarithms = weights_alone(data, weights)[rows]
    chosen, _ = choices(data, rows, logarithms)
    at = numpy.arange(len(rows))
    weights[:, 0] += (data.times[rows, chosen] - logarithms[at, chosen]).mean()
    return weights


def weights_alone(data, weights):
    """Logarithms of the times that the weights predict, without the Gaussian process."""
    return data.floor[:, None] + numpy.clip(data.x @ weights.T, -MAX_LOG_FACTOR, MAX_LOG_FACTOR)


def residuals(data, logarithms):
    """Residuals of the weights' predictions: the median over a case's shapes, and each shape's difference from it."""
    residual = numpy.where(data.missing, numpy.nan, data.times - logarithms)
    common = numpy.nanmedian(residual, axis=1)
    return common, residual - common[:, None]


def coefficients(data, train, logarithms):
    """Coefficients of the Gaussian process on the residuals: the common one of each case, then those of its shapes."""
    common, own = residuals(data, logarithms)
    similarities = similarity(data.descriptors, data.descriptors)
    found = numpy.zeros((len(data.matrix), 1 + len(data.shapes)))

    def solve(rows, targets):
        kernel = similarities[numpy.ix_(rows, rows)] + PROCESS_NOISE * numpy.eye(len(rows))
        return numpy.linalg.solve(kernel, targets)

    rows = numpy.where(train)[0]
    found[rows, 0] = solve(rows, common[rows])
    for rows, shapes in shapes_by_cases(data, train):
        found[numpy.ix_(rows, 1 + shapes)] = solve(rows, own[numpy.ix_(rows, shapes)])
    return numpy.round(found, 2)


def shapes_by_cases(data, train):
    """Groups of shapes that were measured in the same cases, with these cases: they share a linear system."""
    groups = {}
    for shape in range(len(data.shapes)):
        groups.setdefault((train & ~data.missing[:, shape]).tobytes(), []).append(shape)
    for shapes in groups.values():
        rows = numpy.where(train & ~data.missing[:, shapes[0]])[0]
        if len(rows):
            yield rows, numpy.array(shapes)


def group_left_out(data, logarithms, groups):
    """Predictions where the cases of the same group are left out of the Gaussian process; the weights are fitted to all."""
    common, own = residuals(data, logarithms)
    similarities = similarity(data.descriptors, data.descriptors)

    def smoothed(rows, targets):
        inverse = numpy.linalg.inv(similarities[numpy.ix_(rows, rows)] + PROCESS_NOISE * numpy.eye(len(rows)))
        solved, found = inverse @ targets, targets.copy()
        for group in set(groups[rows]):
            out = numpy.where(groups[rows] == group)[0]
            found[out] -= numpy.linalg.solve(inverse[numpy.ix_(out, out)], solved[out])
        return found

    every = numpy.ones(len(groups), bool)
    found = logarithms + smoothed(numpy.where(every)[0], common[:, None])
    for rows, shapes in shapes_by_cases(data, every):
        found[numpy.ix_(rows, shapes)] += smoothed(rows, own[numpy.ix_(rows, shapes)])
    return found


def predicted(data, rows, logarithms, found):
    """Logarithms of the times that weights and Gaussian process predict."""
    smoothed = similarity(data.descriptors[rows], data.descriptors) @ found
    return logarithms[rows] + smoothed[:, :1] + smoothed[:, 1:]


def choices(data, rows, logarithms):
    """The shape that the program chooses in each case, and the one that it chooses with --reproducible."""
    possible = numpy.where(data.missing[rows], numpy.inf, logarithms)
    canonical = numpy.where(data.canonical, possible, numpy.inf)
    at = numpy.arange(len(rows))
    free, own = possible.argmin(1), canonical.argmin(1)
    return numpy.where(canonical[at, own] <= possible[at, free] + numpy.log(FREE_ORDER_GAIN), own, free), own


class Regrets:
    """Regrets and prediction errors of all cases, as logarithms."""

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
            mean, within = numpy.exp(logarithms.mean()), 100 * (ratios <= 1.05).mean()
            return f"{mean:.3f} | {numpy.percentile(ratios, 95):.2f} | {ratios.max():.2f} | {within:.0f} %"

        error = self.error[which]
        accurate = 100 * (numpy.abs(error) <= numpy.log(1.2)).mean()
        print(
            f"| {label} | {regret(self.free[which])} | {regret(self.canonical[which])} "
            f"| {numpy.exp(error.mean()):.2f} | {100 * (numpy.exp(error.std()) - 1):.0f} % | {accurate:.0f} % |"
        )


def fitted(data):
    """Weights, logarithms of the times that they predict, and coefficients of the Gaussian process, fitted to all cases."""
    every = numpy.ones(len(data.matrix), bool)
    weights = fit(data, every)
    logarithms = weights_alone(data, weights)
    return weights, logarithms, coefficients(data, every, logarithms)


def print_regrets(data, sources, weights, logarithms, found):
    """Prints the regret in sample and left out; `sources` selects the cases of each file."""
    print("\n| cases | geometric mean | 95th percentile | worst | within 5 % | canonical: geometric mean | 95th percentile | worst "
          "| within 5 % | predicted over measured | spread | within 20 % |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    rows = numpy.arange(len(data.matrix))
    in_sample = Regrets(data).take(rows, predicted(data, rows, logarithms, found))
    alone_left_out, matrix_left_out = Regrets(data), Regrets(data)
    groups = numpy.array([f"{matrix} {k}" for matrix, k in zip(data.matrix, data.k)])
    k_left_out = Regrets(data).take(rows, group_left_out(data, logarithms, groups))
    alone = Regrets(data).take(rows, logarithms)
    for matrix in sorted(set(data.matrix)):
        out = data.matrix == matrix
        own = weights_alone(data, fit(data, ~out))
        rows_out = numpy.where(out)[0]
        alone_left_out.take(rows_out, own[rows_out])
        matrix_left_out.take(rows_out, predicted(data, rows_out, own, coefficients(data, ~out, own)))
    for label, regrets in (
        ("in sample", in_sample),
        ("K left out", k_left_out),
        ("matrix left out", matrix_left_out),
        ("weights alone, in sample", alone),
        ("weights alone, matrix left out", alone_left_out),
    ):
        regrets.line(label)
        for name, which in sources.items():
            regrets.line(f"- {name}", which)
    limit = Regrets(data).take(rows, numpy.where(data.missing, numpy.inf, data.times))
    limit.line("fastest shape of every case")
    for label, regrets in (("in sample", in_sample), ("left out", matrix_left_out)):
        worst = numpy.argsort(-regrets.free)[:8]
        named = [f"{data.matrix[i]} {data.dtype[i]} k={data.k[i]} {numpy.exp(regrets.free[i]):.2f}" for i in worst]
        print(f"\nworst {label}: {'; '.join(named)}")


def write_weights(path, data, weights, logarithms, found):
    after = predicted(data, numpy.arange(len(data.matrix)), logarithms, found)
    matrices = len(set(data.matrix))
    lines = [
        f"# Weights that predict kernel times on this card, one list for each shape of the kernels' forms. Fitted to {(~data.missing).sum()} measured times of",
        f"# {matrices} matrices in {len(data.matrix)} cases (rowloom bench, A resident): ridge regression on logarithms, then moved to lower the",
        "# expected regret. Written by benches/fit/fit.py; the residuals are in the file of cases of the same name.",
        "# Regressors, in order:",
    ]
    for name in data.numbers:
        word = name + ("." if name == data.numbers[-1] else ",")
        if len(lines[-1]) + len(word) > 108:
            lines.append("#")
        lines[-1] += " " + word
    for shape, name in enumerate(data.shapes):
        timed = ~data.missing[:, shape]
        errors = [100 * (numpy.exp((all_[timed, shape] - data.times[timed, shape]).std()) - 1) for all_ in (logarithms, after)]
        lines.append(f"\n# {timed.sum()} times; standard deviation of the error {errors[0]:.0f} %, {errors[1]:.0f} % with the cases")
        words = [f"{weight:.4f}" for weight in weights[shape]]
        lines.append(f"{name} = [")
        lines += ["    " + ", ".join(words[at:at + 12]) + "," for at in range(0, len(words), 12)]
        lines.append("]")
    path.write_text("\n".join(lines) + "\n")


def write_cases(path, data, found, row_count):
    lines = [
        "# Residuals of the weights in the .toml of the same name on the cases they were fitted to. Written by benches/fit/fit.py; read by src/work/spmm/cost/cases.rs.",
        ",".join(["shapes"] + data.shapes),
    ]
    for matrix in sorted(set(data.matrix)):
        own = numpy.where(data.matrix == matrix)[0]
        descriptors = [f"{value:.3f}".rstrip("0").rstrip(".") for value in data.descriptors[own[0], :row_count]]
        lines.append(",".join(["matrix"] + descriptors + [matrix]))
        for case in own:
            hundredths = numpy.round(100 * found[case]).astype(int)
            untimed = numpy.concatenate([[False], data.missing[case]])
            words = ["" if missing else str(number) for missing, number in zip(untimed, hundredths)]
            lines.append(",".join(["case", str(data.k[case]), data.dtype[case]] + words))
    path.write_text("\n".join(lines) + "\n")


def references(rowloom, card, files):
    """Regressors, floor, features and times by shape of the cases of `files`, from `rowloom calibrate --from`."""
    with tempfile.TemporaryDirectory() as folder:
        plain = []
        for file in map(Path, files):
            # The program reads plain JSON only.
            text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            plain.append(f"{folder}/{len(plain)}.json")
            Path(plain[-1]).write_bytes(text)
        command = [rowloom, "calibrate", "--from", ",".join(plain), "--devices", f"sim:{card}"]
        command += ["--output", f"{folder}/model.toml", f"--json={folder}/report.json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(Path(f"{folder}/report.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="reports of rowloom bench --json=FILE, plain or .gz; where several have a case, the last counts")
    parser.add_argument("--rowloom", default="target/release/rowloom", help="the rowloom program")
    parser.add_argument("--card", default="h200", help="the card whose profile is used and whose files are written")
    parser.add_argument("--folder", type=Path, default=Path("configs/kernels"), help="folder of the files")
    arguments = parser.parse_args()
    reports = {Path(file).name.split(".")[0]: references(arguments.rowloom, arguments.card, [file]) for file in arguments.files}
    cases = {}
    for source, report in reports.items():
        for case in report["cases"]:
            cases[case["matrix"], case["k"], case["dtype"]] = {**case, "source": source}
    # Cases without any timed shape, or without a canonical one, cannot be judged.
    cases = {key: case for key, case in cases.items() if case["shapes"] and case["fastest_canonical_s"]}
    report = {"cases": list(cases.values()), "numbers": next(iter(reports.values()))["numbers"]}
    data = Data(report)
    source = numpy.array([case["source"] for case in report["cases"]])
    sources = {name: source == name for name in reports} if len(reports) > 1 else {}
    print(f"{(~data.missing).sum()} times of {len(data.shapes)} shapes in {len(data.matrix)} cases of {len(set(data.matrix))} matrices")
    weights, logarithms, found = fitted(data)
    unverified = sum(case["unverified"] for case in report["cases"])
    if not unverified:
        print_regrets(data, sources, weights, logarithms, found)
    weights = numpy.round(weights, 4)
    write_weights(arguments.folder / f"{arguments.card}.toml", data, weights, logarithms, found)
    write_cases(arguments.folder / f"{arguments.card}-cases.csv", data, found, len(report["cases"][0]["reference"]["row_descriptors"]))
    if unverified:
        sys.exit(f"no regret is printed: {unverified} times are of a Y that was not verified; measure them again")


if __name__ == "__main__":
    main()
