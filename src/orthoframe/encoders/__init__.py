"""ResNet, DenseNet, MLP, ViT, and the head that makes features non-negative and unit-norm."""

from orthoframe.encoders._activations import ACTIVATIONS, Activation
from orthoframe.encoders._densenet import DenseNet
from orthoframe.encoders._encoder import Encoder
from orthoframe.encoders._frame_encoder import HEADS, FrameEncoder, Head, make_frame_encoder
from orthoframe.encoders._head import FrameHead
from orthoframe.encoders._liveness import dead_rows, live_dimensions
from orthoframe.encoders._mlp import MLP
from orthoframe.encoders._models import MODELS, Model, make_encoder
from orthoframe.encoders._resnet import ResNet
from orthoframe.encoders._vit import ViT

__all__ = [
    "make_frame_encoder",
    "make_encoder",
    "FrameEncoder",
    "FrameHead",
    "Encoder",
    "ResNet",
    "DenseNet",
    "MLP",
    "ViT",
    "dead_rows",
    "live_dimensions",
    "Activation",
    "ACTIVATIONS",
    "Head",
    "HEADS",
    "Model",
    "MODELS",
]
