"""The processes of a run: how many share it, how they meet, and what stops them."""

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from orthoframe.errors import Call, Option, OptionError, OrthoframeError, TrainingError, reason_of, summary, unwritable
from orthoframe.options import Precision
from orthoframe.runs import NonFiniteBatch

_SHOWN = 4  # samples of a batch that an error lists
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def _without_torchmetrics() -> Iterator[None]:
    """Let torchmetrics seem absent unless it is imported already.

    lightning_fabric imports all of it, and with it transformers, only to read its version: seconds for nothing.
    """
    modules: dict[str, Any] = sys.modules
    if "torchmetrics" in modules:
        yield
        return
    modules["torchmetrics"] = None  # what the import system takes for absent
    try:
        yield
    finally:
        del modules["torchmetrics"]


with _without_torchmetrics():
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment


@dataclass(frozen=True)
class Processes:
    """The processes that share a run."""

    environment: ClusterEnvironment  # who starts them: torchrun, SLURM, or Fabric itself
    per_node: int
    nodes: int = 1

    @property
    def count(self) -> int:
        """How many there are in all."""
        return self.per_node * self.nodes

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks for all."""
        return self.count == 1 or is_first_process()


def find_processes(devices: int, resumed: bool = False) -> Processes:
    """What torchrun or SLURM has started, or `devices` processes that are still to be started.

    1 leaves the number to torchrun and SLURM. A resumed run takes what there is: the results do not depend on it.
    """
    environment: ClusterEnvironment
    if TorchElasticEnvironment.detect():
        launcher, environment = "torchrun", TorchElasticEnvironment()
        count, per_node, nodes = map(_number, ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"))
    elif SLURMEnvironment.detect():
        launcher, (count, per_node, nodes) = "SLURM", _slurm_sizes()
        environment = SLURMEnvironment()
    else:
        gpus = torch.cuda.device_count()
        most, kind = (gpus, "GPU") if gpus else (os.cpu_count() or 1, "CPU core")
        if devices > most and not resumed:
            limit = f" exceeds the {most} {kind}{'' if most == 1 else 's'} of this machine; use fewer"
            raise OptionError(Option("devices", devices), limit)
        return Processes(LightningEnvironment(), min(devices, most))
    if per_node * nodes != count:
        raise TrainingError(
            f"{launcher} has started {count} processes on {nodes} node{'' if nodes == 1 else 's'}, which is not "
            f"{per_node} on each; start the same number on every node"
        )
    if not resumed and devices not in (1, per_node, count):
        started = f"{count} process{'' if count == 1 else 'es'}"
        started += f", {per_node} on each of {nodes} nodes" if nodes > 1 else ""
        contradiction = f" contradicts {launcher}, which has started {started}; leave "
        raise OptionError(Option("devices", devices), contradiction, Option("devices"), " out")
    return Processes(environment, per_node, nodes)


def _slurm_sizes() -> tuple[int, int, int]:
    """Tasks in all, tasks per node, nodes."""
    count = _number("SLURM_NTASKS")
    if count == 1:  # whatever the rest of the job is
        return 1, 1, 1
    if "SLURM_NTASKS_PER_NODE" not in os.environ:
        raise TrainingError(f"SLURM has started {count} tasks and does not say how many per node; set ntasks-per-node")
    per_node = _number("SLURM_NTASKS_PER_NODE")
    return count, per_node, _number("SLURM_NNODES") if "SLURM_NNODES" in os.environ else count // per_node


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    if not text.isdecimal() or int(text) < 1:
        raise TrainingError(f"the variable {name} must be a number from 1, not {text!r}; only launchers should set it")
    return int(text)


def is_first_process() -> bool:
    """Whether this process speaks for all, by the environment that torchrun, SLURM or Fabric made.

    It is known before the processes have met.
    """
    variable = "LOCAL_RANK"
    if TorchElasticEnvironment.detect():
        variable = "RANK"
    elif SLURMEnvironment.detect():
        variable = "SLURM_PROCID"
    return os.environ.get(variable, "0") == "0"


@contextmanager
def one_thread(is_small: bool) -> Iterator[None]:
    """Compute in one thread if the network is small, unless the environment says how many there are.

    Threads that share a short step wait for each other longer than they work, above all on a busy machine. How fast
    they are decides nothing: results depend on their number in the last digits.
    """
    before = torch.get_num_threads()
    if is_small and not any(name in os.environ for name in _THREADS):
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_precision(precision: Precision) -> None:
    """Refuse a precision that the machine does not have."""
    if precision == "16-mixed" and not torch.accelerator.is_available():
        raise OptionError(Option("precision", precision), " needs a GPU, and there is none; use bf16-mixed or 32")


def precision_is_emulated(precision: Precision, device_type: str) -> bool:
    """Whether convolutions in this precision are computed without the processor's help, twenty times slower."""
    if precision != "bf16-mixed" or device_type != "cpu" or not hasattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported"):
        return False  # builds without oneDNN cannot be asked
    # The question that torch asks itself before it gives a bfloat16 convolution to oneDNN.
    return not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def start_processes(processes: Processes, precision: Precision, refusal: OrthoframeError | None = None) -> Fabric:
    """Start the processes that are not there yet, let all meet, and continue only if every one of them can.

    `refusal` is why this process cannot continue. All raise the first refusal that there is: a process that ended alone
    would leave the others waiting.
    """
    if refusal is not None and processes.first and not processes.environment.creates_processes_externally:
        raise refusal  # the others are not there yet
    if processes.count > 1:
        # Its functions have the group of the moment as a default. DistributedDataParallel would import it when there is
        # one, and keep it for good; see `_shut_down`.
        import_module("torch.distributed.nn.functional")
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
        raise TrainingError(
            f"the processes of the run cannot be started ({summary(error)}); fix that, or train in one process"
        ) from error
    atexit.unregister(_shut_down)
    atexit.register(_shut_down)
    refusals = [refusal]
    if fabric.world_size > 1:
        refusals = [None] * fabric.world_size
        torch.distributed.all_gather_object(refusals, refusal)
    for reason in refusals:
        if reason is not None:
            raise reason
    return fabric


