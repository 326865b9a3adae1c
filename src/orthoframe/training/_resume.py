"""Whether a run may go on from a checkpoint: nothing that it was made with has changed."""

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from orthoframe.errors import TrainingError, brief
from orthoframe.runs import Checkpoint
from orthoframe.training._settings import Settings
from orthoframe.training._task import Task

# Where the data is, how many processes share the run or decode images, how much memory they take: not what is computed.
_MAY_CHANGE = ("data_dir", "devices", "workers", "memory")
_SHOWN = 4  # settings that an error lists


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


def check_checkpoint(checkpoint: Checkpoint, task: Task) -> None:
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
            "the checkpoint was made by a version that plans other batches; run.json names it: resume with that, "
            "or start a new run"
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
