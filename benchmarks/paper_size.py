"""The paper's size on two cores: CIFAR-10, STEP, R = 10, 27,500 images, to the frame and to accuracy at once.

One run of the recipe `accurate` with the goal `frame` and the network `conv6`. What was chosen, and on which images, is
in docs/results/paper-size.md. Images are looked for in ORTHOFRAME_DATA.

The same command goes on where it was stopped:

    python benchmarks/paper_size.py --run build/paper-size --json docs/results/paper-size.json
"""

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from _image_speed import flops_per_row
from orthoframe.geometry import accuracy_of
from orthoframe.runs import EpochRecord, load_encoder
from orthoframe.training import Loop, RunListener, Settings, make_task, resume, train

PAPER = 1.6e16  # FLOPs of the paper's recipe: ResNet-18, 350 epochs
DELTA, ACCURACY, MINUTES = 0.05, 0.85, 60.0  # what is aimed at
SETTINGS: dict[str, Any] = {
    **{"data": "cifar10", "majority": 5000, "ratio": 10.0, "model": "conv6", "width": 64},
    **{"epochs": 36, "lr_schedule": "linear", "clean_fraction": 0.03, "temperature": 0.2, "adjust": 0.25},
    **{"measure_every": 36, "precision": "bf16-mixed"},
}


def main() -> None:
    """Train, or go on, and print what was found beside what is aimed at."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path("build/paper-size"), help="folder of the run")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()

    def on_epoch(record: EpochRecord) -> None:
        shown = "" if record.delta_of is None else f", Delta_GM {record.delta_of:.3f}"
        print(f"epoch {record.epoch}: loss {record.loss:.4f}{shown}, {record.seconds:.0f} s", flush=True)

    listener = RunListener(on_epoch=on_epoch)
    if (arguments.run / "config.json").exists():
        result = resume(arguments.run, listener)
    else:
        result = train(Settings.of(recipe="accurate", goal="frame", **SETTINGS), arguments.run, listener)
    assert result is not None
    task = make_task(result.settings)
    rows = sum(len(batch) for epoch in range(task.settings.schedule.epochs) for batch in task.plan.batches(epoch))
    flops = rows * flops_per_row(Loop(task, Fabric(accelerator="cpu", devices=1)))
    minutes, tested = sum(record.seconds for record in result.records) / 60, result.diagnosis.test.accuracy
    results: dict[str, Any] = {
        "minutes": minutes,
        "delta": result.evaluation.geometry.delta_of,
        "balanced": tested.balanced,
    }
    results |= {"minority": tested.minority, "worst": tested.worst, "rows": rows, "flops": flops}
    trained, test = load_encoder(arguments.run), task.test
    assert isinstance(test.pixels, torch.Tensor)  # a benchmark set is never streamed
    scores, _ = trained.classify(trained.features(test.pixels, mirror=True))
    mirrored = accuracy_of(scores, test.labels, test.classes, torch.tensor(task.class_counts))
    results["mirrored"] = {"balanced": mirrored.balanced, "minority": mirrored.minority, "worst": mirrored.worst}
    for name, value, aim, good in (
        ("Delta_GM of the training images", results["delta"], DELTA, results["delta"] <= DELTA),
        ("balanced accuracy of the test images", results["balanced"], ACCURACY, results["balanced"] >= ACCURACY),
        ("the same, with mirror images (twice the time)", mirrored.balanced, ACCURACY, mirrored.balanced >= ACCURACY),
        ("minutes of training, with measurements", minutes, MINUTES, minutes <= MINUTES),
    ):
        print(f"{name}: {value:.4g} (aim {aim:g}){'' if good else ' !'}")
    print(f"{flops:.2e} FLOPs, {PAPER / flops:.0f} times less than the paper's recipe ({PAPER:.1e})")
    if arguments.json:
        about: dict[str, Any] = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
        about |= {"threads": torch.get_num_threads(), "load": os.getloadavg()[0]}
        epochs = [{"loss": r.loss, "delta": r.delta_of, "seconds": r.seconds} for r in result.records]
        arguments.json.write_text(json.dumps({**about, **results, "epochs": epochs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