def _shut_down() -> None:
    """End gloo's threads while the interpreter is whole, when the program ends.

    They drop the tensors that they have sent, which takes the interpreter's lock; a thread that asks for it while the
    interpreter ends aborts the process (pytorch/pytorch pull request 179291), and a whole run would count as failed.
    They end with the last reference to the group, and this one must be the last: it waits without the lock.
    """
    group = torch.distributed.group.WORLD
    if group is not None:
        torch.distributed.destroy_process_group()
        gc.collect()  # the model that shared its gradients, which refers to the group
        del group


class Interrupted(Exception):
    """Ctrl-C, or a signal to end: the state is saved."""


class Stopped(TrainingError):
    """A run stopped on the way; the last checkpoint is whole."""


class NonFiniteLoss(Stopped):
    """The loss of a batch is not finite; all of its samples are listed in the file, if there is one."""

    def __init__(self, batch: NonFiniteBatch, file: Path | None = None) -> None:
        self.batch = batch
        shown = ", ".join(map(str, batch.indices[:_SHOWN])) + (", ..." if len(batch.indices) > _SHOWN else "")
        shown += "" if file is None else f", all in {file}"
        largest = "not finite either" if batch.largest_feature is None else f"{batch.largest_feature:.4g}"
        super().__init__(
            f"the loss is {batch.loss} in step {batch.step} of epoch {batch.epoch} (samples {shown}); the largest "
            f"feature before normalisation is {largest}; try a smaller ",
            *(Option("lr"), " or ", Option("precision", "32")),
        )


@contextmanager
def refusals_named(path: Path) -> Iterator[None]:
    """Say what the machine refused, and how to resume if there is a run."""
    try:
        yield
    except BrokenPipeError:  # of what is printed
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not _is_about_memory(error):
            raise
        if (path / "config.json").exists():
            raise stopped(path, str(path), error, "what was saved last is whole") from error
        if isinstance(error, OSError):
            raise TrainingError(*unwritable(path, error, "out")) from error
        raise TrainingError(f"{path}: not enough memory to start the run") from error


def stopped(path: Path, what: str, error: Exception, kept: str) -> Stopped:
    reason = reason_of(error) if isinstance(error, OSError) else summary(error)
    if _is_about_memory(error):
        reason = "not enough memory"
    return Stopped(f"{what}: {reason}; {kept}; once that is solved, resume with ", Call("resume", str(path)))


def _is_about_memory(error: Exception) -> bool:
    """Whether Python, torch or the loader of libraries was refused memory."""
    words = ("failed to map segment", "allocate memory", "bad_alloc", "out of memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError) and any(each in str(error) for each in words)
    )


@contextmanager
def signals_heard() -> Iterator[threading.Event]:
    """Ctrl-C, a request to end and a terminal that is closed are heard between two steps.

    What started the program may have had the last ignored, as nohup does; then it stays so.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # Windows has none
        signals.append(signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in signals}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
