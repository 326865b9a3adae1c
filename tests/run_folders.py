"""Run folders as training writes them, made of features that move towards a frame."""

import csv
import json
import math

import msgspec
import numpy as np
import torch

from orthoframe import BatchPlan, certify, collapsed_loss, loss_floor, measure, supcon_loss
from orthoframe.files import json_ready
from orthoframe.runs import COLUMNS, Cause, CauseRecord, Ending, Signature, VerdictRecord

CONFIG = {
    "data": "digits",
    "imbalance": "step",
    "ratio": 10,
    "majority": 100,
    "model": "mlp",
    "width": 256,
    "head": "linear",
    "activation": "relu",
    "loss": "supcon",
    "denominator": "all",
    "temperature": "0.1",
    "scheme": "reshuffle",
    "binding": "fixed",
    "batch_size": 128,
    "views": 1,
    "epochs": 60,
    "lr": 0.1,
    "precision": "32",
    "devices": 1,
    "compile": False,
    "seed": 0,
    "recipe": None,
    "version": "0.1.0",
}
GOOD = VerdictRecord(
    sentence="The frame is reached: class means are orthogonal to within 0.0003 and every class has collapsed, so the "
    "loss is at its floor.",
    reached=True,
    signature=Signature.FRAME,
    ending=None,
    causes=(),
)
BAD = VerdictRecord(
    sentence="Class means are not orthogonal: the distance to a frame stays at 0.35, and the largest cosine is 0.62.",
    reached=False,
    signature=Signature.NOT_ORTHOGONAL,
    ending=Ending.STALLED,
    causes=(
        CauseRecord(Cause.NEGATIVE, "The head has no non-negative activation.", "activation='relu'"),
        CauseRecord(Cause.UNCERTIFIED, "Classes 3 and 7 never meet in a batch.", "binding='fixed'"),
    ),
)


def write_run(
    folder,
    *,
    counts=(100,) * 5 + (10,) * 5,
    names=None,
    dim=64,
    epochs=60,
    every=5,
    rate=0.12,
    nonnegative=True,
    binding="fixed",
    loss="supcon",
    verdict=GOOD,
    seed=0,
    **config,
):
    """Write a folder: the features of epoch t are `1 - exp(-rate t)` of the way from noise to a frame."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    k = len(counts)
    labels = np.repeat(np.arange(k), counts)
    named = labels if names is None else np.array(names)[labels]
    plan = BatchPlan(labels, min(128, len(labels)), binding=binding, seed=seed)
    noise, test_noise = random.normal(size=(2, len(labels), dim))
    common = np.abs(random.normal(size=dim))
    owner = np.arange(dim) % k
    classes = owner[None, :] == np.arange(k)[:, None]

    def features(epoch, rows, furthest=1.0):
        way = min(1 - math.exp(-rate * epoch), furthest)
        outputs = way * 3 * classes[labels] + (1 - way) * (common + 0.7 * rows) + 0.02 * (1 - way) * rows
        return np.maximum(outputs, 0) if nonnegative else outputs - 0.6 * outputs.mean(1, keepdims=True)

    rows, lines = [], []
    for epoch in range(1, epochs + 1):
        train = torch.from_numpy(features(epoch, noise)).float()
        row = dict.fromkeys(COLUMNS, "")
        row |= {"epoch": epoch, "seconds": 0.31, "lr": 0.1, "temperature": 0.1, "loss": 2.3 * math.exp(-epoch / 9)}
        if loss == "supcon":
            batch = torch.from_numpy(plan.batches(epoch)[0])
            drawn = torch.from_numpy(labels)[batch]
            row["loss"] = float(supcon_loss(train[batch], drawn))
            row["floor"] = float(loss_floor(drawn))
            row["gap"] = row["loss"] - row["floor"]
            row["collapsed"] = float(collapsed_loss(drawn))
        if epoch % every == 0 or epoch in (1, epochs):
            geometry = measure(train, named)
            test = measure(torch.from_numpy(features(epoch, 5 * test_noise, 0.55)).float(), named)
            row |= {"delta_of": geometry.delta_of, "delta_etf": geometry.delta_etf, "beta_nc": geometry.beta_nc}
            row |= {"balanced_accuracy": geometry.accuracy.balanced, "worst_accuracy": geometry.accuracy.worst}
            row |= {"test_balanced_accuracy": test.accuracy.balanced, "test_worst_accuracy": test.accuracy.worst}
            row |= {"dead_rows": geometry.dead_rows, "live_dimensions": dim - geometry.ownership.dead}
            lines.append({"epoch": epoch, "train": geometry.to_dict(), "test": test.to_dict()["accuracy"]})
        rows.append(row)
    with (folder / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (folder / "geometry.jsonl").write_text("".join(json.dumps(json_ready(line)) + "\n" for line in lines))
    settings = {**CONFIG, "loss": loss, "binding": binding, "epochs": epochs, "seed": seed, **config}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "verdict.json").write_bytes(msgspec.json.encode(verdict))
    if loss == "supcon":
        certified = certify(named, [batch for epoch in range(3) for batch in plan.batches(epoch)])
        (folder / "certificate.json").write_text(json.dumps({**certified.to_dict(), "epochs": 3}))
    return folder
