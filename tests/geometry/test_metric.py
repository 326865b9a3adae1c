"""The torchmetrics metric: alone, in a collection, and over two processes."""

import math
import pickle

import pytest
import torch
from torchmetrics import MetricCollection, SumMetric

from orthoframe import GeometryMetric, measure
from orthoframe.geometry import MEASURES, _metric
from orthoframe.geometry._statistics import add_rows
from processes import start


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
    assert set(values) == set(MEASURES)
    for name in MEASURES:
        assert math.isclose(values[name], getattr(expected, name), rel_tol=1e-6)
        assert math.isclose(getattr(metric.geometry(), name), getattr(expected, name), rel_tol=1e-12, abs_tol=1e-15)


def test_the_numbers_are_those_of_the_record():
    """One list of measures: a new field of `Geometry` is logged and written without a change elsewhere."""
    record = measure(*data()).to_dict()
    scalars = [name for name, value in record.items() if isinstance(value, float) and name != "spread"]
    assert list(fed([slice(0, 90)]).compute()) == list(MEASURES) == scalars


def assert_same(one, other):
    """Computed from the same rows, in any order and division."""
    for name in MEASURES:
        assert torch.allclose(one.compute()[name], other.compute()[name], rtol=1e-9, atol=1e-12), name
    assert one.geometry().counts == other.geometry().counts


def test_reset_forward_and_collection():
    features, labels = data()
    metric = fed([slice(0, 30)])
    metric.reset()
    metric.update(features, labels)
    collection = MetricCollection([GeometryMetric(3, 5)])
    step = collection(features[:30], labels[:30])
    assert math.isclose(step["delta_of"], measure(features[:30], labels[:30]).delta_of, rel_tol=1e-6)
    collection.update(features[30:], labels[30:])
    for name in MEASURES:
        assert torch.allclose(collection.compute()[name], metric.compute()[name], rtol=1e-6)


def test_each_call_returns_the_batch_and_adds_to_the_whole():
    features, labels = data()
    collection = MetricCollection({"unit": GeometryMetric(3, 5), "raw": GeometryMetric(3, 5, normalize=False)})
    for start_ in range(0, 90, 15):
        part = slice(start_, start_ + 15)
        step = collection(features[part], labels[part])
        for prefix, normalize in (("unit", True), ("raw", False)):
            expected = measure(features[part], labels[part], normalize=normalize)
            for name in MEASURES:
                assert math.isclose(step[f"{prefix}_{name}"], getattr(expected, name), rel_tol=1e-9, abs_tol=1e-12)
    assert_same(collection["unit"], fed([slice(0, 90)]))
    raw = measure(features, labels, normalize=False)
    assert math.isclose(collection.compute()["raw_beta_nc"], raw.beta_nc, rel_tol=1e-9)


def test_a_batch_is_added_once(monkeypatch):
    """`full_state_update` would add it twice, and forget one of the two."""
    metric, added = GeometryMetric(3, 5), []
    monkeypatch.setattr(_metric, "add_rows", lambda seen, *rest: (added.append(1), add_rows(seen, *rest)))
    metric(*data())
    assert len(added) == 1


def test_merged_states():
    one, other, whole = fed([slice(0, 20)]), fed([slice(20, 90)]), fed([slice(0, 90)])
    one.compute()  # what is cached is forgotten
    one.merge_state(other)
    assert_same(one, whole)
    nothing = GeometryMetric(3, 5)
    nothing.merge_state(whole.metric_state)
    assert_same(nothing, whole)  # without a warning: there was an update
    whole.merge_state(GeometryMetric(3, 5))
    assert_same(nothing, whole)
    assert_same(other, fed([slice(20, 90)]))
    for wrong in (GeometryMetric(4, 5), GeometryMetric(3, 6), GeometryMetric(3, 5, normalize=False)):
        with pytest.raises(ValueError, match=r"must agree to merge: they are \(3, 5, True\) here and"):
            one.merge_state(wrong)
    with pytest.raises(ValueError, match="instance of GeometryMetric"):
        one.merge_state(SumMetric())


def test_states_are_kept_copied_and_pickled():
    metric, other = fed([slice(0, 30)]), GeometryMetric(3, 5)
    assert not metric.state_dict()
    metric.persistent(True)
    other.persistent(True)
    other.load_state_dict(metric.state_dict())
    assert torch.equal(other.moments, metric.moments)
    features, labels = data()
    for each in (other, metric.clone(), pickle.loads(pickle.dumps(metric))):
        each.update(features[30:], labels[30:])
        assert_same(each, fed([slice(0, 90)]))
    assert_same(metric, fed([slice(0, 30)]))


def test_nothing_to_compute():
    """As torchmetrics' own metrics do: a warning, and values that say nothing."""
    metric = GeometryMetric(3, 5)
    with pytest.warns(UserWarning, match="compute.*before the ``update``"):
        values = metric.compute()
    assert set(values) == set(MEASURES)
    assert all(value.isnan() for value in values.values())
    metric.update(torch.empty(0, 5), torch.empty(0, dtype=torch.long))
    assert metric.compute()["delta_of"].isnan()
    with pytest.raises(ValueError, match="no rows to measure"):
        metric.geometry()
    metric.update(*data())
    assert_same(metric, fed([slice(0, 90)]))
    metric.reset()
    with pytest.warns(UserWarning, match="compute"):
        assert metric.compute()["delta_of"].isnan()


def measure_share(rank):
    features, labels = data()
    share = slice(0, 20) if rank == 0 else slice(20, 90)  # unequal on purpose
    metric = GeometryMetric(3, 5)
    step = metric(features[share], labels[share])  # of this process alone
    assert math.isclose(step["beta_nc"], measure(features[share], labels[share]).beta_nc, rel_tol=1e-9)
    values = metric.compute()
    metric.update(features[:0], labels[:0])  # goes on after a computation
    numbers = {name: float(values[name]) for name in MEASURES} | {"exact": metric._geometry.beta_nc}
    if rank == 0:
        metric.reset()  # one process without rows
    again = metric.compute()["delta_of"] if rank else _quiet(metric)
    alone = measure(features[20:], labels[20:]).delta_of
    assert math.isclose(again, alone, rel_tol=1e-9)
    return numbers


def _quiet(metric):
    with pytest.warns(UserWarning, match="before the ``update``"):
        return metric.compute()["delta_of"]


def test_two_processes_equal_one(tmp_path):
    expected = measure(*data())
    for result in start(measure_share, 2, tmp_path):
        assert math.isclose(result["exact"], expected.beta_nc, rel_tol=1e-12)
        for name in MEASURES:
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
