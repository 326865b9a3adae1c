"""Which precision to compute in, where the user leaves it open."""

import time
from pathlib import Path

import torch

from orthoframe.training._setup import Task

# Steps that are timed, in turns, and how much faster half precision must be to be worth its rounding.
_REPEATS, _GAIN = 3, 1.1


def choose_precision(task: Task, device: torch.device) -> str:
    """`bf16-mixed` on a CPU that has units for it and is faster with it; otherwise `32`.

    Args:
        task: What will be trained.
        device: Where.

    Returns:
        A precision that Fabric knows.

    Raises:
        ValueError: For 16 bits on a CPU.
    """
    wanted = task.settings.precision
    if wanted == "16-mixed" and device.type == "cpu":
        raise ValueError("--precision 16-mixed needs a GPU, and there is none; use bf16-mixed or 32")
    if wanted != "auto":
        return wanted
    # Several processes could find different answers.
    if device.type != "cpu" or task.settings.devices > 1 or not _has_units():
        return "32"
    count = min(len(task.train), task.settings.batch_size)
    images = task.normaliser(task.train.pixels[:count])
    state = {name: value.clone() for name, value in task.encoder.state_dict().items()}
    turns = [(_timed(task, images, half=False), _timed(task, images, half=True)) for _ in range(_REPEATS)]
    task.encoder.load_state_dict(state)  # BatchNorm has seen images
    full, half = map(min, zip(*turns, strict=True))
    return "bf16-mixed" if half * _GAIN < full else "32"


def _has_units() -> bool:
    info = Path("/proc/cpuinfo")
    return info.exists() and any(flag in info.read_text() for flag in ("amx_bf16", "avx512_bf16"))


def _timed(task: Task, images: torch.Tensor, half: bool) -> float:
    """Seconds of a forward and a backward pass; no gradient is left in the encoder."""
    parameters = list(task.encoder.parameters())
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        features = task.encoder(images)
    torch.autograd.grad(features.sum(), parameters)
    return time.perf_counter() - start
