"""`orthoframe evaluate`: how good is a trained encoder on labelled images?"""

import csv
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro

from orthoframe.cli._files import cell
from orthoframe.cli._terminal import Flag, Folder, progress
from orthoframe.errors import InputError, Option, brief
from orthoframe.files import json_ready, write_json, writing

if TYPE_CHECKING:
    from orthoframe.data import Data, LabelledImages
    from orthoframe.runs import RunFolder, TrainedEncoder
    from orthoframe.training import Settings

_BATCH = 256
_SHOWN = 10  # classes on the terminal
_MISTAKES = 60  # pictures
_RATES = ("recall", "precision", "f1")


@dataclass(frozen=True)
class EvaluateCommand:
    """Evaluate a trained encoder on labelled images: recall, precision, F1, confusions, calibration, mistakes.

    The test images of DATA are classified, or all images if it has none; of the data of the run those that the run held
    out for its test. Macro averages are over the classes that have images; balanced rates count all classes the same,
    however many images they have. Images of classes that the run does not know are named and left out.

    Exit status: 0 evaluated, 2 bad input. For example:

    orthoframe evaluate runs/photos folder:more-photos --out evaluation
    """

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a run, or its encoder.safetensors."""
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """folder:PATH (a sub-folder for each class), csv:FILE, npz:FILE or a benchmark set."""
    out: Folder = None
    """Write evaluation.json, tables in CSV, and a page with the most confident mistakes to this new folder."""
    reject: Annotated[float | None, tyro.conf.arg(metavar="ERROR")] = None
    """Refuse images as orthoframe predict does; a refused image of a known class counts as a mistake."""
    path_column: str = "path"
    """The column of a csv:FILE with the paths of images, which are relative to the file."""
    label_column: str = "label"
    """The column with the classes."""
    split_column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The column that says train, validation or test."""
    code: Flag = False
    """Allow the Python function that the run names as its backbone, if there is one, to be imported and called."""

    def run(self) -> int:
        """Print how good it is, and write the files if asked to."""
        if self.out is not None:
            with writing(self.out, "out"):  # also for names that the system refuses
                is_new = not self.out.exists() and self.out.absolute().parent.is_dir()
            if not is_new:
                raise InputError(f"{self.out}: ", Option("out"), " must be a new folder, in a folder that exists")
        from orthoframe.runs import load_encoder

        trained = load_encoder(self.run_folder, code=self.code)
        trained.check_reject(self.reject)
        images, files = self._images(trained)
        report, pictures = self._evaluated(trained, images, files)
        if self.out is not None:
            with writing(self.out, "out"):
                _write(self.out, report, pictures)
        print("\n".join(_lines(report)))
        return 0

    def _images(self, trained: "TrainedEncoder") -> tuple["LabelledImages", tuple[Path, ...]]:
        """What is classified, and the files of the run's own data by the places of their images."""
        from orthoframe.data import load_test
        from orthoframe.runs import CONFIG, RunFolder
        from orthoframe.training import Settings

        names = ("path_column", "label_column", "split_column")
        columns = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(EvaluateCommand, name)}
        asked = Settings.of(data=self.data, **columns).absolute().images
        settings = None
        if (self.run_folder / CONFIG).exists():
            settings = RunFolder(self.run_folder).read_config(_data_settings)
        if settings is not None and settings.images.data == asked.data:
            seed = settings.machine.with_usual().seed
            data = settings.images.load(image_shape=trained.image_shape, seed=seed)
            _check_unchanged(RunFolder(self.run_folder), data)
            images, files = data.test, data.files
        else:
            asked = asked.filled({"fit": trained.preparation.fit}).with_usual()
            images, files = load_test(asked.data, **asked.reading(trained.image_shape)), ()
        if images.image_shape != trained.image_shape:
            shapes = f"{list(images.image_shape)}, and the run takes {list(trained.image_shape)}"
            raise InputError(f"{self.data}: its images are of [channels, height, width] = {shapes}")
        present = {name for name, count in zip(images.classes, images.class_counts, strict=True) if count}
        classes = set(trained.classes)
        if not present & classes:
            theirs, ours = (brief(", ".join(sorted(names))) for names in (present, classes))
            raise InputError(f"{self.data}: the run knows none of its classes {theirs}, but {ours}")
        for what, missing in (
            ("classes that the run does not know, whose images are left out", present - classes),
            ("classes of the run without images", classes - present),
        ):
            if missing:
                print(f"orthoframe: {what}: {brief(', '.join(sorted(missing)), 200)}", file=sys.stderr)
        return images, files

    def _evaluated(
        self, trained: "TrainedEncoder", images: "LabelledImages", files: tuple[Path, ...]
    ) -> tuple[dict[str, Any], Iterable[Any]]:
        """What is written and printed, and the pixels of the most confident mistakes."""
        import torch

        from orthoframe.geometry import ClassRates, Confusion, reliability

        parts, batches = [], np.split(np.arange(len(images)), range(_BATCH, len(images), _BATCH))
        with progress() as bar:
            for pixels in bar.track(images.batches(batches), total=len(batches), description="classifying"):
                before = trained.rows_before_head(pixels)
                parts.append((trained.classify(trained.features_of(before))[0], trained.refused(before, self.reject)))
        scores, refused = (torch.cat(each) for each in zip(*parts, strict=True))
        names, k, winners = trained.classes, len(trained.classes), scores.argmax(1)
        truth = torch.tensor([names.index(name) if name in names else -1 for name in images.classes])[images.labels]
        labelled = truth >= 0
        accepted = labelled & ~refused
        predicted, labels = winners.masked_fill(refused, k)[labelled], truth[labelled]
        rates, balanced = (ClassRates.of(predicted, labels, k, balanced=each) for each in (False, True))
        rows = (torch.bincount(labels, minlength=k).tolist(), *(getattr(rates, name) for name in _RATES))
        columns = ("class", "images", *_RATES, "balanced_precision")
        report: dict[str, Any] = {
            "data": self.data,
            "images": len(labels),
            "accuracy": float((predicted == labels).double().mean()),
            "balanced_accuracy": rates.means()["recall"],
            "macro": rates.means(),
            "balanced": balanced.means(),
            "classes": [
                dict(zip(columns, row, strict=True)) for row in zip(names, *rows, balanced.precision, strict=True)
            ],
            "confusions": [
                {"class": names[a], "predicted": names[b], "images": n}
                for a, b, n in Confusion.of(winners[accepted], truth[accepted], names).cells
            ],
        }
        for part, here in (("known", labelled), ("unknown", ~labelled)):
            if self.reject is not None and here.any():
                report[f"refused_of_{part}_classes"] = float(refused[here].double().mean())
        sure = scores.amax(1)
        if trained.calibration is not None:
            confidences = trained.calibration.confidences(scores)
            sure, table = confidences.amax(1), reliability(confidences[accepted], truth[accepted])
            gaps = table[0] * (table[1] - table[2]).abs()
            report["calibration_error"] = float(gaps.nansum() / max(1.0, float(table[0].sum())))
            report["reliability"] = [
                {"up_to": (n + 1) / table.shape[1], "images": int(count), "confidence": c, "accuracy": a}
                for n, (count, c, a) in enumerate(table.T.tolist())
            ]
        wrong = (accepted & (winners != truth)).nonzero()[:, 0]
        worst = wrong[sure[wrong].argsort(descending=True, stable=True)[:_MISTAKES]]
        report["mistakes"] = [
            {
                "image": str(files[images.origins([place])[0]]) if files else images.name_of(place),
                "class": names[truth[place]],
                "predicted": names[winners[place]],
                "score" if trained.calibration is None else "confidence": round(float(sure[place]), 6),
            }
            for place in worst.tolist()
        ]
        return json_ready(report), next(images.batches([worst.numpy()])) if len(worst) else ()


