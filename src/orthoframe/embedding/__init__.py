"""Images to features in files: by any backbone, in shards that are written whole, by any number of processes."""

from orthoframe.embedding._embed import Embedded, Embedder, embed
from orthoframe.embedding._list import ImageList, list_images
from orthoframe.embedding._shards import MANIFEST, Embedding, read_embedding
from orthoframe.embedding._share import ProcessShare, process_share

__all__ = [
    "list_images",
    "ImageList",
    "embed",
    "Embedder",
    "Embedded",
    "process_share",
    "ProcessShare",
    "read_embedding",
    "Embedding",
    "MANIFEST",
]
