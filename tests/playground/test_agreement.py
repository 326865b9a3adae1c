"""The mathematics of the page agrees with the library: losses, gradients, floors, certificates, witnesses, repairs."""

import json

import numpy as np
import pytest
import torch
from tests.browser import needs_browser

from orthoframe import certify, frame_floor, frame_loss, loss_floor, make_frame, measure, repair, supcon_loss

pytestmark = needs_browser
NAMES = np.array(list("ABCDEF"))
# Sums of at most a few thousand float64 terms, each of at most 30 = (1 + m)/tau + log N; this is what was promised.
CLOSE = 1e-9

EVALUATE = """
return JSON.parse(arguments[0]).map(({classes, k, batches, options, dim, values}) => {
  const of = orthoframe;
  const rows = of.makeRows(classes.length, dim, Float64Array.from(values));
  const objective = of.makeObjective(classes, k, batches, options);
  const {value, gradient} = objective.evaluate(rows);
  const along = of.tangent(gradient, rows);
  return {value, floor: objective.floor, divisor: objective.divisor, gradient: [...gradient], tangent: [...along],
          ...of.measure(rows, classes, k)};
});
"""
CERTIFY = """
return JSON.parse(arguments[0]).map(({classes, k, batches, options}) => {
  const of = orthoframe;
  const byFrame = options.loss === "frame";
  const found = of.certify(new of.Scan(classes, k).add(batches), of.NAMES, byFrame);
  const rows = of.witness(found);
  return {...found, scan: null, witness: rows && {dim: rows.dim, values: [...rows.values]},
          repaired: of.repair(classes, k, batches, byFrame)};
});
"""


