"""`orthoframe measure`: how are the features of classes arranged?"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import torch
import tyro
from torch import Tensor

from orthoframe._rows import Labels
from orthoframe.cli._features import FeatureFile, open_features
from orthoframe.cli._files import check_figure, read_labels, write_figure
from orthoframe.cli._terminal import progress
from orthoframe.errors import InputError

if TYPE_CHECKING:
    from orthoframe.geometry import Geometry

# More different class sizes than these take too long to predict without being asked to.
_MOST_SIZES = 30


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
    temperature: Annotated[float | None, tyro.conf.arg(metavar="TAU")] = None
    """Compare with where the loss leads without ReLU, at this temperature (default 0.1; unless there are very many
    classes of different sizes)."""
    ownership: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print how many dimensions each class owns too, how pure they are, and which part of its mean lies inside them."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print everything as JSON instead of a table."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="OUT.png")] = None
    """Draw the cosines of class means, the ownership of dimensions, and a histogram."""

    def run(self) -> int:
        """Do it; the exit status."""
        from orthoframe.geometry import measure_parts

        check_figure(self.plot)
        if self.temperature is not None and not 0 < self.temperature < float("inf"):
            raise InputError(f"--temperature must be positive, not {self.temperature}")
        features = open_features(self.features, self.key)
        given = read_labels(self.labels, self.column)
        if len(given) != features.rows:
            raise InputError(
                f"{self.features} has {features.rows} rows and {self.labels} {len(given)} labels; they must agree"
            )
        if not features.rows:
            raise InputError(f"{self.features}: there are no rows")
        numbered = Labels.of(given)
        classes, names = torch.from_numpy(numbered.classes).long(), numbered.names
        with progress() as bar:
            task = bar.add_task("measuring", total=2 * features.rows)
            parts = _parts(features, classes, lambda rows: bar.advance(task, rows))
            try:
                geometry = measure_parts(parts, features.dim, names, normalize=not self.raw)
            except ValueError as error:
                raise InputError(f"{self.features}: {error}") from None
        if self.plot:
            from orthoframe.reporting import geometry_figure

            write_figure(self.plot, geometry_figure(geometry))
        if not self.json:
            print(geometry, flush=True)
        predicted = self._predicted(geometry)
        if self.json:
            print(json.dumps({**geometry.to_dict(), "predicted": predicted}, indent=2))
        elif predicted is not None:
            name = f"distance to no-ReLU optimum, tau {predicted['temperature']:g}"
            print(f"{name:<36}  {predicted['distance']:.4g}")
        if self.ownership and not self.json:
            print(f"\n{geometry.ownership.table(geometry.names)}")
        return 0

    def _predicted(self, geometry: "Geometry") -> dict[str, float] | None:
        """Distance to where features without ReLU would end, for classes of these sizes; None if it is not known."""
        if self.temperature is None and len(set(geometry.counts)) > _MOST_SIZES:
            return None
        from orthoframe.ufm import predict_gram

        temperature = 0.1 if self.temperature is None else self.temperature
        try:
            gram = predict_gram(list(geometry.counts), temperature=temperature)
        except (ValueError, RuntimeError) as error:  # no class has two rows, say
            print(f"orthoframe: no prediction without ReLU: {error}", file=sys.stderr)
            return None
        return {"temperature": temperature, "distance": geometry.distance_to(gram)}


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
