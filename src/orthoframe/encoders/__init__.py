"""ResNet, DenseNet, Conv6, MLP, ViT, other people's backbones, and the head that makes features non-negative."""

from orthoframe.encoders._backbones import Backbone, load_backbone, make_backbone
from orthoframe.encoders._encoder import PREFIX, Encoder, load_weights, shapes_only
from orthoframe.encoders._frame_encoder import (
    ACTIVATIONS,
    ActivationFunction,
    FrameEncoder,
    FrameHead,
    is_nonnegative,
    make_frame_encoder,
)
from orthoframe.encoders._networks import ENCODERS, MLP, Conv6, DenseNet, EncoderEntry, ResNet, make_encoder
from orthoframe.encoders._vit import ViT

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
