import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.losses.cases import losses

from orthoframe import FrameLoss, SupConLoss, collapsed_loss, frame_collapsed, frame_floor, loss_floor
from orthoframe.losses import Gap, GapMeter, _gap


def _expected(batches, losses, key_labels=None, **options):
    """The means, from the floor and the collapsed value of each batch by itself."""
    floors, collapsed = [], []
    for labels in batches:
        labels = torch.tensor(labels, dtype=torch.long)
        floors.append(float(loss_floor(labels, key_labels=key_labels, **options)))
        collapsed.append(float(collapsed_loss(labels, key_labels=key_labels, **options)))
    count = len(batches)
    return Gap(math.fsum(losses) / count, math.fsum(floors) / count, math.fsum(collapsed) / count)


_labels = st.lists(st.integers(-2, 3), max_size=9)


@given(
    batches=st.lists(_labels, min_size=1, max_size=4),
    key_labels=st.none() | st.lists(st.integers(-2, 5), max_size=6),
    options=losses(),
    singletons=st.sampled_from(["skip", "count"]),
)
def test_means_are_those_of_each_batch_by_itself(batches, key_labels, options, singletons):
    options["singletons"] = singletons
    if options["class_weights"] or options["anchor_weights"]:  # these are indexed by label
        batches = [[label % 5 for label in labels] for labels in batches]
        key_labels = None if key_labels is None else [label % 5 for label in key_labels]
    meter = GapMeter(SupConLoss(**options))
    values = [0.5 * number for number in range(len(batches))]
    for loss, labels in zip(values, batches, strict=True):
        meter.add(loss, labels, key_labels)
    read = meter.read()
    expected = _expected(batches, values, key_labels, **options)
    # the order of classes in a sum is another one: a few roundings
    assert [read.loss, read.floor, read.collapsed] == pytest.approx(
        [expected.loss, expected.floor, expected.collapsed], rel=1e-12, abs=1e-12
    )


def test_gap_and_relative_gap():
    gap = Gap(loss=3.0, floor=2.0, collapsed=6.0)
    assert gap.gap == 1.0
    assert gap.relative_gap == 0.25
    assert Gap(loss=6.0, floor=2.0, collapsed=6.0).relative_gap == 1.0
    assert Gap(loss=0.0, floor=0.0, collapsed=0.0).relative_gap is None


def test_nothing_to_learn_from_one_class_has_no_relative_gap():
    meter = GapMeter()
    meter.add(1.0, [0, 0, 0])
    assert meter.read().relative_gap is None


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, lambda labels: np.array(list(map(str, labels)))])
def test_labels_of_any_kind(kind):
    meter = GapMeter()
    meter.add(1.0, kind([3, 3, 5, 5, 5]))
    assert meter.read() == _expected([[3, 3, 5, 5, 5]], [1.0])


def test_losses_are_detached_copies_and_may_be_numbers():
    meter = GapMeter()
    loss = torch.tensor(2.0, requires_grad=True)
    meter.add(loss, [0, 0, 1])
    meter.add(1.0, [0, 0, 1])
    with torch.no_grad():
        loss.fill_(100.0)  # as the next replay of a CUDA graph would
    assert meter.read().loss == 1.5


def test_labels_may_be_written_over_after_they_were_added():
    meter, labels = GapMeter(), torch.tensor([0, 0, 1, 1])
    meter.add(1.0, labels)
    labels.fill_(0)
    assert meter.read() == _expected([[0, 0, 1, 1]], [1.0])


def test_nothing_is_read_from_a_device_before_it_must_be(monkeypatch):
    """Labels and losses stay where they are until `read`, which takes all losses at once."""
    read = []
    to_list = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: read.append("losses") or to_list(tensor))
    count = _gap.classes_of_labels
    monkeypatch.setattr(_gap, "classes_of_labels", lambda *labels: read.append("labels") or count(*labels))
    loss, labels = SupConLoss(1.0), torch.tensor([0, 0, 1, 1])
    meter = GapMeter(loss)
    for temperature in (1.0, 0.5, 0.1):
        loss.temperature = temperature
        meter.add(torch.tensor(temperature), labels, [0, 1])
    labels.fill_(7)
    assert read == []
    expected = [float(loss_floor([0, 0, 1, 1], key_labels=[0, 1], temperature=t)) for t in (1.0, 0.5, 0.1)]
    assert meter.state_dict()["floor"] == pytest.approx(expected, rel=1e-13)
    assert read.count("losses") == 1


