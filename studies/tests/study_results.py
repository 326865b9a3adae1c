"""Made-up results of studies."""

import math
import random
from itertools import product

from orthoframe_studies import (
    CellResult,
    Claim,
    Comparison,
    Decision,
    Failure,
    Finding,
    Interval,
    JobResult,
    Panel,
    StudyResult,
    Tally,
)


def result(final, curve=None, cosines=None):
    if any(name in final for name in ("epochs_to_of", "time_to_of")):
        curve = curve or {"epoch": [1, 10]}
    return JobResult(final, curve or {}, cosines)


def cells(axes, make, seeds=3):
    """A cell for each combination; `make(where, random, seed)` gives a result."""
    results = []
    for place, values in enumerate(product(*axes.values())):
        where = dict(zip(axes, values, strict=True))
        made = {seed: make(where, random.Random(1000 * place + seed), seed) for seed in range(seeds)}
        results.append(CellResult.of(where, made))
    return results


def panel(quantity, x, lines=(), title=None, **more):
    return Panel(title or f"{quantity} by {x}", quantity, x, tuple(lines), **more)


def comparison(where, mean, low, high, decision="supported"):
    return Comparison(
        where, Decision(decision), Interval(centre=mean, low=low, high=high, values={0: low, 1: mean, 2: high}), Tally()
    )


def finding(text, comparisons, decision="supported", quantity="delta_of", at_most=0.1, at_least=None):
    claim = Claim(text, "paper", quantity, {}, at_most=at_most, at_least=at_least, over="mean")
    return Finding(claim, Decision(decision), tuple(comparisons))


def study(name, results, panels, findings=(), columns=("delta_of",), **more):
    base = {
        **{"study": name, "question": "Does it reach the frame?", "remark": "Small networks.", "scale": "desk"},
        **{"seeds": 3, "command": f"orthoframe study {name} --scale desk", "version": "0.3.0", "commit": "abc123"},
        **{"modified": False, "run_commits": (), "runs": 3, "reused": 0, "seconds": 512.3, "failures": ()},
        **{"first_seed": 10, "missing": 0},
    }
    shown = {"findings": findings, "columns": columns, "panels": panels, "cells": results}
    return StudyResult(**{**base, **{part: tuple(values) for part, values in shown.items()}, **more})


def cosines(k, off):
    return [[1.0 if a == b else off for a in range(k)] for b in range(k)]


def imbalance():
    """The distance against the imbalance, of two activations, on logarithmic axes."""

    def make(where, draw, seed):
        relu = where["activation"] == "relu"
        delta = (0.008 if relu else 0.3) * where["ratio"] ** (0.25 if relu else 0.18) * draw.lognormvariate(0, 0.2)
        return result({"delta_of": delta, "beta_nc": delta**2}, cosines=cosines(10, 0.02 if relu else -0.1))

    grid = {"data": ["digits"], "ratio": [1, 3, 10, 30, 100], "activation": ["relu", "none"]}
    where = {"data": "digits", "activation": "relu"}
    good = [
        comparison({**where, "ratio": ratio}, *ends)
        for ratio, ends in ((1, (8e-3, 6e-3, 0.01)), (10, (0.02, 0.015, 0.03)))
    ]
    bad = [comparison({**where, "ratio": 100}, 0.25, 0.2, 0.3, "not supported"), *good]
    return study(
        "imbalance",
        cells(grid, make),
        [
            panel(
                "delta_of",
                "ratio",
                ["activation"],
                level=0.1,
                log="xy",
                title="With ReLU the frame is reached at every imbalance",
            ),
            panel("beta_nc", "ratio", ["activation"], log="xy", title="Classes collapse"),
        ],
        [
            finding("With ReLU, Δ_GM is at most 0.1 at every imbalance.", good),
            finding("The same without a bound on R.", bad, "not supported"),
        ],
        ["delta_of", "beta_nc"],
    )


BINDINGS = ("none", "one example of a class", "two examples", "minority classes", "whole batch")


def batching():
    """Curves of the distance along epochs, of five bindings."""

    def make(where, draw, seed):
        epochs, place = [1, *range(5, 101, 5)], BINDINGS.index(where["binding"])
        end, rate = (0.3, 0.05, 0.04, 0.09, 0.015)[place], (0.03, 0.06, 0.07, 0.05, 0.09)[place]
        wave = draw.lognormvariate(0, 0.12)
        deltas = [wave * (end + math.exp(-rate * epoch)) * draw.lognormvariate(0, 0.05) for epoch in epochs]
        worst = [1 - 0.5 * delta for delta in deltas]
        reached = next((float(e) for e, d in zip(epochs, deltas, strict=True) if d <= 0.1), None)
        final = {"delta_of": deltas[-1], "epochs_to_of": reached, "worst_accuracy": worst[-1]}
        return result(final, {"epoch": epochs, "delta_of": deltas, "test_worst_accuracy": worst})

    return study(
        "batching",
        cells({"binding": list(BINDINGS)}, make),
        [
            panel("delta_of", "epoch", ["binding"], level=0.1, log="y", title="Distance to the frame along the epochs"),
            panel("test_worst_accuracy", "epoch", ["binding"], title="Accuracy of the worst class"),
            panel("epochs_to_of", "binding", log="y", title="Epochs that it takes"),
        ],
        [finding("Binding reaches the frame.", [comparison({"binding": "whole batch"}, 0.02, 0.01, 0.03)])],
        ["delta_of", "epochs_to_of", "worst_accuracy"],
    )


