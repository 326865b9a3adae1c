"""The modules that are trained, as one; and how they may lie in memory."""

from torch import Tensor, nn


class Forward(nn.Module):
    """Features of images, or their logits: one module for the gradients of all processes."""

    def __init__(self, parts: nn.ModuleDict) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, images: Tensor) -> Tensor:
        """Of images `[batch, channels, height, width]`."""
        features: Tensor = self.parts["encoder"](images)
        if "classifier" in self.parts:
            features = self.parts["classifier"](features)
        return features


def side_by_side_is_safe(encoder: nn.Module) -> bool:
    """Whether no strided 1 x 1 convolution is narrow: the backward pass of torch 2.13 on a CPU corrupts memory there.

    Seen with up to 6 channels, in registers of 8 numbers; there are registers of 16.
    """
    convolutions = (part for part in encoder.modules() if isinstance(part, nn.Conv2d))
    strided = [part for part in convolutions if part.kernel_size == (1, 1) and part.stride != (1, 1)]
    return all(part.in_channels >= 16 for part in strided)