def test_temperature_between_two_epochs():
    loss = SupConLoss(temperature=1.0)
    meter = GapMeter(loss)
    meter.add(1.0, [0, 0, 1, 1])
    first = meter.read()
    meter.reset()
    loss.temperature = 0.1
    meter.add(1.0, [0, 0, 1, 1])
    assert first.floor == pytest.approx(float(loss_floor([0, 0, 1, 1], temperature=1.0)), rel=1e-14)
    assert meter.read().floor == pytest.approx(float(loss_floor([0, 0, 1, 1], temperature=0.1)), rel=1e-14)


def test_without_batches_there_is_nothing_to_read():
    meter = GapMeter()
    assert meter.read() is None
    meter.add(1.0, [0, 0])
    assert meter.read() is not None
    meter.reset()
    assert meter.read() is None


def test_reading_twice_changes_nothing_and_batches_add_up():
    meter = GapMeter()
    meter.add(torch.tensor(1.0), [0, 0, 1, 1])
    assert meter.read() == meter.read()
    meter.add(torch.tensor(2.0), [0, 0, 1, 1])
    assert meter.read().loss == 1.5


def test_state_round_trip_gives_the_same_bytes():
    whole, before = GapMeter(), GapMeter()
    batches = [[0, 0, 1], [1, 1, 2, 2], [0, 1, 2, 2, 2]]
    losses = [torch.tensor(value) for value in (0.1, 0.7, 1.3)]
    for number, (loss, labels) in enumerate(zip(losses, batches, strict=True)):
        whole.add(loss, labels)
        if number < 2:
            before.add(loss, labels)
    state = before.state_dict()
    assert state.keys() == {"loss", "floor", "collapsed"}
    assert all(isinstance(value, float) for values in state.values() for value in values)
    after = GapMeter()
    after.load_state_dict(state)
    after.add(losses[2], batches[2])
    assert after.read() == whole.read()
    assert state["loss"] == before.state_dict()["loss"]  # the state is a copy
    assert len(state["loss"]) == 2


def test_bounds_are_computed_once_for_equal_class_counts(monkeypatch):
    _gap._cached_bounds.cache_clear()
    calls = []
    monkeypatch.setattr(_gap, "loss_floor", lambda **options: calls.append(options) or loss_floor(**options))
    loss = SupConLoss()
    meter = GapMeter(loss)
    same = [meter.bounds(labels) for labels in ([0, 0, 1], [7, 3, 7], ["b", "b", "a"])]
    assert len(calls) == 1
    assert len(set(same)) == 1
    meter.bounds([0, 0, 1], [0])
    meter.bounds([0, 0, 1], [1])  # the same counts of rows and of keys, together not
    loss.temperature = 0.5
    meter.bounds([0, 0, 1])
    assert len(calls) == 4


def test_singletons_that_the_loss_refuses_are_skipped_here():
    meters = [GapMeter(SupConLoss(singletons=choice)) for choice in ("error", "skip")]
    assert meters[0].bounds([0, 0, 1]) == meters[1].bounds([0, 0, 1])


def test_collapsed_features_are_at_one_and_a_frame_is_at_zero():
    from orthoframe import supcon_loss

    labels = torch.tensor([0, 0, 0, 1, 1])
    for features, expected in ((torch.ones(5, 2), 1.0), (torch.eye(2)[labels], 0.0)):
        meter = GapMeter()
        meter.add(supcon_loss(features.double(), labels), labels)
        assert meter.read().relative_gap == pytest.approx(expected, abs=1e-12)


