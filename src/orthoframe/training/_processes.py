"""How many processes share a run, which of them this is, and how they meet."""

import atexit
import os
import time
from dataclasses import dataclass

import torch

import orthoframe._torchmetrics  # noqa: F401  # before lightning_fabric, which would import all of it

# isort: split
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from orthoframe.errors import Option, OptionError, OrthoframeError, TrainingError
from orthoframe.options import Precision


@dataclass(frozen=True)
class Processes:
    """The processes that share a run.

    Attributes:
        environment: Who starts them, for Fabric: torchrun, SLURM, or Fabric itself.
        per_node: How many there are on each node.
        nodes: On how many nodes.
    """

    environment: ClusterEnvironment
    per_node: int
    nodes: int = 1

    @property
    def count(self) -> int:
        """How many there are in all."""
        return self.per_node * self.nodes

    @property
    def launched(self) -> bool:
        """Whether torchrun or SLURM has started all of them, so that none is left to start."""
        return not isinstance(self.environment, LightningEnvironment)

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks for all."""
        return self.count == 1 or is_first_process()


def find_processes(devices: int, resumed: bool = False) -> Processes:
    """Who shares a run: what torchrun or SLURM has started, or as many as were asked for.

    Args:
        devices: How many were asked for; 1 leaves it to torchrun and SLURM.
        resumed: Whether the number is that of the run so far, which is informational only: the results do not depend on
            it.

    Returns:
        The processes; never more than the machine has, if they are still to be started.

    Raises:
        OptionError: If more were asked for than the machine has, or another number than was started.
        TrainingError: If what torchrun or SLURM says does not fit together.
    """
    if TorchElasticEnvironment.detect():
        return _checked("torchrun", _by_torchrun(), devices, resumed)
    if SLURMEnvironment.detect():
        return _checked("SLURM", _by_slurm(), devices, resumed)
    gpus = torch.cuda.device_count()
    there, kind = (gpus, "GPU") if gpus else (os.cpu_count() or 1, "CPU core")
    if devices > there and not resumed:
        raise OptionError(
            Option("devices", devices), f" is more than there are: {there} {kind}{'' if there == 1 else 's'}; use fewer"
        )
    return Processes(LightningEnvironment(), min(devices, there))


def is_first_process() -> bool:
    """Whether this process speaks for all, by the environment that torchrun, SLURM or Fabric made.

    It is known before the processes have met.
    """
    if TorchElasticEnvironment.detect():
        rank = os.environ.get("RANK", "0")
    elif SLURMEnvironment.detect():
        rank = os.environ.get("SLURM_PROCID", "0")
    else:
        rank = os.environ.get("LOCAL_RANK", "0")
    return rank == "0"


def check_precision(precision: Precision) -> None:
    """Refuse a precision that the machine does not have.

    Raises:
        OptionError: For 16 bits on a CPU.
    """
    if precision == "16-mixed" and not torch.accelerator.is_available():
        raise OptionError(Option("precision", precision), " needs a GPU, and there is none; use bf16-mixed or 32")


def start(processes: Processes, precision: Precision, refusal: OrthoframeError | None = None) -> Fabric:
    """Start the processes that are not there yet, let all meet, and go on only if every one can.

    Args:
        processes: Who shares the run.
        precision: Of the encoder.
        refusal: Why this process cannot go on; None if it can.

    Raises:
        OrthoframeError: In all of them, the refusal of the first that has one; one that ended alone would leave the
            others waiting.
    """
    if refusal is not None and processes.first and not processes.launched:
        raise refusal  # the others are not there yet
    try:
        fabric = Fabric(
            accelerator="auto",
            devices=processes.per_node,
            num_nodes=processes.nodes,
            strategy="ddp" if processes.count > 1 else "auto",
            precision=precision,
            plugins=[processes.environment],
        )
        fabric.launch()
    except Exception as error:  # of any kind, from the machine, the environment or other processes
        raise _unusable(error) from error
    atexit.unregister(_part)
    atexit.register(_part)
    refusals = [refusal]
    if fabric.world_size > 1:
        refusals = [None] * fabric.world_size
        torch.distributed.all_gather_object(refusals, refusal)
    for reason in refusals:
        if reason is not None:
            raise reason
    return fabric


def _part() -> None:
    """Give gloo's threads the time to drop the last tensors that they sent, when the program ends.

    An interpreter that ends while one of them waits for its lock aborts (pytorch/pytorch pull request 179291), and a
    whole run would count as failed. Destroying the group does not help: DistributedDataParallel keeps it alive.
    """
    if torch.distributed.is_initialized():
        time.sleep(0.1)


def _by_torchrun() -> Processes:
    environment = TorchElasticEnvironment()
    per_node, nodes = _number("LOCAL_WORLD_SIZE"), _number("GROUP_WORLD_SIZE")
    return _even("torchrun", environment, _number("WORLD_SIZE"), per_node, nodes)


def _by_slurm() -> Processes:
    count = _number("SLURM_NTASKS")
    if count == 1:  # whatever the rest of the job is
        return Processes(SLURMEnvironment(), 1)
    if "SLURM_NTASKS_PER_NODE" not in os.environ:
        raise TrainingError(f"SLURM has started {count} tasks and does not say how many per node; set ntasks-per-node")
    per_node = _number("SLURM_NTASKS_PER_NODE")
    nodes = _number("SLURM_NNODES") if "SLURM_NNODES" in os.environ else count // per_node
    return _even("SLURM", SLURMEnvironment(), count, per_node, nodes)


def _even(launcher: str, environment: ClusterEnvironment, count: int, per_node: int, nodes: int) -> Processes:
    if per_node * nodes != count:
        raise TrainingError(
            f"{launcher} has started {count} processes on {nodes} node{'' if nodes == 1 else 's'}, which is not "
            f"{per_node} on each; start the same number on every node"
        )
    return Processes(environment, per_node, nodes)


def _checked(launcher: str, started: Processes, devices: int, resumed: bool) -> Processes:
    if not resumed and devices not in (1, started.per_node, started.count):
        there = f"{started.count} process{'' if started.count == 1 else 'es'}"
        if started.nodes > 1:
            there += f", {started.per_node} on each of {started.nodes} nodes"
        raise OptionError(
            *(Option("devices", devices), f" contradicts {launcher}, which has started {there}; leave "),
            *(Option("devices"), " out"),
        )
    return started


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    if not text.isdecimal() or int(text) < 1:
        raise TrainingError(f"the variable {name} must be a number from 1, not {text!r}; only launchers should set it")
    return int(text)


def _unusable(error: Exception) -> TrainingError:
    lines = str(error).splitlines() or [""]
    return TrainingError(
        f"the processes of the run cannot be started ({type(error).__name__}: {lines[0][:200]}); fix that, or train "
        "in one process"
    )
