"""Which of several processes this is, and on which device it works."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist

from orthoframe.errors import Option, OptionError, brief

# Of torchrun and SLURM: the place of a process, how many there are, and its place on its machine.
_LAUNCHERS = (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"))


def rank_and_world_size(group: "dist.ProcessGroup | None" = None) -> tuple[int, int]:
    """The rank of this process in a group (None: all) and the size of the group; (0, 1) without `torch.distributed`."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(group), dist.get_world_size(group)
    return 0, 1


@dataclass(frozen=True)
class LaunchedProcess:
    """One of the processes that torchrun or SLURM has launched, known before they meet."""

    rank: int = 0
    count: int = 1  # how many processes there are
    local: int = 0  # its rank on this machine, which decides its GPU

    @classmethod
    def here(cls) -> "LaunchedProcess":
        """What torchrun or SLURM says of this process, in its environment.

        Examples:
            >>> LaunchedProcess.here()
            LaunchedProcess(rank=0, count=1, local=0)
        """
        typed = os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive")  # then the other tasks do nothing
        for rank, count, local in _LAUNCHERS[:1] if typed else _LAUNCHERS:
            if rank in os.environ and count in os.environ:
                process = cls(_number(rank), _number(count), _number(local) if local in os.environ else 0)
                if process.rank >= process.count:
                    raise OptionError(f"{rank} must be below {count}, which is {process.count}, not {process.rank}")
                return process
        return cls()


def _number(variable: str) -> int:
    text = os.environ[variable]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise OptionError(f"the environment variable {variable} must be a whole number, not {brief(repr(text), 40)}")
    return int(text)


def find_device(name: str | torch.device, local: int = 0) -> torch.device:
    """A device by its name.

    Args:
        name: `auto` for a GPU if there is one, `cpu`, or any device of torch.
        local: The rank of this process on its machine: each has a GPU of its own, if there are enough.

    Raises:
        OptionError: If the machine, or this build of torch, does not have it.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if str(device) == "cuda":
            device = torch.device("cuda", local % max(1, torch.cuda.device_count()))
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError):  # unknown to torch, or absent from this machine or build
        raise OptionError(
            Option("device"), f" {name!r} is not available; use auto, cpu, or another device of torch"
        ) from None
