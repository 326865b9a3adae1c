"""Settings of the images: where they come from, which of them are kept, and how they are augmented."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from orthoframe.errors import Option, OptionError, Part
from orthoframe.options import Fit, Imbalance, check_image_size, data_kind
from orthoframe.training._fields import AUTO, Group, absolute_path, usual, usual_value

if TYPE_CHECKING:
    from orthoframe.data import Augment, Data, LabelledImages, Normaliser, Progress

_COUNTED = 5000  # image files whose pixels give mean and deviation


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageSettings(Group):
    """Images of any kind."""

    is_own: ClassVar[bool]
    """Whether they are the user's own, which are taken as they are, and not a benchmark set."""
    examples: ClassVar[tuple[Part, ...]]
    """Data of this kind, as the option is written."""

    data: str = usual("digits")
    """A benchmark set, or images of your own: a folder with one sub-folder per class, a table of files, or arrays."""
    validation: float = usual(0.0, least=0, below=1)
    """Fraction of training images held out for validation (default: 0.1 of your own, none of others)."""
    imbalance: Imbalance = usual("step")
    """Imbalance profile of the classes (default: none for your own images, step for the benchmark sets)."""
    ratio: float = usual(10.0, least=1)
    """Imbalance ratio: size of the largest class divided by the size of the smallest."""
    majority: int | None = usual(None)
    """Samples of the largest class (default: all)."""
    test_images: int | None = usual(None)
    """Test images per class (default: all)."""
    augment: bool = usual(True)
    """Augment images by random shifts; photographs and clothes of the benchmark sets are also flipped."""
    flip: bool = usual(False)
    """Also flip images horizontally at random (default: your own, if a linear classifier knows mirror images as well as
    the images themselves; photographs and clothes of the benchmark sets always)."""

    def check(self) -> None:
        super().check()
        data = usual_value(ImageSettings, "data") if self.data is AUTO else self.data
        if image_kind(data) is not type(self):
            raise OptionError(Option("data", data), f" is of {image_kind(data).__name__}, not {type(self).__name__}")
        imbalance = usual_value(type(self), "imbalance") if self.imbalance is AUTO else self.imbalance
        if imbalance == "none" and self.ratio not in (AUTO, 1.0, usual_value(ImageSettings, "ratio")):
            if self.imbalance is AUTO:
                why = ", because your own images are taken as they are"
                raise OptionError(Option("ratio"), " needs ", Option("imbalance", "step"), why)
            raise OptionError(Option("imbalance", "none"), " has no ", Option("ratio"), "; leave one of them out")
        if self.augment is False and self.flip is True:
            raise OptionError(Option("flip"), " is a part of augmentation; leave one of them out")

    def reading(self, image_shape: tuple[int, int, int] | None) -> dict[str, Any]:
        """Arguments of `load_data` that this kind of data has, for images of a shape that an encoder needs."""
        return {}

    def load(
        self,
        progress: "Progress | None" = None,
        *,
        image_shape: tuple[int, int, int] | None = None,
        largest: int | None = None,
        seed: int,
    ) -> "Data":
        """Read the images, before some of them are chosen; files in a shape that an encoder needs.

        The size that is chosen for files is at most the `largest` side, for which there is time.
        """
        from orthoframe.data import load_data

        settings = self.with_usual()
        limit: dict[str, Any] = {} if largest is None else {"largest": largest}
        return load_data(
            settings.data,
            validation=settings.validation,
            seed=seed,
            progress=progress,
            **settings.reading(image_shape),
            **limit,
        )

    def class_sizes(self, data: "Data") -> list[int]:
        """How many training images are kept of each class."""
        k, available = len(data.train.classes), data.train.class_counts
        if k < 2:
            raise OptionError(Option("data", self.data), f" has {k} class; a frame needs 2 or more")
        sizes = self._profile(available)
        largest = max(sizes)
        if largest < 2 and self.imbalance == "none":
            few = f"the largest class has {largest} image left for training, and the loss needs 2 to compare; more "
            raise OptionError(few, "images are needed, or a smaller ", Option("validation"))
        if largest < 2:
            few = f"the largest class would have {largest} image, and the loss needs 2 to compare; use a larger "
            raise OptionError(few, Option("majority"), " or a smaller ", Option("ratio"))
        for name, size, most in zip(data.train.classes, sizes, available, strict=True):
            if size > most:
                asked = f" asks for {size} images of class {name}, which has {most}"
                raise OptionError(Option("majority", self.majority), asked)
        return sizes

    def _profile(self, available: Sequence[int]) -> list[int]:
        k, largest = len(available), self.majority
        if self.imbalance == "none":
            return list(available) if largest is None else [largest] * k
        from orthoframe.data import PROFILES

        profile = PROFILES[self.imbalance]
        if largest is None:  # the most that every class has, in these proportions
            shares = profile(k, 10**9, self.ratio)
            largest = min(int(n) * 10**9 // share for n, share in zip(available, shares, strict=True))
        return profile(k, max(1, largest), self.ratio)

    def normaliser(self, train: "LabelledImages") -> "Normaliser":
        """Mean and deviation of the training images."""
        from orthoframe.data import Normaliser

        return Normaliser.of(train)

    def augmentation(self, height: int) -> "Augment":
        """How images of this height are augmented."""
        from orthoframe.data import Augment, default_augmentation

        if not self.augment:
            return Augment(0, flip=False)
        augment = default_augmentation(self.data, height)
        return replace(augment, flip=augment.flip or self.flip)


@dataclass(frozen=True, kw_only=True, repr=False)
class BenchmarkImages(ImageSettings):
    """A benchmark set, which is embedded or downloaded."""

    is_own = False
    examples = Option("data", "mnist"), " or another set that is downloaded"

    data_dir: Path | None = usual(None)
    """Folder of the benchmark sets, and where missing ones are downloaded to (default: ORTHOFRAME_DATA, or the user's
    cache)."""

    def check(self) -> None:
        super().check()
        if self.data_dir in (AUTO, None):
            return
        kind = data_kind(self.data)
        if kind is not None and "folder" not in kind.takes:
            why = " is for data sets that are downloaded, not for "
            raise OptionError(Option("data_dir"), why, Option("data", self.data))

    def reading(self, image_shape: tuple[int, int, int] | None) -> dict[str, Any]:
        return {"folder": self.data_dir}


@dataclass(frozen=True, kw_only=True, repr=False)
class OwnImages(ImageSettings):
    """The user's own images, which are taken as they are."""

    is_own = True

    validation: float = usual(0.1, least=0, below=1)
    """Fraction of training images held out for validation."""
    imbalance: Imbalance = usual("none")
    """Imbalance profile of the classes."""
    flip: bool = usual()
    """Also flip images horizontally at random."""

    def absolute(self) -> Self:
        name, _, path = self.data.partition(":")
        kind = data_kind(name)
        return replace(self, data=f"{name}:{absolute_path(path)}") if kind is not None and kind.path else self

    def normaliser(self, train: "LabelledImages") -> "Normaliser":
        """Mean and deviation, of a part of many images: the same part whether they are held in memory or not."""
        import numpy as np

        if len(train) > _COUNTED:
            train = train.subset(np.linspace(0, len(train) - 1, _COUNTED).astype(np.int64))
        return super().normaliser(train)


@dataclass(frozen=True, kw_only=True, repr=False)
class ArrayImages(OwnImages):
    """Arrays of pixels in an .npz file."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PythonImages(OwnImages):
    """Images that were passed from Python."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageFiles(OwnImages):
    """Image files, such as a folder with one sub-folder per class: they have sizes of their own, and are decoded."""

    examples: ClassVar[tuple[Part, ...]] = (Option("data", "folder:PATH"), " or csv:FILE")

    size: tuple[int, int] | None = usual(None)
    """Resize image files to this height and width (default: chosen from the files)."""
    fit: Fit = usual("pad")
    """How image files are resized: pad (nothing is lost or distorted), crop or stretch."""
    workers: int | None = usual(None, least=0)
    """Processes that decode image files (default: one per core)."""
    group_by: str | None = usual(None)
    """A regular expression that finds the group of an image, such as its video, in its path below the folder: the first
    capturing group, or all that matches. Groups stay together when images are held out."""
    memory: float | None = usual(None, least=0)
    """Hold decoded images in memory if they fit into this many GiB; otherwise stream them (default: a quarter of
    the memory)."""

    def check(self) -> None:
        super().check()
        if self.size not in (AUTO, None):
            check_image_size(self.size)

    def reading(self, image_shape: tuple[int, int, int] | None) -> dict[str, Any]:
        arguments = {name: getattr(self, name) for name in ("size", "fit", "workers", "group_by", "memory")}
        if image_shape is None:
            return arguments
        channels, height, width = image_shape
        if self.size not in (None, (height, width)):
            raise OptionError(Option("size"), f" is {height} x {width}, as the encoder needs it; leave it out")
        return {**arguments, "size": (height, width), "channels": channels}


@dataclass(frozen=True, kw_only=True, repr=False)
class TableImages(ImageFiles):
    """Image files that a table lists."""

    examples = (Option("data", "csv:FILE"),)

    path_column: str = usual("path")
    """In a CSV file, the column of image files, whose paths are relative to the CSV file."""
    label_column: str = usual("label")
    """In a CSV file, the column of class names."""
    split_column: str | None = usual(None)
    """In a CSV file, the column that says train, validation or test (default: a part of each class is held out)."""
    group_column: str | None = usual(None)
    """In a CSV file, the column of groups, such as videos, that stay together when images are held out."""

    def reading(self, image_shape: tuple[int, int, int] | None) -> dict[str, Any]:
        from orthoframe.data import Columns

        columns = Columns(self.path_column, self.label_column, self.split_column, self.group_column)
        return {**super().reading(image_shape), "columns": columns}


def image_kind(data: str) -> type[ImageSettings]:
    """The settings of data, by its name.

    Examples:
        >>> image_kind("folder:photos").__name__, image_kind("mnist").__name__
        ('ImageFiles', 'BenchmarkImages')
    """
    if not isinstance(data, str):
        raise OptionError(Option("data"), f" must be a string, not {data!r}")
    kind = data_kind(data)
    if kind is None or not kind.is_own:
        return BenchmarkImages
    if "columns" in kind.takes:
        return TableImages
    if "size" in kind.takes:
        return ImageFiles
    return ArrayImages if kind.path else PythonImages


IMAGE_KINDS = (BenchmarkImages, ImageFiles, TableImages, ArrayImages, PythonImages)
"""Settings of all kinds of images."""