def random_batches(rng, classes, k):
    """Lists of every kind: partitions, subsets, repeated rows, batches of one class, samples in no batch."""
    n, kind = len(classes), rng.integers(6)
    if kind == 0:
        return [np.arange(n)]
    if kind == 1:
        return np.array_split(rng.permutation(n), int(rng.integers(1, max(2, n // 2))))
    if kind == 2:
        return [rng.integers(n, size=rng.integers(1, 7)) for _ in range(rng.integers(1, 9))]
    if kind == 3:  # a partition, bound by one sample of each class
        examples = [rng.choice(np.flatnonzero(classes == c)) for c in range(k)]
        return [np.concatenate([part, examples]) for part in np.array_split(rng.permutation(n), 3)]
    if kind == 4:  # all classes meet; what is left of some is in batches of that class alone, of two or three rows
        apart = rng.random(n) < 0.4
        left = [rng.permutation(np.flatnonzero(apart & (classes == c))) for c in range(k)]
        chosen = [members for members in left if len(members) > 1]
        pieces = [members[start : start + 2 + rng.integers(2)] for members in chosen for start in (0, 1, 2)]
        return [np.flatnonzero(~apart), *(piece for piece in pieces if len(piece))]
    groups = [rng.permutation(np.flatnonzero(classes == rng.integers(k)))[: rng.integers(1, 5)] for _ in range(5)]
    return [*groups, *(rng.permutation(n)[: rng.integers(1, 6)] for _ in range(rng.integers(0, 4)))]


def random_case(rng):
    k = int(rng.integers(3, 7))
    sizes = rng.integers(1, 8, size=k)
    classes = np.repeat(np.arange(k), sizes)
    dim = k + int(rng.integers(0, 3))
    values = rng.normal(size=(len(classes), dim))
    values = np.abs(values) if rng.integers(2) else values
    batches = [batch.tolist() for batch in random_batches(rng, classes, k)]
    options = {
        "loss": ["contrastive", "frame"][int(rng.integers(3) == 0)],
        "temperature": float(np.exp(rng.uniform(np.log(0.05), np.log(2)))),
        "margin": float(rng.choice([0.0, rng.uniform(0, 1)])),
    }
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return {"classes": classes.tolist(), "k": k, "batches": batches, "options": options, "dim": dim, "values": values}


def asked(browser, script, cases):
    return browser.execute_script(
        script, json.dumps([case | {"values": case["values"].ravel().tolist()} for case in cases])
    )


def expected_loss(case, rows, *, normalize):
    """The mean of the library's loss over the batches, and its floor."""
    classes, k, options = torch.tensor(case["classes"]), case["k"], dict(case["options"])
    name, batches = options.pop("loss"), [torch.tensor(batch) for batch in case["batches"]]
    if name == "frame":
        every = torch.cat(batches)
        options["shares"] = torch.bincount(classes[every], minlength=k).clamp(min=1)
        frame = make_frame(k, case["dim"], dtype=torch.float64)
        loss = frame_loss(rows[every], classes[every], frame, **options)
        return loss, float(frame_floor(classes[every], k, **options)), len(every)
    total, floor, anchors = torch.zeros((), dtype=torch.float64), 0.0, 0
    for batch in batches:
        total = total + supcon_loss(rows[batch], classes[batch], reduction="sum", normalize=normalize, **options)
        floor += float(loss_floor(classes[batch], reduction="sum", **options))
        counts = torch.bincount(classes[batch])
        anchors += int(counts[counts > 1].sum())
    return total / max(1, anchors), floor / max(1, anchors), anchors


def gradient_of(case, *, normalize):
    rows = torch.from_numpy(case["values"]).requires_grad_()
    loss, floor, divisor = expected_loss(case, rows, normalize=normalize)
    gradient = torch.autograd.grad(loss, rows)[0] if loss.requires_grad else torch.zeros_like(rows)
    return float(loss.detach()), floor, divisor, gradient.numpy().ravel()


def test_losses_gradients_and_floors(opened):
    rng = np.random.default_rng(20)
    cases = [random_case(rng) for _ in range(100)]
    for case, answer in zip(cases, asked(opened("#preset=1"), EVALUATE, cases), strict=True):
        value, floor, divisor, tangent = gradient_of(case, normalize=True)
        assert answer["divisor"] == divisor
        assert answer["value"] == pytest.approx(value, rel=0, abs=CLOSE)
        assert answer["floor"] == pytest.approx(floor, rel=0, abs=CLOSE)
        assert np.abs(np.array(answer["tangent"]) - tangent).max() < CLOSE
        if case["options"]["loss"] == "contrastive":
            assert np.abs(np.array(answer["gradient"]) - gradient_of(case, normalize=False)[3]).max() < CLOSE
        geometry = measure(case["values"], case["classes"], num_classes=case["k"])
        assert answer["delta"] == pytest.approx(geometry.delta_of, rel=0, abs=CLOSE)
        assert np.abs(np.array(answer["cosines"]) - geometry.cosines.numpy()).max() < CLOSE
    kinds = {case["options"]["loss"] for case in cases}
    assert kinds == {"contrastive", "frame"}


def test_certificates_witnesses_and_repairs(opened):
    rng = np.random.default_rng(21)
    cases = [random_case(rng) for _ in range(400)]
    verdicts = set()
    for case, answer in zip(cases, asked(opened("#preset=1"), CERTIFY, cases), strict=True):
        labels, frame = NAMES[case["classes"]], case["options"]["loss"] == "frame"
        certificate = certify(labels, case["batches"], frame=frame)
        assert answer["holds"] == certificate.holds
        assert answer["sentence"] == certificate.sentence()
        assert answer["reasons"] == certificate.reasons()
        assert answer["absent"] == list(certificate.absent_samples)
        assert answer["additions"] == certificate.additions_to_connect
        if not frame:
            assert answer["pieces"] == list(certificate.components.values())
            assert [tuple(NAMES[pair]) for pair in answer["missing"]] == list(certificate.missing_pairs)
            assert answer["repaired"] == [batch.tolist() for batch in repair(labels, case["batches"])]
        assert certify(labels, answer["repaired"], frame=frame).holds
        witness = certificate.witness()
        assert (answer["witness"] is None) == (witness is None)
        if witness is not None:
            rows = np.array(answer["witness"]["values"]).reshape(len(labels), answer["witness"]["dim"])
            assert rows.shape == witness.shape
            assert np.abs(rows - witness).max() < CLOSE
        verdicts.add((frame, certificate.holds))
    assert len(verdicts) == 4  # both answers, with and without a frame term


def test_a_witness_is_at_the_floor(opened):
    rng = np.random.default_rng(22)
    cases = [random_case(rng) for _ in range(100)]
    browser = opened("#preset=1")
    witnesses = []
    for case, answer in zip(cases, asked(browser, CERTIFY, cases), strict=True):
        if answer["witness"] is not None:
            values = np.array(answer["witness"]["values"]).reshape(-1, answer["witness"]["dim"])
            witnesses.append(case | {"values": values, "dim": values.shape[1]})
    assert len(witnesses) > 20
    for case, answer in zip(witnesses, asked(browser, EVALUATE, witnesses), strict=True):
        assert answer["value"] == pytest.approx(answer["floor"], rel=0, abs=CLOSE), case["options"]
        assert answer["delta"] > 1e-4
