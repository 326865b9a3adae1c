"""Images to features in files: by any backbone, in shards that are written whole, by any number of processes."""

from orthoframe.embedding._embed import EmbedResult, FeatureExtractor, ImageList, embed, list_images
from orthoframe.embedding._shards import MANIFEST, StoredFeatures, read_embedding

__all__ = [
    "list_images",
    "ImageList",
    "embed",
    "FeatureExtractor",
    "EmbedResult",
    "read_embedding",
    "StoredFeatures",
    "MANIFEST",
]
