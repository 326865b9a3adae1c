"""Data by its name: the data sets that are known, their files, and where these come from."""

import gzip
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from orthoframe.data._images import Data, LabelledImages
from orthoframe.data._imbalance import VALIDATION, hold_out
from orthoframe.data._listing import Columns, Listing, check_once, chosen_size, list_folder, list_table
from orthoframe.data._preparation import Preparation
from orthoframe.data._readers import read_cifar, read_idx_images, read_npz
from orthoframe.data._stream import PreparedFiles, StreamedPixels, available_cores, may_hold
from orthoframe.errors import DataError, Option, OptionError, brief
from orthoframe.options import OWN_FILES, Fit, check_count, check_image_size, check_number

Progress = Callable[[str, int, int | None], None]
"""Called with a file name, the bytes downloaded so far, and the total if it is known; or with what is done with image
files, how many are done, and how many there are."""


@dataclass(frozen=True)
class Source:
    """A data set in files."""

    folder: str  # where the files are, under the folder of all data
    files: tuple[str, ...]
    classes: tuple[str, ...]  # class names, in the order of the labels
    url: str  # where downloads come from; the file name follows
    hashes: Mapping[str, str]  # SHA-256 of each download: of the files themselves, or of the archive
    archive: str | None = None  # holds the files, if they are not downloaded one by one
    coarse_classes: int = 0  # number of coarse labels, if there are any

    def missing(self, folder: Path) -> list[str]:
        """The files that are not under the folder of all data."""
        return [file for file in self.files if not (folder / self.folder / file).is_file()]


