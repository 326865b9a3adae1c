"""ResNet, DenseNet, Conv6, MLP, ViT, other people's backbones, and the head that makes features non-negative."""

from orthoframe.encoders._backbones import Backbone, load_backbone, make_backbone
from orthoframe.encoders._convolutional import Conv6, DenseNet, ResNet
from orthoframe.encoders._encoder import MLP, Encoder
from orthoframe.encoders._frame_encoder import FrameEncoder, make_encoder, make_frame_encoder
from orthoframe.encoders._head import FrameHead
from orthoframe.encoders._vit import ViT
from orthoframe.encoders._weights import PREFIX, load_weights, shapes_only

__all__ = [
    "make_frame_encoder",
    "make_encoder",
    "load_backbone",
    "make_backbone",
    "Backbone",
    "FrameEncoder",
    "FrameHead",
    "Encoder",
    "ResNet",
    "DenseNet",
    "Conv6",
    "MLP",
    "ViT",
    "shapes_only",
    "load_weights",
    "PREFIX",
]
