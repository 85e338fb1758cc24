"""What was measured before, as the weights and cases of a card remember it: the times of every shape, but for what was smoothed.

A case that is measured again gets the mean of both, of logarithms: the noise of two days is less than that of one.
"""

import math
import tomllib

import numpy

LOOKS_OF_ROWS = 10


def closeness(one, other):
    """How much cases tell of each other, by what they look like; as in src/cost/cases.rs."""
    apart = ((one[:, None] - other[None]) ** 2).sum(2)
    scaled = numpy.sqrt(3 * apart)
    return (1 + scaled) * numpy.exp(-scaled)


def key_of(case):
    return case["matrix"], case["k"], case["dtype"]


class Memory:
    """Weights and cases from before. `alike` are cases that tell what X looks like; logarithms of factors are cut at `most`."""

    def __init__(self, weights, cases, alike, most):
        self.most = most
        x = {key_of(case)[1:]: case["reference"]["looks_of_x"] for case in alike}
        self.coefficients, looks = {}, []
        for line in cases.read_text().splitlines():
            kind, _, rest = line.partition(",")
            if kind == "shapes":
                self.shapes = rest.split(",")
            elif kind == "matrix":
                *words, matrix = rest.split(",", LOOKS_OF_ROWS)
                rows = [float(word) for word in words]
            elif kind == "case":
                k, dtype, *words = rest.split(",")
                key = matrix, int(k), dtype
                if key[1:] not in x:
                    raise SystemExit(f"{matrix} was measured with K = {k}, {dtype}, and nothing is now: what is remembered would be lost")
                self.coefficients[key] = numpy.array([float(word) / 100 if word else math.nan for word in words])
                looks.append(rows + x[key[1:]])
        self.looks = numpy.array(looks)
        self.all = numpy.nan_to_num(numpy.array(list(self.coefficients.values())))
        kept = tomllib.loads(weights.read_text())
        self.weights = numpy.array([kept[shape] for shape in self.shapes])

    def times(self, case):
        """Seconds of each shape that was measured in this very case; none where it is not remembered."""
        reference, own = case["reference"], self.coefficients.get(key_of(case))
        if own is None:
            return {}
        at = numpy.array([reference["looks"] + reference["looks_of_x"]])
        common, *of_shapes = (closeness(at, self.looks) @ self.all)[0]
        factors = numpy.clip(self.weights @ reference["numbers"], -self.most, self.most) + common + of_shapes
        there = zip(self.shapes, factors, own[1:])
        return {shape: reference["floor_s"] * math.exp(factor) for shape, factor, own in there if not math.isnan(own)}

    def mean(self, case):
        """A case that was measured again. What the fastest form is faster than its shape stays as it is now."""
        before = self.times(case)
        if not before or not case["canonical"]:
            return case
        shapes = {shape: math.sqrt(s * before.get(shape, s)) for shape, s in case["shapes"].items()}

        def fastest(name, among):
            faster = case[name] / min(case["shapes"][shape] for shape in among)
            return {name: min(faster, 1.0) * min(shapes[shape] for shape in among)}

        return {
            **case,
            "shapes": shapes,
            **fastest("fastest_s", shapes),
            **fastest("fastest_canonical_s", case["canonical"]),
        }

    def recall(self, case, canonical):
        """A case that was not."""
        shapes = self.times(case)
        own = [shape for shape in shapes if shape in canonical]
        fastest = {"fastest_s": min(shapes.values()), "fastest_canonical_s": min((shapes[shape] for shape in own), default=None)}
        return {**case, "shapes": shapes, "canonical": own, **fastest}
