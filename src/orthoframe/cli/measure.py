"""`orthoframe measure`: how are the features of classes arranged?"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from torch import Tensor

from orthoframe.cli._errors import BadInput
from orthoframe.cli._features import FeatureFile, open_features
from orthoframe.cli._files import check_figure, read_labels, write_figure
from orthoframe.cli._progress import progress


@dataclass(frozen=True)
class Measure:
    """Measure the geometry of any embedding: distance to an orthogonal frame, collapse, ownership, accuracy.

    Features are read twice, some rows at a time: they need not fit into memory. Exit status: 0 measured, 2 bad input.
    For example:

    orthoframe measure features.npy labels.txt --plot geometry.png
    """

    features: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FEATURES")]
    """`[rows, dim]`: .npy, .npz, .safetensors, or .csv with a number in every field."""
    labels: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="LABELS")]
    """The class of each row: .npy, .npz, .safetensors, .txt (one a line), or .csv (see --column)."""
    key: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The array of a .npz or .safetensors file that has the features (default: the only one, or features)."""
    column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The column of a .csv file that has the labels."""
    raw: tyro.conf.FlagCreatePairsOff[bool] = False
    """Take rows as they are, instead of dividing each by its norm."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print everything as JSON instead of a table."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="OUT.png")] = None
    """Draw the cosines of class means, the ownership of dimensions, and a histogram."""

    def run(self) -> int:
        """Do it; the exit status."""
        from orthoframe.geometry import measure_parts, number_labels

        check_figure(self.plot)
        features = open_features(self.features, self.key)
        given = read_labels(self.labels, self.column)
        if len(given) != features.rows:
            raise BadInput(
                f"{self.features} has {features.rows} rows and {self.labels} {len(given)} labels; they must agree"
            )
        if not features.rows:
            raise BadInput(f"{self.features}: there are no rows")
        classes, names = number_labels(given, None)
        with progress() as bar:
            task = bar.add_task("measuring", total=2 * features.rows)
            parts = _parts(features, classes, lambda rows: bar.advance(task, rows))
            try:
                geometry = measure_parts(parts, features.dim, names, normalize=not self.raw)
            except ValueError as error:
                raise BadInput(f"{self.features}: {error}") from None
        if self.plot:
            from orthoframe.reporting import geometry_figure

            write_figure(self.plot, geometry_figure(geometry))
        print(json.dumps(geometry.to_dict(), indent=2) if self.json else geometry)
        return 0


def _parts(
    features: FeatureFile, classes: Tensor, advance: Callable[[int], None]
) -> Callable[[], Iterator[tuple[Tensor, Tensor]]]:
    def parts() -> Iterator[tuple[Tensor, Tensor]]:
        start = 0
        for part in features.parts():
            yield part, classes[start : start + len(part)]
            start += len(part)
            advance(len(part))

    return parts
