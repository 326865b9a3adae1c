"""Two processes hear and measure what one would."""

import pytest
import torch

from orthoframe import BatchPlan, FrameLoss, PlanLoader, SupConLoss, frame_floor, loss_floor, measure
from orthoframe.callbacks import GapListener, GeometryRecorder, shared_rows
from processes import start

LABELS = [0] * 30 + [1] * 11
FRAMES = [(0.5, True), (0.0, False), (0.5, False)]  # weight of the contrastive part, and whether it is joined


def rows(seed, count):
    generator = torch.Generator().manual_seed(seed)
    features = torch.rand(count, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    return features, torch.randint(0, 3, (count,), generator=generator)


def _worker(rank):
    return {"gaps": _gaps(rank), "shares": _shares(rank), "batches": _batches(rank)}


def _batches(rank):
    return [batch.tolist() for batch in PlanLoader(torch.arange(41), BatchPlan(LABELS, 8))]


def _gaps(rank):
    gaps = []
    losses = [SupConLoss(0.3, gather=gather) for gather in (True, False, True)]
    losses += [FrameLoss(3, 5, 0.3, supcon=supcon, gather=gather) for supcon, gather in FRAMES]
    for number, loss in enumerate(losses):
        keyed = number == 2
        listener = GapListener(loss)
        for seed in range(2):
            features, labels = rows(10 * rank + seed, 6 + 3 * rank)
            keys = (torch.eye(3, 5, dtype=torch.float64), torch.arange(3)) if keyed else ()
            loss(features, labels, *keys).backward()
        gap = listener.read()
        gaps.append(None if gap is None else [gap.loss, gap.floor])
    return gaps


def _shares(rank):
    features, labels = torch.eye(3).repeat(7, 1) + 0.1, torch.arange(3).repeat(7)
    data = list(zip(features, labels, strict=True))
    recorder = GeometryRecorder(3, 1, None, "geometry")
    numbers = recorder.measure(1, ((rows, classes) for rows, classes in shared_rows(data)))
    return numbers, sum(recorder.geometry.counts), sum(len(classes) for _, classes in shared_rows(data))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    return start(_worker, 2, tmp_path_factory.mktemp("two"))


def test_the_gap(both):
    """Joined batches have a joined floor, others the mean of their floors; each process's own keys have none."""
    first, second = (result["gaps"] for result in both)
    assert first == second
    parts = [[rows(10 * rank + seed, 6 + 3 * rank) for rank in range(2)] for seed in range(2)]
    joined, apart = [], []
    for pair in parts:
        joined.append(float(loss_floor(torch.cat([labels for _, labels in pair]), temperature=0.3)))
        apart.append(sum(float(loss_floor(labels, temperature=0.3)) for _, labels in pair) / 2)
    whole = [SupConLoss(0.3)(*(torch.cat(part) for part in zip(*pair, strict=True))).item() for pair in parts]
    assert first[0] == pytest.approx([sum(whole) / 2, sum(joined) / 2])
    assert first[1][1] == pytest.approx(sum(apart) / 2)
    assert first[2] is None
    # The frame term is always a mean over all rows.
    batches = [[torch.cat(part) for part in zip(*pair, strict=True)] for pair in parts]
    frame = sum(float(frame_floor(labels, 3, temperature=0.3)) for _, labels in batches) / 2
    for gap, (supcon, gather) in zip(first[3:], FRAMES, strict=True):
        if supcon and not gather:
            assert gap is None
            continue
        values = [FrameLoss(3, 5, 0.3, supcon=supcon)(*batch).item() for batch in batches]
        assert gap == pytest.approx([sum(values) / 2, frame + supcon * sum(joined) / 2], rel=1e-6)


def test_rows_are_shared_and_the_whole_is_known(both):
    (first, counted, mine), (second, _, theirs) = (result["shares"] for result in both)
    assert first == second
    assert (counted, mine + theirs) == (21, 21)
    whole = measure(torch.eye(3).repeat(7, 1) + 0.1, torch.arange(3).repeat(7))
    assert first["geometry/delta_of"] == pytest.approx(whole.delta_of)


def test_the_loader_finds_its_rank(both):
    batches = BatchPlan(LABELS, 8).batches(0)
    assert [result["batches"] for result in both] == [[batch[rank::2].tolist() for batch in batches] for rank in (0, 1)]
