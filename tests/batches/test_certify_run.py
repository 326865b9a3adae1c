"""The certificate of a whole run."""

import numpy as np
import pytest

from orthoframe import BatchPlan, certify
from orthoframe.batches import certify_run
from orthoframe.errors import OptionError

LABELS = np.repeat([0, 1, 2, 3], [60, 30, 8, 3])


@pytest.mark.parametrize("scheme", ["full", "partition", "reshuffle", "balanced", "weighted", "rare-hub"])
@pytest.mark.parametrize("binding", ["none", "fixed", "present", "redrawn", "random"])
def test_a_plan_knows_whether_it_repeats(scheme, binding):
    plan = BatchPlan(LABELS, None if scheme == "full" else 16, scheme=scheme, binding=binding)
    first, later = plan.batches(0), plan.batches(3)
    same = len(first) == len(later) and all(np.array_equal(a, b) for a, b in zip(first, later, strict=True))
    assert plan.repeats == same


def test_one_epoch_is_enough_if_it_holds():
    run = certify_run(BatchPlan(LABELS, 16, binding="fixed"), 50)
    assert run.certificate.holds
    assert run.epochs == 1
    assert run.conclusive  # further batches cannot undo it
    assert run.certificate.num_batches == 7


def test_twenty_epochs_at_most():
    plan = BatchPlan(LABELS, 4, binding="none")
    run = certify_run(plan, 1000)
    assert not run.certificate.holds
    assert (run.epochs, run.conclusive) == (20, False)
    assert run.certificate.to_dict() == plan.certificate(20).to_dict()
    run = certify_run(plan, 20)
    assert (run.epochs, run.conclusive) == (20, True)
    assert certify_run(plan, 3).certificate.num_batches == plan.certificate(3).num_batches


def test_a_plan_that_repeats_is_looked_at_once():
    run = certify_run(BatchPlan(LABELS, 16, scheme="partition", binding="none"), 1000)
    assert not run.certificate.holds
    assert (run.epochs, run.conclusive) == (1, True)


def test_prototypes_are_in_every_batch():
    plan = BatchPlan(LABELS, 16, scheme="partition", binding="none")
    run = certify_run(plan, 5, prototypes=True).certificate
    assert run.holds
    extra = np.arange(101, 105)
    by_hand = certify(np.append(LABELS, [0, 1, 2, 3]), [np.append(batch, extra) for batch in plan.batches(0)])
    assert run.to_dict() == by_hand.to_dict()
    assert certify(LABELS, plan.batches(0), prototypes=True).to_dict() == by_hand.to_dict()


def test_names_replace_labels_in_their_order():
    plan = BatchPlan(LABELS, 16, binding="none")
    run = certify_run(plan, 1, names=["zebra", "yak", "ant", "bee"]).certificate
    plain = plan.certificate()
    assert list(run.components) == ["zebra", "yak", "ant", "bee"]
    assert list(run.components.values()) == list(plain.components.values())
    assert "zebra" in run.sentence()
    with pytest.raises(ValueError, match="3 entries, and the plan 4 classes"):
        certify_run(plan, 1, names=["a", "b", "c"])


def test_the_denominator_matters():
    plan = BatchPlan([0, 0], None, scheme="full", binding="none", views=2)  # a single class, and views that coincide
    assert certify_run(plan, 1).certificate.holds
    assert not certify_run(plan, 1, denominator="sincere").certificate.holds


def test_refusals_name_the_option():
    plan = BatchPlan(LABELS, 16)
    with pytest.raises(OptionError, match="denominator must be one of 'all'"):
        certify_run(plan, 1, denominator="some")
    with pytest.raises(OptionError, match="epochs must be at least 1"):
        certify_run(plan, 0)


def test_a_frame_term_is_certified_by_any_plan_that_shows_every_sample():
    plan = BatchPlan(LABELS, 4, binding="none")
    assert not certify_run(plan, 20).certificate.holds
    run = certify_run(plan, 20, frame=True)
    assert run.certificate.holds
    assert (run.epochs, run.conclusive) == (1, True)
    assert run.certificate.to_dict() == plan.certificate(frame=True).to_dict()
    short = BatchPlan(LABELS, 16, scheme="partition", binding="none", drop_last=True)
    assert certify_run(short, 20, frame=True).certificate.absent == 101 % 16


@pytest.mark.parametrize("frame", [False, True])
def test_samples_that_a_later_epoch_shows(frame):
    labels = np.repeat(np.arange(40), [961] + [1] * 39)
    plan = BatchPlan(labels, 100, scheme="weighted", power=0, binding="fixed")
    assert plan.epochs_to_show_all == 39  # 25 of the 961 in an epoch
    short, long = certify_run(plan, 20, frame=frame), certify_run(plan, 1000, frame=frame)
    assert (short.epochs, short.conclusive) == (20, True)
    assert (long.epochs, long.conclusive) == (20, False)
    assert short.certificate.absent == 961 - 20 * 25 - 1 + (plan.examples[0][0] in _drawn(plan, 20))
    for run in (short, long):
        assert not run.certificate.holds
        assert run.sentence().startswith("Not certified in 20 epochs: ")
        assert "samples are in no batch" in run.sentence()
        assert run.sentence().endswith(" The plan needs 39 epochs to show all.")
        assert "Add them" not in run.sentence()
    sooner = certify_run(BatchPlan(labels, 100, scheme="weighted", power=1, binding="fixed"), 20, frame=frame)
    assert sooner.certificate.holds
    assert sooner.sentence() == sooner.certificate.sentence()


def _drawn(plan, epochs):
    return set(np.concatenate([plan._class_draws.rows(epoch) for epoch in range(epochs)]).tolist())


def test_the_sentence_of_a_plan_that_shows_all_is_that_of_its_certificate():
    run = certify_run(BatchPlan(LABELS, 4, binding="none"), 1000)
    assert not run.certificate.holds
    assert run.sentence() == run.certificate.sentence()
