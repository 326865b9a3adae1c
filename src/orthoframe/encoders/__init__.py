"""ResNet, DenseNet, Conv6, MLP, ViT, other people's backbones, and the head that makes features non-negative."""

from orthoframe.encoders._backbones import Backbone, load_backbone, make_backbone
from orthoframe.encoders._convolutional import Conv6, DenseNet, ResNet
from orthoframe.encoders._encoder import MLP, Encoder
from orthoframe.encoders._head import ACTIVATIONS, ActivationFunction, FrameEncoder, FrameHead, is_nonnegative
from orthoframe.encoders._registry import ENCODERS, EncoderEntry, make_encoder, make_frame_encoder
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
    "ACTIVATIONS",
    "ActivationFunction",
    "is_nonnegative",
    "ENCODERS",
    "EncoderEntry",
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