def _data_settings(config: dict[str, Any]) -> "Settings":
    """What the settings of a run say of its images."""
    from orthoframe.training import Settings, image_kind

    names = {each.name for each in fields(image_kind(config["data"]))} | {"seed"}
    return Settings.of(**{name: value for name, value in config.items() if name in names})


def _check_unchanged(folder: "RunFolder", data: "Data") -> None:
    """Refuse data that has changed since the run, which may have been trained on what is the test now."""
    from orthoframe.runs import DataFingerprint

    checkpoint, _ = folder.load_checkpoint()
    if checkpoint is None:
        blind = "has no checkpoint, which could tell whether its data has changed since"
        print(f"orthoframe: {folder.path} {blind}", file=sys.stderr)
        return
    then, now = checkpoint.progress.data, DataFingerprint.of(data)
    if (then.training_pixels, then.test_pixels) != (now.training_pixels, now.test_pixels):
        changed = "has changed since the run, which may have been trained on images that would be for the test now"
        raise InputError(f"{data.name} {changed}; put new images into a folder of their own")


def _lines(report: dict[str, Any]) -> Iterable[str]:
    """What the terminal shows."""
    yield f"{report['images']:,} images"
    for name in ("accuracy", "balanced_accuracy", "refused_of_known_classes", "refused_of_unknown_classes"):
        if name in report:
            yield f"{name.replace('_', ' ')}: {report[name]:.4f}"
    for kind in ("macro", "balanced"):
        yield f"{kind} {', '.join(f'{name} {report[kind][name]:.4f}' for name in _RATES)}"
    if "calibration_error" in report:
        yield f"expected calibration error: {report['calibration_error']:.4f} (0: perfectly calibrated)"
    yield "images, recall, precision and F1 of classes, the worst first:"
    for each in sorted((each for each in report["classes"] if each["images"]), key=lambda each: each["f1"])[:_SHOWN]:
        rates = "  ".join(f"{each[name]:.3f}" for name in _RATES)
        yield f"  {each['images']:>6,}  {rates}  {brief(each['class'], 40)}"


def _write(folder: Path, report: dict[str, Any], pictures: Iterable[Any]) -> None:
    """Write the folder whole or not at all."""
    from orthoframe.reporting import write_mistakes

    new = Path(tempfile.mkdtemp(dir=folder.absolute().parent, prefix=".orthoframe."))
    try:
        (new / "files").mkdir()  # with the permissions that a folder usually has
        write_json(new / "files" / "evaluation.json", report)
        for name in ("classes", "confusions", "reliability"):
            text = io.StringIO()
            rows = report.get(name, [])
            writer = csv.writer(text, lineterminator="\n")
            if rows:
                writer.writerow(rows[0])
            writer.writerows(list(map(cell, row.values())) for row in rows)
            (new / "files" / f"{name}.csv").write_text(text.getvalue(), encoding="utf-8")
        write_mistakes(report["mistakes"], pictures, new / "files" / "mistakes.html")
        os.rename(new / "files", folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
