"""Options of the studies: prototypes, binding of some classes, several examples, fewer test images; and views."""

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from tests.training.runs import json_of, rows_of, small

from orthoframe import loss_floor
from orthoframe.training import Loop, Settings, make_task, train


def test_prototypes_certify_batches_that_nothing_binds():
    loose = small(scheme="partition", binding="none")
    assert not make_task(loose).certificate().certificate.holds
    framed = make_task(small(scheme="partition", binding="none", prototypes=True))
    assert framed.certificate().certificate.holds
    first = make_task(loose).plan.batches(0)
    assert [len(batch) for batch in framed.plan.batches(0)] == [len(batch) for batch in first]


@pytest.mark.parametrize("width", [10, 16])
def test_prototypes_are_a_frame(width):
    rows = make_task(small(width=width, prototypes=True)).prototypes
    assert rows.shape == (10, width)
    assert rows.min() >= 0
    assert torch.allclose(rows @ rows.T, torch.eye(10))


def test_the_floor_with_prototypes_is_that_of_all_rows(tmp_path):
    settings = small(binding="none", prototypes=True)
    train(settings, tmp_path / "run")
    task = make_task(settings)
    for row in rows_of(tmp_path / "run"):
        floors = [
            float(loss_floor(task.train.labels[torch.from_numpy(batch)], key_labels=range(10), temperature=0.1))
            for batch in task.plan.batches(int(row["epoch"]) - 1)
        ]
        assert row["floor"] == pytest.approx(np.mean(floors), abs=1e-12)
        assert row["gap"] >= -1e-5  # float32


def test_prototypes_lead_to_the_frame(tmp_path):
    """In 60 epochs nearer than without anything that binds."""
    short = {"majority": 60, "epochs": 60, "measure_every": 60, "scheme": "partition"}
    deltas = [
        train(
            Settings.of(recipe="plain", binding="none", prototypes=with_prototypes, **short),
            tmp_path / str(with_prototypes),
        ).evaluation.geometry.delta_of
        for with_prototypes in (True, False)
    ]
    assert deltas[0] < 0.8 * deltas[1]


def test_certificate_of_some_bound_classes():
    settings = {"scheme": "partition", "batch_size": 8}
    assert make_task(small(**settings)).certificate().certificate.holds
    some = make_task(small(**settings, bound_classes=3))
    assert set(some.plan.examples) == {0, 1, 2}
    assert not some.certificate().certificate.holds


def test_several_examples_of_each_bound_class():
    one, two = (make_task(small(bound_examples=count)).plan.batches(0) for count in (1, 2))
    assert [len(batch) for batch in two] == [len(batch) + 10 for batch in one]
    assert [len(batch) for batch in two[:-1]] == [32 + 2 * 10] * (len(two) - 1)
    task = make_task(small(bound_examples=2, bound_classes=3))
    added = task.plan.batches(0)[0][32:]
    assert task.train.labels[torch.from_numpy(added)].tolist() == [0, 0, 1, 1, 2, 2]


def test_fewer_test_images_are_as_many_of_each_class(tmp_path):
    test = make_task(small(test_images=5)).test
    assert torch.bincount(test.labels).tolist() == [5] * 10
    assert set(test.places.tolist()) <= set(make_task(small()).test.places.tolist())
    assert len(make_task(small(test_images=10**6)).test) == 450  # all that there are
    train(small(test_images=5, epochs=1), tmp_path / "run")
    assert json_of(tmp_path / "run" / "config.json")["test_images"] == 5
    assert rows_of(tmp_path / "run")[-1]["test_balanced_accuracy"] * 50 % 1 == pytest.approx(0, abs=1e-6)


def test_images_as_they_are_have_one_view():
    """Two views of an image that nothing has changed are twice the same row, and each other's only positive."""
    settings = small(views=2, epochs=5)
    task = make_task(settings)
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    loop, rows = Loop(task, fabric), []
    task.encoder.register_forward_hook(lambda module, _, out: rows.append(len(out)) if module.training else None)
    for epoch, views in enumerate((2, 2, 2, 1, 1)):
        batches = task.plan.batches(epoch)
        floor = loop.epoch_floor()
        row = loop.run_epoch()
        assert rows == [views * len(batch) for batch in batches]
        assert row.floor == pytest.approx(floor)
        labels = [task.train.labels[torch.from_numpy(batch)].repeat(views) for batch in batches]
        assert floor == pytest.approx(np.mean([float(loss_floor(y, temperature=0.1)) for y in labels]), abs=1e-12)
        rows.clear()


def test_the_certificate_is_of_the_fewest_views():
    """A sample that is alone in every batch has a positive in its other view: until there is none."""
    settings = {"scheme": "partition", "binding": "present", "batch_size": 8, "views": 2}
    settled, never = (make_task(small(clean_fraction=settle, **settings)) for settle in (0.4, 0.0))
    assert (settled.plan.views, never.plan.views) == (1, 2)
    assert settled.certificate().certificate.holds
    assert never.certificate().certificate.holds
    once = make_task(small(scheme="partition", binding="present", batch_size=8))
    assert all(map(np.array_equal, settled.plan.batches(0), once.plan.batches(0)))
