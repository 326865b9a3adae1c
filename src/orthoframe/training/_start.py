"""A run that starts from a trained encoder, with its classes or with new ones beside them."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from orthoframe._rows import unit_rows
from orthoframe.data import Data, LabelledImages, Normaliser
from orthoframe.encoders import FrameEncoder, FrameHead
from orthoframe.errors import DataError, Option, OptionError
from orthoframe.options import has_files
from orthoframe.training._encoder_file import TrainedEncoder, load_encoder
from orthoframe.training._settings import DECIDED, Settings

_SCALE = 0.1  # of the weights of new dimensions, so that they hardly change the features of known classes at first


@dataclass(frozen=True)
class Start:
    """What a run starts from.

    Attributes:
        trained: The encoder as it was handed out.
        settings: Those of the new run, with what the encoder decides.
    """

    trained: TrainedEncoder
    settings: Settings

    @classmethod
    def of(cls, settings: Settings, code: bool) -> "Start":
        """Load the encoder that `settings.init` names.

        Raises:
            OptionError: If the settings say otherwise than the encoder.
        """
        assert settings.init is not None
        if settings.linear_classifier:
            other = Option("loss", settings.loss)
            raise OptionError(Option("init"), " starts from an encoder with its head, which ", other, " has no use for")
        trained = load_encoder(Path(settings.init), code=code)
        decided = {name: getattr(trained.architecture, name) for name in DECIDED}
        for name, made in decided.items():
            if getattr(settings, name) not in (made, getattr(Settings, name)):
                raise OptionError(Option(name), " is decided by ", Option("init"), "; leave it out")
        if settings.fit not in (trained.preparation.fit, Settings.fit):
            raise OptionError(Option("fit"), " is decided by ", Option("init"), "; leave it out")
        # Arrays have their size already; files get it as those of the encoder did.
        fit = trained.preparation.fit if has_files(settings.data) else settings.fit
        return cls(trained, replace(settings, **decided, fit=fit))

    def data(self, data: Data) -> Data:
        """The images with the known classes first, and then the new ones."""
        wanted, found = list(self.trained.image_shape), list(data.train.image_shape)
        if wanted != found:
            raise DataError(f"{data.name}: images have [channels, height, width] = {found}, the encoder takes {wanted}")
        known = self.trained.classes
        classes = (*known, *(name for name in data.train.classes if name not in known))
        numbers = torch.tensor([classes.index(name) for name in data.train.classes])

        def renamed(images: LabelledImages) -> LabelledImages:
            return replace(images, labels=numbers[images.labels], classes=classes)

        validation = None if data.validation is None else renamed(data.validation)
        fit = self.trained.preparation.fit
        return replace(data, train=renamed(data.train), test=renamed(data.test), validation=validation, fit=fit)

    def grown(self, num_classes: int, seed: int) -> tuple[FrameEncoder, Tensor, Normaliser]:
        """The encoder, a direction for each class `[k, dim]`, and the scale of its pixels.

        Known classes keep the directions of their means. Each new class gets dimensions of its own, which are appended
        to the head, as many as a known class has.
        """
        trained = self.trained
        trained.encoder.train()
        known, new = len(trained.classes), num_classes - len(trained.classes)
        means = unit_rows(trained.centres.nan_to_num().double())[0]
        if not new:
            return trained.encoder, means.float(), trained.normaliser
        linear = trained.encoder.head.linear
        if linear is None:
            raise OptionError("new classes need new dimensions, which only ", Option("head", "linear"), " can get")
        old = linear.out_features
        block = max(1, old // known)
        added = new * block
        wider = FrameHead(
            linear.in_features, old + added, trained.architecture.activation, trained.architecture.head_norm
        )
        assert wider.linear is not None
        fresh = torch.randn(added, linear.in_features, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            wider.linear.weight.copy_(torch.cat([linear.weight, fresh * (_SCALE * linear.weight.std())]))
            for module, grown in ((linear, wider.linear), (trained.encoder.head.norm, wider.norm)):
                _extend(module, grown, old)
        directions = torch.zeros(num_classes, old + added, dtype=torch.float64)
        directions[:known, :old] = means
        directions[known:, old:] = torch.eye(new).repeat_interleave(block, dim=1) * block**-0.5
        return FrameEncoder(trained.encoder.backbone, wider), directions.float(), trained.normaliser


def _extend(module: nn.Module | None, wider: nn.Module | None, old: int) -> None:
    """Give a wider layer what the old one has of each dimension; new dimensions start as they are made."""
    if module is None or wider is None:
        return
    for name, value in module.state_dict().items():
        if value.ndim == 1:  # biases, and what a normalisation has
            wider.state_dict()[name][:old] = value
