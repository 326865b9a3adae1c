"""Images to features in files: by any backbone, in shards that are written whole, by any number of processes."""

from orthoframe._processes import LaunchedProcess as LaunchedProcess
from orthoframe.embedding._embed import EmbedResult as EmbedResult
from orthoframe.embedding._embed import FeatureExtractor as FeatureExtractor
from orthoframe.embedding._embed import ImageList as ImageList
from orthoframe.embedding._embed import embed as embed
from orthoframe.embedding._embed import list_images as list_images
from orthoframe.embedding._shards import StoredFeatures as StoredFeatures
from orthoframe.embedding._shards import read_embedding as read_embedding
