"""An encoder that is handed out gives the features that it was trained for, however its pixels are laid out."""

import pytest
import torch

from orthoframe.data import Normaliser, Preparation
from orthoframe.encoders import make_frame_encoder
from orthoframe.runs import Architecture, TrainedEncoder

SHAPES = [(1, 8, 8), (3, 16, 16), (1, 17, 16), (3, 20, 31), (1, 28, 28), (3, 32, 32), (3, 33, 47), (3, 96, 97)]
WIDTHS = {"resnet18": (1, 3, 4, 8), "resnet34": (2,), "densenet40": (1, 3), "mlp": (16,)}


@pytest.mark.parametrize("model", WIDTHS)
def test_features_do_not_depend_on_the_order_of_pixels_in_memory(model):
    for channels, height, width in SHAPES:
        shape = (channels, height, width)
        for wide in WIDTHS[model]:
            encoder = make_frame_encoder(model, shape, width=wide, features=8, seed=1).eval()
            normaliser = Normaliser((0.5,) * channels, (0.25,) * channels)
            trained = TrainedEncoder(
                encoder=encoder,
                centres=torch.eye(2, 8),
                classes=("a", "b"),
                preparation=Preparation(shape),
                normaliser=normaliser,
                architecture=Architecture(model=model, width=wide, head="linear", features=8, activation="relu"),
            )
            for rows in (1, 5):
                generator = torch.Generator().manual_seed(rows)
                pixels = torch.randint(0, 256, (rows, *shape), dtype=torch.uint8, generator=generator)
                with torch.no_grad():
                    plain = encoder(normaliser(pixels))
                # Unit rows in float32: only the order of sums differs.
                torch.testing.assert_close(trained.features(pixels), plain, rtol=0, atol=1e-5)
