"""The torchmetrics metric: alone, in a collection, and over two processes."""

import math
import subprocess
import sys

import pytest
import torch
from torchmetrics import MetricCollection

from orthoframe import GeometryMetric, measure
from processes import start

NAMES = ("delta_of", "delta_etf", "beta_nc", "mean_cosine", "max_cosine")


def data():
    labels = torch.arange(90) % 3
    noise = torch.randn(90, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return torch.eye(3, 5, dtype=torch.float64)[labels] + 1e-3 * noise.abs(), labels


def fed(parts):
    metric = GeometryMetric(3, 5)
    for part in parts:
        features, labels = data()
        metric.update(features[part], labels[part])
    return metric


def test_equals_measure():
    metric, expected = fed([slice(0, 50), slice(50, 90)]), measure(*data())
    values = metric.compute()
    assert set(values) == set(NAMES)
    for name in NAMES:
        assert math.isclose(values[name], getattr(expected, name), rel_tol=1e-6)
        assert math.isclose(getattr(metric.geometry(), name), getattr(expected, name), rel_tol=1e-12, abs_tol=1e-15)


def test_reset_forward_and_collection():
    features, labels = data()
    metric = fed([slice(0, 30)])
    metric.reset()
    metric.update(features, labels)
    collection = MetricCollection([GeometryMetric(3, 5)])
    step = collection(features[:30], labels[:30])
    assert math.isclose(step["delta_of"], measure(features[:30], labels[:30]).delta_of, rel_tol=1e-6)
    collection.update(features[30:], labels[30:])
    for name in NAMES:
        assert torch.allclose(collection.compute()[name], metric.compute()[name], rtol=1e-6)


def test_nothing_to_compute():
    with pytest.raises(ValueError, match="no rows to measure"), pytest.warns(UserWarning, match="compute"):
        GeometryMetric(3, 5).compute()


def measure_share(rank):
    features, labels = data()
    share = slice(0, 20) if rank == 0 else slice(20, 90)  # unequal on purpose
    metric = GeometryMetric(3, 5)
    metric.update(features[share], labels[share])
    values = metric.compute()
    metric.update(features[:0], labels[:0])  # goes on after a computation
    return {name: float(values[name]) for name in NAMES} | {"exact": metric._geometry.beta_nc}


def test_two_processes_equal_one(tmp_path):
    expected = measure(*data())
    for result in start(measure_share, 2, tmp_path):
        assert math.isclose(result["exact"], expected.beta_nc, rel_tol=1e-12)
        for name in NAMES:
            assert math.isclose(result[name], getattr(expected, name), rel_tol=1e-12, abs_tol=1e-12)


def test_positions_and_dtypes():
    metric = GeometryMetric(3, 5)
    features, labels = data()
    bad = features.clone()
    bad[2, 3] = float("inf")
    with pytest.raises(ValueError, match=r"features\[2, 3\] is inf"):
        metric.update(bad, labels)
    metric.set_dtype(torch.float32)
    metric.update(features, labels)
    assert metric.compute()["delta_of"].dtype == torch.float64


def test_importing_the_metric_imports_no_more_than_it_needs():
    """Neither it nor Fabric needs transformers, and the rest of torchmetrics is still there."""
    script = """
import sys
import orthoframe.training
from orthoframe import GeometryMetric
orthoframe.training.train
assert "lightning_fabric" in sys.modules
assert "transformers" not in sys.modules
import torchmetrics
assert issubclass(GeometryMetric, torchmetrics.Metric)
assert torchmetrics.metric.Metric is torchmetrics.Metric
assert not hasattr(torchmetrics, "no_such_name")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
