"""ResNet, DenseNet, Conv6, MLP, ViT, other people's backbones, and the head that makes features non-negative."""

from orthoframe.encoders._backbones import Backbone as Backbone
from orthoframe.encoders._backbones import load_backbone as load_backbone
from orthoframe.encoders._backbones import make_backbone as make_backbone
from orthoframe.encoders._encoder import PREFIX as PREFIX
from orthoframe.encoders._encoder import Encoder as Encoder
from orthoframe.encoders._encoder import load_weights as load_weights
from orthoframe.encoders._encoder import shapes_only as shapes_only
from orthoframe.encoders._frame_encoder import ACTIVATIONS as ACTIVATIONS
from orthoframe.encoders._frame_encoder import ActivationFunction as ActivationFunction
from orthoframe.encoders._frame_encoder import FrameEncoder as FrameEncoder
from orthoframe.encoders._frame_encoder import FrameHead as FrameHead
from orthoframe.encoders._frame_encoder import is_nonnegative as is_nonnegative
from orthoframe.encoders._frame_encoder import make_frame_encoder as make_frame_encoder
from orthoframe.encoders._networks import ENCODERS as ENCODERS
from orthoframe.encoders._networks import MLP as MLP
from orthoframe.encoders._networks import Conv6 as Conv6
from orthoframe.encoders._networks import DenseNet as DenseNet
from orthoframe.encoders._networks import EncoderEntry as EncoderEntry
from orthoframe.encoders._networks import ResNet as ResNet
from orthoframe.encoders._networks import make_encoder as make_encoder
from orthoframe.encoders._pretrained import PRETRAINED as PRETRAINED
from orthoframe.encoders._pretrained import suggested_backbone as suggested_backbone
from orthoframe.encoders._vit import ViT as ViT