def accuracies():
    """Accuracies by category, and with two coordinates for lines."""

    def make(where, draw, seed):
        base = 0.9 - 0.2 * (where["data"] == "cifar10") + 0.04 * (where["loss"] == "supcon")
        values = [base + draw.gauss(0, 0.01), base - 0.3 + draw.gauss(0, 0.05), base - 0.2 + draw.gauss(0, 0.04)]
        return result(dict(zip(("balanced_accuracy", "worst_accuracy", "minority_accuracy"), values, strict=True)))

    grid = {"data": ["digits", "mnist", "fashion", "cifar10"], "loss": ["supcon", "cross-entropy"], "ratio": [10, 100]}
    where = {"data": "digits", "loss": "supcon", "ratio": 10}
    wide = [comparison({**where, "data": data}, 0.01, -0.02, 0.04, "inconclusive") for data in grid["data"]]
    return study(
        "accuracy",
        cells(grid, make),
        [
            panel("balanced_accuracy", "data", ["loss"], where={"ratio": 100}, title="Balanced accuracy at R = 100"),
            panel("worst_accuracy", "data", ["loss", "ratio"], title="The worst class, by loss and imbalance"),
        ],
        [finding("It is not less accurate.", wide, "inconclusive", "balanced_accuracy", None, 0.0)],
        ["balanced_accuracy", "worst_accuracy", "minority_accuracy"],
        remark="The accuracy is that of the nearest class centre.",
    )


def extreme():
    """Times at extreme imbalance, some of which were not reached, and flows that end at different times."""

    def make(where, draw, seed):
        slow = {"all": 1.0, "positives": 0.5, "balanced": 0.1}[where["denominator"]]
        time = 20 * where["ratio"] ** slow * draw.lognormvariate(0, 0.15)
        limit = 2e4 if where["denominator"] == "all" else 2.2e3
        times = [0.1 * 1.3**step for step in range(int(math.log(min(time, limit) * 10) / math.log(1.3)) + 1)]
        curve = {"time": times, "delta_of": [1 / (1 + place / time * 20) for place in times]}
        return result({"time_to_of": time if time < limit else None, "delta_of": 0.01}, curve)

    grid = {"ratio": [1, 10, 100, 1000, 10000], "denominator": ["all", "positives", "balanced"]}
    never = comparison({"denominator": "all", "ratio": 10000}, None, None, None, "not supported")
    return study(
        "extreme",
        cells(grid, make),
        [
            panel("time_to_of", "ratio", ["denominator"], log="xy", title="Time to the frame at extreme imbalance"),
            panel("delta_of", "time", ["ratio"], where={"denominator": "all"}, log="xy", title="Flows"),
        ],
        [
            finding(
                "The time grows at most tenfold.",
                [never, comparison({"denominator": "balanced", "ratio": 10000}, 50.0, 45.0, 56.0)],
                "not supported",
                "time_to_of",
                200,
            )
        ],
        ["time_to_of", "delta_of"],
        failures=(Failure({"ratio": 10000, "denominator": "all"}, 1, "key", "the loss is not finite"),),
    )


DANGEROUS = '<b>x</b> </script> $\\frac$ | `"'


def odd():
    """Nulls, one seed, names nobody knows, texts that are markup, empty cells and failures."""
    danger = {DANGEROUS: DANGEROUS}
    empty = CellResult.of({"n": 3, "text": "c", **danger}, {})
    final = {"new_quantity": None, "delta_of": None, "epochs_to_of": None}
    strange = result({"new_quantity": -1.5}, {"epoch": [1], "x": [2.0]}, [[1.0, None], [None, 1.0]])
    some = [
        CellResult.of({"n": 1, "text": "a", **danger}, {0: result({**final, "new_quantity": 0.0})}),
        CellResult.of({"n": 2, "text": None, **danger}, {0: result(final, {"epoch": [1], "x": [None]})}),
        CellResult.of({"n": 4, "text": True, **danger}, {0: strange}),
        empty,
    ]
    nothing = comparison({"n": 1}, None, None, None, "inconclusive")
    one = comparison({"n": 1, "text": "a"}, 0.5, None, None, "inconclusive")
    return study(
        "odd",
        some,
        [
            *(
                panel("new_quantity", x, log=log, title=DANGEROUS)
                for x in ("n", "text", "nowhere")
                for log in ("", "xy")
            ),
            *(panel("x", "epoch", [DANGEROUS], log=log) for log in ("", "xy")),
            panel("epochs_to_of", "n", log="y"),
            panel("new_quantity", "n", where={"n": [1, 4]}, level=0.0),
        ],
        [
            finding(DANGEROUS, [nothing], "inconclusive"),
            finding("No cell.", [], "inconclusive", "new_quantity", None, 2),
            finding("One seed.", [one], "inconclusive", "new_quantity"),
        ],
        ["new_quantity", "epochs_to_of", DANGEROUS],
        question=DANGEROUS,
        remark="",
        commit=None,
        seeds=1,
        failures=(Failure({"n": 3}, 0, "key", DANGEROUS),),
    )
