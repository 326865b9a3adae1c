"""A small vision transformer."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orthoframe.encoders._encoder import Encoder
from orthoframe.errors import Option, OptionError
from orthoframe.options import check_size

_DEPTH, _HEADS = 6, 4
_TOKENS, _FEWEST_TOKENS, _MOST_TOKENS = 64, 16, 256  # the number aimed at, and its range


def patch_size(height: int, width: int) -> int:
    """The side of square patches: the common divisor, at least 2, with the token count nearest to 64 (by ratio)."""
    tokens = {
        size: height * width // size**2
        for size in range(2, min(height, width) + 1)
        if height % size == 0 and width % size == 0 and _FEWEST_TOKENS <= height * width // size**2 <= _MOST_TOKENS
    }
    if not tokens:
        raise OptionError(
            f"images of {height} x {width} pixels cannot be cut into {_FEWEST_TOKENS} to {_MOST_TOKENS} square patches "
            "for a ViT; crop or pad them so that both sides have a suitable divisor, as 8 x 8, 28 x 28 or 32 x 48 do, "
            "or use another ",
            Option("model"),
        )
    return min(tokens, key=lambda size: max(tokens[size] / _TOKENS, _TOKENS / tokens[size]))


class _TransformerBlock(nn.Module):
    """Attention and then a two-layer network, each applied to normalised tokens and added to them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        batch, count, width = tokens.shape
        qkv = self.qkv(self.norm1(tokens)).view(batch, count, 3, _HEADS, width // _HEADS)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, count, width)
        tokens = tokens + self.out(mixed)
        changed: Tensor = tokens + self.mlp(self.norm2(tokens))
        return changed


class ViT(Encoder):
    """Vision transformer of six blocks with four heads: learned positions, mean of the tokens, a last normalisation.

    Its features have either sign; there is no last ReLU to leave out. It must be possible to cut images into 16 to 256
    square patches, and the width, the dimension of tokens and features, must be a multiple of 4.

    Examples:
        >>> import torch
        >>> encoder = ViT((1, 8, 8), width=16)
        >>> encoder(torch.zeros(2, 1, 8, 8)).shape, encoder.out_features, encoder.nonnegative
        (torch.Size([2, 16]), 16, False)
    """

    def __init__(self, image_shape: Sequence[int], width: int = 128) -> None:
        if check_size("width", width) % _HEADS:
            raise OptionError(
                Option("width"), f" must be a multiple of {_HEADS} for a ViT, which has {_HEADS} heads, not {width}"
            )
        super().__init__(image_shape, width, nonnegative=False)
        channels, height, breadth = self.image_shape
        size = patch_size(height, breadth)
        self.patches = nn.Conv2d(channels, width, size, stride=size, bias=False)  # positions are its bias
        self.positions = nn.Parameter(torch.empty(1, height * breadth // size**2, width))
        self.blocks = nn.Sequential(*(_TransformerBlock(width) for _ in range(_DEPTH)))
        self.norm = nn.LayerNorm(width)
        # About as large as the patches of normalised images: while positions are small, the mean over tokens hardly
        # tells an image from its patches in another order, and training starts late.
        nn.init.normal_(self.positions, std=0.5)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def _encode(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        features: Tensor = self.norm(self.blocks(tokens).mean(1))
        return features
