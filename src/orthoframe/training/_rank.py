"""Which of several processes this is, also before they have met."""

from lightning_fabric.utilities.rank_zero import rank_zero_only


def is_first_process() -> bool:
    """Whether this process writes and speaks for all: by the environment that Fabric, torchrun or SLURM made."""
    return int(getattr(rank_zero_only, "rank", 0)) == 0