def test_a_module_is_followed():
    """Its options are read with each batch, so that a schedule does not have to tell the meter."""
    loss, labels = SupConLoss(0.5, "sincere", "count"), [0, 0, 1, 1, 2]
    meter = GapMeter(loss)
    for temperature in (0.5, 0.1):
        loss.temperature = temperature
        meter.add(1.0, labels)
    floors = [loss_floor(labels, temperature=t, denominator="sincere", singletons="count") for t in (0.5, 0.1)]
    assert meter.state_dict()["floor"] == pytest.approx([float(floor) for floor in floors], rel=1e-13)


def test_the_frame_term_and_its_contrastive_part():
    loss, labels = FrameLoss(3, 6, shares=[0.5, 0.3, 0.2], margin=0.4), torch.tensor([0, 0, 0, 1, 1, 2])
    meter = GapMeter(loss)
    options = {"temperature": 0.1, "shares": [0.5, 0.3, 0.2], "margin": 0.4}
    bounds = [float(frame_floor(labels, 3, **options)), float(frame_collapsed(labels, 3, **options))]
    assert meter.bounds(labels) == pytest.approx(bounds, rel=1e-6)  # the module has its shares in float32
    loss.supcon = 0.7
    added = [float(loss_floor(labels, margin=0.4)), float(collapsed_loss(labels, margin=0.4))]
    both = [a + 0.7 * b for a, b in zip(bounds, added, strict=True)]
    assert meter.bounds(labels) == pytest.approx(both, rel=1e-6)
    for features, expected in ((loss.frame[labels], 0.0), (torch.ones(6, 6), 1.0)):
        meter.reset()
        meter.add(loss(features, labels), labels)
        assert meter.read().relative_gap == pytest.approx(expected, abs=1e-5)


def test_a_compiled_module_is_followed_too():
    loss = torch.compile(SupConLoss(0.5), backend="eager")
    assert GapMeter(loss).bounds([0, 0, 1]) == GapMeter(SupConLoss(0.5)).bounds([0, 0, 1])


def test_options_may_change_in_place_after_a_batch():
    """They are read as late as its losses and labels."""
    weights = torch.tensor([1.0, 2.0])
    meter = GapMeter(SupConLoss(class_weights=weights))
    meter.add(1.0, [0, 0, 1])
    weights.fill_(5.0)
    expected = loss_floor([0, 0, 1], class_weights=[1.0, 2.0])
    assert meter.read().floor == pytest.approx(float(expected), rel=1e-13)


def test_a_loss_whose_floor_is_not_known():
    with pytest.raises(TypeError, match="the floor is known for SupConLoss and FrameLoss, not for Linear"):
        GapMeter(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("kind", [torch.tensor, np.array, list])
def test_a_loss_that_is_no_scalar_is_refused_at_once(kind):
    meter = GapMeter()
    with pytest.raises(ValueError, match=r"one number for the batch, not of shape \[3\]; use \.mean\(\)"):
        meter.add(kind([0.5, 0.25, 1.0]), [0, 0, 1])
    assert meter.read() is None


def test_keys_of_classes_without_anchors_need_no_anchor_weight():
    meter = GapMeter(SupConLoss(anchor_weights=[1.0, 3.0]))
    options = {"key_labels": [-1, 7], "anchor_weights": [1.0, 3.0]}
    expected = [float(bound([0, 0, 1, 1], **options)) for bound in (loss_floor, collapsed_loss)]
    assert meter.bounds([0, 0, 1, 1], [-1, 7]) == pytest.approx(expected, rel=1e-13)


def test_a_module_with_every_option():
    labels, keys = [0, 0, 1, 1, 2], [0, 1, 2, 2]
    options = {"margin": 0.3, "class_weights": [1.0, 2.0, 0.5], "anchor_weights": [3.0, 1.0, 1.0], "compare": "keys"}
    for reduction in ("mean", "sum"):
        loss = SupConLoss(torch.nn.Parameter(torch.tensor(0.2)), "sincere", reduction=reduction, **options)
        values = {"temperature": 0.2, "denominator": "sincere", "key_labels": keys, "reduction": reduction, **options}
        expected = [float(loss_floor(labels, **values)), float(collapsed_loss(labels, **values))]
        assert GapMeter(loss).bounds(labels, keys) == pytest.approx(expected, rel=1e-6)  # 0.2 is a float32
