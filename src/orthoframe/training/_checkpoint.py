"""What a run is resumed from: a file without pickle that knows when it is broken."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import msgspec
import torch
from safetensors.torch import load, save
from torch import Tensor

from orthoframe._files import json_ready
from orthoframe.errors import TrainingError
from orthoframe.training._fingerprint import DataFingerprint, changed_settings
from orthoframe.training._records import EpochRecord
from orthoframe.training._settings import Settings
from orthoframe.training._task import Task

_JSON, _WEIGHTS, _MOMENTUM = "json", "weights.", "momentum."
_DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass
class State:
    """Where a run is."""

    epoch: int = 0  # epochs that are done
    steps: int = 0  # steps of the next epoch that are done
    seconds: float = 0.0  # that these steps took
    records: list[EpochRecord] = field(default_factory=list)  # rows of metrics.csv
    measurements: list[dict[str, Any]] = field(default_factory=list)  # lines of geometry.jsonl


@dataclass(frozen=True)
class Progress:
    """The part of a checkpoint that is not tensors."""

    settings: dict[str, Any]  # with which the run was made, and the data and the batches
    data: DataFingerprint
    plan: str
    state: State
    batches: dict[str, list[float]]  # loss, floor and collapsed loss of each step of the next epoch
    precision: dict[str, float]  # the scale of gradients in 16 bits


@dataclass(frozen=True)
class Checkpoint:
    """A run between two steps.

    The file has a SHA-256 digest of the rest, and then the tensors as safetensors, with `Progress` as JSON among them:
    a changed or missing byte anywhere is noticed, and nothing is allocated that is not in the file.
    """

    progress: Progress
    weights: dict[str, Tensor]
    momentum: dict[str, Tensor]  # by the position of the parameter; empty before the first step

    def write(self, file: IO[bytes]) -> None:
        """Write it to an open file."""
        progress = msgspec.to_builtins(self.progress)
        progress["state"]["measurements"] = json_ready(progress["state"]["measurements"])
        content = bytearray(json.dumps(progress).encode())  # of the standard library, which keeps what is not finite
        tensors = {_JSON: torch.frombuffer(content, dtype=torch.uint8)}
        for prefix, group in ((_WEIGHTS, self.weights), (_MOMENTUM, self.momentum)):
            tensors |= {prefix + name: value.detach().cpu().contiguous() for name, value in group.items()}
        body = save(tensors)
        file.write(hashlib.sha256(body).digest())
        file.write(body)

    @classmethod
    def read(cls, file: IO[bytes]) -> "Checkpoint":
        """Read it from an open file; what is not a whole checkpoint may raise any error."""
        digest, body = file.read(_DIGEST_BYTES), file.read()
        if digest != hashlib.sha256(body).digest():
            raise ValueError("its checksum is wrong")
        tensors = load(body)
        progress = msgspec.convert(json.loads(tensors.pop(_JSON).numpy().tobytes()), Progress)
        return cls(progress, _below(_WEIGHTS, tensors), _below(_MOMENTUM, tensors))

    def check_settings(self, settings: Settings) -> None:
        """Refuse to go on with other settings than those that it was made with.

        Raises:
            TrainingError: If they differ.
        """
        changes = changed_settings(Settings.from_dict(self.progress.settings), settings)
        if changes:
            raise TrainingError(
                f"config.json has changed since the checkpoint was made: {changes}; change it back, or start a new run"
            )

    def check(self, task: Task) -> None:
        """Refuse to go on with another task than the one that it was made with.

        Raises:
            TrainingError: For other settings or other data.
            ValueError: For a state that the task cannot have.
        """
        progress, settings = self.progress, task.settings
        self.check_settings(settings)
        changes = progress.data.changes(task.data)
        if changes:
            raise TrainingError(
                f"{settings.data} is not the data that the checkpoint was made with: {changes}; bring that back, or "
                "start a new run"
            )
        if progress.plan != task.plan.fingerprint():
            raise TrainingError(
                "the checkpoint was made by a version that plans other batches; run.json names it: resume with that, "
                "or start a new run"
            )
        state, steps = progress.state, [len(values) for values in progress.batches.values()]
        if not 0 <= state.epoch <= settings.num_epochs or len(state.records) != state.epoch:
            raise ValueError("it counts epochs that do not exist")
        most = len(task.plan.batches(state.epoch)) if state.epoch < settings.num_epochs else 0
        if not 0 <= state.steps <= most or steps != [state.steps] * 3:
            raise ValueError("it counts steps that do not exist")
        trained = [weight for group in task.parameter_groups() for weight in group["params"]]
        momentum = {str(number): weight for number, weight in enumerate(trained)}
        known = _alike(self.weights, task.network().state_dict())
        if not known or (self.momentum and not _alike(self.momentum, momentum)):
            raise ValueError("its tensors are those of another encoder")


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _alike(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> bool:
    return found.keys() == wanted.keys() and all(
        (value.shape, value.dtype) == (found[name].shape, found[name].dtype) for name, value in wanted.items()
    )
