"""An encoder that is handed out gives the features that it was trained for, however its pixels are laid out."""

from dataclasses import replace

import pytest
import torch

from orthoframe.data import Normaliser, Preparation
from orthoframe.encoders import make_frame_encoder
from orthoframe.errors import OptionError, TrainingError
from orthoframe.geometry import Calibration, Familiarity
from orthoframe.runs import Architecture, TrainedEncoder, load_encoder, save_encoder

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


def test_what_is_familiar_is_kept_and_older_files_say_that_it_is_missing(tmp_path):
    encoder = make_frame_encoder("mlp", (1, 4, 4), width=8, features=4, seed=0).eval()
    familiarity = Familiarity(torch.rand(2, encoder.backbone.out_features).double(), torch.rand(30).double())
    trained = TrainedEncoder(
        encoder=encoder,
        centres=torch.eye(2, 4),
        classes=("a", "b"),
        preparation=Preparation((1, 4, 4)),
        normaliser=Normaliser((0.5,), (0.25,)),
        architecture=Architecture(model="mlp", width=8, head="linear", features=4, activation="relu"),
        calibration=Calibration(0.1, 0.0, 30),
        familiarity=familiarity,
    )
    save_encoder(tmp_path, trained)
    again = load_encoder(tmp_path)
    pixels = torch.randint(0, 256, (20, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    rows = trained.rows_before_head(pixels)
    assert torch.equal(again.refused(rows, 0.5), familiarity.of(rows) < familiarity.held_out.sort().values[14])
    assert not again.refused(rows, None).any()
    save_encoder(tmp_path, replace(trained, familiarity=None))
    with pytest.raises(OptionError, match=r"reject needs validation images.*a version that kept nothing of them"):
        load_encoder(tmp_path).check_reject(0.5)
    for broken in (Familiarity(torch.eye(2), familiarity.held_out), replace(familiarity, held_out=torch.empty(0))):
        save_encoder(tmp_path, replace(trained, familiarity=broken))
        with pytest.raises(TrainingError, match="telling unknown classes"):
            load_encoder(tmp_path)
