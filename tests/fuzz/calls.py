"""Library calls with hostile arguments."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch
from tests.fuzz.mutations import Target, choice

from orthoframe import BatchPlan, certify, coverage, loss_floor, measure, solve_ufm, supcon_loss
from orthoframe.errors import InputError

_NAN, _INF = float("nan"), float("inf")
_NUMBERS = (0, 1, 2, -1, 0.5, 1e-3, 1e-39, 5e-309, 1e-320, 1e200, 1e308, _NAN, _INF, -_INF, True, None, "", 10**30)
_MORE = (10**400, 2**31, 2**63 - 1, 2**63, 2**64, Fraction(1, 3), Decimal("0.1"), 1j, b"x", [], [0.1], {}, object())
_ARRAYS = (np.float32(0.1), np.int8(3), np.array(0.1), np.array([0.1]), torch.tensor(0.1), torch.tensor([1, 2]))
_SCALARS = _NUMBERS + _MORE + _ARRAYS
_CHOICES = ("all", "sincere", "class-average", "skip", "count", "error", "mean", "sum", "none", "full", "fixed")


def prepare(folder):
    return {
        "supcon_loss": (_loss, supcon_loss),
        "loss_floor": (_floor, loss_floor),
        "measure": (_measure, measure),
        "certify": (_certify, certify),
        "coverage": (_coverage, coverage),
        "BatchPlan": (_plan, _batches),
        "solve_ufm": (_ufm, solve_ufm),
    }


def make(random, valid, folder):
    name = choice(random, _OFTEN)
    arguments, function = valid[name]
    return name, function, arguments(random)


_OFTEN = ("supcon_loss", "loss_floor", "measure", "certify", "BatchPlan") * 4 + ("coverage", "solve_ufm")


def read(call):
    name, function, (positional, named) = call
    try:
        result = function(*positional, **named)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            return  # it was asked for
        raise
    _RIGHT.get(name, lambda *_: None)(result, positional, named)


def _hostile(random, arguments, pools):
    """Arguments of which none, one or two are replaced."""
    arguments = dict(arguments)
    for _ in range(int(random.integers(0, 3))):
        name = choice(random, list(arguments))
        arguments[name] = choice(random, pools.get(name, _SCALARS))
    return arguments


def _rows(random, rows=6, dim=4):
    """Features that may be too long, too short, of another type, or no features."""
    kind = choice(random, (torch.float32, torch.float64, torch.float16, torch.bfloat16))
    values = torch.from_numpy(np.abs(random.normal(size=(rows, dim)))).to(kind)
    change = random.random()
    if change < 0.3:
        values = values * choice(random, (1e-13, 1e-30, 1e30, 1e200, 1e-320, 0.0, -1.0, 1e4))
    elif change < 0.35:
        values[int(random.integers(rows)), 0] = choice(random, (_NAN, _INF, -_INF))
    elif change < 0.5:
        return choice(random, (values.int(), values.bool(), values.cfloat(), values[0], values[None], values[:0]))
    elif change < 0.6:
        odd = (values[:, :0], values.to_sparse(), values.t(), values.expand(2, rows, dim), None, "x", 3)
        return choice(random, odd)
    elif change < 0.75:
        array = values.double().numpy()
        odd = (array, array.astype(np.float32), array.astype(object), array.tolist(), array > 0, array * 1j)
        return choice(random, odd)
    return values


def _labels(random, rows=6):
    """Labels of all kinds."""
    numbers = random.integers(0, 3, size=rows)
    plain, tensor = numbers.tolist(), torch.from_numpy(numbers)
    words, parity = [str(label) for label in plain], [1, "a"] * (rows // 2)
    kinds = (
        *(tensor, tensor, tensor, tensor.int(), tensor.to(torch.uint8), tensor.bool(), tensor.float(), tensor[:-1]),
        *(numbers, numbers.astype(np.uint64) + 2**63, numbers.astype(np.int8), numbers.astype(float), numbers[None]),
        *(plain, words, parity, tuple(plain), range(rows), [], "abcdef", ["a"] * rows, [None] * rows, [b"x"] * rows),
        *([2**70 + label for label in plain], [-label for label in plain], [[0]] * rows, np.array(plain, ">i4")),
        *(np.array([_NAN] * rows), np.array(["x"] * rows, dtype=object), np.datetime64("2020-01-01"), None, 3, {}),
        *(np.array([0.0, 1.0, 2.0] * (rows // 3)), torch.full((rows,), 2**62)),
    )
    return choice(random, kinds)


def _loss(random):
    named = {"temperature": 0.1, "denominator": "all", "singletons": "skip", "reduction": "mean", "normalize": True}
    pools = dict.fromkeys(("denominator", "singletons", "reduction"), (*_CHOICES, *_SCALARS))
    return (_rows(random), _labels(random)), _hostile(random, named, {**pools, "normalize": (True, False)})


def _right_loss(loss, positional, named):
    rows = torch.as_tensor(positional[0]).double()
    assert isinstance(loss, torch.Tensor | np.ndarray | np.generic | float)
    if rows.isfinite().all() and named["normalize"]:
        assert torch.as_tensor(loss).isfinite().all(), "the loss is not finite"


def _floor(random):
    named = {"temperature": 0.1, "denominator": "all", "singletons": "skip", "reduction": "mean"}
    pools = dict.fromkeys(("denominator", "singletons", "reduction"), (*_CHOICES, *_SCALARS))
    named = _hostile(random, named, pools)
    if random.random() < 0.5:
        return (_labels(random),), named
    return (), {**named, "class_counts": _counts(random)}


def _counts(random):
    small = random.integers(1, 9, size=4).tolist()
    kinds = (
        *(small, small, small, np.array(small), [5], [1, 1], [10**6] * 50, [2**31] * 3, [2**63 - 1] * 2, [10**30, 2]),
        *(
            [],
            [0, 1],
            [-1, 2],
            [1.5, 2],
            [True, False],
            [_NAN, 1],
            ["3", "4"],
            [[1, 2]],
            np.zeros((2, 2)),
            {},
            "abc",
            None,
        ),
    )
    return choice(random, kinds)


def _right_floor(floor, positional, named):
    assert torch.as_tensor(floor).isfinite().all(), "the floor is not finite"
    assert (torch.as_tensor(floor) >= 0).all(), "the floor is negative"
    counts = named.get("class_counts")
    several = isinstance(counts, list) and len(counts) > 1 and min(counts) > 2
    if several and named["temperature"] == 0.1 and named["denominator"] == "all":
        assert (torch.as_tensor(floor) > 0).all(), "the floor is not positive"


def _measure(random):
    valid = {"num_classes": None, "normalize": True, "weights": None, "classifier": None, "bias": None}
    if random.random() < 0.3:
        valid |= {"num_classes": 3, "classifier": torch.ones(3, 4), "bias": [0.0, 1.0, 2.0], "weights": [1.0] * 6}
    named = _hostile(random, valid, {"normalize": (True, False), "classifier": (*_SCALARS, _rows(random, 3))})
    if isinstance(named["num_classes"], int) and named["num_classes"] > 10**4:
        named["num_classes"] = 10**4  # so many means are asked for
    return (_rows(random), _labels(random)), named


def _right_measure(geometry, positional, named):
    if named["normalize"] and not geometry.cosines.isnan().any():  # they are, of a class whose mean is zero
        assert math.isfinite(geometry.delta_of)
        assert geometry.cosines.abs().max() <= 1 + 1e-6
    assert str(geometry)
    assert geometry.to_dict()


def _certify(random):
    kinds = (
        *([[0, 1, 2], [3, 4, 5]], [range(6)], [], [[]], [[0, 0, 0]], [[6]], [[-1]], [[2**63 - 1]], [[2**70]], [["a"]]),
        *([[0.5]], [[None]], [[_NAN]], [[True, False]], [3], ["01"], [{0, 1}], {0: [1]}, None, 3, "missing"),
        *([np.array([[0, 1]])], [np.array([], float)], [np.array([0, 1], np.uint64)], [torch.tensor([0, 1])]),
        iter([[0, 1], [2, 3]]),
    )
    named = _hostile(random, {"views": 1, "denominator": "all", "prototypes": False}, {"prototypes": (True, False)})
    return (_labels(random), choice(random, kinds)), named


def _right_certify(certificate, positional, named):
    assert isinstance(certificate.holds, bool)
    assert str(certificate)
    assert certificate.to_dict()


def _coverage(random):
    named = _hostile(random, {"batch_size": 4, "epochs": 3}, {})
    counts = [5000] * 1000 if random.random() < 0.01 else _counts(random)
    return (counts,), named


def _right_coverage(coverage, positional, named):
    assert 0 <= coverage.probability <= 1
    assert 0 <= coverage.probability_as_stated <= 1
    assert np.all((np.asarray(coverage.unmet) >= 0) & (np.asarray(coverage.unmet) <= 1))


def _plan(random):
    named = {
        **{"batch_size": 3, "scheme": "reshuffle", "binding": "fixed", "seed": 0, "views": 1, "bound_examples": 1},
        **{"bound_classes": None, "examples": None, "drop_last": False, "power": None},
    }
    schemes = ("full", "partition", "reshuffle", "balanced", "weighted", "rare-hub", "x", None)
    pools = {
        "scheme": schemes,
        "binding": ("none", "fixed", "present", "redrawn", "random", "x", None, 3),
        "bound_examples": tuple(value for value in _SCALARS if not isinstance(value, int) or value < 2**31),
        "bound_classes": ([0], [0, 1, 2], ["a"], [9], 2, 0, -1, [], None, "a", {0}, [None], 10**30),
        "examples": ({0: 0}, {0: [0, 1]}, {9: 0}, {0: 99}, {0: -1}, {"a": 0}, {0: []}, {0: None}, [], 3, {0: [0, 0]}),
        "drop_last": (True, False),
    }
    named = _hostile(random, named, pools)
    return (_labels(random), named.pop("batch_size")), named


def _batches(labels, batch_size, **named):
    plan = BatchPlan(labels, batch_size, **named)
    return plan, plan.batches(0), plan.batches(1)


def _right_plan(drawn, positional, named):
    plan, *epochs = drawn
    samples = len(plan.labels.classes)
    for batches in epochs:
        for batch in batches:
            assert len(batch)
            assert 0 <= batch.min() <= batch.max() < samples
    assert [batch.tolist() for batch in plan.batches(0)] == [batch.tolist() for batch in epochs[0]]


def _ufm(random):
    named = {"dim": 4, "temperature": 0.1, "nonnegative": True, "denominator": "all", "seed": 0, "tolerance": 1e-11}
    pools = {"nonnegative": (True, False), "dim": tuple(v for v in _SCALARS if not isinstance(v, int) or v < 10**4)}
    return (_labels(random),), {**_hostile(random, named, pools), "starts": 1, "max_steps": 20}


def _right_ufm(solution, positional, named):
    assert solution.features.isfinite().all()
    assert math.isfinite(solution.loss)
    assert str(solution)


_RIGHT = {
    "supcon_loss": _right_loss,
    "loss_floor": _right_floor,
    "measure": _right_measure,
    "certify": _right_certify,
    "coverage": _right_coverage,
    "BatchPlan": _right_plan,
    "solve_ufm": _right_ufm,
}


# InputError is for batches in a file.
TARGETS = {"calls": Target((ValueError, TypeError, InputError), 14, prepare, make, read)}