_IDX = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_CLOTHES = "t-shirt/top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot"
_CIFAR_10 = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR_100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree
wolf woman worm
"""

SOURCES = {
    "mnist": Source(
        folder="mnist",
        files=_IDX,
        classes=tuple("0123456789"),
        url="https://ossci-datasets.s3.amazonaws.com/mnist/",
        hashes={
            _IDX[0]: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            _IDX[1]: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            _IDX[2]: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            _IDX[3]: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        },
    ),
    "fashion-mnist": Source(
        folder="fashion-mnist",
        files=_IDX,
        classes=tuple(_CLOTHES.split(", ")),
        url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",  # it has no https
        hashes={
            _IDX[0]: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            _IDX[1]: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            _IDX[2]: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            _IDX[3]: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
    ),
    "cifar10": Source(
        folder="cifar-10-batches-bin",
        files=(*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"),
        classes=tuple(_CIFAR_10.split()),
        url="https://www.cs.toronto.edu/~kriz/",
        hashes={"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
        archive="cifar-10-binary.tar.gz",
    ),
    "cifar100": Source(
        folder="cifar-100-binary",
        files=("train.bin", "test.bin"),
        classes=tuple(_CIFAR_100.split()),
        url="https://www.cs.toronto.edu/~kriz/",
        hashes={"cifar-100-binary.tar.gz": "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
        archive="cifar-100-binary.tar.gz",
        coarse_classes=20,
    ),
}
"""By name. Hashes are those of the downloads: files that are already there may be compressed differently, and are only
parsed."""


def load_data(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    validation: float = 0.0,
    size: tuple[int, int] | None = None,
    channels: int | None = None,
    fit: Fit = "pad",
    columns: Columns | None = None,
    memory: float | None = None,
    workers: int | None = None,
    seed: int = 0,
    download: bool = True,
    progress: Progress | None = None,
) -> Data:
    """Load labelled images for training and testing.

    | name | what |
    |---|---|
    | `digits` | 1797 digits of 8 x 8 pixels, embedded; 25 % of each class are held out |
    | `mnist`, `fashion-mnist` | 28 x 28, from `mnist/*.gz` and `fashion-mnist/*.gz` (idx) |
    | `cifar10`, `cifar100` | 32 x 32, colour, from `cifar-10-batches-bin/*.bin` and `cifar-100-binary/*.bin` |
    | `folder:PATH` | a sub-folder of images for each class; perhaps with `train`, `test` and `validation` above them |
    | `csv:FILE` | a table with a path, a label and perhaps a split and a group for each image |
    | `npz:FILE` | the arrays `x_train`, `y_train`, `x_test`, `y_test`, or `x`, `y`; perhaps the names in `classes` |

    Pixels of arrays are uint8, [n, height, width] or [n, height, width, channels]. Image files may have any size: see
    `Preparation`. Where nothing says which images are for testing, 20 % of each class are held out.

    Args:
        name: One of these.
        folder: Where to look for files of benchmark sets; by default `ORTHOFRAME_DATA`, else one in the user's cache.
        validation: The fraction of the training images of each class that is held out for validation, if nothing says
            which these are.
        size: Height and width of image files (default: chosen from what there is).
        channels: Of image files: 1 for grey, 3 for colour (default: 1 if all of them are grey).
        fit: How image files get their size.
        columns: The columns of a table, if they are not `path` and `label`.
        memory: GiB that the pixels of image files may take; of more, pixels are read whenever they are needed
            (default: a quarter of the memory).
        workers: Processes that decode image files (default: one per core).
        seed: Decides which images are held out.
        download: Whether to download missing files from their official source.
        progress: Called with a file name, the bytes downloaded so far, and the total if it is known; or with what is
            done with image files, and their numbers.

    Returns:
        Training, validation and test images, and the name.

    Raises:
        DataError: If the name is unknown, or the data cannot be found, downloaded or read.

    Examples:
        >>> data = load_data("digits")
        >>> train, test = data.train, data.test
        >>> len(train), len(test), list(train.image_shape), train.classes[:3]
        (1347, 450, [1, 8, 8], ('0', '1', '2'))
    """
    check_count("seed", seed, 0)
    check_number("validation", validation, least=0, below=1)
    if size is not None:
        check_image_size(size)
    kind, _, path = name.partition(":")
    groups: NDArray[Any] | None = None
    left_out: tuple[str, ...] = ()
    if name == "digits" or name in SOURCES or kind == "npz":
        other_fit = None if fit == "pad" else fit
        for option, value in {"size": size, "fit": other_fit, "workers": workers, "memory": memory}.items():
            if value is not None:
                raise OptionError(Option(option), " is for image files, not for ", Option("data", name))
    if name == "digits":
        parts = {"train": _digits()}
    elif name in SOURCES:
        parts = dict(zip(("train", "test"), _read(name, data_folder(folder), download, progress), strict=True))
    elif kind == "npz" and path:
        parts = dict(zip(("train", "test"), read_npz(Path(path).expanduser()), strict=False))
    elif kind in OWN_FILES and path:
        file = Path(path).expanduser()
        listing = list_folder(file) if kind == "folder" else list_table(file, columns or Columns())
        if kind == "csv":
            check_once(file, listing)
        left_out = listing.left_out
        images = _from_files(listing, size, channels, fit, workers, progress)
        whole = len(listing.parts) == 1  # then a subset would only be a copy
        parts = {part: images if whole else images.subset(places) for part, places in listing.parts.items()}
        if listing.groups is not None:
            groups = np.array(listing.groups)[listing.parts["train"]]
    elif kind == "dataset":
        raise DataError(f"{name} comes from Python, which has to give it again: resume(..., data=...)")
    else:
        known = ", ".join(["digits", *SOURCES])
        if name and Path(name).expanduser().is_dir():
            raise DataError(f"there is no data {brief(repr(name), 60)}; did you mean folder:{brief(name, 60)}?")
        raise DataError(f"there is no data {name!r}; choose one of {known}, folder:PATH, csv:FILE or npz:FILE")
    data = _divided(name, parts, groups, left_out, validation, fit, seed)
    return _held(data, memory, progress) if kind in ("folder", "csv") else data


def _divided(
    name: str,
    parts: dict[str, LabelledImages],
    groups: NDArray[Any] | None,
    left_out: tuple[str, ...],
    validation: float,
    fit: Fit,
    seed: int,
) -> Data:
    """Hold out what nothing says."""
    train, own_validation = parts["train"], "validation" in parts
    if "test" not in parts:
        fraction = 0.25 if name == "digits" else 0.2  # the digits are few: 20 % would leave 36 test images per class
        kept, held = hold_out(train.labels.numpy(), fraction, seed, groups)
        parts["test"] = train.subset(held)
        train, groups = train.subset(kept), None if groups is None else groups[kept]
    if not own_validation and validation:
        kept, held = hold_out(train.labels.numpy(), validation, seed, groups, VALIDATION)
        parts["validation"], train = train.subset(held), train.subset(kept)
    for part, images in parts.items():
        if not len(images) and groups is None:
            raise DataError(f"{name}: no class has enough images to hold {part} images out; 2 are the fewest")
        if not len(images):
            raise DataError(f"{name}: there are too few groups to hold {part} images out; use ", Option("split_column"))
    return Data(train, parts["test"], name, parts.get("validation"), fit, left_out, own_validation)


def _from_files(
    listing: Listing,
    size: tuple[int, int] | None,
    channels: int | None,
    fit: Fit,
    workers: int | None,
    progress: Progress | None,
) -> LabelledImages:
    """Images of a list of files, of which none is decoded yet."""
    told = progress or (lambda name, done, total: None)
    number, heads = len(listing.paths), []
    for head in listing.heads():
        heads.append(head)
        if len(heads) % 64 == 0 or len(heads) == number:
            told("looking at images", len(heads), number)
    height, width = size or chosen_size([head.size for head in heads])
    channels = channels or (1 if all(head.grey for head in heads) else 3)
    preparation = Preparation((channels, height, width), fit)
    processes = available_cores() if workers is None else workers
    files = PreparedFiles(listing.paths, preparation)
    pixels = StreamedPixels(files, np.arange(number), preparation.image_shape, processes)
    return LabelledImages(pixels, torch.from_numpy(listing.labels), listing.classes, checksums=listing.checksums())


def _held(data: Data, memory: float | None, progress: Progress | None) -> Data:
    """Read all images if there is memory for them; else they stay streamed."""
    told = progress or (lambda name, done, total: None)
    number = len(data.train) + len(data.test) + (0 if data.validation is None else len(data.validation))
    size = number * math.prod(data.train.image_shape)
    memory_used = f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
    images = f"{number:,} images ({memory_used} as pixels)"
    if may_hold(size, memory):
        return data.read(lambda done: told(f"reading {images}", done, number))
    told(f"{images} are read when they are needed", number, number)
    return data


def _digits() -> LabelledImages:
    table = _digits_table()
    pixels = np.rint(table[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)  # they go from 0 to 16
    labels = torch.from_numpy(table[:, -1].astype(np.int64))
    return LabelledImages(torch.from_numpy(pixels), labels, tuple("0123456789"))


def _digits_table() -> NDArray[np.float64]:
    """The digits of scikit-learn, 64 pixels and the class per row, from its file: importing it takes seconds."""
    package = find_spec("sklearn")
    folders = [] if package is None else package.submodule_search_locations or []
    files = [path for folder in folders if (path := Path(folder, "datasets", "data", "digits.csv.gz")).exists()]
    if files:
        with gzip.open(files[0]) as lines:
            return np.loadtxt(lines, delimiter=",")
    from sklearn.datasets import load_digits

    digits = load_digits()
    return np.column_stack([digits.data, digits.target])


def _read(name: str, folder: Path, download: bool, progress: Progress | None) -> list[LabelledImages]:
    """Training and test images from files, which are downloaded if some are missing."""
    source = SOURCES[name]
    if source.missing(folder):
        from orthoframe.data._fetch import fetch  # brings an HTTP client, which most runs do not need

        fetch(name, source, folder, download, progress)
    paths = [folder / source.folder / file for file in source.files]
    if source.archive is None:
        return [read_idx_images(images, labels, source.classes) for images, labels in (paths[:2], paths[2:])]
    return [read_cifar(part, source.classes, source.coarse_classes) for part in (paths[:-1], paths[-1:])]


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of all data: the one given, else `ORTHOFRAME_DATA`, else one in the user's cache."""
    chosen = folder or os.environ.get("ORTHOFRAME_DATA")
    if chosen:
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("orthoframe"))
