"""How many processes may share a run, and which of them this is."""

import os

import torch
from lightning_fabric.utilities.rank_zero import rank_zero_only

from orthoframe.training._errors import TrainingError


def check_devices(devices: int) -> None:
    """Refuse more processes than there are GPUs, or CPU cores where there is no GPU; each is started for real.

    Raises:
        TrainingError: If there are not so many.
    """
    gpus = torch.cuda.device_count()
    there, kind = (gpus, "GPU") if gpus else (os.cpu_count() or 1, "CPU core")
    if devices > there:
        raise TrainingError(
            f"--devices {devices} is more than there are: {there} {kind}{'' if there == 1 else 's'}; use fewer"
        )


def is_first_process() -> bool:
    """Whether this process writes and speaks for all: by the environment that Fabric, torchrun or SLURM made.

    It is known before the processes have met.
    """
    return int(getattr(rank_zero_only, "rank", 0)) == 0
