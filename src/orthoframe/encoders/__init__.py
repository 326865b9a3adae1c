"""ResNet, DenseNet, MLP, ViT, and the head that makes features non-negative and unit-norm."""

from orthoframe.encoders._densenet import DenseNet
from orthoframe.encoders._encoder import Encoder
from orthoframe.encoders._mlp import MLP
from orthoframe.encoders._models import MODELS, Model, make_encoder
from orthoframe.encoders._resnet import ResNet
from orthoframe.encoders._vit import ViT

__all__ = [
    "make_encoder",
    "Encoder",
    "ResNet",
    "DenseNet",
    "MLP",
    "ViT",
    "Model",
    "MODELS",
]
