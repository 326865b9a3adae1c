"""A network on batches that are given: two plans that differ in what the certificate says, and in little else."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orthoframe_studies._endings import PROVEN
from orthoframe_studies._jobs import JobResult, Number

if TYPE_CHECKING:
    from torch import Tensor

Plan = Literal["pair never anchored", "certified"]

_PAIR = (1, 8)  # the classes that one of the plans does not push apart: digits that look alike
_CHUNK = 4  # rows of each class in a batch
_CLASSES = 10


def plan_batches(labels: Sequence[int], plan: Plan) -> list[list[int]]:
    """Batches that connect every class, and in which every two classes meet.

    Half of the batches lack the second class of the pair, and half the first. The pair meets in one more batch, with
    one row each: a class of one row has no term of its own there, so that nothing pushes the two apart. The plan
    `certified` has a second row of the first class in that batch, in place of one of another class.

    Args:
        labels: Class of each sample, from 0 to 9, as many of each.
        plan: Which of the two.
    """
    members: list[list[int]] = [[] for _ in range(_CLASSES)]
    for sample, label in enumerate(labels):
        members[label].append(sample)
    batches = []
    number = len(members[0]) // _CHUNK
    for place in range(number):
        absent = _PAIR[place % 2]
        batch = []
        for c, own in enumerate(members):
            if c == absent:
                continue
            # A class that only half of the batches have must bring all of its rows in these.
            half = c in _PAIR
            width, start = (2 * _CHUNK, place // 2) if half else (_CHUNK, place)
            batch += sorted({own[0], *own[start * width : (start + 1) * width]})
        batches.append(batch)
    others = [own[:2] for c, own in enumerate(members) if c not in _PAIR]
    if plan == "certified":
        others[-1] = others[-1][:1]
    first = members[_PAIR[0]][: 2 if plan == "certified" else 1]
    return [*batches, [*first, members[_PAIR[1]][0], *(row for rows in others for row in rows)]]


@dataclass(frozen=True)
class PlannedNetwork:
    """An MLP on the digits, trained on the batches of `plan_batches` while the temperature rises from 0.1 to 0.5.

    Attributes:
        images: Of each class.
    """

    plan: Plan
    seed: int
    images: int = 40
    epochs: int = 200
    lr: float = 0.05
    width: int = 256

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "planned", "pair": list(_PAIR), **asdict(self)}

    def run(self, folder: Path, data_dir: Path | None) -> JobResult:
        import torch

        from orthoframe.batches import certify
        from orthoframe.data import Normaliser, load_data
        from orthoframe.encoders import make_frame_encoder
        from orthoframe.geometry import measure
        from orthoframe.losses import supcon_loss

        data = load_data("digits").train
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(self.seed))
        chosen = torch.cat([order[data.labels[order] == c][: self.images] for c in range(_CLASSES)])
        images, labels = Normaliser.of(data)(data.pixels[chosen]), data.labels[chosen]  # type: ignore[index]
        batches = [torch.tensor(batch) for batch in plan_batches(labels.tolist(), self.plan)]
        torch.manual_seed(self.seed)
        encoder = make_frame_encoder("mlp", data.image_shape, width=self.width, head="linear")
        optimizer = torch.optim.SGD(encoder.parameters(), self.lr, 0.9, weight_decay=5e-4, nesterov=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.epochs * len(batches))
        temperature = 0.1
        for epoch in range(self.epochs):
            temperature = 0.1 + 0.4 * epoch / max(1, self.epochs - 1)
            for batch in batches:
                optimizer.zero_grad()
                loss = supcon_loss(encoder(images[batch]), labels[batch], temperature=temperature)
                torch.autograd.backward(loss)
                optimizer.step()
                schedule.step()
        with torch.no_grad():
            rows = encoder.eval()(images).double()
        found, certificate = measure(rows, labels), certify(labels.tolist(), [batch.tolist() for batch in batches])
        cosines = found.cosines.clone().fill_diagonal_(0.0)
        pair = float(cosines[_PAIR])
        cosines[_PAIR], cosines[_PAIR[::-1]] = 0.0, 0.0
        bound = _largest_bound(rows, labels, batches, temperature)
        final: dict[str, Number] = {
            "delta_of": found.delta_of,
            "live_delta_of": found.live_delta_of,
            "beta_nc": found.beta_nc,
            "dead_rows": found.dead_rows,
            "pair_cosine": pair,
            "max_other_cosine": float(cosines.max()),
            "angle_bound": bound,
            "converged": float(bound <= PROVEN),  # of every class in every batch, which is all that there is to gain
            "certified": float(certificate.holds),
            "as_stated": float(certificate.holds_as_stated),
        }
        return JobResult(final, {}, found.cosines.tolist())


def _largest_bound(rows: "Tensor", labels: "Tensor", batches: "Sequence[Tensor]", temperature: float) -> float:
    """The largest deviation from a frame that the gap of any class in any batch allows."""
    import torch

    from orthoframe.losses import angle_bound, supcon_loss

    found = 0.0
    for batch in batches:
        own = labels[batch]
        terms = supcon_loss(rows[batch], own, temperature=temperature, reduction="none")
        for c, count in zip(*torch.unique(own, return_counts=True), strict=True):
            positives, negatives = int(count) - 1, len(own) - int(count)
            if positives:
                gap = float(terms[own == c].mean()) - math.log(positives + negatives * math.exp(-1 / temperature))
                found = max(found, float(angle_bound(gap, positives, negatives, temperature=temperature)))
    return found
