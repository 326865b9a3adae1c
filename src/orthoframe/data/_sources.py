"""Benchmark sets: their files, classes, and official sources."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Source:
    """A benchmark set: its files, and where to download them."""

    folder: str  # of the files, inside the folder of all benchmark sets
    files: tuple[str, ...]
    classes: tuple[str, ...]  # class names, in the order of the labels
    url: str  # without the file name
    hashes: Mapping[str, str]  # SHA-256 of each download, by file name
    archive: str | None = None  # has the files, if they are not downloaded one by one
    coarse_classes: int = 0  # number of coarse labels in front of the labels, if there are any

    def missing(self, folder: Path) -> list[str]:
        """The files that are not there yet."""
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
"""Benchmark sets by name. Only downloads are hashed: files that are already there may be compressed differently."""
