"""`orthoframe measure`: how are the features of classes arranged?"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from orthoframe.cli._files import PICTURES, check_output, open_features, read_classifier, read_labels, write_figure
from orthoframe.cli._terminal import Flag, Picture, bad_input, progress
from orthoframe.errors import InputError
from orthoframe.files import json_ready
from orthoframe.options import TEMPERATURE, check_temperature

if TYPE_CHECKING:
    from orthoframe.geometry import Geometry

# With more distinct class sizes the prediction is slow, and made only if asked for.
_MOST_SIZES = 30


@dataclass(frozen=True)
class MeasureCommand:
    """Measure the geometry of any embedding: distance to an orthogonal frame, collapse, ownership, accuracy.

    Features are read twice, some rows at a time: they need not fit into memory.

    Exit status: 0 measured, 2 bad input. For example:

    orthoframe measure features.npy labels.txt --plot geometry.png
    """

    features: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FEATURES")]
    """Features [rows, dim]: .npy, .npz, .safetensors, or .csv of numbers, with or without a header."""
    labels: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="LABELS")]
    """The class of each row: .npy, .npz, .safetensors, .txt (one per line), or .csv (see --column)."""
    key: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The array of features in a .npz or .safetensors file (default: the only one, or the one called features)."""
    column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The column of labels in a .csv file."""
    classifier: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A linear classifier of the features, for NC3 and NC4: weight [classes, dim] and bias, .safetensors or .npz."""
    raw: Flag = False
    """Measure the rows without normalising them to unit length."""
    temperature: Annotated[float | None, tyro.conf.arg(metavar="TAU")] = None
    """Compare with the optimum without ReLU at this temperature (default: 0.1, for at most 30 class sizes)."""
    ownership: Flag = False
    """Also print the dimensions that each class owns, their purity, and the fraction of its mean inside them."""
    json: Flag = False
    """Print everything as JSON instead of a table."""
    plot: Picture = None
    """Draw the cosines of class means, the ownership of dimensions, and a histogram of the cosines."""

    def run(self) -> int:
        """Print the measures, and draw them if asked to."""
        check_output(self.plot, "plot", *PICTURES)
        if self.temperature is not None:
            check_temperature(self.temperature)
        geometry = self._measured()
        if self.plot:
            from orthoframe.reporting import geometry_figure

            write_figure(self.plot, geometry_figure(geometry))
        if self.json:
            print(json.dumps(json_ready({**geometry.to_dict(), "predicted": self._predicted(geometry)}), indent=2))
            return 0
        print(geometry, flush=True)  # the prediction may take a while
        predicted = self._predicted(geometry)
        if predicted is not None:
            distance = f"{predicted['distance']:.4g} (tau {predicted['temperature']:g})"
            print(f"{'distance to no-ReLU optimum':<36}  {distance}")
        if self.ownership:
            print(f"\n{geometry.ownership.table(geometry.names)}")
        return 0

    def _measured(self) -> "Geometry":
        import torch

        from orthoframe._rows import Labels
        from orthoframe.geometry import measure_parts

        features = open_features(self.features, self.key)
        labels = Labels.of(read_labels(self.labels, self.column))
        if len(labels.classes) != features.rows:
            counts = f"{features.rows} rows and {self.labels} {len(labels.classes)} labels"
            raise InputError(f"{self.features} has {counts}; they must agree")
        classes = torch.from_numpy(labels.classes).long()
        linear = None
        if self.classifier is not None:
            linear = read_classifier(self.classifier, len(labels.names), features.dim)
        with bad_input(self.features), progress() as bar:
            task = bar.add_task("measuring", total=2 * features.rows)

            def parts() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
                start = 0
                for part in features.parts():
                    yield part, classes[start : start + len(part)]
                    start += len(part)
                    bar.advance(task, len(part))

            return measure_parts(parts, features.dim, labels.names, classifier=linear, normalize=not self.raw)

    def _predicted(self, geometry: "Geometry") -> dict[str, float] | None:
        """Distance to the optimum without ReLU for classes of these sizes; None if there is no prediction."""
        if self.temperature is None and len(set(geometry.counts)) > _MOST_SIZES:
            return None
        from orthoframe.ufm import predict_gram

        temperature = TEMPERATURE if self.temperature is None else self.temperature
        try:
            gram = predict_gram(list(geometry.counts), temperature=temperature)
        except (ValueError, RuntimeError) as error:  # no class has two rows, say
            print(f"orthoframe: no prediction without ReLU: {error}", file=sys.stderr)
            return None
        return {"temperature": temperature, "distance": geometry.distance_to(gram)}
