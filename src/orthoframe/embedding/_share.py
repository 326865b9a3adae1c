"""Which of several processes this is. They share no memory and never meet: each takes its part of the shards."""

import os
from dataclasses import dataclass

from orthoframe.errors import OptionError, brief

# Of torchrun and SLURM: the place of this process, how many there are, and its place on this machine.
_LAUNCHERS = (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"))


@dataclass(frozen=True)
class ProcessShare:
    """The part of one process.

    Attributes:
        place: From 0.
        count: How many processes there are.
        local: Its place on this machine, which decides its GPU.
    """

    place: int = 0
    count: int = 1
    local: int = 0

    def takes(self, shard: int) -> bool:
        """Whether a shard is written by this process; the answer does not depend on what is written already."""
        return shard % self.count == self.place


def process_share() -> ProcessShare:
    """What torchrun or SLURM says of this process, in its environment.

    Examples:
        >>> process_share()
        ProcessShare(place=0, count=1, local=0)
    """
    for place, count, local in _LAUNCHERS:
        if place in os.environ and count in os.environ:
            share = ProcessShare(_number(place), _number(count), _number(local) if local in os.environ else 0)
            if share.place >= share.count:
                raise OptionError(f"{place} must be below {count}, which is {share.count}, not {share.place}")
            return share
    return ProcessShare()


def _number(variable: str) -> int:
    text = os.environ[variable]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise OptionError(f"the environment variable {variable} must be a whole number, not {brief(repr(text), 40)}")
    return int(text)
