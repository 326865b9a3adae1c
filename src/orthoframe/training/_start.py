"""What a run starts from: a trained encoder, with its classes or new ones beside them, or its own checkpoint."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from orthoframe._rows import unit_rows
from orthoframe.data import Data, LabelledImages
from orthoframe.encoders import FrameEncoder, FrameHead
from orthoframe.errors import DataError, Option, OptionError, TrainingError, brief
from orthoframe.runs import Checkpoint, TrainedEncoder
from orthoframe.training._settings import Settings

if TYPE_CHECKING:
    from orthoframe.training._task import Task

# Where the data is, how many processes share the run or decode images, how much memory they take: not what is computed.
_MAY_CHANGE = ("data_dir", "devices", "workers", "memory")
_SHOWN = 4  # settings that an error lists
_SCALE = 0.1  # of the weights of new dimensions, so that they hardly change the features of known classes at first


def known_classes_first(trained: TrainedEncoder, data: Data) -> Data:
    """The images with the classes that an encoder knows first, and then the new ones."""
    expected, actual = list(trained.image_shape), list(data.train.image_shape)
    if expected != actual:
        raise DataError(f"{data.name}: images have [channels, height, width] = {actual}, the encoder takes {expected}")
    known = trained.classes
    classes = (*known, *(name for name in data.train.classes if name not in known))
    numbers = torch.tensor([classes.index(name) for name in data.train.classes])

    def renamed(images: LabelledImages) -> LabelledImages:
        return replace(images, labels=numbers[images.labels], classes=classes)

    validation = None if data.validation is None else renamed(data.validation)
    fit = trained.preparation.fit
    return replace(data, train=renamed(data.train), test=renamed(data.test), validation=validation, fit=fit)


def extended_encoder(trained: TrainedEncoder, num_classes: int, seed: int) -> tuple[FrameEncoder, Tensor]:
    """The encoder for more classes, and a direction for each class `[k, dim]`.

    Known classes keep the directions of their means. Each new class gets dimensions of its own, which are appended
    to the head, as many as a known class has.
    """
    trained.encoder.train()
    known, new = len(trained.classes), num_classes - len(trained.classes)
    means = unit_rows(trained.centres.nan_to_num().double())[0]
    if not new:
        return trained.encoder, means.float()
    linear = trained.encoder.head.linear
    if linear is None:
        raise OptionError("new classes need new dimensions, which only ", Option("head", "linear"), " can get")
    old = linear.out_features
    block = trained.dimensions_per_class
    added = new * block
    wider = FrameHead(linear.in_features, old + added, trained.architecture.activation, trained.architecture.head_norm)
    assert wider.linear is not None
    fresh = torch.randn(added, linear.in_features, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        wider.linear.weight.copy_(torch.cat([linear.weight, fresh * (_SCALE * linear.weight.std())]))
        for module, extended in ((linear, wider.linear), (trained.encoder.head.norm, wider.norm)):
            _extend(module, extended, old)
    directions = torch.zeros(num_classes, old + added, dtype=torch.float64)
    directions[:known, :old] = means
    directions[known:, old:] = torch.eye(new).repeat_interleave(block, dim=1) * block**-0.5
    return FrameEncoder(trained.encoder.backbone, wider), directions.float()


def _extend(module: nn.Module | None, wider: nn.Module | None, old: int) -> None:
    """Give a wider layer what the old one has of each dimension; new dimensions start as they are made."""
    if module is None or wider is None:
        return
    for name, value in module.state_dict().items():
        if value.ndim == 1:  # biases, and what a normalisation has
            wider.state_dict()[name][:old] = value


def check_settings(checkpoint: Checkpoint, settings: Settings) -> None:
    """Refuse to go on with other settings than those that a checkpoint was made with.

    Raises:
        TrainingError: If they differ.
    """
    changes = changed_settings(checkpoint.progress.settings, settings)
    if changes:
        raise TrainingError(
            f"config.json has changed since the checkpoint was made: {changes}; change it back, or start a new run"
        )


def changed_settings(then: dict[str, Any], now: Settings) -> str:
    """What the settings of a run say now that they did not say then; empty if a run may go on with them.

    Args:
        then: As a checkpoint has them.
        now: As `config.json` has them, or with all of them decided.

    Examples:
        >>> changed_settings({"lr": 0.1, "devices": 1}, Settings.of(lr=0.2, devices=2))
        'lr is 0.2 (it was 0.1)'
    """
    old, new = {"data": "", **then}, now.to_dict()
    for options in (old, new):
        options["data"] = options["data"].partition(":")[0]  # not its path: data that was moved is the same
    names = [name for name in new if name in then and new[name] != old[name] and name not in _MAY_CHANGE]

    def value(options: dict[str, Any], name: str) -> str:
        return brief(json.dumps(options[name]), 30)

    words = [f"{name} is {value(new, name)} (it was {value(old, name)})" for name in names[:_SHOWN]]
    return brief(", ".join([*words, f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else words), 180)


def check_checkpoint(checkpoint: Checkpoint, task: "Task") -> None:
    """Refuse to go on with another task than the one that a checkpoint was made with.

    Raises:
        TrainingError: For other settings or other data.
        ValueError: For a state that the task cannot have.
    """
    progress, settings = checkpoint.progress, task.settings
    check_settings(checkpoint, settings)
    changes = progress.data.changes(task.data)
    if changes:
        raise TrainingError(
            f"{settings.images.data} is not the data that the checkpoint was made with: {changes}; bring that back, or "
            "start a new run"
        )
    if progress.plan != task.plan.fingerprint():
        raise TrainingError(
            "the checkpoint was made with other batches: with a plan from Python, which has to be passed again, or by "
            "a version that plans others, which run.json names; resume with that, or start a new run"
        )
    epochs, state = settings.schedule.epochs, progress.state
    if not 0 <= state.epoch <= epochs or len(state.records) != state.epoch:
        raise ValueError("it counts epochs that do not exist")
    most = len(task.plan.batches(state.epoch)) if state.epoch < epochs else 0
    steps = [len(values) for values in progress.batches.values()]
    if not 0 <= state.steps <= most or steps != [state.steps] * 3:
        raise ValueError("it counts steps that do not exist")
    trained = [weight for group in task.parameter_groups() for weight in group["params"]]
    momentum = {str(number): weight for number, weight in enumerate(trained)}
    has_weights = _alike(checkpoint.weights, task.network().state_dict())
    if not has_weights or (checkpoint.momentum and not _alike(checkpoint.momentum, momentum)):
        raise ValueError("its tensors are those of another encoder")


def _alike(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> bool:
    """Whether tensors have the names, shapes and types that others have."""
    return tensors.keys() == expected.keys() and all(
        (value.shape, value.dtype) == (tensors[name].shape, tensors[name].dtype) for name, value in expected.items()
    )
